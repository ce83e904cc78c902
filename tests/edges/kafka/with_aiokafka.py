"""aiokafka, made blocking: each thing has an event loop of its own, which runs while it is called.

Heartbeats go on only while it runs, so a consumer must be polled steadily, as with the other libraries.
"""

import asyncio
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.errors import KafkaError
from aiokafka.structs import OffsetAndMetadata

from tests.edges.kafka.client import Committed, Got, GroupSeen, Library, Membership, Part

WITHIN_S = 60.0
ASSIGNORS = {"range": RangePartitionAssignor, "roundrobin": RoundRobinPartitionAssignor}


class Loop:
    """An event loop that runs while something is awaited."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()

    def run(self, awaited: Coroutine[Any, Any, Any], within_s: float = WITHIN_S) -> Any:
        return self._loop.run_until_complete(asyncio.wait_for(awaited, within_s))

    def close(self) -> None:
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self._loop.close()


class AioConsumer:
    def __init__(self, bootstrap: str, membership: Membership) -> None:
        self._loop = Loop()
        self._settings = {
            "bootstrap_servers": bootstrap,
            "group_id": membership.group,
            "group_instance_id": membership.instance,
            "partition_assignment_strategy": (ASSIGNORS[membership.assignor],),
            "session_timeout_ms": membership.session_ms,
            "heartbeat_interval_ms": min(1_000, membership.session_ms // 4),
            "auto_offset_reset": membership.reset,
            "enable_auto_commit": False,
            "metadata_max_age_ms": membership.metadata_age_ms,
            "fetch_max_wait_ms": membership.longest_wait_ms,
        }
        self._consumer: AIOKafkaConsumer = self._loop.run(self._start())
        self._later: list[asyncio.Task[None]] = []
        self._closed = False

    async def _start(self) -> AIOKafkaConsumer:
        consumer = AIOKafkaConsumer(**self._settings)
        await consumer.start()
        return consumer

    def subscribe(self, topics: Sequence[str]) -> None:
        self._loop.run(self._inside(self._consumer.subscribe, topics=list(topics)))

    def subscribe_to_names_like(self, pattern: str) -> None:
        self._loop.run(self._inside(self._consumer.subscribe, pattern=pattern))

    def assign(self, parts: Sequence[Part]) -> None:
        self._loop.run(self._inside(self._consumer.assign, [TopicPartition(*part) for part in parts]))

    async def _inside(self, call: Any, *given: Any, **named: Any) -> Any:
        """Call a plain function inside the loop: aiokafka wants a running one."""
        return call(*given, **named)

    def poll(self, seconds: float) -> list[Got]:
        batches = self._loop.run(self._consumer.getmany(timeout_ms=int(seconds * 1_000), max_records=500))
        return [_got(record) for batch in batches.values() for record in batch]

    def assignment(self) -> frozenset[Part]:
        return frozenset((each.topic, each.partition) for each in self._consumer.assignment())

    def commit(self, offsets: Mapping[Part, Committed] | None = None) -> None:
        named = {
            TopicPartition(*part): OffsetAndMetadata(each.offset, each.metadata)
            for part, each in (offsets or {}).items()
        }
        self._loop.run(self._consumer.commit(named or None))

    def commit_later(self) -> None:
        async def begin() -> None:
            self._later.append(asyncio.ensure_future(self._consumer.commit()))

        self._loop.run(begin())

    def committed(self, part: Part) -> Committed | None:
        # Its public `committed` drops the metadata; the coordinator it asks does not.
        asked = self._consumer._coordinator.fetch_committed_offsets([TopicPartition(*part)])
        found = self._loop.run(asked).get(TopicPartition(*part))
        return None if found is None or found.offset < 0 else Committed(found.offset, found.metadata)

    def position(self, part: Part) -> int:
        return int(self._loop.run(self._consumer.position(TopicPartition(*part))))

    def seek(self, part: Part, offset: int) -> None:
        self._loop.run(self._inside(self._consumer.seek, TopicPartition(*part), offset))

    def bounds(self, part: Part) -> tuple[int, int]:
        where = TopicPartition(*part)
        low = self._loop.run(self._consumer.beginning_offsets([where]))[where]
        return low, self._loop.run(self._consumer.end_offsets([where]))[where]

    def offset_at(self, part: Part, timestamp_ms: int) -> int | None:
        where = TopicPartition(*part)
        found = self._loop.run(self._consumer.offsets_for_times({where: timestamp_ms}))[where]
        return None if found is None else int(found.offset)

    def pause(self, part: Part) -> None:
        self._loop.run(self._inside(self._consumer.pause, TopicPartition(*part)))

    def resume(self, part: Part) -> None:
        self._loop.run(self._inside(self._consumer.resume, TopicPartition(*part)))

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        if self._later:
            self._loop.run(asyncio.wait(self._later))
        self._loop.run(self._consumer.stop())
        self._loop.close()


def _got(record: Any) -> Got:
    where = (record.topic, record.partition, record.offset)
    return Got(*where, record.key, record.value, record.timestamp, tuple(record.headers))


class AioProducer:
    def __init__(self, bootstrap: str, *, codec: str = "none", idempotent: bool = False) -> None:
        self._loop = Loop()
        self._settings = {
            "bootstrap_servers": bootstrap,
            "compression_type": None if codec == "none" else codec,
            "enable_idempotence": idempotent,
            "linger_ms": 5,
        }
        self._producer: AIOKafkaProducer = self._loop.run(self._start())
        self._sent: list[asyncio.Future[Any]] = []

    async def _start(self) -> AIOKafkaProducer:
        producer = AIOKafkaProducer(**self._settings)
        await producer.start()
        return producer

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
        sent = self._producer.send(topic, value, key, partition, timestamp_ms, list(headers))
        self._sent.append(self._loop.run(sent))

    def flush(self) -> list[tuple[Part, int]]:
        async def all_sent() -> list[Any]:
            return await asyncio.gather(*self._sent)

        where = [((done.topic, done.partition), done.offset) for done in self._loop.run(all_sent())]
        self._sent.clear()
        return where

    def close(self) -> None:
        self._loop.run(self._producer.stop())
        self._loop.close()


class AioAdmin:
    def __init__(self, bootstrap: str) -> None:
        self._loop = Loop()
        self._bootstrap = bootstrap
        self._admin: AIOKafkaAdminClient = self._loop.run(self._start())

    async def _start(self) -> AIOKafkaAdminClient:
        admin = AIOKafkaAdminClient(bootstrap_servers=self._bootstrap)
        await admin.start()
        return admin

    def create_topic(self, name: str, partitions: int, settings: Mapping[str, str] | None = None) -> None:
        new = NewTopic(name, partitions, 1, topic_configs=dict(settings or {}))
        reply = self._loop.run(self._admin.create_topics([new]))
        assert [error[1] for error in reply.topic_errors] == [0], reply

    def delete_topic(self, name: str) -> None:
        reply = self._loop.run(self._admin.delete_topics([name]))
        assert [code for _, code in reply.topic_error_codes] == [0], reply

    def add_partitions(self, name: str, total: int) -> None:
        self._loop.run(self._admin.create_partitions({name: NewPartitions(total)}))

    def topics(self) -> set[str]:
        return set(self._loop.run(self._admin.list_topics()))

    def partitions(self, name: str) -> int:
        (topic,) = self._loop.run(self._admin.describe_topics([name]))
        return len(topic["partitions"])

    def settings(self, topic: str) -> dict[str, str | None]:
        resource = ConfigResource(ConfigResourceType.TOPIC, topic)
        (reply,) = self._loop.run(self._admin.describe_configs([resource]))
        ((code, _, _, _, entries),) = reply.resources
        assert code == 0
        return {entry[0]: entry[1] for entry in entries}

    def change(self, topic: str, key: str, value: str) -> None:
        raise NotImplementedError

    def groups(self) -> set[str]:
        return {name for name, *_ in self._loop.run(self._admin.list_consumer_groups())}

    def group(self, name: str) -> GroupSeen:
        (reply,) = self._loop.run(self._admin.describe_consumer_groups([name]))
        ((code, _, state, protocol_type, _, members, *_),) = reply.groups
        assert code == 0
        return GroupSeen(state, protocol_type, len(members))

    def delete_group(self, name: str) -> None:
        raise NotImplementedError

    def offsets(self, group: str) -> dict[Part, int]:
        found = self._loop.run(self._admin.list_consumer_group_offsets(group))
        return {(each.topic, each.partition): kept.offset for each, kept in found.items()}

    def alter_offsets(self, group: str, offsets: Mapping[Part, int]) -> None:
        raise NotImplementedError

    def delete_offsets(self, group: str, parts: Iterable[Part]) -> None:
        raise NotImplementedError

    def cluster(self) -> tuple[str, int]:
        found = self._loop.run(self._admin.describe_cluster())
        return found["cluster_id"], len(found["brokers"])

    def close(self) -> None:
        self._loop.run(self._admin.close())
        self._loop.close()


AIOKAFKA = Library(
    "aiokafka",
    AioProducer,
    AioConsumer,
    AioAdmin,
    (KafkaError,),
    assignors=("range", "roundrobin"),
    # It alters settings with AlterConfigs, which replaces them all: the message is not served. Its heartbeats do not
    # say which instance they are, so it never hears that it was fenced: it joins again and takes the name back.
    lacks=frozenset({"change", "fencing", "delete_group", "alter_offsets", "delete_offsets"}),
)
