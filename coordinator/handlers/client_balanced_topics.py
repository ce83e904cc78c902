"""Topics as client-balanced groups see them: configured partitions, their states, first and end offsets."""

from collections.abc import Iterable

from coordinator.core.core import Core
from coordinator.groups.client_balanced.events import OffsetsByKey, PartitionOffsets
from coordinator.runtime.shard import Shard
from protocol.messages.balanced import PartitionState
from protocol.partition_key import PartitionKey, parse_key

DAMAGED = "its log is damaged"
FORBIDDEN = "the group may not read this topic (group.forbidden.topics)"


def as_of(core: Core) -> int:
    """Return a number that grows with every change of topics that members must hear of."""
    return core.topics.position + len(core.store.damaged) + core.group_configs.changes


def shape_of(core: Core, group_id: str, topics: Iterable[str]) -> tuple[int, ...]:
    """Return the facts that the topics' partitions depend on: their numbers, forbidden topics, and the number of
    damaged logs."""
    forbidden = core.group_configs.forbidden(group_id).topics
    there, count = core.topics.id_of, core.topics.partition_count
    counts = [count(topic) or 0 if there(topic) is not None else -1 for topic in sorted(set(topics))]
    return (*counts, *(int(topic in forbidden) for topic in sorted(set(topics))), len(core.store.damaged))


def partition_states(core: Core, group_id: str, topics: Iterable[str]) -> tuple[PartitionState, ...]:
    """Every partition of the topics, in the order of keys. A topic that is gone has none; one that is forbidden has
    all, so that shares stay as they are (docs/spec/client-balanced-groups.md#9)."""
    forbidden = core.group_configs.forbidden(group_id).topics
    broker_id, damaged = core.placement.node_id, core.store.damaged
    states = []
    for topic in sorted(set(topics)):
        is_there = core.topics.id_of(topic) is not None
        for partition in range(core.topics.partition_count(topic) or 0 if is_there else 0):
            reason = DAMAGED if f"{topic}-{partition}" in damaged else None
            reason = FORBIDDEN if topic in forbidden else reason
            states.append(PartitionState(str(PartitionKey(broker_id, topic, partition)), reason is None, reason))
    return tuple(states)


def places(core: Core, shard: Shard, group_id: str, keys: Iterable[str]) -> OffsetsByKey:
    """Return the places of the partitions that exist here. Readers see durable records: a partition ends at its high
    watermark."""
    found: OffsetsByKey = {}
    for text in keys:
        key = parse_key(text)
        if key is not None and key.broker_id == core.placement.node_id:
            place = place_of(core, shard, group_id, key.topic, key.partition)
            if place is not None:
                found[text] = place
    return found


def place_of(core: Core, shard: Shard, group_id: str, topic: str, partition: int) -> PartitionOffsets | None:
    """Return the partition as the group sees it; None if it does not exist."""
    known = core.embedded.log_and_configs(topic, partition)
    if known is None:
        return None
    log, _configs = known
    committed = shard.offsets.get(group_id, topic, partition)
    return PartitionOffsets(
        log.start_offset,
        log.flushed_offset,
        -1 if committed is None else committed.offset,
        topic in core.group_configs.forbidden(group_id).topics,
    )
