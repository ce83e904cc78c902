import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.function.Consumer;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.serialization.StringDeserializer;

/** The verbs `transact`, a producer of transactions, and `transform`, which reads, writes and commits in them. */
final class Transactions {
    private static final int SIZE = 20;
    /** Each transaction of this number is aborted first, and written anew. */
    private static final int ABORTED = 5;

    private final Main.Options options;
    private volatile boolean stopped;

    private Transactions(Main.Options options) {
        this.options = options;
    }

    private static Transactions listening(Main.Options options) {
        Transactions here = new Transactions(options);
        Thread listener = new Thread(here::listen);
        listener.setDaemon(true);
        listener.start();
        return here;
    }

    /** Writes 0, 1, 2 ... until it is told to stop. Ends with an exception where it cannot know what is there. */
    static void transact(Main.Options options) throws Exception {
        Transactions here = listening(options);
        try (KafkaProducer<String, String> producer = producer(options)) {
            producer.initTransactions();
            for (int from = 0; !here.stopped; from += SIZE) {
                if (from / SIZE % ABORTED == 0) {
                    here.isWritten(producer, from, Transactions::abort);
                    told("aborted", SIZE);
                }
                while (!here.isWritten(producer, from, Transactions::commit)) {
                    told("aborted", SIZE);
                }
                told("committed", SIZE);
                Thread.sleep(options.number("pause-ms", 0));
            }
        }
    }

    private boolean isWritten(KafkaProducer<String, String> producer, int from, Consumer<KafkaProducer<?, ?>> end) {
        try {
            write(producer, from);
            end.accept(producer);
        } catch (KafkaException error) {
            System.err.println("aborts, since " + error);
            abort(producer);
            return false;
        }
        return true;
    }

    private void write(KafkaProducer<String, String> producer, int from) {
        producer.beginTransaction();
        List<Future<?>> sent = new ArrayList<>();
        for (int number = from; number < from + SIZE; number++) {
            int partition = number % options.number("partitions", 1);
            sent.add(producer.send(new ProducerRecord<>(options.get("topic"), partition, null, String.valueOf(number))));
        }
        producer.flush();
        for (Future<?> each : sent) {
            try {
                each.get();
            } catch (ExecutionException | InterruptedException error) {
                throw new KafkaException(error);
            }
        }
    }

    /** Returns once it is known; a timeout says nothing, and asks for the same once more. */
    private static void commit(KafkaProducer<?, ?> producer) {
        while (true) {
            try {
                producer.commitTransaction();
                return;
            } catch (TimeoutException again) {
                System.err.println("commits again, since " + again);
            }
        }
    }

    private static void abort(KafkaProducer<?, ?> producer) {
        while (true) {
            try {
                producer.abortTransaction();
                return;
            } catch (TimeoutException again) {
                System.err.println("aborts again, since " + again);
            }
        }
    }

    /** Writes each record of one topic to another, until it is told to stop. What cannot go on begins anew. */
    static void transform(Main.Options options) {
        Transactions here = listening(options);
        while (!here.stopped) {
            try (KafkaProducer<String, String> producer = producer(options);
                    KafkaConsumer<String, String> consumer = consumer(options)) {
                producer.initTransactions();
                consumer.subscribe(List.of(options.get("topic")));
                while (!here.stopped) {
                    here.step(producer, consumer);
                }
            } catch (KafkaException error) {
                System.err.println("begins anew, since " + error);
                told("anew", 0);
            }
        }
    }

    private void step(KafkaProducer<String, String> producer, KafkaConsumer<String, String> consumer) {
        ConsumerRecords<String, String> records = consumer.poll(Duration.ofMillis(200));
        if (records.isEmpty()) {
            return;
        }
        Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
        try {
            producer.beginTransaction();
            for (ConsumerRecord<String, String> record : records) {
                producer.send(new ProducerRecord<>(options.get("to"), record.partition(), null, record.value()));
                offsets.put(new TopicPartition(record.topic(), record.partition()), new OffsetAndMetadata(record.offset() + 1));
            }
            producer.sendOffsetsToTransaction(offsets, consumer.groupMetadata());
            commit(producer);
            told("committed", records.count());
        } catch (KafkaException error) {
            System.err.println("aborts, since " + error);
            abort(producer);
            told("aborted", records.count());
            goBack(consumer);
        }
    }

    private static void goBack(KafkaConsumer<String, String> consumer) {
        Map<TopicPartition, OffsetAndMetadata> committed = consumer.committed(consumer.assignment(), Duration.ofSeconds(60));
        for (TopicPartition partition : consumer.assignment()) {
            OffsetAndMetadata found = committed.get(partition);
            consumer.seek(partition, found == null ? 0 : found.offset());
        }
    }

    private static KafkaProducer<String, String> producer(Main.Options options) {
        Map<String, Object> settings = new HashMap<>();
        settings.put("transactional.id", options.get("transactional-id"));
        settings.put("transaction.timeout.ms", 30_000);
        settings.put("max.block.ms", 30_000);
        return Produce.producer(options, settings);
    }

    private static KafkaConsumer<String, String> consumer(Main.Options options) {
        Map<String, Object> settings = new HashMap<>();
        settings.put("bootstrap.servers", options.get("bootstrap"));
        settings.put("group.id", options.get("group"));
        settings.put("enable.auto.commit", false);
        settings.put("auto.offset.reset", "earliest");
        settings.put("isolation.level", "read_committed");
        settings.put("session.timeout.ms", options.number("session-timeout-ms", 10000));
        settings.put("heartbeat.interval.ms", 1000);
        settings.put("max.poll.records", 50);
        return new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer());
    }

    private static void told(String event, int records) {
        Main.tell("{\"event\": \"" + event + "\", \"records\": " + records + "}");
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
