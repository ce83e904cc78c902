import java.util.Properties;
import java.util.Scanner;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Produced;

/**
 * Counts numbers by their remainder, with processing.guarantee=exactly_once_v2: "remainder count number" out, so that a
 * number that counted twice, or not at all, is seen. Ends with the line "stop".
 */
final class ExactlyOnce {
    private static final int KEYS = 20;

    public static void main(String[] arguments) throws Exception {
        System.setProperty("org.slf4j.simpleLogger.defaultLogLevel", "warn");
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("application.id", arguments[1]);
        settings.put("state.dir", arguments[4]);
        settings.put("processing.guarantee", "exactly_once_v2");
        settings.put("default.key.serde", Serdes.StringSerde.class);
        settings.put("default.value.serde", Serdes.StringSerde.class);
        settings.put("commit.interval.ms", 200);
        settings.put("statestore.cache.max.bytes", 0);
        settings.put("session.timeout.ms", 10000);
        settings.put("heartbeat.interval.ms", 1000);
        settings.put("auto.offset.reset", "earliest");
        settings.put("metadata.max.age.ms", 2000);
        StreamsBuilder builder = new StreamsBuilder();
        builder.<String, String>stream(arguments[2])
            .map((key, number) -> new KeyValue<>(String.valueOf(Long.parseLong(number) % KEYS), number))
            .groupByKey(Grouped.as("remainders"))
            .aggregate(() -> "0", (key, number, before) -> (Long.parseLong(before.split(" ")[0]) + 1) + " " + number)
            .toStream()
            .mapValues((key, counted) -> key + " " + counted)
            .to(arguments[3], Produced.with(Serdes.String(), Serdes.String()));
        KafkaStreams streams = new KafkaStreams(builder.build(), settings);
        streams.setUncaughtExceptionHandler(error -> {
            System.err.println("a thread begins anew, since " + error);
            error.printStackTrace();
            System.out.println("{\"event\": \"anew\", \"records\": 0}");
            System.out.flush();
            return StreamThreadExceptionResponse.REPLACE_THREAD;
        });
        streams.start();
        Scanner lines = new Scanner(System.in);
        while (lines.hasNextLine() && !lines.nextLine().equals("stop")) { }
        streams.close();
        System.exit(0);
    }

    private ExactlyOnce() { }
}
