import java.util.Arrays;
import java.util.Locale;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Produced;

/** Counts words: lines of one topic in, "word count" out to another. Prints how many tasks it has whenever that changes. */
public final class WordCount {
    public static void main(String[] arguments) throws Exception {
        System.setProperty("org.slf4j.simpleLogger.defaultLogLevel", "warn");
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("application.id", arguments[1]);
        settings.put("state.dir", arguments[4]);
        settings.put("default.key.serde", Serdes.StringSerde.class);
        settings.put("default.value.serde", Serdes.StringSerde.class);
        settings.put("commit.interval.ms", 500);
        settings.put("statestore.cache.max.bytes", 0);
        settings.put("session.timeout.ms", 6000);
        settings.put("heartbeat.interval.ms", 1000);
        settings.put("auto.offset.reset", "earliest");
        settings.put("metadata.max.age.ms", 2000);
        settings.put("repartition.purge.interval.ms", 2000);
        StreamsBuilder builder = new StreamsBuilder();
        builder.<String, String>stream(arguments[2])
            .flatMapValues(line -> Arrays.asList(line.toLowerCase(Locale.ROOT).split(" ")))
            .groupBy((key, word) -> word, Grouped.as("words"))
            .count()
            .toStream()
            .map((word, count) -> new org.apache.kafka.streams.KeyValue<>(word, word + " " + count))
            .to(arguments[3], Produced.with(Serdes.String(), Serdes.String()));
        KafkaStreams streams = new KafkaStreams(builder.build(), settings);
        streams.setUncaughtExceptionHandler(error -> {
            error.printStackTrace();
            System.exit(1);
            return null;
        });
        Runtime.getRuntime().addShutdownHook(new Thread(streams::close));
        streams.start();
        for (int before = -1; ; Thread.sleep(100)) {
            int tasks = streams.metadataForLocalThreads().stream().mapToInt(thread -> thread.activeTasks().size()).sum();
            if (tasks != before) {
                System.out.println(tasks);
                System.out.flush();
                before = tasks;
            }
        }
    }

    private WordCount() { }
}
