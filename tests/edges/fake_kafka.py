"""A fake Kafka cluster on sockets, with any number of brokers: partitions and producer ids come from the simulation,
groups from Muster's own coordinator. Like Kafka, a broker answers the requests of a connection one after another."""

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from random import Random
from struct import unpack, unpack_from

from coordinator.node.events import Call
from protocol.apis import BY_MESSAGE, WIRE_APIS
from protocol.errors import ErrorCode
from protocol.kafka.version_codec import VersionCodec
from protocol.messages import Message
from protocol.messages.configs import (
    DescribeConfigs,
    DescribeConfigsReply,
    DescribedConfig,
    DescribedConfigs,
    ResourceType,
)
from protocol.messages.data import (
    Fetch,
    FetchPartitionReply,
    FetchReply,
    FetchTopicReply,
    InitProducerId,
    InitProducerIdReply,
    Produce,
    ProducePartition,
    ProducePartitionReply,
    ProduceReply,
    ProduceTopicReply,
)
from protocol.messages.groups import DescribeGroups, Heartbeat, JoinGroup, LeaveGroup, SyncGroup
from protocol.messages.node import ApiVersion, ApiVersions, ApiVersionsReply, FindCoordinator, FindCoordinatorReply
from protocol.messages.node import FoundCoordinator as Found
from protocol.messages.topics import (
    CreatedTopic,
    CreateTopics,
    CreateTopicsReply,
    Metadata,
    MetadataBroker,
    MetadataPartitionReply,
    MetadataReply,
    MetadataTopicReply,
)
from protocol.refusals import REFUSE
from tests.edges.tcp import tcp_server
from tests.node.node_rig import NodeRig
from tests.simulation.cluster.coordinators import ProducerIds
from tests.simulation.cluster.partition import Partition

_DAY_MS = 86_400_000
_SERVED: tuple[type[Message], ...] = (
    *(ApiVersions, Metadata, CreateTopics, DescribeConfigs, FindCoordinator, InitProducerId, Produce, Fetch),
    *(JoinGroup, SyncGroup, Heartbeat, LeaveGroup, DescribeGroups),
)
PartitionKey = tuple[str, int]


async def until(holds: Callable[[], bool]) -> None:
    """Wait until the condition holds, or until cancelled."""
    while not holds():  # noqa: ASYNC110  (many things change what is waited for)
        await asyncio.sleep(0.005)


class FakeKafka:
    """`asked`: broker, connection and request, in the order of arrival."""

    def __init__(self) -> None:
        self.ports: dict[int, int] = {}
        self.partitions: dict[PartitionKey, Partition] = {}
        self.leaders: dict[PartitionKey, int] = {}
        self.settings: dict[str, dict[str, str]] = defaultdict(dict)
        """Settings by topic; those of brokers under an empty name."""
        self.asked: list[tuple[int, int, Message]] = []
        self.slow: set[PartitionKey] = set()
        """Partitions whose other replicas hang, so that writes time out."""
        self.silent: set[int] = set()
        """Brokers that do not answer."""
        self.fences = True
        self.replies: dict[type[Message], Message] = {}
        """Odd replies, in place of what a broker would answer."""
        self.coordinator = 1
        self.finds = ErrorCode.NONE
        """Error of every FindCoordinator."""
        """Broker that coordinates every group and transactional id."""
        self.node_rig = NodeRig()
        self._producer_ids = ProducerIds(1_000, 7 * _DAY_MS)
        self._names: list[str] = []
        self._connections = 0
        self._calls = 0

    # --- for tests ---

    def make_topic(self, name: str, partitions: int, **settings: str) -> None:
        for index in range(partitions):
            self.partitions[name, index] = Partition(Random(index), _DAY_MS, _DAY_MS)
            self.leaders[name, index] = 1 + index % len(self.ports)
        self.settings[name].update(settings)

    def all_asked(self, kind: type[Message]) -> list[tuple[int, int, Message]]:
        return [one for one in self.asked if isinstance(one[2], kind)]

    def writes_to(self, name: str, index: int) -> list[ProducePartition]:
        """Batches sent to a partition, in the order of arrival."""
        topics = [topic for _, _, one in self.asked if isinstance(one, Produce) for topic in one.topic_data]
        return [part for topic in topics if topic.name == name for part in topic.partition_data if part.index == index]

    @property
    def bootstrap(self) -> list[tuple[str, int]]:
        return [("127.0.0.1", port) for port in self.ports.values()]

    # --- the wire ---

    async def serve(self, broker: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connections += 1
        connection = self._connections
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                (size,) = unpack(">i", await reader.readexactly(4))
                frame = await reader.readexactly(size)
                key, version, number, name_size = unpack_from(">hhih", frame)
                codec = VersionCodec(WIRE_APIS[key], version)
                start = 10 + max(name_size, 0) + (1 if WIRE_APIS[key].is_flexible(version) else 0)
                message = codec.read(frame, start)
                self.asked.append((broker, connection, message))
                await until(lambda: broker not in self.silent)
                writer.write(codec.frame(number, await self._reply(broker, message)))

    async def _reply(self, broker: int, message: Message) -> Message:
        if type(message) in self.replies:
            return self.replies[type(message)]
        match message:
            case ApiVersions():
                rows = [BY_MESSAGE[one] for one in _SERVED]
                return ApiVersionsReply(
                    api_keys=tuple(ApiVersion(row.key, row.request.oldest, row.request.newest) for row in rows)
                )
            case Metadata():
                return self._metadata(message)
            case CreateTopics():
                for topic in message.topics:
                    told = {one.name: one.value or "" for one in topic.configs}
                    self.make_topic(topic.name, topic.num_partitions, **told)
                return CreateTopicsReply(tuple(CreatedTopic(topic.name) for topic in message.topics))
            case DescribeConfigs():
                return self._configs(message)
            case FindCoordinator():
                port = self.ports[self.coordinator]
                found = (
                    Found(key, self.coordinator, "127.0.0.1", port, self.finds) for key in message.coordinator_keys
                )
                return FindCoordinatorReply(tuple(found))
            case InitProducerId():
                return self._init_producer_id(broker, message)
            case Produce():
                return await self._produce(broker, message)
            case Fetch():
                return self._fetch(broker, message)
        if broker != self.coordinator:
            return REFUSE[type(message)](message, ErrorCode.NOT_COORDINATOR, None)
        return await self._ask_group(message)

    async def _ask_group(self, message: Message) -> Message:
        self._calls += 1
        number = self._calls
        self.node_rig.step(Call(number, message))
        await until(lambda: number in self.node_rig.replied)
        return self.node_rig.replied.pop(number)

    async def let_time_pass(self) -> None:
        """Move the clock of the groups with the real one, until cancelled."""
        loop = asyncio.get_running_loop()
        begun_s = loop.time()
        while True:
            await asyncio.sleep(0.01)
            self.node_rig.wait(int((loop.time() - begun_s) * 1_000) - self.node_rig.now_ms)

    # --- what a broker knows ---

    def _metadata(self, message: Metadata) -> MetadataReply:
        brokers = tuple(MetadataBroker(number, "127.0.0.1", port) for number, port in self.ports.items())
        topics = tuple(self._described(topic.name or "") for topic in message.topics or ())
        return MetadataReply(brokers, "fake", min(self.ports), topics)

    def _described(self, name: str) -> MetadataTopicReply:
        copies = tuple(self.ports)
        found = tuple(
            MetadataPartitionReply(index, self.leaders[topic, index], replica_nodes=copies, isr_nodes=copies)
            for topic, index in self.partitions
            if topic == name
        )
        return MetadataTopicReply(
            name, error_code=ErrorCode.NONE if found else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, partitions=found
        )

    def _configs(self, message: DescribeConfigs) -> DescribeConfigsReply:
        def described(kind: int, name: str) -> DescribedConfigs:
            told = self.settings[name if kind == ResourceType.TOPIC else ""]
            return DescribedConfigs(kind, name, configs=tuple(DescribedConfig(*pair) for pair in told.items()))

        return DescribeConfigsReply(tuple(described(one.resource_type, one.resource_name) for one in message.resources))

    def _init_producer_id(self, broker: int, message: InitProducerId) -> InitProducerIdReply:
        if broker != self.coordinator:
            return InitProducerIdReply(ErrorCode.NOT_COORDINATOR)
        name = message.transactional_id or ""
        if name not in self._names:
            self._names.append(name)
        known = message.producer_id, message.producer_epoch
        return InitProducerIdReply(*self._producer_ids.init(self._names.index(name), *known, 0))

    async def _produce(self, broker: int, message: Produce) -> ProduceReply:
        said = []
        for topic in message.topic_data:
            appends = (
                self._append(broker, (topic.name, one.index), one.records, message.timeout_ms)
                for one in topic.partition_data
            )
            said.append(ProduceTopicReply(topic.name, tuple(await asyncio.gather(*appends))))
        return ProduceReply(tuple(said))

    async def _append(self, broker: int, key: PartitionKey, batch: bytes, timeout_ms: int) -> ProducePartitionReply:
        if self.leaders.get(key) != broker:
            return ProducePartitionReply(key[1], ErrorCode.NOT_LEADER_OR_FOLLOWER)
        partition = self.partitions[key]
        if not self.fences:
            partition.forget()
        error, base, _ = partition.append(batch, 0)
        if key in self.slow:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(timeout_ms / 1_000):
                    await until(lambda: key not in self.slow)
        if key in self.slow:
            error = ErrorCode.REQUEST_TIMED_OUT
        else:
            partition.replicate(0)
        return ProducePartitionReply(key[1], error, base)

    def _fetch(self, broker: int, message: Fetch) -> FetchReply:
        def read(key: PartitionKey, offset: int) -> FetchPartitionReply:
            if self.leaders.get(key) != broker:
                return FetchPartitionReply(key[1], ErrorCode.NOT_LEADER_OR_FOLLOWER)
            error, data, end = self.partitions[key].fetch(offset, 100)
            return FetchPartitionReply(key[1], error, end, records=data)

        return FetchReply(
            responses=tuple(
                FetchTopicReply(
                    topic.topic, tuple(read((topic.topic, one.partition), one.fetch_offset) for one in topic.partitions)
                )
                for topic in message.topics
            )
        )


@contextlib.asynccontextmanager
async def fake_kafka(brokers: int = 1) -> AsyncIterator[FakeKafka]:
    kafka = FakeKafka()
    clock = asyncio.ensure_future(kafka.let_time_pass())
    async with contextlib.AsyncExitStack() as stack:
        for number in range(1, brokers + 1):
            serve = lambda reader, writer, number=number: kafka.serve(number, reader, writer)  # noqa: E731
            kafka.ports[number] = await stack.enter_async_context(tcp_server(serve))
        yield kafka
    clock.cancel()
    await asyncio.gather(clock, return_exceptions=True)
