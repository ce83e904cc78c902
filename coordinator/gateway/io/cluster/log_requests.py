"""EDGE: sends the requests of shards to the brokers, and returns the replies. Decides nothing: an error or a timeout is
returned too, and the shard retries (docs/spec/shared-log.md#Recommended.5).
"""

from collections.abc import Callable, Iterable

from coordinator.cluster_log.effects import AskProducerId, ReadLog, WriteBatch
from coordinator.cluster_log.events import BatchAnswered, LogRead, ProducerIdAnswered, ShardEvent
from coordinator.cluster_log.settings import transactional_id
from coordinator.gateway.io.broker_client import HostPort, RequestFailed
from coordinator.gateway.io.broker_clients import BrokerClients
from coordinator.gateway.io.cluster.broker_queues import BrokerQueues
from coordinator.gateway.io.cluster.leaders import MOVED, PartitionLeaders
from coordinator.gateway.io.cluster.link import TIMEOUT_S, ClusterLink
from coordinator.gateway.io.cluster.member import boot_ms
from coordinator.gateway.io.cluster.producer_ids import ProducerIds
from coordinator.gateway.io.tasks import Tasks
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
    ProduceReply,
    ProduceTopic,
)

_REPLICATED_WITHIN_MS = 1_500
"""Time that a leader may wait for the other replicas."""
_WRITE_TIMEOUT_S = _REPLICATED_WITHIN_MS / 1_000 + 1.0
_MOST_WRITTEN_BYTES = 16 << 20
"""Largest size of one Produce; a broker refuses requests above its `socket.request.max.bytes`, 100 MiB."""
_OLDEST_WRITE_MS = 60_000
"""Age at which a batch is not sent any more: its process was suspended. A leader that has forgotten the producer since
(a day) would take it, whoever owns the shard by then (docs/spec/shared-log.md#Limits)."""
_READ_BYTES, _MOST_READ_BYTES = 512 << 10, 16 << 20
"""Largest sizes of a partition's records and of a reply. Records are replayed in the step that reads them, in which no
other request is served."""

Request = AskProducerId | WriteBatch | ReadLog


class LogRequests:
    """Requests of all shards. `answer` is called with the shard and the answer, but never within `send`."""

    def __init__(self, link: ClusterLink, topic: str, answer: Callable[[int, ShardEvent], None]) -> None:
        self._link = link
        self._topic = topic
        self._answer = answer
        self._tasks = Tasks("LogRequests")
        self._leaders = PartitionLeaders(link, topic, self._tasks)
        self._producer_ids = ProducerIds(link)
        self._writing, self._reading = BrokerClients(link.open_client), BrokerClients(link.open_client)
        self._alone: dict[int, BrokerClients] = {}
        """Connections of slow shards, one each: a broker answers no later request of a connection while a write waits
        for replicas."""
        self._decided_ms: dict[int, tuple[int, int]] = {}
        """Number of each shard's last write, and the boot time at which the shard decided on it."""
        self._writes = BrokerQueues(self._write_together, self._tasks)
        self._reads = BrokerQueues(self._read_together, self._tasks)

    def send(self, request: Request) -> None:
        """Send the request; it is always answered, with an error if need be."""
        if isinstance(request, AskProducerId):
            self._tasks.start(self._ask_producer_id(request))
            return
        if isinstance(request, WriteBatch):
            self._decided_ms[request.shard] = request.number, boot_ms()
        leader = self._leaders.of(request.shard)
        if leader is None:
            self._tasks.start(self._answer_unsent(request))
        elif isinstance(request, ReadLog):
            self._reads.add(leader, request)
        elif request.alone:
            self._tasks.start(self._write_alone(leader, request))
        else:
            self._writes.add(leader, request)

    async def stop(self) -> None:
        """Cancel all requests, and close the connections."""
        await self._tasks.stop()
        for clients in (self._writing, self._reading, *self._alone.values()):
            await clients.stop()

    async def _answer_unsent(self, request: WriteBatch | ReadLog) -> None:
        kind = BatchAnswered if isinstance(request, WriteBatch) else LogRead
        self._answer(request.shard, kind(request.number, ErrorCode.LEADER_NOT_AVAILABLE))

    # --- writes ---

    async def _write_together(self, leader: HostPort, writes: list[WriteBatch]) -> None:
        for some in _in_requests(writes):
            await self._write(self._writing, leader, some)

    async def _write_alone(self, leader: HostPort, write: WriteBatch) -> None:
        clients = self._alone.get(write.shard)
        if clients is None:
            clients = self._alone[write.shard] = BrokerClients(self._link.open_client)
        error = await self._write(clients, leader, [write])
        if error not in {None, ErrorCode.REQUEST_TIMED_OUT} and self._alone.get(write.shard) is clients:
            del self._alone[write.shard]
            await clients.stop()

    async def _write(self, clients: BrokerClients, leader: HostPort, writes: list[WriteBatch]) -> ErrorCode | None:
        """Write the batches; return the error of the last."""
        found: dict[int, ProducePartitionReply] = {}
        try:
            client = await clients.get(leader)
            partitions = tuple(ProducePartition(one.shard, one.batch) for one in writes if self._is_recent(one))
            if partitions:
                message = Produce((ProduceTopic(self._topic, partitions),), -1, _REPLICATED_WITHIN_MS)
                reply = await client.ask(message, _WRITE_TIMEOUT_S)
                assert isinstance(reply, ProduceReply)
                found = {one.index: one for topic in reply.responses for one in topic.partition_responses}
        except RequestFailed:
            pass
        error: ErrorCode | None = None
        for write in writes:
            part = found.get(write.shard)
            error = None if part is None else part.error_code
            self._doubt_leader_after(error)
            self._answer(write.shard, BatchAnswered(write.number, error, -1 if part is None else part.base_offset))
        return error

    def _is_recent(self, write: WriteBatch) -> bool:
        """Return whether the shard has decided on the write lately, and on no other since."""
        number, decided_ms = self._decided_ms[write.shard]
        return number == write.number and boot_ms() - decided_ms < _OLDEST_WRITE_MS

    def _doubt_leader_after(self, error: ErrorCode | None) -> None:
        if error in MOVED:
            self._leaders.doubt()

    # --- reads ---

    async def _read_together(self, leader: HostPort, reads: list[ReadLog]) -> None:
        partitions = tuple(FetchPartition(one.shard, one.offset, _READ_BYTES) for one in reads)
        message = Fetch((FetchTopic(self._topic, partitions),), 0, 0, _MOST_READ_BYTES)
        found: dict[int, FetchPartitionReply] = {}
        try:
            reply = await (await self._reading.get(leader)).ask(message, TIMEOUT_S)
        except RequestFailed:
            pass
        else:
            assert isinstance(reply, FetchReply)
            found = {one.partition_index: one for topic in reply.responses for one in topic.partitions}
        for read in reads:
            self._answer_read(read, found.get(read.shard))

    def _answer_read(self, read: ReadLog, part: FetchPartitionReply | None) -> None:
        if part is None:
            self._leaders.doubt()
            self._answer(read.shard, LogRead(read.number, None))
            return
        self._doubt_leader_after(part.error_code)
        said = part.error_code, part.records, part.high_watermark, max(part.log_start_offset, 0)
        self._answer(read.shard, LogRead(read.number, *said))

    # --- producer ids ---

    async def _ask_producer_id(self, request: AskProducerId) -> None:
        name = transactional_id(request.shard)
        try:
            reply = await self._producer_ids.ask(name, request.producer_id, request.producer_epoch)
        except RequestFailed:
            self._answer(request.shard, ProducerIdAnswered(request.number, None))
        else:
            said = reply.error_code, reply.producer_id, reply.producer_epoch
            self._answer(request.shard, ProducerIdAnswered(request.number, *said))


def _in_requests(writes: Iterable[WriteBatch]) -> Iterable[list[WriteBatch]]:
    """Yield the writes of one request after another."""
    some: list[WriteBatch] = []
    room = _MOST_WRITTEN_BYTES
    for write in writes:
        if some and len(write.batch) > room:
            yield some
            some, room = [], _MOST_WRITTEN_BYTES
        some.append(write)
        room -= len(write.batch)
    yield some
