import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;

/** The verb `clerks`: members of many groups, each alone in its own, which commit 1, 2, 3 ... and read that back. */
final class Clerks implements ConsumerRebalanceListener {
    private static final int READ_EVERY = 10;
    private static volatile boolean stopped;

    private final Main.Options options;
    private final TopicPartition place;
    private long last;
    private KafkaConsumer<String, String> consumer;

    private Clerks(Main.Options options) {
        this.options = options;
        this.place = new TopicPartition(options.get("topic"), 0);
    }

    static void run(Main.Options options) throws Exception {
        List<Thread> threads = new ArrayList<>();
        for (int number = 0; number < options.number("count", 1); number++) {
            Clerks clerk = new Clerks(options.with("group", options.get("group") + "-" + number));
            threads.add(new Thread(clerk::work));
        }
        threads.forEach(Thread::start);
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null && !line.equals("stop"); line = lines.readLine()) { }
        stopped = true;
        for (Thread thread : threads) {
            thread.join();
        }
    }

    private void work() {
        try (KafkaConsumer<String, String> opened = Member.consumer(options)) {
            consumer = opened;
            consumer.subscribe(List.of(place.topic()), this);
            long number = 0;
            while (!stopped) {
                try {
                    consumer.poll(Duration.ofMillis(options.number("pause-ms", 100)));
                    if (consumer.assignment().contains(place)) {
                        number++;
                        commit(number);
                        if (number % READ_EVERY == 0) {
                            readBack();
                        }
                    }
                } catch (KafkaException error) {
                    told("refused", "\"why\": " + Main.quoted(error.getClass().getSimpleName()));
                }
            }
            readBack();
        }
    }

    private void commit(long number) {
        consumer.commitSync(Map.of(place, new OffsetAndMetadata(number)));
        last = number;
        told("ack", "\"number\": " + number + ", \"generation\": " + consumer.groupMetadata().generationId());
    }

    private void readBack() {
        OffsetAndMetadata found = consumer.committed(Set.of(place)).get(place);
        told("read", "\"number\": " + (found == null ? -1 : found.offset()) + ", \"least\": " + last);
    }

    private void told(String event, String rest) {
        Main.tell(String.format("{\"event\": \"%s\", \"group\": \"%s\", \"at\": %.3f, %s}",
            event, options.get("group"), System.currentTimeMillis() / 1000.0, rest));
    }

    @Override
    public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
        consumer.pause(consumer.assignment()); // what was committed is no position of a record
        told("moved", "\"why\": \"assigned\"");
    }

    @Override
    public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
        told("moved", "\"why\": \"revoked\"");
    }

    @Override
    public void onPartitionsLost(Collection<TopicPartition> partitions) {
        told("moved", "\"why\": \"lost\"");
    }
}
