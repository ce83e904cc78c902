"""confluent-kafka, which is librdkafka."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.admin._resource import ResourceType
from confluent_kafka.cimpl import NewPartitions, NewTopic

from tests.edges.kafka.client import Committed, Got, GroupSeen, Library, Membership, Part

WITHIN_S = 60.0
NO_OFFSET = -1001


class ConfluentConsumer:
    def __init__(self, bootstrap: str, membership: Membership) -> None:
        settings: dict[str, Any] = {
            "bootstrap.servers": bootstrap,
            "group.id": membership.group or "none",
            "partition.assignment.strategy": membership.assignor,
            "session.timeout.ms": membership.session_ms,
            "heartbeat.interval.ms": min(1_000, membership.session_ms // 4),
            "auto.offset.reset": membership.reset,
            "enable.auto.commit": False,
            "topic.metadata.refresh.interval.ms": membership.metadata_age_ms,
            "fetch.wait.max.ms": membership.longest_wait_ms,
            # A topic that is not there yet is looked for again soon, as the other libraries do.
            "topic.metadata.refresh.fast.interval.ms": 100,
            "allow.auto.create.topics": True,
        }
        if membership.instance is not None:
            settings["group.instance.id"] = membership.instance
        self._consumer = Consumer(settings)
        self._closed = False

    def subscribe(self, topics: Sequence[str]) -> None:
        self._consumer.subscribe(list(topics))

    def subscribe_to_names_like(self, pattern: str) -> None:
        self._consumer.subscribe(["^" + pattern])

    def assign(self, parts: Sequence[Part]) -> None:
        self._consumer.assign([TopicPartition(*part) for part in parts])

    def poll(self, seconds: float) -> list[Got]:
        got = []
        first = self._consumer.poll(seconds)
        # `consume` alone would wait for all it may give; after the first, what is there is enough.
        for message in [] if first is None else [first, *self._consumer.consume(499, 0)]:
            error = message.error()
            if error is None:
                got.append(_got(message))
            elif error.code() != KafkaError.UNKNOWN_TOPIC_OR_PART:  # not there yet: it goes on looking
                raise KafkaException(error)
        return got

    def assignment(self) -> frozenset[Part]:
        return frozenset((each.topic, each.partition) for each in self._consumer.assignment())

    def commit(self, offsets: Mapping[Part, Committed] | None = None) -> None:
        if offsets is None:
            with nothing_to_commit_is_fine():
                self._consumer.commit(asynchronous=False)
            return
        named = [
            # An empty text would be sent as a NUL.
            TopicPartition(*part, each.offset, each.metadata) if each.metadata else TopicPartition(*part, each.offset)
            for part, each in offsets.items()
        ]
        for result in self._consumer.commit(offsets=named, asynchronous=False):
            if result.error is not None:
                raise KafkaException(result.error)

    def commit_later(self) -> None:
        with nothing_to_commit_is_fine():
            self._consumer.commit()

    def committed(self, part: Part) -> Committed | None:
        (found,) = self._consumer.committed([TopicPartition(*part)], timeout=WITHIN_S)
        return None if found.offset == NO_OFFSET else Committed(found.offset, found.metadata or "")

    def position(self, part: Part) -> int:
        (found,) = self._consumer.position([TopicPartition(*part)])
        return int(found.offset)

    def seek(self, part: Part, offset: int) -> None:
        self._consumer.seek(TopicPartition(*part, offset))

    def bounds(self, part: Part) -> tuple[int, int]:
        low, high = self._consumer.get_watermark_offsets(TopicPartition(*part), timeout=WITHIN_S)
        return low, high

    def offset_at(self, part: Part, timestamp_ms: int) -> int | None:
        (found,) = self._consumer.offsets_for_times([TopicPartition(*part, timestamp_ms)], timeout=WITHIN_S)
        return None if found.offset < 0 else int(found.offset)

    def pause(self, part: Part) -> None:
        self._consumer.pause([TopicPartition(*part)])

    def resume(self, part: Part) -> None:
        self._consumer.resume([TopicPartition(*part)])

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._consumer.close()


@contextmanager
def nothing_to_commit_is_fine() -> Iterator[None]:
    try:
        yield
    except KafkaException as refused:
        if refused.args[0].code() != KafkaError._NO_OFFSET:
            raise


def _got(message: Any) -> Got:
    headers = tuple(message.headers() or ())
    where = (message.topic(), message.partition(), message.offset())
    return Got(*where, message.key(), message.value(), message.timestamp()[1], headers)


class ConfluentProducer:
    def __init__(self, bootstrap: str, *, codec: str = "none", idempotent: bool = False) -> None:
        settings = {"bootstrap.servers": bootstrap, "compression.type": codec, "enable.idempotence": idempotent}
        self._producer = Producer({**settings, "linger.ms": 5, "topic.metadata.refresh.fast.interval.ms": 100})
        self._written: dict[int, tuple[Part, int]] = {}
        self._refused: list[KafkaError] = []
        self._sent = 0

    def send(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Sequence[tuple[str, bytes]] = (),
    ) -> None:
        number = self._sent
        self._sent += 1

        def delivered(error: KafkaError | None, message: Any) -> None:
            if error is not None:
                self._refused.append(error)
            else:
                self._written[number] = ((message.topic(), message.partition()), message.offset())

        where: dict[str, Any] = {} if partition is None else {"partition": partition}
        when: dict[str, Any] = {} if timestamp_ms is None else {"timestamp": timestamp_ms}
        self._producer.produce(topic, value, key, headers=list(headers), on_delivery=delivered, **where, **when)
        self._producer.poll(0)

    def flush(self) -> list[tuple[Part, int]]:
        left = self._producer.flush(WITHIN_S)
        assert not left and not self._refused, (left, self._refused[:3])
        written = [where for _, where in sorted(self._written.items())]
        self._written.clear()
        return written

    def close(self) -> None:
        self._producer.flush(WITHIN_S)


class ConfluentAdmin:
    def __init__(self, bootstrap: str) -> None:
        self._admin = AdminClient({"bootstrap.servers": bootstrap})

    def create_topic(self, name: str, partitions: int, settings: Mapping[str, str] | None = None) -> None:
        new = NewTopic(name, partitions, 1, config=dict(settings or {}))
        self._admin.create_topics([new])[name].result(WITHIN_S)

    def delete_topic(self, name: str) -> None:
        self._admin.delete_topics([name])[name].result(WITHIN_S)

    def add_partitions(self, name: str, total: int) -> None:
        self._admin.create_partitions([NewPartitions(name, total)])[name].result(WITHIN_S)

    def topics(self) -> set[str]:
        return set(self._admin.list_topics(timeout=WITHIN_S).topics)

    def partitions(self, name: str) -> int:
        return len(self._admin.list_topics(name, timeout=WITHIN_S).topics[name].partitions)

    def settings(self, topic: str) -> dict[str, str | None]:
        resource = ConfigResource(ResourceType.TOPIC, topic)
        found = self._admin.describe_configs([resource])[resource].result(WITHIN_S)
        return {key: entry.value for key, entry in found.items()}

    def change(self, topic: str, key: str, value: str) -> None:
        entry = ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
        self._admin.incremental_alter_configs([resource])[resource].result(WITHIN_S)

    def groups(self) -> set[str]:
        listed = self._admin.list_consumer_groups().result(WITHIN_S)
        assert not listed.errors
        return {group.group_id for group in listed.valid}

    def group(self, name: str) -> GroupSeen:
        found = self._admin.describe_consumer_groups([name])[name].result(WITHIN_S)
        return GroupSeen(found.state.name.title(), "consumer", len(found.members))

    def delete_group(self, name: str) -> None:
        self._admin.delete_consumer_groups([name])[name].result(WITHIN_S)

    def offsets(self, group: str) -> dict[Part, int]:
        asked = ConsumerGroupTopicPartitions(group)
        found = self._admin.list_consumer_group_offsets([asked])[group].result(WITHIN_S)
        return {(each.topic, each.partition): each.offset for each in found.topic_partitions}

    def alter_offsets(self, group: str, offsets: Mapping[Part, int]) -> None:
        named = [TopicPartition(*part, offset) for part, offset in offsets.items()]
        asked = ConsumerGroupTopicPartitions(group, named)
        done = self._admin.alter_consumer_group_offsets([asked])[group].result(WITHIN_S)
        assert not [each.error for each in done.topic_partitions if each.error is not None]

    def delete_offsets(self, group: str, parts: Iterable[Part]) -> None:
        raise NotImplementedError

    def cluster(self) -> tuple[str, int]:
        found = self._admin.describe_cluster().result(WITHIN_S)
        return found.cluster_id, len(found.nodes)

    def close(self) -> None:
        """Nothing to close: it ends with its last reference."""


CONFLUENT = Library(
    "confluent-kafka",
    ConfluentProducer,
    ConfluentConsumer,
    ConfluentAdmin,
    (KafkaException,),
    lacks=frozenset({"delete_offsets"}),
)
