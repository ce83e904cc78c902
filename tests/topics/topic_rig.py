"""A node's topics without the node: a store on a simulated disk, and its clients."""

from coordinator.clock import Moment
from coordinator.placement import Placement
from coordinator.topics.embedded import DelayedFetch, EmbeddedTopics, FetchReady, TopicSettings
from partition_log.store.log_store import LogStore, StoreLimits
from protocol.errors import ErrorCode
from protocol.messages.data import (
    Fetch,
    FetchPartition,
    FetchPartitionReply,
    FetchReply,
    FetchTopic,
    Produce,
    ProducePartition,
    ProducePartitionReply,
    ProduceTopic,
)
from protocol.messages.offsets import (
    ListOffsets,
    ListOffsetsPartition,
    ListOffsetsPartitionReply,
    ListOffsetsTopic,
)
from protocol.messages.topics import CreatableTopic, CreatedTopic, CreateTopics, TopicConfig
from protocol.record_batch import Record, batches, decode_batch, encode_batch
from protocol.session import RequestRef
from purgatory.purgatory import DelayedOperationPurgatory
from tests.simulation.disk import SimDisk

LIMITS = StoreLimits(wal_segment_bytes=1 << 20, checkpoint_bytes=1 << 20, max_batch_bytes=1 << 18, spill_bytes=4096)
WALL_MS = 1_700_000_000_000
REF = RequestRef(7, 42)


class CountedIds:
    """Topic ids in sequence."""

    def __init__(self) -> None:
        self.given = 0

    def topic_id(self) -> bytes:
        self.given += 1
        return self.given.to_bytes(16, "big")


def batch(*values: str, at_ms: int = WALL_MS) -> bytes:
    return encode_batch([(None, value.encode()) for value in values], timestamp_ms=at_ms)


class TopicRig:
    """`flush` carries out a `Flush` effect and its `Flushed` event."""

    def __init__(self, disk: SimDisk | None = None, settings: TopicSettings | None = None) -> None:
        self.disk = disk or SimDisk()
        self.ids = CountedIds()
        self.now_ms = 1_000
        self._settings = settings or TopicSettings(largest_batch_bytes=1 << 18)
        self._open()

    def _open(self) -> None:
        self.store = LogStore(self.disk, "data", LIMITS)
        self.store.open()
        self.topics = EmbeddedTopics(self.store, self._settings, self.ids, Placement(3, 1, {}))
        self.topics.load()
        self.purgatory: DelayedOperationPurgatory[FetchReady] = DelayedOperationPurgatory(self.now_ms)
        self.answers: list[FetchReply] = []

    @property
    def moment(self) -> Moment:
        return Moment(self.now_ms, WALL_MS)

    def crash(self) -> None:
        """Crash, and start again."""
        self.disk.crash()
        self._open()

    def flush(self) -> None:
        job = self.store.begin_flush()
        if job is not None:
            job.run(self.disk)
            self.store.finish_flush(job.up_to)
        for key in self.topics.advanced():
            for ready in self.purgatory.check_and_complete(key):
                assert isinstance(ready.message, Fetch)
                self.answers.append(self.topics.fetch_now(ready.message))

    # --- asking ---

    def create(self, name: str, partitions: int = -1, replicas: int = -1, /, **configs: str | None) -> CreatedTopic:
        pairs = tuple(TopicConfig(key.replace("_", "."), value) for key, value in configs.items())
        topic = CreatableTopic(name, partitions, replicas, pairs)
        (created,) = self.topics.create(CreateTopics((topic,)), self.moment)[0].topics
        return created

    def made(self, name: str = "flights", partitions: int = 2, /, **configs: str | None) -> None:
        created = self.create(name, partitions, **configs)
        assert created.error_code is ErrorCode.NONE, created
        self.flush()

    def send(
        self, records: bytes, *, topic: str = "flights", partition: int = 0, acks: int = 1
    ) -> ProducePartitionReply:
        """Append records; they are not yet durable."""
        message = Produce((ProduceTopic(topic, (ProducePartition(partition, records),)),), acks=acks)
        reply, _position = self.topics.produce(message, self.moment)
        ((answer,),) = [told.partition_responses for told in reply.responses]
        return answer

    def store_now(self, *values: str, partition: int = 0, at_ms: int = WALL_MS) -> None:
        answer = self.send(batch(*values, at_ms=at_ms), partition=partition)
        assert answer.error_code is ErrorCode.NONE, answer
        self.flush()

    def read(self, offset: int, *, partition: int = 0, topic: str = "flights") -> FetchPartitionReply:
        """Fetch the records that are available now."""
        (answer,) = parts(self.topics.fetch_now(asking((partition, offset), topic=topic)))
        return answer

    def values(self, partition: int = 0) -> list[str]:
        return values(self.read(0, partition=partition).records)

    def poll(self, message: Fetch, ref: RequestRef = REF) -> FetchReply | DelayedFetch:
        """Fetch as a node does; a fetch without a reply yet goes into the purgatory."""
        found = self.topics.fetch(ref, message, self.moment)
        if isinstance(found, DelayedFetch):
            assert self.purgatory.try_complete_else_watch(found, found.notified_by) == []
        return found

    def find(self, timestamp_ms: int, *, partition: int = 0, topic: str = "flights") -> ListOffsetsPartitionReply:
        message = ListOffsets((ListOffsetsTopic(topic, (ListOffsetsPartition(partition, timestamp_ms),)),))
        ((answer,),) = [told.partitions for told in self.topics.list_offsets(message)[0].topics]
        return answer


def producing(data: bytes, topic: str = "flights", partition: int = 0, acks: int = -1) -> Produce:
    return Produce((ProduceTopic(topic, (ProducePartition(partition, data),)),), acks=acks)


def asking(
    *wanted: tuple[int, int],
    topic: str = "flights",
    max_wait_ms: int = 500,
    min_bytes: int = 1,
    max_bytes: int = 1 << 20,
    partition_max_bytes: int = 1 << 20,
) -> Fetch:
    """Return a fetch of (partition, offset) pairs."""
    partitions = tuple(FetchPartition(index, offset, partition_max_bytes) for index, offset in wanted)
    return Fetch((FetchTopic(topic, partitions),), max_wait_ms, min_bytes, max_bytes)


def parts(reply: FetchReply | DelayedFetch) -> list[FetchPartitionReply]:
    assert isinstance(reply, FetchReply), "it waits"
    return [part for topic in reply.responses for part in topic.partitions]


def records(data: bytes) -> list[Record]:
    return [record for _header, one in batches(data) for record in decode_batch(bytes(one))]


def values(data: bytes) -> list[str]:
    return [record.value.decode() for record in records(data) if record.value is not None]
