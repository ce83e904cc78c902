import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Future;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.serialization.StringSerializer;

/** The verb `produce`. */
final class Produce {
    static void run(Main.Options options) throws Exception {
        Map<String, Object> settings = Map.of(
            "enable.idempotence", options.get("idempotent") != null,
            "compression.type", options.get("compression"));
        int partitions = options.number("partitions", 1);
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        try (KafkaProducer<String, String> producer = producer(options, settings)) {
            for (int i = 0; i < options.number("count", 0); i++) {
                sent.add(producer.send(new ProducerRecord<>(options.get("topic"), i % partitions, null, String.valueOf(i))));
            }
            for (Future<RecordMetadata> each : sent) {
                each.get();
            }
        }
    }

    static KafkaProducer<String, String> producer(Main.Options options, Map<String, Object> settings) {
        Map<String, Object> all = new java.util.HashMap<>(settings);
        all.put("bootstrap.servers", options.get("bootstrap"));
        all.put("acks", "all");
        all.put("linger.ms", 5);
        return new KafkaProducer<>(all, new StringSerializer(), new StringSerializer());
    }

    private Produce() { }
}
