"""Heartbeats, commits and fetches of offsets at 1, 50 and 500 connections, unpipelined, next to two bare servers.

Fifty groups stand on each daemon, so that fifty shards may be busy. Commits are measured twice: on a daemon whose
folder is on disk, and on one whose folder is in memory. The second does all the same work, the hop to the thread that
syncs included, and its sync costs nothing: what lies between the two is the disk, and no switch is needed in the daemon
that somebody could forget to turn back.
"""

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from bench import frames
from bench.crowd import Crowd
from bench.load import Line, Measured, run_load
from bench.processes import Bare, Daemon, ServerProcess, scratch
from bench.report import Options, Sheet, Value, median

CONNECTIONS = (1, 50, 500)
GROUPS = 50
TOPIC = "flights"

MakeFrame = Callable[[int, int, "Seat"], frames.Frame]
Key = tuple[str, int, str]


class Seat(NamedTuple):
    """A connection and the member that is known on it."""

    line: Line
    group_id: str
    generation_id: int
    member_id: str


class Stand(NamedTuple):
    """A server with its connections."""

    name: str
    server: ServerProcess
    seats: list[Seat]
    is_bare: bool


class Test(NamedTuple):
    name: str
    frame: Callable[[Seat, int], frames.Frame]
    stands: tuple[str, ...]
    connections: tuple[int, ...]
    offsets: bool = False


def _heartbeat(seat: Seat, index: int) -> frames.Frame:
    return frames.heartbeat(seat.line.number, seat.group_id, seat.generation_id, seat.member_id)


def _commit(partitions: int) -> Callable[[Seat, int], frames.Frame]:
    def frame(seat: Seat, index: int) -> frames.Frame:
        first = index // GROUPS * partitions  # members of one group commit partitions of their own
        chosen = range(first, first + partitions)
        return frames.commit(seat.line.number, seat.group_id, seat.generation_id, seat.member_id, TOPIC, chosen)

    return frame


def _fetch(seat: Seat, index: int) -> frames.Frame:
    return frames.fetch(seat.line.number, seat.group_id, TOPIC, [index // GROUPS])


TESTS = (
    Test("Heartbeat", _heartbeat, ("bare count", "bare unpack", "musterd"), CONNECTIONS),
    Test("OffsetCommit, 1 partition", _commit(1), ("musterd", "musterd in memory"), CONNECTIONS, offsets=True),
    Test("OffsetCommit, 10 partitions", _commit(10), ("musterd", "musterd in memory"), CONNECTIONS, offsets=True),
    Test("OffsetFetch, 1 partition", _fetch, ("musterd",), (50,)),
)


def measure(options: Options) -> list[Sheet]:
    with ExitStack() as stack:
        disk = stack.enter_context(scratch())
        sync_ms = time_of_sync_ms(disk)
        stands = list(_open_stands(stack, disk))
        found: dict[Key, list[Measured]] = {}
        for _ in range(options.rounds):
            for key, measured in _round(stands, options):
                found.setdefault(key, []).append(measured)
    return [_sheet(found, sync_ms)]


def _open_stands(stack: ExitStack, disk: Path) -> Iterator[Stand]:
    memory = stack.enter_context(scratch(in_memory=True))
    for name, folder in (("musterd", disk), ("musterd in memory", memory)):
        daemon = stack.enter_context(Daemon(folder / "data", http=False))
        daemon.create_topic(TOPIC, CONNECTIONS[-1] // GROUPS * 10)
        crowd = Crowd(daemon.native)
        stack.callback(crowd.close)
        crowd.form({f"group-{number}": CONNECTIONS[-1] // GROUPS for number in range(GROUPS)})
        by_turn = sorted(crowd.members, key=lambda member: member.group.members.index(member))
        yield Stand(
            name,
            daemon,
            [Seat(member.line, member.group.group_id, member.generation_id, member.member_id) for member in by_turn],
            is_bare=False,
        )
    for kind in ("count", "unpack"):
        server = stack.enter_context(Bare(kind))
        lines = [Line(server.native, frames.FIRST_NUMBER + number) for number in range(CONNECTIONS[-1])]
        for line in lines:
            stack.callback(line.close)
        seats = [Seat(line, f"group-{n % GROUPS}", 3, "m" * 44) for n, line in enumerate(lines)]
        yield Stand(f"bare {kind}", server, seats, is_bare=True)


def _round(stands: Sequence[Stand], options: Options) -> Iterator[tuple[Key, Measured]]:
    """Servers in turn, test by test: what else the machine does meets them all."""
    by_name = {stand.name: stand for stand in stands}
    for test in TESTS:
        for connections in test.connections:
            for name in test.stands:
                stand = by_name[name]
                seats = stand.seats[:connections]
                for index, seat in enumerate(seats):
                    seat.line.use(test.frame(seat, index), checked=not stand.is_bare)
                lines = [seat.line for seat in seats]
                measured = run_load(stand.server, lines, options.seconds, offsets=test.offsets)
                yield (test.name, connections, name), measured


def _sheet(found: dict[Key, list[Measured]], sync_ms: float) -> Sheet:
    rows: list[tuple[Value, ...]] = []
    for (test, connections, server), rounds in found.items():
        cpu_us = median([measured.cpu_us for measured in rounds])
        a_second = median([measured.a_second for measured in rounds])
        rows.append(
            (
                test,
                connections,
                server,
                cpu_us,
                _ratio(cpu_us, found.get(("Heartbeat", connections, "bare count"))),
                _ratio(cpu_us, found.get(("Heartbeat", connections, "bare unpack"))),
                a_second,
                _speed(a_second, found.get((test, connections, "musterd in memory"))) if server == "musterd" else None,
                median([measured.latency_ms for measured in rounds]) if connections == 1 else None,
                median([measured.own_cpu_s / measured.requests * 1e6 for measured in rounds]),
            )
        )
    return Sheet(
        "Requests, one outstanding on each connection",
        (
            "request",
            "connections",
            "server",
            "CPU us a request",
            "/ bare count",
            "/ bare unpack",
            "requests a second",
            "/ in memory",
            "ms a request",
            "generator us",
        ),
        rows,
        (
            "CPU is the server's; both ratios are to a bare server's Heartbeat at as many connections.",
            "/ in memory: requests a second of durable commits, in those of the daemon whose syncs cost nothing.",
            f"An fdatasync of 200 bytes in that folder took {sync_ms:.2f} ms (median of 200).",
        ),
    )


def _ratio(value: float, others: list[Measured] | None) -> float | None:
    return value / median([other.cpu_us for other in others]) if others else None


def _speed(value: float, others: list[Measured] | None) -> float | None:
    return value / median([other.a_second for other in others]) if others else None


def time_of_sync_ms(folder: Path) -> float:
    """The median of 200 syncs of a file that has its size already, as the write-ahead log has."""
    path = folder / "sync-probe"
    path.write_bytes(bytes(1 << 20))
    file = os.open(path, os.O_WRONLY)
    try:
        os.fsync(file)
        took = []
        for number in range(200):
            os.pwrite(file, b"x" * 200, number * 200)
            began = time.perf_counter()
            os.fdatasync(file)
            took.append(time.perf_counter() - began)
    finally:
        os.close(file)
        path.unlink()
    return median(took) * 1e3
