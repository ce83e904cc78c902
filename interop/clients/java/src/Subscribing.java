import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.SubscriptionPattern;

/** Subscription by a pattern that the server resolves (KIP-848). */
final class Subscribing {
    static void byPattern(KafkaConsumer<?, ?> consumer, String pattern, ConsumerRebalanceListener listener) {
        consumer.subscribe(new SubscriptionPattern(pattern), listener);
    }

    private Subscribing() { }
}
