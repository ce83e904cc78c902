"""Cleaning: compaction of the offsets logs of loaded shards, of compacted topics, and of the node's own lists; and its
counters."""

from collections.abc import Callable, Iterable, Iterator

from coordinator.clock import Moment
from coordinator.runtime.shard import Shard, ShardState
from coordinator.topics.embedded import EmbeddedTopics
from partition_log.compaction.cleaner import Cleaner, CleanerTotals
from partition_log.log.partition_log import PartitionLog

TASK = "compaction"
_COUNTED = ("passes", "records_read", "records_kept", "bytes_read", "bytes_written")


def clean(cleaner: Cleaner, logs: Callable[[], Iterator[PartitionLog]], moment: Moment) -> tuple[int, dict[str, int]]:
    """Clean one slice. Return the milliseconds to the next, and the growth of each counter."""
    before = _counts(cleaner.done)
    delay_ms = cleaner.run(logs, moment.wall_ms)
    grown = zip(_COUNTED, before, _counts(cleaner.done), strict=True)
    return delay_ms, {f"compaction_{name}": now - was for name, was, now in grown if now != was}


def _counts(done: CleanerTotals) -> list[int]:
    return [getattr(done, name) for name in _COUNTED]


def cleanable_logs(
    shards: Iterable[Shard], own_logs: Iterable[PartitionLog], topics: EmbeddedTopics
) -> Iterator[PartitionLog]:
    """Logs that are not being replayed: a replay would read a compacted part again. Partitions of topics are looked up
    one by one, since other requests would wait while thousands are."""
    for shard in shards:
        if shard.state is ShardState.ACTIVE and shard.log.files is not None:
            yield shard.log.files
    yield from own_logs
    for record in [topic.record for topic in topics if topic.configs.is_compacted]:
        for number in range(record.partitions):
            found = topics.log_and_configs(record.name, number)
            if found is not None:
                yield found[0]
