"""A million committed offsets, and how long until the daemon that holds them serves: `python -m bench.restart`."""

import sys
import time
from pathlib import Path
from typing import NamedTuple

from bench.processes import Daemon, scratch
from bench.report import Options, Sheet, Value, median
from bench.wire import Wire

OFFSETS = 1_000_000
QUICK_OFFSETS = 100_000
PARTITIONS = 1_000
TOPIC = "flights"
_TOGETHER = 20


class Started(NamedTuple):
    ready_line_s: float
    loaded_s: float
    cpu_s: float
    resident_mb: float


def measure(options: Options) -> list[Sheet]:
    offsets = QUICK_OFFSETS if options.quick else OFFSETS
    rows: list[tuple[Value, ...]] = []
    with scratch() as folder:
        daemon = Daemon(folder / "data")
        try:
            daemon.wait_until_loaded()
            daemon.create_topic(TOPIC, PARTITIONS)
            began = time.perf_counter()
            _commit(daemon, offsets // PARTITIONS)
            committed_s = time.perf_counter() - began
            for how in ("SIGTERM", "SIGTERM, snapshots removed", "SIGKILL, snapshots removed"):
                starts = []
                for _ in range(options.rounds):
                    daemon.stop() if "SIGTERM" in how else daemon.kill()
                    if "removed" in how:
                        for path in (folder / "data").glob("__consumer_offsets-*/*.groups"):
                            path.unlink()
                    daemon, started = _start(folder / "data")
                    starts.append(started)
                _verify(daemon, offsets // PARTITIONS)
                rows.append((f"after {how}", offsets, *(median(column) for column in zip(*starts, strict=True))))
        finally:
            daemon.kill()
    return [
        Sheet(
            "Restart with committed offsets",
            ("start", "offsets", "ready line s", "/readyz 200 s", "CPU s", "resident MB"),
            rows,
            (
                "Seconds from the start of the process, Python's own start included, until it serves and is loaded.",
                f"The offsets were committed in {committed_s:.1f} s, in requests of {PARTITIONS:,} partitions.",
            ),
        )
    ]


def _start(data_dir: Path) -> tuple[Daemon, Started]:
    began = time.perf_counter()
    daemon = Daemon(data_dir)
    ready = time.perf_counter() - began
    daemon.wait_until_loaded()
    loaded = time.perf_counter() - began
    return daemon, Started(ready, loaded, daemon.cpu_s(), daemon.resident_bytes() / 1e6)


def _commit(daemon: Daemon, groups: int) -> None:
    """Some requests at a time: the daemon stops reading from whoever does not read its answers."""
    with Wire(daemon.native) as wire:
        for first in range(0, groups, _TOGETHER):
            sent = [_send_commit(wire, group) for group in range(first, min(first + _TOGETHER, groups))]
            for number in sent:
                for topic in wire.answer(number)["topics"]:
                    assert not any(partition["error_code"] for partition in topic["partitions"])


def _send_commit(wire: Wire, group: int) -> int:
    entries = [
        {"partition_index": partition, "committed_offset": _offset(group, partition)} for partition in range(PARTITIONS)
    ]
    return wire.send("OffsetCommit", group_id=f"group-{group}", topics=[{"name": TOPIC, "partitions": entries}])


def _offset(group: int, partition: int) -> int:
    return group * PARTITIONS + partition


def _verify(daemon: Daemon, groups: int) -> None:
    """Every offset is what was committed."""
    with Wire(daemon.native) as wire:
        for group in range(groups):
            (found,) = wire.call("OffsetFetch", groups=[{"group_id": f"group-{group}"}])["groups"]
            kept = {part["partition_index"]: part["committed_offset"] for part in found["topics"][0]["partitions"]}
            assert kept == {partition: _offset(group, partition) for partition in range(PARTITIONS)}, f"group-{group}"


if __name__ == "__main__":
    from bench.__main__ import main

    main(["restart", *sys.argv[1:]])
