"""Groups that the coordinator balances (KIP-848), beside Apache Kafka and kfake: what a heartbeat costs, and how long
it takes until everybody owns its share once a member was added, without a pause and at the heartbeats' interval.

Members are played here. In the first two tables they share connections, and each sends its next heartbeat as soon as
its turn comes, so what is measured is the servers' work; the processor time is the server's alone. In the third each
has a connection of its own and sends heartbeats in the interval that its server tells it.
"""

import asyncio
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from random import Random
from typing import NamedTuple

from bench import peers
from bench.balanced_members import PATIENCE_S, Asking, BalancedGroup, KafkaAsking, NativeAsking, Refused
from bench.builds import NotHere
from bench.peers import Peer
from bench.processes import QUICK_GROUPS, scratch
from bench.report import Options, Sheet, Value, median
from protocol.errors import ErrorCode
from protocol.messages.configs import (
    AlterableConfig,
    AlterConfigsResource,
    ConfigOperation,
    IncrementalAlterConfigs,
    IncrementalAlterConfigsReply,
    ResourceType,
)
from protocol.messages.node import FindCoordinator, FindCoordinatorReply

SETTINGS: Mapping[str, str] = {
    **QUICK_GROUPS,
    "group.coordinator.rebalance.protocols": "classic,consumer",
    "group.consumer.assignment.interval.ms": "0",
}
PARTITIONS, QUICK_PARTITIONS = 10_000, 1_000
SIZES, QUICK_SIZES = (10, 100, 1_000, 10_000), (10, 100)
PACED_SIZES, QUICK_PACED_SIZES = (100, 1_000), (10,)
_TOPICS = 2
"""Kafka makes no 10,000 partitions at once."""
_PUSHED = "musterd, pushed"
_CONNECTIONS = 10
_FORMING_MS = 2_000
_BEATS, _QUICK_BEATS = 20_000, 2_000
_FEW_ROUNDS_FROM = 10_000
_QUARTER = 0.25


class Added(NamedTuple):
    """One member was added."""

    ms: float
    cpu_ms: float


class Found(NamedTuple):
    """Milliseconds and processor milliseconds of a member added, processor microseconds of a heartbeat: medians."""

    added_ms: float
    added_cpu_ms: float
    beat_us: float


def measure(options: Options) -> list[Sheet]:
    """Measure all; the notes say why a peer is not here. Short unless it was asked for by name."""
    options = options._replace(quick=options.quick or not options.may_fetch)
    partitions = QUICK_PARTITIONS if options.quick else PARTITIONS
    sizes = QUICK_SIZES if options.quick else SIZES
    with ExitStack() as stack:
        servers, absent = _servers(stack, stack.enter_context(scratch()), options)
        topics = {f"bench-{number}": partitions // _TOPICS for number in range(_TOPICS)}
        for server in servers:
            for topic, count in topics.items():
                peers.make_topics(server.port, {topic: count})
            asyncio.run(_warm_up(server, topics, options))
        sheets = list(_sheets(servers, topics, sizes, options))
        sheets.append(_paced_sheet(servers, topics, options))
    sheets[0].notes += tuple(absent)
    return sheets


def _servers(stack: ExitStack, folder: Path, options: Options) -> tuple[list[Peer], list[str]]:
    servers, absent = [stack.enter_context(peers.musterd(folder, SETTINGS))], []
    for start in (partial(peers.apache_kafka, settings=SETTINGS), peers.kfake):
        try:
            servers.append(stack.enter_context(start(folder, may_fetch=options.may_fetch)))
        except NotHere as reason:
            absent.append(f"Left out: {reason}.")
    return servers, absent


# --- without a pause ---


def _sheets(
    servers: Sequence[Peer], topics: Mapping[str, int], sizes: Sequence[int], options: Options
) -> Iterator[Sheet]:
    names = [server.name for server in servers]
    partitions = sum(topics.values())
    beats: list[tuple[Value, ...]] = []
    added: list[tuple[Value, ...]] = []
    for members in sizes:
        found = {server.name: asyncio.run(_measure(server, topics, members, options)) for server in servers}
        took = {name: one and one.added_ms for name, one in found.items()}
        cpu = {name: one and one.added_cpu_ms for name, one in found.items()}
        beat = {name: one and one.beat_us for name, one in found.items()}
        beats.append((members, partitions, *beat.values(), ratio(beat), 0.5))
        added.append((members, partitions, *took.values(), *cpu.values(), ratio(took), ratio(cpu)))
    columns = ("members", "partitions")
    yield Sheet(
        "Groups that the coordinator balances: an idle heartbeat",
        (*columns, *(f"{name}: CPU us" for name in names), "musterd / Kafka", "goal"),
        beats,
        (
            f"Members share {_CONNECTIONS} connections, with one request outstanding on each. A server has no figure",
            f"where its members do not own their shares within {PATIENCE_S:.0f} s, or are fenced meanwhile.",
        ),
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


def ratio(values: Mapping[str, float | None], ours: str = peers.PURE) -> float | None:
    """Ours by Kafka's; None where one of them has no figure."""
    mine, other = values[ours], values.get(peers.KAFKA)
    return mine / other if mine is not None and other else None


async def _warm_up(server: Peer, topics: Mapping[str, int], options: Options) -> None:
    """Until the coordinator is there; and Kafka's code is compiled, for what the time allows."""
    connections = await _connections(server)
    ends = time.monotonic() + PATIENCE_S
    while time.monotonic() < ends:
        found = await connections[0].ask(FindCoordinator(("bench",)), 4)
        assert isinstance(found, FindCoordinatorReply)
        if not found.coordinators[0].error_code:
            break
        await asyncio.sleep(0.2)
    for _ in range(1 if options.quick else 20):
        group = BalancedGroup(topics, connections)
        await group.add(10)
        for _ in range(100):
            await group.beat()
    _close(connections)


async def _measure(server: Peer, topics: Mapping[str, int], members: int, options: Options) -> Found | None:
    """None if members do not come to own their shares in minutes, or are fenced meanwhile."""
    connections = await _connections(server)
    try:
        return await _measured(server, BalancedGroup(topics, connections), connections[0], members, options)
    except (TimeoutError, Refused) as why:
        _is_none(server, members, why)
        return None
    finally:
        _close(connections)


async def _measured(server: Peer, group: BalancedGroup, connection: Asking, members: int, options: Options) -> Found:
    await _form(group, connection, members)
    rounds = []
    for _ in range(1 if members >= _FEW_ROUNDS_FROM else options.rounds):
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
    return Found(median([one.ms for one in rounds]), median([one.cpu_ms for one in rounds]), median(beats))


async def _form(group: BalancedGroup, connection: Asking, members: int) -> None:
    """Let them join without a new target for each of them, where the server can be told that."""
    await _set_interval(group, connection, str(_FORMING_MS))
    await group.add(members)
    await _set_interval(group, connection, None)


async def _set_interval(group: BalancedGroup, connection: Asking, value: str | None) -> None:
    operation = ConfigOperation.DELETE if value is None else ConfigOperation.SET
    config = AlterableConfig("consumer.assignment.interval.ms", operation, value)
    resource = AlterConfigsResource(ResourceType.GROUP, group.group_id, (config,))
    reply = await connection.ask(IncrementalAlterConfigs((resource,)), 1)
    assert isinstance(reply, IncrementalAlterConfigsReply)
    if reply.responses[0].error_code not in {ErrorCode.NONE, ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_CONFIG}:
        raise Refused(f"the interval was not set: {reply.responses[0]}")
    await asyncio.sleep(0.2)  # until all of a broker knows it


async def _connections(server: Peer) -> list[Asking]:
    return [await KafkaAsking.open(server.port) for _ in range(_CONNECTIONS)]


def _close(connections: Sequence[Asking]) -> None:
    for connection in connections:
        connection.close()


def _cpu_s(server: Peer) -> float:
    """Seconds of processor that the server has used, to the nanosecond."""
    return time.clock_gettime(~server.pid << 3 | 2)


# --- at the interval ---


def _paced_sheet(servers: Sequence[Peer], topics: Mapping[str, int], options: Options) -> Sheet:
    rows: list[tuple[Value, ...]] = []
    names = [server.name for server in servers]
    for members in QUICK_PACED_SIZES if options.quick else PACED_SIZES:
        took: dict[str, float | None] = {}
        for server in servers:
            if server.native_port is not None:  # ours, which is the first
                took[_PUSHED] = asyncio.run(_paced(server, topics, members, options, is_native=True))
            took[server.name] = asyncio.run(_paced(server, topics, members, options, is_native=False))
        rows.append((members, sum(topics.values()), *took.values(), ratio(took, _PUSHED), _QUARTER))
    return Sheet(
        "Groups that the coordinator balances: one member is added, heartbeats at the server's interval",
        ("members", "partitions", *(f"{name}: ms" for name in (_PUSHED, *names)), "pushed / Kafka", "goal"),
        rows,
        (
            "Until everybody owns its share. Members have a connection each; their heartbeats are spread over the",
            "interval (5 s). What was given up is told at once. Natively, musterd pushes AssignmentChanged.",
        ),
    )


async def _paced(
    server: Peer, topics: Mapping[str, int], members: int, options: Options, *, is_native: bool
) -> float | None:
    """Milliseconds, a median; None if members do not come to own their shares in minutes, or are fenced meanwhile."""
    try:
        return await _paced_ms(server, topics, members, options, is_native=is_native)
    except (TimeoutError, Refused) as why:
        _is_none(server, members, why)
        return None


def _is_none(server: Peer, members: int, why: Exception) -> None:
    """Say why there is no figure. Ours must have them all."""
    if server.native_port is not None:
        raise RuntimeError(f"musterd, {members} members") from why
    print(f"{server.name}, {members} members: {why!r}", file=sys.stderr, flush=True)


async def _paced_ms(
    server: Peer, topics: Mapping[str, int], members: int, options: Options, *, is_native: bool
) -> float:
    random = Random(members)
    shared = await _connections(server)
    group = BalancedGroup(topics, shared)
    await _form(group, shared[0], members)
    own = [await _own_connection(server, is_native=is_native) for _ in range(members + options.rounds)]
    took = []
    living = [
        asyncio.create_task(member.live(connection, random.random() * member.interval_s))
        for member, connection in zip(group.members, own, strict=False)
    ]
    try:
        for connection in own[members:]:
            await asyncio.sleep(random.random() * group.members[0].interval_s)
            began = time.perf_counter()
            newest = group.make(1)
            await newest.beat(connection)
            living.append(asyncio.create_task(newest.live(connection, newest.interval_s)))
            await group.until_owned()
            took.append((time.perf_counter() - began) * 1e3)
    finally:
        for task in living:
            task.cancel()
        _close([*shared, *own])
    return median(took)


async def _own_connection(server: Peer, *, is_native: bool) -> Asking:
    if is_native:
        assert server.native_port is not None
        return await NativeAsking.open(server.native_port)
    return await KafkaAsking.open(server.port)
