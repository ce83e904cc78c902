"""Committed offsets of a shard, by group, topic and partition. Changed by `Shard.apply` alone.

Nested dictionaries, not one with tuple keys: half the memory for each offset. Pending (transactional) offsets and
expiry have their place here.
"""

from collections.abc import Iterator

import msgspec

from coordinator.records import CommittedOffset


class OffsetAndMetadata(msgspec.Struct, frozen=True, gc=False):
    """What is kept of a commit."""

    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp_ms: int
    expire_timestamp_ms: int


class OffsetTable:
    """Offsets of the groups of one shard."""

    __slots__ = ("_groups", "_names", "count")

    def __init__(self) -> None:
        self._groups: dict[str, dict[str, dict[int, OffsetAndMetadata]]] = {}
        self._names: dict[str, str] = {}
        self.count = 0

    def set(self, record: CommittedOffset) -> None:
        """The group will read from `record.offset` next."""
        topics = self._groups.get(record.group_id)
        if topics is None:
            topics = self._groups[record.group_id] = {}
        partitions = topics.get(record.topic)
        if partitions is None:
            # One string a topic name, however many groups read it.
            partitions = topics[self._names.setdefault(record.topic, record.topic)] = {}
        self.count += record.partition not in partitions
        partitions[record.partition] = OffsetAndMetadata(
            record.offset,
            record.leader_epoch,
            record.metadata,
            record.commit_timestamp_ms,
            record.expire_timestamp_ms,
        )

    def forget(self, group_id: str, topic: str, partition: int) -> None:
        """The group has no offset for the partition any more."""
        topics = self._groups.get(group_id, {})
        if topics.get(topic, {}).pop(partition, None) is None:
            return
        self.count -= 1
        if not topics[topic]:
            del topics[topic]
        if not topics:
            del self._groups[group_id]

    def get(self, group_id: str, topic: str, partition: int) -> OffsetAndMetadata | None:
        """What is committed, if anything is."""
        return self._groups.get(group_id, {}).get(topic, {}).get(partition)

    def topics(self, group_id: str) -> dict[str, dict[int, OffsetAndMetadata]]:
        """Everything committed by the group; not to be changed."""
        return self._groups.get(group_id, {})

    def partitions(self, group_id: str) -> Iterator[tuple[str, int]]:
        """The partitions the group has an offset for."""
        for topic, partitions in self.topics(group_id).items():
            for partition in partitions:
                yield topic, partition

    def count_of(self, group_id: str) -> int:
        """How many partitions those are."""
        return sum(map(len, self.topics(group_id).values()))

    def groups(self) -> list[str]:
        """Groups that have offsets, in the order of their first commit."""
        return list(self._groups)
