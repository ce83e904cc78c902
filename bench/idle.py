"""Members that do nothing but live: processor, memory, next to a bare server that answers the same heartbeats."""

import select
import time
from collections.abc import Sequence

from bench import frames
from bench.crowd import Crowd
from bench.frames import UnexpectedReply
from bench.load import Line
from bench.processes import Bare, Daemon, ServerProcess, scratch
from bench.report import Options, Sheet, Value, median

MEMBERS = 5_000
INTERVAL_S = 3.0
MEMBERS_A_GROUP = 10


def measure(options: Options) -> list[Sheet]:
    members = 1_000 if options.quick else MEMBERS
    intervals = 1 if options.quick else options.rounds
    rows: list[tuple[Value, ...]] = []
    with scratch() as folder, Daemon(folder / "data", http=False) as daemon:
        before = daemon.resident_bytes()
        crowd = Crowd(daemon.native, session_timeout_ms=10_000 if options.quick else 30_000)
        try:
            crowd.form({f"group-{number}": MEMBERS_A_GROUP for number in range(members // MEMBERS_A_GROUP)})
            for member in crowd.members:
                frame = frames.heartbeat(
                    member.line.number, member.group.group_id, member.generation_id, member.member_id
                )
                member.line.use(frame)
            ours = _live(daemon, [member.line for member in crowd.members], intervals)
            rows.append(_row("musterd", members, ours, daemon.resident_bytes() - before, ours))
        finally:
            crowd.close()
    for kind in ("count", "unpack"):
        with Bare(kind) as bare:
            before = bare.resident_bytes()
            lines = [Line(bare.native, frames.FIRST_NUMBER + number) for number in range(members)]
            for number, line in enumerate(lines):
                line.use(frames.heartbeat(line.number, f"group-{number // 10}", 3, "m" * 44), checked=False)
            shares = _live(bare, lines, intervals)
            rows.append(_row(f"bare {kind}", members, shares, bare.resident_bytes() - before, ours))
            for line in lines:
                line.close()
    return [
        Sheet(
            f"Idle members, a heartbeat each {INTERVAL_S:.0f} s, evenly spread, groups of {MEMBERS_A_GROUP}",
            ("server", "members", "CPU %", "CPU us a heartbeat", "musterd / this", "bytes a member"),
            rows,
            (
                "Bytes a member: what resident memory grew by from the start to the end, by members,",
                "the connection, what forming the groups left behind and the loop's own share included.",
            ),
        )
    ]


def _row(name: str, members: int, shares: list[float], grown: int, ours: list[float]) -> tuple[Value, ...]:
    share = median(shares)
    return (
        name,
        members,
        share * 100,
        share * INTERVAL_S / members * 1e6,
        median(ours) / share,
        grown / members,
    )


def _live(server: ServerProcess, lines: Sequence[Line], intervals: int) -> list[float]:
    """The server's share of a core, interval by interval."""
    poll = select.epoll()
    by_fileno = {line.fileno: line for line in lines}
    for line in lines:
        line.socket.setblocking(False)
        poll.register(line.fileno, select.EPOLLIN)
    shares, began = [], time.perf_counter()
    for interval in range(intervals):
        cpu, at = server.cpu_s(), time.perf_counter()
        _beat_once(poll, by_fileno, lines, began + interval * INTERVAL_S)
        shares.append((server.cpu_s() - cpu) / (time.perf_counter() - at))
    poll.close()
    return shares


def _beat_once(poll: select.epoll, by_fileno: dict[int, Line], lines: Sequence[Line], began: float) -> None:
    apart, answered, sent = INTERVAL_S / len(lines), 0, 0
    while answered < len(lines) or time.perf_counter() < began + INTERVAL_S:
        due = min(int((time.perf_counter() - began) / apart) + 1, len(lines))
        for line in lines[sent:due]:
            line.socket.send(line.frame.data)
        sent = max(sent, due)
        for fileno, _ in poll.poll(0.001):
            line = by_fileno[fileno]
            if line.socket.recv(65536) != line.expected:
                raise UnexpectedReply("an idle member's heartbeat was answered otherwise than before")
            answered += 1
