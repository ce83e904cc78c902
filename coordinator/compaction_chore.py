"""Which logs compaction may look at, and how it is counted: the offsets logs of shards that have been loaded, compacted
topics, and the node's own lists."""

from coordinator.core import Core
from coordinator.moment import Moment
from coordinator.shard import ShardState
from coordinator.topics import EmbeddedTopics
from partition_log.cleaner import Cleaned
from partition_log.log import PartitionLog

CHORE = "compaction"
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


def cleanable_logs(core: Core) -> list[PartitionLog]:
    """Those that nobody is replaying: what has been read of one that is changed meanwhile would be read again."""
    shards = [shard.log for shard in core.shards if shard.state is ShardState.ACTIVE]
    return [*shards, *core.own_logs, *_compacted_topics(core.topics)]


def _compacted_topics(topics: EmbeddedTopics) -> list[PartitionLog]:
    compacted = [topic.record for topic in topics if topic.configs.is_compacted]
    found = [topics.log_and_configs(one.name, number) for one in compacted for number in range(one.partitions)]
    return [known[0] for known in found if known is not None]
