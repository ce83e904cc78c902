"""`__consumer_offsets` as clients see it: an internal, compacted topic that they may read, and commit offsets for, and
nothing else. Its logs are the shards'; it is in no list of topics, so nothing that happens to topics happens to it.

Kafka makes this topic when the first group comes: here it is there for whoever names it, and among all topics once
something stands in it.
"""

from collections.abc import Hashable, Iterable, Iterator, Sequence

from coordinator.keys import PartitionKey
from coordinator.placement import Placement
from coordinator.topics.records import TopicRecord
from coordinator.topics.registry import Topic
from coordinator.topics.rules import OFFSETS_TOPIC, TopicSettings
from partition_log.log import PartitionLog

_ID = b"muster.offsets.0"
"""Of a topic that is there from the start and stays: the same everywhere."""


def advanced(flushed: Iterable[PartitionLog]) -> Iterator[Hashable]:
    """Nudge keys of its partitions among the logs whose records have just become durable."""
    for log in flushed:
        name, _, partition = log.name.rpartition("-")
        if name == OFFSETS_TOPIC:
            yield PartitionKey(name, int(partition))


def offsets_topic(
    logs: Sequence[PartitionLog], settings: TopicSettings, placement: Placement, created_wall_ms: int
) -> Topic:
    """A partition for each shard."""
    configs = {"cleanup.policy": "compact"}
    if logs:
        configs["segment.bytes"] = str(logs[0].policy.segment_bytes)
    topic = Topic(TopicRecord(OFFSETS_TOPIC, _ID, len(logs), configs, created_wall_ms), settings, placement)
    topic.logs.update(enumerate(logs))
    return topic
