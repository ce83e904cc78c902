import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.KafkaConsumer;

/** Nothing: patterns that the server resolves came later. */
final class Subscribing {
    static void byPattern(KafkaConsumer<?, ?> consumer, String pattern, ConsumerRebalanceListener listener) {
        throw new UnsupportedOperationException("no server resolves patterns for this client");
    }

    private Subscribing() { }
}
