"""Offsets of a shard, by group, topic and partition: committed ones, and those that wait for their transaction's end.
Changed by `Shard` alone, where records are applied.

Nested dictionaries, not one with tuple keys: half the memory for each offset. Expiry has its place here.
"""

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from coordinator.records.records import CommittedOffset


class OffsetAndMetadata(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """What is kept of a commit."""

    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp_ms: int
    expire_timestamp_ms: int


Place = tuple[str, int]
"""Topic and partition."""
PendingPlace = tuple[str, str, int, list[tuple[int, OffsetAndMetadata | None]]]
"""Group, topic, partition, and by producer, the newest last, what is pending."""
PendingProducer = tuple[int, list[tuple[str, str, int]]]
"""A producer, and where it has something pending."""


class PendingOffsets:
    """What transactions have committed and their markers have not decided (docs/spec/group-protocol.md#4.3).

    An offset counts after its commit marker unless something newer was committed meanwhile, and what is newer is said
    by the log. Entries of a partition stand in the order of the log: so nobody's position need be kept. An entry that
    something newer has overtaken is None. It is still pending: readers of stable offsets wait for its marker too.
    """

    __slots__ = ("_groups", "_producers")

    def __init__(self) -> None:
        self._groups: dict[str, dict[Place, dict[int, OffsetAndMetadata | None]]] = {}
        self._producers: dict[int, dict[tuple[str, Place], None]] = {}

    def __bool__(self) -> bool:
        return bool(self._groups)

    def of(self, group_id: str) -> Mapping[Place, Mapping[int, OffsetAndMetadata | None]]:
        """By partition of the group, then by producer; not to be changed."""
        return self._groups.get(group_id, {})

    def add(self, producer_id: int, group_id: str, place: Place, offset: OffsetAndMetadata) -> None:
        """The producer's word for the partition from now on."""
        producers = self._groups.setdefault(group_id, {}).setdefault(place, {})
        producers.pop(producer_id, None)  # the newest stands last
        producers[producer_id] = offset
        self._producers.setdefault(producer_id, {})[group_id, place] = None

    def overtake(self, group_id: str, place: Place, before: int | None = None) -> None:
        """A newer offset than those of the partition is committed; with `before`, than those older than that
        producer's."""
        producers = self._groups.get(group_id, {}).get(place, {})
        for producer_id in producers:
            if producer_id == before:
                return
            producers[producer_id] = None

    def places(self, producer_id: int) -> list[tuple[str, Place]]:
        """Groups and partitions for which the producer has something pending."""
        return list(self._producers.get(producer_id, ()))

    def take(self, producer_id: int, group_id: str, place: Place) -> OffsetAndMetadata | None:
        """The producer has nothing pending for the partition any more; what it had, unless that was overtaken."""
        taken = self._groups[group_id][place].pop(producer_id)
        self._clear(producer_id, group_id, place)
        return taken

    def forget(self, group_id: str, place: Place) -> None:
        """Nobody has anything pending for the partition any more."""
        for producer_id in list(self.of(group_id).get(place, ())):
            self.take(producer_id, group_id, place)

    def dump(self) -> tuple[list[PendingPlace], list[PendingProducer]]:
        """All there is, in its orders, which `restore` gives back."""
        places = [
            (group_id, topic, partition, list(producers.items()))
            for group_id, group in self._groups.items()
            for (topic, partition), producers in group.items()
        ]
        producers = [
            (producer_id, [(group_id, topic, partition) for group_id, (topic, partition) in own])
            for producer_id, own in self._producers.items()
        ]
        return places, producers

    def restore_place(self, dumped: PendingPlace) -> None:
        group_id, topic, partition, producers = dumped
        self._groups.setdefault(group_id, {})[topic, partition] = dict(producers)

    def restore_producer(self, dumped: PendingProducer) -> None:
        producer_id, own = dumped
        places = self._producers.setdefault(producer_id, {})
        places.update(dict.fromkeys([(group_id, (topic, partition)) for group_id, topic, partition in own]))

    def _clear(self, producer_id: int, group_id: str, place: Place) -> None:
        own, group = self._producers[producer_id], self._groups[group_id]
        del own[group_id, place]
        if not own:
            del self._producers[producer_id]
        if not group[place]:
            del group[place]
        if not group:
            del self._groups[group_id]


class OffsetTable:
    """Offsets of the groups of one shard."""

    __slots__ = ("_groups", "_names", "count", "pending")

    def __init__(self) -> None:
        self._groups: dict[str, dict[str, dict[int, OffsetAndMetadata]]] = {}
        self._names: dict[str, str] = {}
        self.count = 0
        self.pending = PendingOffsets()

    def set(self, records: Sequence[CommittedOffset]) -> None:
        """The groups will read from each `record.offset` next."""
        group_id = topic = None
        partitions: dict[int, OffsetAndMetadata] = {}
        for record in records:
            # Records of one commit share their texts.
            if record.topic is not topic or record.group_id is not group_id:
                group_id, topic = record.group_id, record.topic
                partitions = self._partitions(group_id, topic)
            if record.partition not in partitions:
                self.count += 1
            partitions[record.partition] = OffsetAndMetadata(
                record.offset,
                record.leader_epoch,
                record.metadata,
                record.commit_timestamp_ms,
                record.expire_timestamp_ms,
            )
        if self.pending:
            for record in records:
                self.pending.overtake(record.group_id, (record.topic, record.partition))

    def _partitions(self, group_id: str, topic: str) -> dict[int, OffsetAndMetadata]:
        topics = self._groups.get(group_id)
        if topics is None:
            topics = self._groups[group_id] = {}
        partitions = topics.get(topic)
        if partitions is None:
            # One string a topic name, however many groups read it.
            partitions = topics[self._names.setdefault(topic, topic)] = {}
        return partitions

    def partitions_to_load(self, group_id: str, topic: str) -> dict[int, OffsetAndMetadata]:
        """Where commits of the group to the topic are put, when nothing is pending; whoever puts them there counts
        them, and puts one there at least."""
        return self._partitions(group_id, topic)

    def set_pending(self, producer_id: int, records: Sequence[CommittedOffset]) -> None:
        """The same if the producer's transaction is committed."""
        for record in records:
            place = (self._names.setdefault(record.topic, record.topic), record.partition)
            kept = OffsetAndMetadata(
                record.offset,
                record.leader_epoch,
                record.metadata,
                record.commit_timestamp_ms,
                record.expire_timestamp_ms,
            )
            self.pending.add(producer_id, record.group_id, place, kept)

    def end_transaction(self, producer_id: int, *, is_committed: bool) -> list[str]:
        """What the producer has pending counts or is dropped. The groups whose it was; none of an unknown producer."""
        places = self.pending.places(producer_id)
        for group_id, place in places:
            if is_committed:
                self._commit_pending(producer_id, group_id, place)
            else:
                self.pending.take(producer_id, group_id, place)
        return list(dict.fromkeys(group_id for group_id, _place in places))

    def _commit_pending(self, producer_id: int, group_id: str, place: Place) -> None:
        self.pending.overtake(group_id, place, before=producer_id)
        kept = self.pending.take(producer_id, group_id, place)
        if kept is not None:
            topic, partition = place
            partitions = self._partitions(group_id, topic)
            self.count += partition not in partitions
            partitions[partition] = kept

    def forget(self, group_id: str, topic: str, partition: int) -> None:
        """The group has no offset for the partition any more, nor has a transaction for it."""
        if self.pending:
            self.pending.forget(group_id, (topic, partition))
        topics = self._groups.get(group_id, {})
        if topics.get(topic, {}).pop(partition, None) is None:
            return
        self.count -= 1
        if not topics[topic]:
            del topics[topic]
        if not topics:
            del self._groups[group_id]

    def restore(self, group_id: str, topic: str, partitions: dict[int, OffsetAndMetadata]) -> None:
        """Commits of a group to a topic, from a snapshot that names none twice."""
        self._partitions(group_id, topic).update(partitions)
        self.count += len(partitions)

    def get(self, group_id: str, topic: str, partition: int) -> OffsetAndMetadata | None:
        """What is committed, if anything is."""
        return self._groups.get(group_id, {}).get(topic, {}).get(partition)

    def topics(self, group_id: str) -> dict[str, dict[int, OffsetAndMetadata]]:
        """Everything committed by the group; not to be changed."""
        return self._groups.get(group_id, {})

    def holds(self, group_id: str) -> bool:
        """Whether anything is committed or pending: then the group is not nothing."""
        return group_id in self._groups or bool(self.pending.of(group_id))

    def partitions(self, group_id: str) -> Iterator[Place]:
        """The partitions the group has an offset for, and those for which only a transaction has one."""
        committed = self.topics(group_id)
        for topic, partitions in committed.items():
            for partition in partitions:
                yield topic, partition
        for topic, partition in self.pending.of(group_id):
            if partition not in committed.get(topic, ()):
                yield topic, partition

    def count_of(self, group_id: str) -> int:
        """How many partitions have an offset."""
        return sum(map(len, self.topics(group_id).values()))

    def groups(self) -> list[str]:
        """Groups that have offsets, in the order of their first commit."""
        return list(self._groups)
