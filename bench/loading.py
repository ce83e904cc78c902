"""A million committed offsets in 50 shards, and how long until a node that has them serves, with the snapshots of a
clean stop and without: `python -m bench loading`. No process and no socket: what the daemon's own start adds is in
`bench.restart`."""

import gc
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from bench.processes import scratch
from bench.report import Options, Sheet, Value, median
from coordinator.clock import Moment
from coordinator.config.config import Config
from coordinator.io.ids import RandomIds
from coordinator.node.events import Woke
from coordinator.node.node import Node
from partition_log.disk.disk import OsDisk
from partition_log.store.log_store import LogStore, StoreLimits
from protocol.errors import ErrorCode
from protocol.messages.offsets import OffsetCommit, OffsetCommitPartition, OffsetCommitTopic

OFFSETS, QUICK_OFFSETS = 1_000_000, 100_000
GROUPS, TOPICS, SHARDS = 1_000, 10, 50
_NOW = Moment(0, 1_700_000_000_000)
_DISK = OsDisk()
_CONFIG = Config(offsets_topic_num_partitions=SHARDS)


class Loaded(NamedTuple):
    load_s: float
    longest_step_ms: float
    read_mb: float


def measure(options: Options) -> list[Sheet]:
    offsets = QUICK_OFFSETS if options.quick else OFFSETS
    rows: list[tuple[Value, ...]] = []
    for together, count in ((100, offsets), (10, offsets), (1, offsets // 10)):
        with scratch() as folder:
            _fill(folder, count, together)
            for source in (f"whole log, {together} offsets a commit", "snapshot"):
                loads = [_load(folder, count) for _ in range(options.rounds)]
                columns = [median(column) for column in zip(*loads, strict=True)]
                rows.append((source, count, *columns, columns[0] / count * OFFSETS))
                _load(folder, count, leaves_snapshot=True)
    return [
        Sheet(
            "Loading committed offsets",
            ("from", "offsets", "seconds", "longest step ms", "MB read", "s a million"),
            rows,
            (
                f"{GROUPS:,} groups in {SHARDS} shards; all steps together until every shard serves.",
                "The log holds each offset once, as after cleaning; the files are in the page cache.",
            ),
        )
    ]


def _fill(folder: Path, offsets: int, together: int) -> None:
    """Commits, by the way they all go, and a clean stop that leaves no snapshot."""
    store = _open(folder)
    node = Node(_CONFIG, store, RandomIds(), {}, _NOW)
    while not node.is_loaded:
        node.step(Woke(), _NOW)
    for number, message in enumerate(_commits(offsets, together)):
        shard = node.core.shard_of(message.group_id)
        group = shard.groups.get(message.group_id) or shard.new_group(message.group_id)
        reply = shard.store(group, message, _NOW)
        assert not isinstance(reply, ErrorCode), reply
        if number % 256 == 0:
            _work(store)
    assert store.close()


def _commits(offsets: int, together: int) -> Iterator[OffsetCommit]:
    """Each group's offsets lie on ten topics, and come a few at a time while others commit too."""
    partitions = offsets // GROUPS // TOPICS
    for first in range(0, partitions, together):
        for topic in range(TOPICS):
            for group in range(GROUPS):
                parts = tuple(
                    OffsetCommitPartition(partition, group * 1_000 + partition)
                    for partition in range(first, min(first + together, partitions))
                )
                yield OffsetCommit(f"group-{group}", (OffsetCommitTopic(f"flights-{topic}", parts),))


def _work(store: LogStore) -> None:
    flush = store.begin_flush()
    if flush is not None:
        flush.run(_DISK)
        store.finish_flush(flush.up_to)
    job = store.begin_checkpoint()
    if job is not None:
        job.run(_DISK)
        store.finish_checkpoint(job)


def _open(folder: Path) -> LogStore:
    store = LogStore(_DISK, str(folder / "data"), StoreLimits())
    store.open()
    return store


def _load(folder: Path, offsets: int, *, leaves_snapshot: bool = False) -> Loaded:
    store = _open(folder)
    gc.collect()
    gc.disable()  # as the daemon does
    began = time.perf_counter()
    node = Node(_CONFIG, store, RandomIds(), {}, _NOW)
    longest = 0.0
    while not node.is_loaded:
        step_began = time.perf_counter()
        node.step(Woke(), _NOW)
        longest = max(longest, time.perf_counter() - step_began)
    seconds = time.perf_counter() - began
    gc.enable()
    assert sum(shard.offsets.count for shard in node.core.shards) == offsets
    read = node.core.loads.progress().bytes_done
    assert store.close(node.snapshots() if leaves_snapshot else ())
    return Loaded(seconds, longest * 1_000, read / 1e6)


if __name__ == "__main__":
    from bench.__main__ import main

    main(["loading", *sys.argv[1:]])
