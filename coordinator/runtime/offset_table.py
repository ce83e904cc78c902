"""Offsets of a shard by group, topic and partition: committed ones, and those pending in a transaction. Changed by
`Shard` alone, where records are applied.

Nested dictionaries, not one with tuple keys: half the memory for each offset. Expiry keeps its position here.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from msgspec.structs import replace

from coordinator.records.records import CommittedOffset
from coordinator.runtime.offset_and_metadata import Committer, OffsetAndMetadata
from protocol.messages.groups import OffsetChange

MOST_BACK: Final = 2_000
"""Largest number of backward commits remembered until a handler appends a note of them."""

TopicPartitionKey = tuple[str, int]
"""Topic and partition."""
PendingPartition = tuple[str, str, int, list[tuple[int, OffsetAndMetadata | None]]]
"""Group, topic, partition, and the pending offsets by producer, the newest last."""
Forward = list[tuple[dict[int, OffsetAndMetadata], dict[int, OffsetAndMetadata]]]
"""Present offsets of each topic by partition, and their replacements."""
PendingProducer = tuple[int, list[tuple[str, str, int]]]
"""A producer, and the groups and partitions of its pending offsets."""


class TopicCommit:
    """Parts that a member's commits to a topic have in common. `asked_id`: the topic id in the requests, `NO_TOPIC_ID`
    if they name the topic. `recorded_id`: the id object that the table shares. `highest`: the highest partition."""

    __slots__ = ("asked_id", "highest", "leader_epochs", "name", "partitions", "recorded_id")

    def __init__(
        self,
        name: str,
        asked_id: bytes,
        recorded_id: bytes | None,
        partitions: tuple[int, ...],
        leader_epochs: tuple[int, ...],
    ) -> None:
        self.name = name
        self.asked_id = asked_id
        self.recorded_id = recorded_id
        self.partitions = partitions
        self.leader_epochs = leader_epochs
        self.highest = max(partitions)


class PendingOffsets:
    """Offsets that transactions have committed and their markers have not decided (docs/spec/group-protocol.md#4.3).

    A pending offset becomes valid with its commit marker, unless a newer one was committed meanwhile; the log's order
    decides which is newer. Entries of a partition are in the order of the log, so no positions are kept. An entry that
    a newer offset has overtaken is None. It is still pending: readers of stable offsets wait for its marker too.
    """

    __slots__ = ("_producers", "by_group")

    def __init__(self) -> None:
        self.by_group: dict[str, dict[TopicPartitionKey, dict[int, OffsetAndMetadata | None]]] = {}
        """Pending offsets by group and partition, then by producer; changed here alone."""
        self._producers: dict[int, dict[tuple[str, TopicPartitionKey], None]] = {}

    def __bool__(self) -> bool:
        return bool(self.by_group)

    def of(self, group_id: str) -> Mapping[TopicPartitionKey, Mapping[int, OffsetAndMetadata | None]]:
        """Pending offsets of the group by partition, then by producer; not to be changed."""
        return self.by_group.get(group_id, {})

    def add(self, producer_id: int, group_id: str, key: TopicPartitionKey, offset: OffsetAndMetadata) -> None:
        """Set the producer's pending offset of the partition."""
        producers = self.by_group.setdefault(group_id, {}).setdefault(key, {})
        producers.pop(producer_id, None)  # the newest comes last
        producers[producer_id] = offset
        self._producers.setdefault(producer_id, {})[group_id, key] = None

    def overtake(self, group_id: str, key: TopicPartitionKey, before: int | None = None) -> None:
        """Mark the pending offsets of the partition as overtaken by a newer commit; with `before`, those older than
        that producer's."""
        producers = self.by_group.get(group_id, {}).get(key, {})
        for producer_id in producers:
            if producer_id == before:
                return
            producers[producer_id] = None

    def partitions_of(self, producer_id: int) -> list[tuple[str, TopicPartitionKey]]:
        """Groups and partitions for which the producer has a pending offset."""
        return list(self._producers.get(producer_id, ()))

    def take(self, producer_id: int, group_id: str, key: TopicPartitionKey) -> OffsetAndMetadata | None:
        """Remove the producer's pending offset of the partition and return it; None if it was overtaken."""
        taken = self.by_group[group_id][key].pop(producer_id)
        self._clear(producer_id, group_id, key)
        return taken

    def remove(self, group_id: str, key: TopicPartitionKey) -> None:
        """Remove all pending offsets of the partition."""
        for producer_id in list(self.of(group_id).get(key, ())):
            self.take(producer_id, group_id, key)

    def dump(self) -> tuple[list[PendingPartition], list[PendingProducer]]:
        """Export what the log contains, in its orders; `restore_partition` and `restore_producer` import it."""
        keys = [
            (
                group_id,
                topic,
                partition,
                [(one, None if kept is None else kept.recorded()) for one, kept in producers.items()],
            )
            for group_id, group in self.by_group.items()
            for (topic, partition), producers in group.items()
        ]
        producers = [
            (producer_id, [(group_id, topic, partition) for group_id, (topic, partition) in own])
            for producer_id, own in self._producers.items()
        ]
        return keys, producers

    def restore_partition(self, dumped: PendingPartition) -> None:
        group_id, topic, partition, producers = dumped
        self.by_group.setdefault(group_id, {})[topic, partition] = dict(producers)

    def restore_producer(self, dumped: PendingProducer) -> None:
        producer_id, own = dumped
        keys = self._producers.setdefault(producer_id, {})
        keys.update(dict.fromkeys([(group_id, (topic, partition)) for group_id, topic, partition in own]))

    def _clear(self, producer_id: int, group_id: str, key: TopicPartitionKey) -> None:
        own, group = self._producers[producer_id], self.by_group[group_id]
        del own[group_id, key]
        if not own:
            del self._producers[producer_id]
        if not group[key]:
            del group[key]
        if not group:
            del self.by_group[group_id]


class OffsetTable:
    """Offsets of the groups of one shard."""

    __slots__ = ("_groups", "_ids", "_names", "count", "pending", "topic_names", "went_back")

    def __init__(self) -> None:
        self._groups: dict[str, dict[str, dict[int, OffsetAndMetadata]]] = {}
        self._names: dict[str, str] = {}
        self._ids: dict[bytes, bytes] = {}
        self.topic_names: dict[bytes, str] = {}
        """Names by id of all topics for which an offset was set with the topic's id."""
        self.count = 0
        self.pending = PendingOffsets()
        self.went_back: list[tuple[str, OffsetChange]] = []
        """Commits below the previous offset, by group, until a handler appends a note of them; only the first ones."""

    def set(self, records: Sequence[CommittedOffset], committer: Committer | None = None) -> None:
        """Set each `record.offset` as the group's committed offset. `committer`: None if that is not known, as at a
        load."""
        group_id = topic = None
        partitions: dict[int, OffsetAndMetadata] = {}
        for record in records:
            # Records of one commit share their texts.
            if record.topic is not topic or record.group_id is not group_id:
                group_id, topic = record.group_id, record.topic
                partitions = self._partitions(group_id, topic)
            partition, topic_id = record.partition, record.topic_id
            before = partitions.get(partition)
            if before is None:
                self.count += 1
            elif committer is not None and record.offset < before.offset and len(self.went_back) < MOST_BACK:
                change = OffsetChange(record.topic, partition, before.offset, record.offset)
                self.went_back.append((record.group_id, change))
            partitions[partition] = OffsetAndMetadata(
                record.offset,
                record.leader_epoch,
                record.metadata,
                record.commit_timestamp_ms,
                record.expire_timestamp_ms,
                None if topic_id is None else self.share_id(topic_id, record.topic),
                -1 if committer is None or before is None else before.offset,
                committer,
                -1
                if committer is None or before is None or before.offset != record.offset
                else before.first_committed_ms(),
            )
        if self.pending:
            for record in records:
                self.pending.overtake(record.group_id, (record.topic, record.partition))

    def forward(
        self,
        group_id: str,
        topics: Sequence[TopicCommit],
        offsets: Sequence[Any],
        wall_ms: Any,
        committer: Committer,
    ) -> Forward | None:
        """Return the offsets that `set` would store if all these partitions have one, none above the new one, and
        nothing is pending in a transaction; else None. Numbers are typed `Any`, so that compiled code passes the
        objects themselves, while it would create new ones for an `int`."""
        known = self._groups.get(group_id)
        if known is None or self.pending.by_group:
            return None
        found: Forward = []
        new_offsets = iter(offsets)
        for topic in topics:
            partitions, topic_id = known.get(topic.name), topic.recorded_id
            if partitions is None:
                return None
            new: dict[int, OffsetAndMetadata] = {}
            for index, epoch, offset in zip(topic.partitions, topic.leader_epochs, new_offsets, strict=False):
                before: Any = partitions.get(index)
                if before is None:
                    return None
                previous: Any = before.offset
                if previous > offset:
                    return None
                since_ms: Any = before.first_committed_ms() if previous == offset else -1
                new[index] = OffsetAndMetadata(offset, epoch, "", wall_ms, -1, topic_id, previous, committer, since_ms)
            found.append((partitions, new))
        return found

    def going_back(self, records: Iterable[CommittedOffset]) -> frozenset[TopicPartitionKey]:
        """Return the partitions in which the records are below the committed offset."""
        found: list[TopicPartitionKey] = []
        for record in records:
            before = self.get(record.group_id, record.topic, record.partition)
            if before is not None and record.offset < before.offset:
                found.append((record.topic, record.partition))
        return frozenset(found)

    def origin_of(self, group_id: str, topic: str, partition: int) -> tuple[int, Committer, int] | None:
        """Return the previous offset, the sender of the partition's commit, and `repeated_since_ms`; None if they are
        not known."""
        kept = self.get(group_id, topic, partition)
        if kept is None or kept.committer is None:
            return None
        return kept.previous_offset, kept.committer, kept.repeated_since_ms

    def note_reset(self, group_id: str, change: OffsetChange, committer: Committer) -> None:
        """Set the sender of the partition's present offset, and the previous offset."""
        partitions, index = self._groups[group_id][change.topic], change.partition_index
        partitions[index] = replace(
            partitions[index], previous_offset=change.previous_offset, committer=committer, repeated_since_ms=-1
        )

    def share_id(self, topic_id: bytes, topic: str) -> bytes:
        """Return the shared object for this id, so that many offsets hold only one."""
        if topic_id not in self.topic_names:
            self.topic_names[topic_id] = self._names.setdefault(topic, topic)
        return self._ids.setdefault(topic_id, topic_id)

    def forget_id(self, topic_id: bytes) -> None:
        """Forget the id of a topic that has no offsets any more."""
        self.topic_names.pop(topic_id, None)
        self._ids.pop(topic_id, None)

    def _partitions(self, group_id: str, topic: str) -> dict[int, OffsetAndMetadata]:
        topics = self._groups.get(group_id)
        if topics is None:
            topics = self._groups[group_id] = {}
        partitions = topics.get(topic)
        if partitions is None:
            # One string object per topic name, however many groups read the topic.
            partitions = topics[self._names.setdefault(topic, topic)] = {}
        return partitions

    def partitions_to_load(self, group_id: str, topic: str) -> dict[int, OffsetAndMetadata]:
        """Return the dictionary for commits of the group to the topic, when nothing is pending. The caller counts the
        offsets it puts there, and puts at least one."""
        return self._partitions(group_id, topic)

    def set_pending(
        self, producer_id: int, records: Sequence[CommittedOffset], committer: Committer | None = None
    ) -> None:
        """Set pending offsets, which become valid if the producer's transaction is committed. `committer`: as of
        `set`."""
        for record in records:
            key = (self._names.setdefault(record.topic, record.topic), record.partition)
            kept = OffsetAndMetadata(
                record.offset,
                record.leader_epoch,
                record.metadata,
                record.commit_timestamp_ms,
                record.expire_timestamp_ms,
                None if record.topic_id is None else self.share_id(record.topic_id, record.topic),
                committer=committer,
            )
            self.pending.add(producer_id, record.group_id, key, kept)

    def end_transaction(self, producer_id: int, *, is_committed: bool) -> list[str]:
        """End the producer's transaction: its pending offsets become valid or are dropped. Return their groups; an
        unknown producer has none."""
        keys = self.pending.partitions_of(producer_id)
        for group_id, key in keys:
            if is_committed:
                self._commit_pending(producer_id, group_id, key)
            else:
                self.pending.take(producer_id, group_id, key)
        return list(dict.fromkeys(group_id for group_id, _key in keys))

    def _commit_pending(self, producer_id: int, group_id: str, key: TopicPartitionKey) -> None:
        self.pending.overtake(group_id, key, before=producer_id)
        kept = self.pending.take(producer_id, group_id, key)
        if kept is not None:
            topic, partition = key
            partitions = self._partitions(group_id, topic)
            before = partitions.get(partition)
            if before is None:
                self.count += 1
            elif kept.committer is not None:
                since_ms = before.first_committed_ms() if before.offset == kept.offset else -1
                kept = replace(kept, previous_offset=before.offset, repeated_since_ms=since_ms)
            partitions[partition] = kept

    def remove(self, group_id: str, topic: str, partition: int) -> None:
        """Remove the group's offset of the partition, pending ones too."""
        if self.pending:
            self.pending.remove(group_id, (topic, partition))
        topics = self._groups.get(group_id, {})
        partitions = topics.get(topic)
        if partitions is None or partitions.pop(partition, None) is None:
            return
        self.count -= 1
        if not partitions:
            del topics[topic]
        if not topics:
            del self._groups[group_id]

    def restore(self, group_id: str, topic: str, partitions: dict[int, OffsetAndMetadata]) -> None:
        """Set commits of a group to a topic from a snapshot, which names each partition once."""
        for index, kept in partitions.items():
            if kept.topic_id is not None:
                topic_id = self.share_id(kept.topic_id, topic)
                partitions[index] = replace(kept, topic_id=topic_id)
        self._partitions(group_id, topic).update(partitions)
        self.count += len(partitions)

    def get(self, group_id: str, topic: str, partition: int) -> OffsetAndMetadata | None:
        """Return the committed offset, if there is one."""
        partitions = self._groups.get(group_id, {}).get(topic)
        return None if partitions is None else partitions.get(partition)

    def topics(self, group_id: str) -> Mapping[str, Mapping[int, OffsetAndMetadata]]:
        """Everything committed by the group; not to be changed."""
        return self._groups.get(group_id, {})

    def holds(self, group_id: str) -> bool:
        """Return true if the group has a committed or pending offset: such a group must be kept."""
        return group_id in self._groups or bool(self.pending.of(group_id))

    def partitions(self, group_id: str) -> Iterator[TopicPartitionKey]:
        """Partitions for which the group has an offset, committed or pending."""
        committed = self.topics(group_id)
        for topic, partitions in committed.items():
            for partition in partitions:
                yield topic, partition
        for topic, partition in self.pending.of(group_id):
            if partition not in committed.get(topic, ()):
                yield topic, partition

    def count_of(self, group_id: str) -> int:
        """Number of partitions with an offset."""
        return sum(map(len, self.topics(group_id).values()))

    def groups(self) -> list[str]:
        """Groups that have offsets, in the order of their first commit."""
        return list(self._groups)
