"""Which logs compaction may look at, and how it is counted: the offsets logs of shards that have been loaded, compacted
topics, and the node's own lists."""

from collections.abc import Iterator

from coordinator.clock import Moment
from coordinator.handlers.core import Core
from coordinator.runtime.shard import ShardState
from partition_log.cleaner import Cleaned
from partition_log.log import PartitionLog

TASK = "compaction"
_COUNTED = ("passes", "records_read", "records_kept", "bytes_read", "bytes_written")


def clean(core: Core, moment: Moment) -> int:
    """One slice. In how many milliseconds the next is due."""
    before = _counts(core.cleaner.done)
    delay_ms = core.cleaner.run(lambda: cleanable_logs(core), moment.wall_ms)
    for name, was, now in zip(_COUNTED, before, _counts(core.cleaner.done), strict=True):
        if now != was:
            core.count(f"compaction_{name}", now - was)
    return delay_ms


def _counts(done: Cleaned) -> list[int]:
    return [getattr(done, name) for name in _COUNTED]


def cleanable_logs(core: Core) -> Iterator[PartitionLog]:
    """Those that nobody is replaying: what has been read of one that is changed meanwhile would be read again.
    Partitions of topics are found one by one: to look up thousands takes longer than others can wait.
    """
    for shard in core.shards:
        if shard.state is ShardState.ACTIVE:
            yield shard.log
    yield from core.own_logs
    for record in [topic.record for topic in core.topics if topic.configs.is_compacted]:
        for number in range(record.partitions):
            found = core.topics.log_and_configs(record.name, number)
            if found is not None:
                yield found[0]
