import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Comparator;
import java.util.Optional;
import java.util.Scanner;
import java.util.stream.Stream;
import org.apache.flink.api.common.JobStatus;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.serialization.SimpleStringSchema;
import org.apache.flink.configuration.CheckpointingOptions;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.configuration.ExternalizedCheckpointRetention;
import org.apache.flink.configuration.RestartStrategyOptions;
import org.apache.flink.configuration.StateRecoveryOptions;
import org.apache.flink.connector.base.DeliveryGuarantee;
import org.apache.flink.connector.kafka.sink.KafkaRecordSerializationSchema;
import org.apache.flink.connector.kafka.sink.KafkaSink;
import org.apache.flink.connector.kafka.source.KafkaSource;
import org.apache.flink.connector.kafka.source.enumerator.initializer.OffsetsInitializer;
import org.apache.flink.core.execution.JobClient;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.kafka.clients.consumer.OffsetResetStrategy;

/**
 * A job that copies one topic to another, in a cluster within this process. It goes on from the last checkpoint in its
 * folder; without one, from the group's offsets. Ends with the line "stop".
 */
public final class Copy {
    private static final int PARALLELISM = 2;

    public static void main(String[] arguments) throws Exception {
        Thread.setDefaultUncaughtExceptionHandler((thread, error) -> {
            error.printStackTrace();
            System.exit(1);
        });
        String bootstrap = arguments[0], group = arguments[1], topic = arguments[2], to = arguments[3];
        StreamExecutionEnvironment job = StreamExecutionEnvironment.createLocalEnvironment(PARALLELISM, settings(Path.of(arguments[4])));
        KafkaSource<String> source = KafkaSource.<String>builder()
            .setBootstrapServers(bootstrap)
            .setGroupId(group)
            .setTopics(topic)
            .setStartingOffsets(OffsetsInitializer.committedOffsets(OffsetResetStrategy.EARLIEST))
            .setProperty("isolation.level", "read_committed")
            .setValueOnlyDeserializer(new SimpleStringSchema())
            .build();
        KafkaSink<String> sink = KafkaSink.<String>builder()
            .setBootstrapServers(bootstrap)
            .setDeliveryGuarantee(DeliveryGuarantee.valueOf(arguments[5]))
            .setTransactionalIdPrefix(group)
            .setProperty("transaction.timeout.ms", "600000")
            .setRecordSerializer(KafkaRecordSerializationSchema.<String>builder()
                .setTopic(to)
                .setValueSerializationSchema(new SimpleStringSchema())
                .build())
            .build();
        job.fromSource(source, WatermarkStrategy.noWatermarks(), topic).uid("source").sinkTo(sink).uid("sink");
        watch(job.executeAsync());
    }

    private static Configuration settings(Path folder) throws IOException {
        Configuration settings = new Configuration();
        settings.set(CheckpointingOptions.CHECKPOINTING_INTERVAL, Duration.ofSeconds(1));
        settings.set(CheckpointingOptions.CHECKPOINTS_DIRECTORY, folder.toUri().toString());
        settings.set(CheckpointingOptions.EXTERNALIZED_CHECKPOINT_RETENTION, ExternalizedCheckpointRetention.RETAIN_ON_CANCELLATION);
        settings.set(RestartStrategyOptions.RESTART_STRATEGY, "fixed-delay");
        settings.set(RestartStrategyOptions.RESTART_STRATEGY_FIXED_DELAY_ATTEMPTS, Integer.MAX_VALUE);
        settings.set(RestartStrategyOptions.RESTART_STRATEGY_FIXED_DELAY_DELAY, Duration.ofSeconds(1));
        lastCheckpoint(folder).ifPresent(path -> settings.set(StateRecoveryOptions.SAVEPOINT_PATH, path.toUri().toString()));
        return settings;
    }

    /** The last one that is complete: its metadata gets its name when all of it is written. */
    private static Optional<Path> lastCheckpoint(Path folder) throws IOException {
        Files.createDirectories(folder);
        try (Stream<Path> found = Files.walk(folder)) {
            return found.filter(path -> path.endsWith("_metadata"))
                .max(Comparator.comparing(path -> path.toFile().lastModified()))
                .map(Path::getParent);
        }
    }

    /** Tells each restart of the job, until the line "stop". Ends the process if the job ends by itself. */
    private static void watch(JobClient job) throws Exception {
        Thread stopping = new Thread(Copy::untilStopped);
        stopping.start();
        for (JobStatus before = JobStatus.RUNNING; stopping.isAlive(); Thread.sleep(100)) {
            JobStatus now = job.getJobStatus().get();
            if (now.isTerminalState()) {
                System.err.println("the job is " + now);
                System.exit(1);
            }
            if (now != before && now == JobStatus.RESTARTING) {
                System.out.println("{\"event\": \"anew\", \"records\": 0}");
                System.out.flush();
            }
            before = now;
        }
        job.cancel().get();
        System.exit(0);
    }

    private static void untilStopped() {
        Scanner lines = new Scanner(System.in);
        while (lines.hasNextLine() && !lines.nextLine().equals("stop")) { }
    }

    private Copy() { }
}
