"""`__consumer_offsets` as clients see it: an internal, compacted topic which they may only read, and commit offsets
for.

Its logs are the shards'. It is in no list of topics, so changes of topics do not apply to it. Kafka creates this topic
with the first group. Here a request that names it always finds it, and lists contain it once it has records.
"""

from collections.abc import Hashable, Iterable, Iterator, Sequence

from coordinator.keys import NewRecordsKey
from coordinator.placement import Placement
from coordinator.topics.records import TopicRecord
from coordinator.topics.registry import Topic
from coordinator.topics.rules import OFFSETS_TOPIC, TopicSettings
from partition_log.log.partition_log import PartitionLog

_ID = b"muster.offsets.0"
"""Topic id. The topic is never created or deleted, so its id is the same everywhere."""


def advanced(flushed: Iterable[PartitionLog]) -> Iterator[Hashable]:
    """Notification keys of its partitions among the logs whose records have just become durable."""
    for log in flushed:
        name, _, partition = log.name.rpartition("-")
        if name == OFFSETS_TOPIC:
            yield NewRecordsKey(name, int(partition))


def offsets_topic(
    logs: Sequence[PartitionLog], settings: TopicSettings, placement: Placement, created_wall_ms: int
) -> Topic:
    """Build the topic, with a partition for each shard."""
    configs = {"cleanup.policy": "compact"}
    if logs:
        configs["segment.bytes"] = str(logs[0].policy.segment_bytes)
    topic = Topic(TopicRecord(OFFSETS_TOPIC, _ID, len(logs), configs, created_wall_ms), settings, placement)
    topic.logs.update(enumerate(logs))
    return topic
