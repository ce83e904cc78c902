import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;

/** The verb `member`: tells what it owns and reads, until it is told to stop or has its limit. */
final class Member implements ConsumerRebalanceListener {
    private static final Map<String, String> ASSIGNORS = Map.of(
        "range", "org.apache.kafka.clients.consumer.RangeAssignor",
        "roundrobin", "org.apache.kafka.clients.consumer.RoundRobinAssignor",
        "sticky", "org.apache.kafka.clients.consumer.StickyAssignor",
        "cooperative-sticky", "org.apache.kafka.clients.consumer.CooperativeStickyAssignor");

    private final Main.Options options;
    private final TreeSet<Integer> owned = new TreeSet<>();
    private KafkaConsumer<String, String> consumer;
    private volatile boolean stopped;

    Member(Main.Options options) {
        this.options = options;
    }

    void run() {
        Thread listener = new Thread(this::listen);
        listener.setDaemon(true);
        listener.start();
        int limit = options.number("limit", Integer.MAX_VALUE);
        Map<TopicPartition, OffsetAndMetadata> positions = new HashMap<>();
        int seen = 0;
        try (KafkaConsumer<String, String> opened = consumer(options)) {
            consumer = opened;
            if (options.get("pattern") != null) {
                Subscribing.byPattern(consumer, options.get("pattern"), this);
            } else {
                consumer.subscribe(List.of(options.get("topic")), this);
            }
            while (!stopped && seen < limit) {
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(100))) {
                    if (seen == limit) {
                        break;
                    }
                    seen++;
                    positions.put(new TopicPartition(record.topic(), record.partition()), new OffsetAndMetadata(record.offset() + 1));
                    Main.tell(String.format("{\"event\": \"record\", \"partition\": %d, \"offset\": %d, \"value\": \"%s\"}",
                        record.partition(), record.offset(), record.value()));
                }
            }
            if (seen == limit) {
                consumer.commitSync(positions);
                Main.tell("{\"event\": \"committed\"}");
            }
        }
    }

    static KafkaConsumer<String, String> consumer(Main.Options options) {
        Map<String, Object> settings = Security.settings(options);
        settings.put("bootstrap.servers", options.get("bootstrap"));
        settings.put("group.id", options.get("group"));
        settings.put("enable.auto.commit", false);
        settings.put("auto.offset.reset", "earliest");
        if ("consumer".equals(options.get("protocol"))) {
            settings.put("group.protocol", "consumer");
            if (options.get("assignor") != null) {
                settings.put("group.remote.assignor", options.get("assignor"));
            }
        } else {
            settings.put("session.timeout.ms", options.number("session-timeout-ms", 10000));
            settings.put("heartbeat.interval.ms", 1000);
            if (options.get("assignor") != null) {
                settings.put("partition.assignment.strategy", ASSIGNORS.get(options.get("assignor")));
            }
        }
        if (options.get("instance") != null) {
            settings.put("group.instance.id", options.get("instance"));
        }
        return new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer());
    }

    @Override
    public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
        partitions.forEach(each -> owned.add(each.partition()));
        Main.tell("{\"event\": \"assigned\", \"partitions\": " + owned + "}");
    }

    @Override
    public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
        if (options.get("commit") != null) {
            consumer.commitSync();
        }
        onPartitionsLost(partitions);
    }

    /** Without @Override: the oldest client that is built from this knows no such thing (KIP-429). */
    public void onPartitionsLost(Collection<TopicPartition> partitions) {
        partitions.forEach(each -> owned.remove(each.partition()));
        Main.tell("{\"event\": \"assigned\", \"partitions\": " + owned + "}");
    }

    private void listen() {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        try {
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                stopped |= line.equals("stop");
            }
        } catch (IOException error) {
            error.printStackTrace();
        }
    }
}
