"""kafka-python."""

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType
from kafka.codec import has_lz4, has_snappy, has_zstd
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from kafka.errors import KafkaError, RebalanceInProgressError
from kafka.structs import OffsetAndMetadata

from tests.edges.kafka.client import Committed, Got, GroupSeen, Library, Membership, Part

WITHIN_S = 60.0
WITHIN_MS = 20_000
ASSIGNORS = {
    "range": RangePartitionAssignor,
    "roundrobin": RoundRobinPartitionAssignor,
    "cooperative-sticky": CooperativeStickyAssignor,
}
HAS = {"snappy": has_snappy, "lz4": has_lz4, "zstd": has_zstd}


class PythonConsumer:
    def __init__(self, bootstrap: str, membership: Membership) -> None:
        self._consumer = KafkaConsumer(
            bootstrap_servers=bootstrap,
            group_id=membership.group,
            group_instance_id=membership.instance,
            partition_assignment_strategy=[ASSIGNORS[membership.assignor]],
            session_timeout_ms=membership.session_ms,
            heartbeat_interval_ms=min(1_000, membership.session_ms // 4),
            auto_offset_reset=membership.reset,
            enable_auto_commit=False,
            metadata_max_age_ms=membership.metadata_age_ms,
            fetch_max_wait_ms=membership.longest_wait_ms,
            metrics_enabled=False,
        )
        self._closed = False

    def subscribe(self, topics: Sequence[str]) -> None:
        # A leader that does not know a topic yet hands out none of it, and where the answer comes in a bad moment never
        # looks again (3.0.12, whatever the server). Asked first, it knows.
        for topic in topics:
            self._consumer.partitions_for_topic(topic)
        self._consumer.subscribe(topics=list(topics))

    def subscribe_to_names_like(self, pattern: str) -> None:
        self._consumer.subscribe(pattern="^" + pattern)

    def assign(self, parts: Sequence[Part]) -> None:
        self._consumer.assign([TopicPartition(*part) for part in parts])

    def poll(self, seconds: float) -> list[Got]:
        # When a leader that rejoins for its metadata has computed the assignment, it forgets why it rejoined (3.0.12).
        # If a poll times out before SyncGroup is answered, the next one does not wait for the answer then: the
        # assignment is lost, no heartbeat is sent, and the session times out.
        coordinator = self._consumer._coordinator
        if coordinator is not None and coordinator._join_task is not None:
            coordinator.request_rejoin()
        batches = self._consumer.poll(timeout_ms=int(seconds * 1_000))
        return [_got(record) for batch in batches.values() for record in batch]

    def assignment(self) -> frozenset[Part]:
        return frozenset((each.topic, each.partition) for each in self._consumer.assignment())

    def commit(self, offsets: Mapping[Part, Committed] | None = None) -> None:
        named = {
            TopicPartition(*part): OffsetAndMetadata(each.offset, each.metadata, -1)
            for part, each in (offsets or {}).items()
        }
        deadline = time.monotonic() + WITHIN_MS / 1_000
        while True:
            try:
                self._consumer.commit(named or None, timeout_ms=WITHIN_MS)
            except RebalanceInProgressError:  # partitions are assigned a moment before its thread is done with the join
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.01)
            else:
                return

    def commit_later(self) -> None:
        self._consumer.commit_async()

    def committed(self, part: Part) -> Committed | None:
        found = self._consumer.committed(TopicPartition(*part), metadata=True, timeout_ms=WITHIN_MS)
        return None if found is None else Committed(found.offset, found.metadata)

    def position(self, part: Part) -> int:
        return int(self._consumer.position(TopicPartition(*part), timeout_ms=WITHIN_MS))

    def seek(self, part: Part, offset: int) -> None:
        self._consumer.seek(TopicPartition(*part), offset)

    def bounds(self, part: Part) -> tuple[int, int]:
        where = TopicPartition(*part)
        return self._consumer.beginning_offsets([where])[where], self._consumer.end_offsets([where])[where]

    def offset_at(self, part: Part, timestamp_ms: int) -> int | None:
        where = TopicPartition(*part)
        found = self._consumer.offsets_for_times({where: timestamp_ms})[where]
        return None if found is None else int(found.offset)

    def pause(self, part: Part) -> None:
        self._consumer.pause(TopicPartition(*part))

    def resume(self, part: Part) -> None:
        self._consumer.resume(TopicPartition(*part))

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._consumer.close(autocommit=False)


def _got(record: Any) -> Got:
    where = (record.topic, record.partition, record.offset)
    return Got(*where, record.key, record.value, record.timestamp, tuple(record.headers))


class PythonProducer:
    def __init__(self, bootstrap: str, *, codec: str = "none", idempotent: bool = False) -> None:
        self._producer = KafkaProducer(
            bootstrap_servers=bootstrap,
            compression_type=None if codec == "none" else codec,
            enable_idempotence=idempotent,
            linger_ms=5,
            metrics_enabled=False,
        )
        self._sent: list[Any] = []

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
        sent = self._producer.send(topic, value, key, list(headers), partition, timestamp_ms)
        self._sent.append(sent)

    def flush(self) -> list[tuple[Part, int]]:
        self._producer.flush(WITHIN_S)
        done = [sent.get(WITHIN_S) for sent in self._sent]
        self._sent.clear()
        return [((each.topic, each.partition), each.offset) for each in done]

    def close(self) -> None:
        self._producer.close(WITHIN_S)


class PythonAdmin:
    def __init__(self, bootstrap: str) -> None:
        self._admin = KafkaAdminClient(bootstrap_servers=bootstrap)

    def create_topic(self, name: str, partitions: int, settings: Mapping[str, str] | None = None) -> None:
        wanted = {"num_partitions": partitions, "replication_factor": 1, "configs": dict(settings or {})}
        self._admin.create_topics({name: wanted})

    def delete_topic(self, name: str) -> None:
        self._admin.delete_topics([name])

    def add_partitions(self, name: str, total: int) -> None:
        self._admin.create_partitions({name: total})

    def topics(self) -> set[str]:
        return set(self._admin.list_topics())

    def partitions(self, name: str) -> int:
        (topic,) = self._admin.describe_topics([name])
        return len(topic["partitions"])

    def settings(self, topic: str) -> dict[str, str | None]:
        resource = ConfigResource(ConfigResourceType.TOPIC, topic)
        found = self._admin.describe_configs([resource], config_filter="all")
        return {key: entry["value"] for key, entry in found["topic"][topic].items()}

    def change(self, topic: str, key: str, value: str) -> None:
        done = self._admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, configs={key: value})])
        if done["topic"][topic] != "OK":
            raise KafkaError(done["topic"][topic])

    def groups(self) -> set[str]:
        return {group["group_id"] for group in self._admin.list_groups()}

    def group(self, name: str) -> GroupSeen:
        found = self._admin.describe_groups([name])[name]
        return GroupSeen(found["group_state"], found["protocol_type"], len(found["members"]))

    def delete_group(self, name: str) -> None:
        done = self._admin.delete_groups([name])
        assert done == {name: "OK"}, done

    def offsets(self, group: str) -> dict[Part, int]:
        found = self._admin.list_group_offsets({group: None})[group]
        return {(each.topic, each.partition): kept.offset for each, kept in found.items()}

    def alter_offsets(self, group: str, offsets: Mapping[Part, int]) -> None:
        named = {TopicPartition(*part): OffsetAndMetadata(offset, "", -1) for part, offset in offsets.items()}
        _all_well(self._admin.alter_group_offsets(group, named))

    def delete_offsets(self, group: str, parts: Iterable[Part]) -> None:
        _all_well(self._admin.delete_group_offsets(group, [TopicPartition(*part) for part in parts]))

    def cluster(self) -> tuple[str, int]:
        found = self._admin.describe_cluster()
        return found["cluster_id"], len(found["brokers"])

    def close(self) -> None:
        self._admin.close()


def _all_well(results: Mapping[Any, Any]) -> None:
    assert all(error.errno == 0 for error in results.values()), results


KAFKA_PYTHON = Library(
    "kafka-python",
    PythonProducer,
    PythonConsumer,
    PythonAdmin,
    (KafkaError,),
    # What it compresses with beside gzip is the application's to install.
    codecs=("gzip", *(codec for codec, has in HAS.items() if has())),
)
