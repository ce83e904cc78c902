"""Effect of cleaning on concurrent commits, and the size of the log after it.

Commits of one partition go to a musterd with small segments, with so many keys that all fifty shards have some: once
with cleaning put off, once with cleaning. Every reply is checked and timed.
"""

import select
import tempfile
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import NamedTuple

import msgpack

from bench.frames import Frame, UnexpectedReply, check, commit
from bench.load import Line
from bench.processes import QUICK_GROUPS, Daemon
from bench.report import Options, Sheet, Value
from partition_log.disk.disk import OsDisk
from partition_log.store.log_store import LogStore, StoreLimits
from protocol.record_batch import record_bytes
from protocol.record_keys import keyed_records

_CONNECTIONS, _PARTITIONS = 50, 50
_TOPIC = "commits"
_BACKOFF = "log.cleaner.backoff.ms"
_RECORD_BYTES = 9
"""Bytes of a record besides its key and value: lengths, deltas, attributes."""


class Cleaned(NamedTuple):
    """Result of a run; `live_bytes`: size of the last records of all keys, without batches."""

    commits: int
    seconds: float
    cpu_us: float
    p50_ms: float
    p99_ms: float
    worst_ms: float
    written_bytes: int
    log_bytes: int
    active_bytes: int
    live_bytes: int
    passes: int


def measure(options: Options) -> list[Sheet]:
    """A million commits over 100,000 keys; ten million with `--huge`."""
    commits, keys = (60_000, 5_000) if options.quick else (10_000_000 if options.huge else 1_000_000, 100_000)
    frames = _frames(keys)
    segment_bytes = 16_384 if options.quick else 262_144
    without = _run(frames, min(commits, 300_000), segment_bytes, cleans=False)
    cleaned = _run(frames, commits, segment_bytes, cleans=True)
    rows: list[tuple[Value, ...]] = [("put off", *_row(without)), ("cleaning", *_row(cleaned))]
    closed = (cleaned.log_bytes - cleaned.active_bytes) / max(cleaned.live_bytes, 1)
    notes = (
        f"Closed segments after cleaning: {closed:.2f} times the live data; goal: at most 2.",
        f"Live are {keys:,} keys, {cleaned.live_bytes:,} bytes without the batches around them.",
        f"p99 while cleaning: {cleaned.p99_ms / without.p99_ms:.2f} times that without; goal: at most 3.",
        f"{cleaned.passes} passes, segments of {segment_bytes:,} bytes, {_CONNECTIONS} connections, one commit each.",
    )
    times, sizes = ("p50 ms", "p99 ms", "worst ms"), ("written MiB", "log MiB", "active MiB")
    columns = ("", "commits", "a second", "CPU µs", *times, *sizes)
    return [Sheet("Commits while the offsets logs are cleaned", columns, rows, notes)]


def _row(run: Cleaned) -> tuple[float | int, ...]:
    sizes = [size / 2**20 for size in (run.written_bytes, run.log_bytes, run.active_bytes)]
    return run.commits, run.commits / run.seconds, run.cpu_us, run.p50_ms, run.p99_ms, run.worst_ms, *sizes


def _frames(keys: int) -> list[list[Frame]]:
    """For each connection, its requests: a group's keys stand together."""
    groups = -(-keys // _PARTITIONS)
    made: list[list[Frame]] = [[] for _ in range(_CONNECTIONS)]
    for group in range(groups):
        number = group % _CONNECTIONS
        made[number] += [commit(number, f"group-{group}", -1, "", _TOPIC, [part]) for part in range(_PARTITIONS)]
    return made


def _run(frames: list[list[Frame]], commits: int, segment_bytes: int, *, cleans: bool) -> Cleaned:
    backoff = {_BACKOFF: "1000" if cleans else "2147483647"}
    settings = {**QUICK_GROUPS, **backoff, "offsets.topic.segment.bytes": str(segment_bytes)}
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "data"
        with Daemon(data, settings) as daemon:
            daemon.create_topic(_TOPIC, _PARTITIONS)
            cpu, began = daemon.cpu_s(), time.perf_counter()
            took_us = _commit(daemon, frames, commits)
            seconds, cpu = time.perf_counter() - began, daemon.cpu_s() - cpu
            written = _written(daemon)
            passes = _wait_until_clean(daemon) if cleans else 0
            assert daemon.stop() == 0
        log_bytes, active, live = _sizes(data)
    p50, p99, worst = _percentiles(took_us)
    return Cleaned(commits, seconds, cpu / commits * 1e6, p50, p99, worst, written, log_bytes, active, live, passes)


def _commit(daemon: Daemon, frames: list[list[Frame]], commits: int) -> Counter[int]:
    """Return the number of commits by their time in hundredths of a millisecond."""
    random, clock, poll = Random(1), time.perf_counter, select.epoll()
    lines = [Line(daemon.native, number) for number in range(_CONNECTIONS)]
    orders = [_order(own, random) for own in frames]
    sent_at, expected = [0.0] * _CONNECTIONS, [dict[int, bytes]() for _ in lines]
    places, took = [0] * _CONNECTIONS, Counter[int]()
    by_fileno = {line.fileno: line for line in lines}
    sent = 0
    for line in lines:
        poll.register(line.fileno, select.EPOLLIN)
    waiting = set(range(_CONNECTIONS))
    for number in sorted(waiting):
        places[number] = next(orders[number])
        _send(lines[number], frames[number][places[number]], sent)
        sent_at[number] = clock()
        sent += 1
    while waiting:
        for fileno, _ in poll.poll(30):
            line = by_fileno[fileno]
            number = line.number
            reply = line.socket.recv(65536)
            now = clock()
            took[int((now - sent_at[number]) * 100_000)] += 1
            partition = places[number] % _PARTITIONS
            if reply != expected[number].get(partition):
                expected[number][partition] = _checked(reply, number)
            if sent >= commits:
                waiting.discard(number)
                continue
            places[number] = next(orders[number])
            _send(line, frames[number][places[number]], sent)
            sent_at[number] = now
            sent += 1
    poll.close()
    for line in lines:
        line.close()
    return took


def _order(own: list[Frame], random: Random) -> Iterator[int]:
    """Every key as often, in an order without a pattern."""
    places = list(range(len(own)))
    while True:
        random.shuffle(places)
        yield from places


def _send(line: Line, frame: Frame, offset: int) -> None:
    frame.set_offset(offset)
    line.socket.send(frame.data)


def _checked(reply: bytes, number: int) -> bytes:
    unpacker = msgpack.Unpacker()
    unpacker.feed(reply)
    replies = list(unpacker)
    if len(replies) != 1:
        raise UnexpectedReply(f"{len(replies)} replies to one request")
    check(replies[0], number)
    return reply


def _percentiles(took: Counter[int]) -> tuple[float, float, float]:
    """The median, the 99th and the longest, in milliseconds."""
    total, seen, found = sum(took.values()), 0, []
    wanted = [0.5, 0.99]
    for hundredths in sorted(took):
        seen += took[hundredths]
        while wanted and seen >= wanted[0] * total:
            wanted.pop(0)
            found.append((hundredths + 1) / 100)
    return found[0], found[1], (max(took) + 1) / 100


def _metrics(daemon: Daemon) -> dict[str, float]:
    host, port = daemon.addresses["http"]
    with urllib.request.urlopen(f"http://{host}:{port}/metrics", timeout=30) as answer:
        lines = [line.rsplit(" ", 1) for line in answer.read().decode().splitlines() if not line.startswith("#")]
    return {name: float(value) for name, value in lines if "{" not in name}


def _written(daemon: Daemon) -> int:
    return int(_metrics(daemon).get("muster_wal_position_bytes", 0))


def _wait_until_clean(daemon: Daemon) -> int:
    """No pass has ended for some seconds: how many there were."""
    passes, quiet_since = -1, time.monotonic()
    while time.monotonic() - quiet_since < 5:
        now = int(_metrics(daemon).get("muster_compaction_passes_total", 0))
        if now != passes:
            passes, quiet_since = now, time.monotonic()
        time.sleep(0.25)
    return passes


def _sizes(data: Path) -> tuple[int, int, int]:
    """Return the bytes of all offsets logs, of their last segments, and of the last records of all keys."""
    store = LogStore(OsDisk(), str(data), StoreLimits())
    store.open()
    size = active = live = 0
    try:
        for name in store.names():
            if not name.startswith("__consumer_offsets-"):
                continue
            log = store.log(name)
            size += log.size_bytes
            active += log.segments[-1].size
            last: dict[bytes, int] = {}
            for header, batch in log.batches_from(log.start_offset):
                for record in keyed_records(record_bytes(header, batch), header):
                    assert record.key is not None
                    last[record.key] = len(record.rest) + _RECORD_BYTES if record.has_value else 0
            live += sum(last.values())
    finally:
        store.close()
    return size, active, live
