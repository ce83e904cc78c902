"""Groups that the coordinator balances (KIP-848), beside Apache Kafka: what a heartbeat costs, and how long it takes
until everybody owns its share once a member was added.

Members are played here, some to a connection. Each sends its next heartbeat as soon as its turn comes, so what is
measured is the servers' work and not their heartbeat intervals; the processor time is the server's alone.
"""

import asyncio
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import NamedTuple, Self

from bench import peers
from bench.builds import NotHere
from bench.peers import Peer
from bench.processes import QUICK_GROUPS, scratch
from bench.report import Options, Sheet, Value, median
from protocol.errors import ErrorCode
from protocol.kafka.client import KafkaClient
from protocol.messages import Message
from protocol.messages.consumer_groups import (
    JOINING,
    ConsumerGroupHeartbeat,
    ConsumerGroupHeartbeatReply,
    TopicIdPartitions,
)
from protocol.messages.node import FindCoordinator, FindCoordinatorReply

SETTINGS: Mapping[str, str] = {
    **QUICK_GROUPS,
    "group.coordinator.rebalance.protocols": "classic,consumer",
    "group.consumer.assignment.interval.ms": "0",
}
SIZES = ((10, 1_000), (100, 10_000), (1_000, 10_000))
QUICK_SIZES = ((10, 100), (100, 1_000))
"""(members, partitions)"""
_CONNECTIONS, _VERSION = 10, 1
_TIMEOUT_MS = 600_000
_PATIENCE_S = 300.0
_MAX_FRAME_BYTES = 1 << 26
_NOT_YET = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)
"""Errors of a server that has just come up."""
_BEATS, _QUICK_BEATS = 20_000, 2_000


class Asking:
    """One connection, one request at a time."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._client = KafkaClient("bench", _MAX_FRAME_BYTES)

    @classmethod
    async def open(cls, port: int) -> Self:
        return cls(*await asyncio.open_connection("127.0.0.1", port))

    async def ask(self, message: Message, version: int) -> Message:
        self._writer.write(self._client.encode_request(message, version)[1])
        while data := await self._reader.read(1 << 18):
            for answer in self._client.receive_data(data):
                return answer.reply
        raise ConnectionResetError("the server closed the connection")

    def close(self) -> None:
        self._writer.close()


class BalancedMember:
    """A member that does as the protocol says; `owned` is what it may use."""

    def __init__(self, group_id: str, topic: str) -> None:
        self.epoch = JOINING
        self.owned: tuple[TopicIdPartitions, ...] = ()
        self._group_id, self._topic = group_id, topic
        self._id = str(uuid.uuid4())
        self._reported: tuple[TopicIdPartitions, ...] | None = None

    @property
    def count(self) -> int:
        return sum(len(one.partitions) for one in self.owned)

    async def beat(self, connection: Asking) -> None:
        """Join, report what it owns if that has changed, or say no more than that it is alive."""
        is_new = self.epoch == JOINING
        owned = None if self.owned == self._reported and not is_new else self.owned
        request = ConsumerGroupHeartbeat(
            group_id=self._group_id,
            member_id=self._id,
            member_epoch=self.epoch,
            rebalance_timeout_ms=_TIMEOUT_MS if is_new else -1,
            subscribed_topic_names=(self._topic,) if is_new else None,
            topic_partitions=owned,
        )
        self._reported = self.owned
        ends = time.monotonic() + _PATIENCE_S
        while True:
            reply = await connection.ask(request, _VERSION)
            assert isinstance(reply, ConsumerGroupHeartbeatReply)
            if reply.error_code not in _NOT_YET or time.monotonic() > ends:
                break
            await asyncio.sleep(0.1)
        if reply.error_code is not ErrorCode.NONE:
            raise NotHere(f"a heartbeat was answered {reply.error_code.name}: {reply.error_message}")
        self.epoch = reply.member_epoch
        if reply.assignment is not None:
            self.owned = reply.assignment.topic_partitions


class BalancedGroup:
    """Members that share all partitions of a topic."""

    def __init__(self, topic: str, partitions: int, connections: Sequence[Asking]) -> None:
        self._topic, self._partitions = topic, partitions
        self._connections = connections
        self._group_id = f"bench-{uuid.uuid4().hex[:8]}"
        self.members: list[BalancedMember] = []

    @property
    def is_balanced(self) -> bool:
        """Return whether all are at one epoch and own all partitions, as many each but for one."""
        counts = [member.count for member in self.members]
        one_epoch = len({member.epoch for member in self.members}) == 1
        return one_epoch and sum(counts) == self._partitions and max(counts) - min(counts) <= 1

    async def add(self, count: int) -> None:
        """Returns once everybody owns its share."""
        self.members += [BalancedMember(self._group_id, self._topic) for _ in range(count)]
        newest = self.members[-1]
        await newest.beat(self._connections[0])
        ends = time.monotonic() + _PATIENCE_S
        while not self.is_balanced:
            await self.beat()
            if time.monotonic() > ends:
                raise NotHere(f"{len(self.members)} members did not own their shares within {_PATIENCE_S:g} s")

    async def beat(self) -> None:
        """Send a heartbeat of every member, those of one connection one after the other."""
        await asyncio.gather(*[self._beat_some(number) for number in range(len(self._connections))])

    async def _beat_some(self, number: int) -> None:
        for member in self.members[number :: len(self._connections)]:
            await member.beat(self._connections[number])


class Added(NamedTuple):
    """One member was added."""

    ms: float
    cpu_ms: float


def measure(options: Options) -> list[Sheet]:
    """Measure both; the notes say why a peer is not here."""
    sizes = QUICK_SIZES if options.quick else SIZES
    topics = {_topic(partitions): partitions for _, partitions in sizes}
    with ExitStack() as stack:
        folder = stack.enter_context(scratch())
        servers, absent = [stack.enter_context(peers.musterd(folder, SETTINGS))], []
        try:
            servers.append(
                stack.enter_context(peers.apache_kafka(folder, may_fetch=options.may_fetch, settings=SETTINGS))
            )
        except NotHere as reason:
            absent.append(f"Left out: {reason}.")
        for server in servers:
            peers.make_topics(server.port, topics)
            asyncio.run(_warm_up(server, sizes[0], options))
        sheets = list(_sheets(servers, sizes, options))
    sheets[0].notes += tuple(absent)
    return sheets


def _topic(partitions: int) -> str:
    return f"bench-{partitions}"


def _sheets(servers: Sequence[Peer], sizes: Sequence[tuple[int, int]], options: Options) -> Iterator[Sheet]:
    names = [server.name for server in servers]
    beats: list[tuple[Value, ...]] = []
    added: list[tuple[Value, ...]] = []
    for members, partitions in sizes:
        found = {server.name: asyncio.run(_measure(server, members, partitions, options)) for server in servers}
        took = [found[name][0] for name in names]
        cpu = [found[name][1] for name in names]
        beat = [found[name][2] for name in names]
        beats.append((members, partitions, *beat, _ratio(beat), 0.5))
        added.append((members, partitions, *took, *cpu, _ratio(took), _ratio(cpu)))
    columns = ("members", "partitions")
    yield Sheet(
        "Groups that the coordinator balances: an idle heartbeat",
        (*columns, *(f"{name}: CPU us" for name in names), "musterd / Kafka", "goal"),
        beats,
        (f"Members share {_CONNECTIONS} connections, with one request outstanding on each.",),
    )
    yield Sheet(
        "Groups that the coordinator balances: one member is added, until everybody owns its share",
        (
            *columns,
            *(f"{name}: ms" for name in names),
            *(f"{name}: CPU ms" for name in names),
            "ms, musterd / Kafka",
            "CPU, musterd / Kafka",
        ),
        added,
        (
            "Everybody sends heartbeats without a pause, in rounds: ms and CPU hold those of members that have nothing",
            "to do, and ms the work of the generator. musterd's records are on disk when it answers.",
        ),
    )


def _ratio(values: Sequence[float]) -> float | None:
    return values[0] / values[1] if len(values) > 1 and values[1] else None


async def _warm_up(server: Peer, size: tuple[int, int], options: Options) -> None:
    """Until the coordinator is there; and Kafka's code is compiled, for what the time allows."""
    connections = await _connections(server)
    ends = time.monotonic() + _PATIENCE_S
    while time.monotonic() < ends:
        found = await connections[0].ask(FindCoordinator(("bench",)), 4)
        assert isinstance(found, FindCoordinatorReply)
        if not found.coordinators[0].error_code:
            break
        await asyncio.sleep(0.2)
    members, partitions = size
    for _ in range(1 if options.quick else 20):
        group = BalancedGroup(_topic(partitions), partitions, connections)
        await group.add(members)
        for _ in range(100):
            await group.beat()
    for connection in connections:
        connection.close()


async def _measure(server: Peer, members: int, partitions: int, options: Options) -> tuple[float, float, float]:
    """Milliseconds and CPU milliseconds of a member added, CPU microseconds of a heartbeat: medians."""
    connections = await _connections(server)
    group = BalancedGroup(_topic(partitions), partitions, connections)
    await group.add(members)
    rounds = []
    for _ in range(options.rounds):
        began, cpu_s = time.perf_counter(), _cpu_s(server)
        await group.add(1)
        rounds.append(Added((time.perf_counter() - began) * 1e3, (_cpu_s(server) - cpu_s) * 1e3))
    wanted = _QUICK_BEATS if options.quick else _BEATS
    beats = []
    for _ in range(options.rounds):
        turns = max(wanted // len(group.members), 1)
        await group.beat()
        cpu_s = _cpu_s(server)
        for _ in range(turns):
            await group.beat()
        beats.append((_cpu_s(server) - cpu_s) / (turns * len(group.members)) * 1e6)
    for connection in connections:
        connection.close()
    return median([one.ms for one in rounds]), median([one.cpu_ms for one in rounds]), median(beats)


async def _connections(server: Peer) -> list[Asking]:
    return [await Asking.open(server.port) for _ in range(_CONNECTIONS)]


def _cpu_s(server: Peer) -> float:
    """Seconds of processor that the server has used, to the nanosecond."""
    return time.clock_gettime(~server.pid << 3 | 2)
