import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.ConsumerGroupDescription;
import org.apache.kafka.clients.admin.ListGroupsOptions;
import org.apache.kafka.clients.admin.MemberDescription;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.GroupState;
import org.apache.kafka.common.GroupType;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.GroupNotEmptyException;
import org.apache.kafka.common.errors.TopicExistsException;
import org.apache.kafka.common.errors.UnknownMemberIdException;

/** What an Admin is asked; each story makes its own topic and group. */
final class Administration {
    static final Map<String, Main.Story> STORIES = Map.of(
        "offsets_by_time", Administration::offsetsByTime,
        "admin_topics", Administration::topics,
        "admin_groups", Administration::groups,
        "configs", Administration::configs,
        "admin_consumer_groups", Administration::consumerGroups);

    static String offsetsByTime(Main.Options options) throws Exception {
        long base = System.currentTimeMillis() - 100_000;
        TopicPartition first = new TopicPartition(options.get("topic"), 0);
        try (Admin admin = admin(options)) {
            create(admin, options, 2);
            try (KafkaProducer<String, String> producer = Produce.producer(options, Map.of())) {
                for (int i = 0; i < 10; i++) {
                    producer.send(new ProducerRecord<>(first.topic(), 0, base + i * 1000L, null, "x")).get();
                }
            }
            List<OffsetSpec> asked = List.of(OffsetSpec.earliest(), OffsetSpec.latest(), OffsetSpec.maxTimestamp(),
                OffsetSpec.forTimestamp(base + 4500), OffsetSpec.forTimestamp(base), OffsetSpec.forTimestamp(base + 90_000));
            List<Long> found = new ArrayList<>();
            for (OffsetSpec spec : asked) {
                found.add(admin.listOffsets(Map.of(first, spec)).partitionResult(first).get().offset());
            }
            Main.check(found.equals(List.of(0L, 10L, 9L, 5L, 0L, -1L)), "offsets are " + found);
            try (KafkaConsumer<String, String> consumer = Member.consumer(options)) {
                Main.check(consumer.offsetsForTimes(Map.of(first, base + 4500)).get(first).offset() == 5, "a consumer sees another");
                Main.check(consumer.endOffsets(List.of(first)).get(first) == 10, "a consumer sees another end");
            }
            return "earliest, latest, of the largest time, at a time between, at the first, after the last: " + found;
        }
    }

    static String topics(Main.Options options) throws Exception {
        String topic = options.get("topic");
        try (Admin admin = admin(options)) {
            create(admin, options, 3);
            until("listed", () -> admin.listTopics().names().get().contains(topic));
            TopicDescription described = describe(admin, topic);
            Main.check(described.partitions().size() == 3, "not three partitions");
            Main.check(described.partitions().get(0).leader() != null, "no leader");
            try {
                create(admin, options, 3);
                throw new AssertionError("created a second time");
            } catch (ExecutionException error) {
                Main.check(error.getCause() instanceof TopicExistsException, error.toString());
            }
            admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(5))).all().get();
            until("five partitions", () -> describe(admin, topic).partitions().size() == 5);
            Main.check(!admin.describeCluster().nodes().get().isEmpty(), "a cluster without nodes");
            admin.deleteTopics(List.of(topic)).all().get();
            until("deleted", () -> !admin.listTopics().names().get().contains(topic));
            return "created with 3 partitions, refused twice, grown to 5, deleted";
        }
    }

    static String groups(Main.Options options) throws Exception {
        String group = options.get("group");
        TopicPartition one = new TopicPartition(options.get("topic"), 0);
        TopicPartition two = new TopicPartition(options.get("topic"), 1);
        try (Admin admin = admin(options)) {
            create(admin, options, 2);
            try (KafkaConsumer<String, String> consumer = Member.consumer(options)) {
                consumer.subscribe(List.of(options.get("topic")));
                until("two partitions", () -> {
                    consumer.poll(Duration.ofMillis(100));
                    return consumer.assignment().size() == 2;
                });
                consumer.commitSync(Map.of(one, new OffsetAndMetadata(1, Optional.of(0), "hello"), two, new OffsetAndMetadata(2)));
                Main.check(admin.listGroups().all().get().stream().anyMatch(each -> each.groupId().equals(group)), "not listed");
                ConsumerGroupDescription described = admin.describeConsumerGroups(List.of(group)).all().get().get(group);
                Main.check(described.groupState() == GroupState.STABLE && described.members().size() == 1, described.toString());
                Main.check(described.members().iterator().next().assignment().topicPartitions().equals(Set.of(one, two)),
                    "described with " + described.members());
            }
            Map<TopicPartition, OffsetAndMetadata> offsets = offsets(admin, group);
            Main.check(offsets.get(one).offset() == 1 && offsets.get(one).metadata().equals("hello") && offsets.get(two).offset() == 2,
                "offsets are " + offsets);
            admin.alterConsumerGroupOffsets(group, Map.of(two, new OffsetAndMetadata(1))).all().get();
            Main.check(offsets(admin, group).get(two).offset() == 1, "altered offsets are " + offsets(admin, group));
            admin.deleteConsumerGroupOffsets(group, Set.of(one)).all().get();
            Main.check(offsets(admin, group).keySet().equals(Set.of(two)), "one deleted: offsets are " + offsets(admin, group));
            admin.deleteConsumerGroups(List.of(group)).all().get();
            Main.check(admin.listGroups().all().get().stream().noneMatch(each -> each.groupId().equals(group)), "listed after it was deleted");
            return "listed, described STABLE with its assignment, offsets read, altered and deleted, group deleted";
        }
    }

    /** A group that the server balances: what is told of it, its offsets, its settings, its end. */
    static String consumerGroups(Main.Options options) throws Exception {
        String group = options.get("group");
        TopicPartition one = new TopicPartition(options.get("topic"), 0);
        TopicPartition two = new TopicPartition(options.get("topic"), 1);
        Main.Options balanced = options.with("protocol", "consumer");
        ConfigResource resource = new ConfigResource(ConfigResource.Type.GROUP, group);
        try (Admin admin = admin(options)) {
            create(admin, options, 2);
            AlterConfigOp slower = new AlterConfigOp(new ConfigEntry("consumer.heartbeat.interval.ms", "2000"), AlterConfigOp.OpType.SET);
            admin.incrementalAlterConfigs(Map.of(resource, List.of(slower))).all().get();
            until("the interval is 2000", () -> setting(admin, resource).equals("2000"));
            try (KafkaConsumer<String, String> consumer = Member.consumer(balanced)) {
                consumer.subscribe(List.of(options.get("topic")));
                until("two partitions", () -> {
                    consumer.poll(Duration.ofMillis(100));
                    return consumer.assignment().size() == 2;
                });
                consumer.commitSync(Map.of(one, new OffsetAndMetadata(1, Optional.of(0), "hello"), two, new OffsetAndMetadata(2)));
                Main.check(admin.listGroups(ListGroupsOptions.forConsumerGroups()).all().get().stream().anyMatch(each -> each.groupId().equals(group)
                    && each.type().equals(Optional.of(GroupType.CONSUMER))), "not listed as CONSUMER");
                ConsumerGroupDescription described = admin.describeConsumerGroups(List.of(group)).all().get().get(group);
                Main.check(described.type() == GroupType.CONSUMER && described.groupState() == GroupState.STABLE, described.toString());
                Main.check(described.groupEpoch().equals(described.targetAssignmentEpoch()), described.toString());
                MemberDescription member = described.members().iterator().next();
                Main.check(described.members().size() == 1 && member.memberEpoch().equals(described.groupEpoch()), described.toString());
                Main.check(member.assignment().topicPartitions().equals(Set.of(one, two))
                    && member.targetAssignment().get().topicPartitions().equals(Set.of(one, two)), "described with " + member);
                refused(GroupNotEmptyException.class, () -> admin.deleteConsumerGroups(List.of(group)).all().get());
                refused(UnknownMemberIdException.class,
                    () -> admin.alterConsumerGroupOffsets(group, Map.of(two, new OffsetAndMetadata(1))).all().get());
            }
            until("empty", () -> admin.describeConsumerGroups(List.of(group)).all().get().get(group).groupState() == GroupState.EMPTY);
            Map<TopicPartition, OffsetAndMetadata> offsets = offsets(admin, group);
            Main.check(offsets.get(one).offset() == 1 && offsets.get(one).metadata().equals("hello") && offsets.get(two).offset() == 2,
                "offsets are " + offsets);
            admin.alterConsumerGroupOffsets(group, Map.of(two, new OffsetAndMetadata(1))).all().get();
            Main.check(offsets(admin, group).get(two).offset() == 1, "altered offsets are " + offsets(admin, group));
            admin.deleteConsumerGroupOffsets(group, Set.of(one)).all().get();
            Main.check(offsets(admin, group).keySet().equals(Set.of(two)), "one deleted: offsets are " + offsets(admin, group));
            admin.deleteConsumerGroups(List.of(group)).all().get();
            Main.check(admin.listGroups().all().get().stream().noneMatch(each -> each.groupId().equals(group)), "listed after it was deleted");
            AlterConfigOp back = new AlterConfigOp(new ConfigEntry("consumer.heartbeat.interval.ms", ""), AlterConfigOp.OpType.DELETE);
            admin.incrementalAlterConfigs(Map.of(resource, List.of(back))).all().get();
            until("the interval is the default", () -> !setting(admin, resource).equals("2000"));
            return "interval set and back; listed and described with epochs, assignment and target; not deleted with a member;"
                + " offsets read, altered and deleted, group deleted";
        }
    }

    private static void refused(Class<? extends Exception> kind, Callable<?> request) throws Exception {
        try {
            request.call();
            throw new AssertionError("not refused with " + kind.getSimpleName());
        } catch (ExecutionException error) {
            Main.check(kind.isInstance(error.getCause()), "refused with " + error.getCause());
        }
    }

    private static String setting(Admin admin, ConfigResource resource) throws Exception {
        return admin.describeConfigs(List.of(resource)).all().get().get(resource).get("consumer.heartbeat.interval.ms").value();
    }

    static String configs(Main.Options options) throws Exception {
        ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, options.get("topic"));
        try (Admin admin = admin(options)) {
            create(admin, options, 1);
            String before = retention(admin, resource);
            for (AlterConfigOp.OpType operation : List.of(AlterConfigOp.OpType.SET, AlterConfigOp.OpType.DELETE)) {
                AlterConfigOp change = new AlterConfigOp(new ConfigEntry("retention.ms", "123456789"), operation);
                admin.incrementalAlterConfigs(Map.of(resource, List.of(change))).all().get();
                String expected = operation == AlterConfigOp.OpType.SET ? "123456789" : before;
                until("retention.ms is " + expected, () -> retention(admin, resource).equals(expected));
            }
            return "described, altered, put back to its default";
        }
    }

    private static String retention(Admin admin, ConfigResource resource) throws Exception {
        return admin.describeConfigs(List.of(resource)).all().get().get(resource).get("retention.ms").value();
    }

    private static Map<TopicPartition, OffsetAndMetadata> offsets(Admin admin, String group) throws Exception {
        return admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get();
    }

    private static TopicDescription describe(Admin admin, String topic) throws Exception {
        return admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic);
    }

    private static void create(Admin admin, Main.Options options, int partitions) throws Exception {
        admin.createTopics(List.of(new NewTopic(options.get("topic"), partitions, (short) 1))).all().get();
    }

    private static void until(String what, Callable<Boolean> holds) throws Exception {
        for (int tries = 0; tries < 100; tries++) {
            if (holds.call()) {
                return;
            }
            Thread.sleep(100);
        }
        throw new AssertionError(what + ": not within 10 s");
    }

    private static Admin admin(Main.Options options) {
        return Admin.create(Map.of("bootstrap.servers", options.get("bootstrap")));
    }

    private Administration() { }
}
