"""Records a second of our consumer and those of other libraries, reading the same topic of the same daemon, each in a
process of its own, one after the other.
"""

import json
import subprocess
import sys

from bench.processes import Daemon, scratch
from bench.readers import LIBRARIES, PARTITIONS
from bench.report import Options, Sheet, Value, median
from muster import Producer

_SIZES = (100, 1_000)
_PASS_S = 300
_GOAL = "Goal: muster within 2 times of confluent's consume, and ahead of the other two."


def measure(options: Options) -> list[Sheet]:
    """300,000 records of 100 bytes and 60,000 of 1,000, each read three times; memory over ten million with
    `--huge`."""
    rows: list[tuple[Value, ...]] = []
    notes = [_GOAL, "Keys and values are made objects of by all; the first time through is to warm up."]
    with scratch() as folder, Daemon(folder / "data", http=False) as daemon:
        for size in _SIZES:
            records = (30_000_000 if size == _SIZES[0] else 60_000_000) // size // (10 if options.quick else 1)
            topic = f"of-{size}"
            _fill(daemon, topic, records, size)
            rows += _all(daemon, topic, records, size, options.rounds)
        if options.huge:
            notes.append(_memory(daemon))
    columns = ("", "bytes", "records", "records a second", "a CPU second", "to confluent", "resident MB")
    return [Sheet("Polling: records an application gets", columns, rows, tuple(notes))]


def _all(daemon: Daemon, topic: str, records: int, size: int, rounds: int) -> list[tuple[Value, ...]]:
    found = {library: _read(daemon, library, topic, records, rounds) for library in LIBRARIES}
    best = median([seconds for seconds, _cpu, _resident in found["confluent consume"][1:]])
    rows: list[tuple[Value, ...]] = []
    for library, passes in found.items():
        seconds = median([seconds for seconds, _cpu, _resident in passes[1:]])
        cpu = median([cpu for _seconds, cpu, _resident in passes[1:]])
        rows.append((library, size, records, records / seconds, records / cpu, best / seconds, passes[-1][2]))
    return rows


def _memory(daemon: Daemon) -> str:
    records = 300_000
    passes = _read(daemon, "muster native", "of-100", records, 33)
    after = {number * records: resident for number, (_seconds, _cpu, resident) in enumerate(passes, 1)}
    first, last = next(iter(after)), max(after)
    return f"Memory of muster: {after[first]:.0f} MB after {first:,} records, {after[last]:.0f} MB after {last:,}."


def _read(daemon: Daemon, library: str, topic: str, records: int, rounds: int) -> list[tuple[float, float, float]]:
    address = daemon.addresses["native" if library == "muster native" else "kafka"]
    bootstrap = ":".join(map(str, address))
    command = [sys.executable, "-m", "bench.readers", library, bootstrap, topic, str(records), str(rounds)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_PASS_S, check=False)
    if done.returncode:
        raise RuntimeError(f"{library} ended with {done.returncode}: {done.stderr[-500:]}")
    return [(seconds, cpu, resident) for seconds, cpu, resident in json.loads(done.stdout)]


def _fill(daemon: Daemon, topic: str, records: int, size: int) -> None:
    daemon.create_topic(topic, PARTITIONS)
    host, port = daemon.native
    with Producer(f"{host}:{port}", batch_bytes=64 * 1024, linger_ms=50) as producer:
        for number in range(records):
            producer.send(topic, b"%0*d" % (size, number), key=b"%08d" % number, partition=number % PARTITIONS)
