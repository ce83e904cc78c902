"""One offsets-log partition with its groups: decide, append, apply, settle, hold (the write rule)."""

import enum
from collections import deque
from collections.abc import Iterable, Mapping, MutableMapping, Sequence
from typing import Any, NamedTuple

from coordinator.clock import Moment
from coordinator.config.keys import INT_MAX
from coordinator.groups.classic import applying
from coordinator.groups.classic.state import Group, GroupSettings, GroupState
from coordinator.groups.classic.table import decide
from coordinator.groups.client_balanced import applying as balanced_applying
from coordinator.groups.client_balanced.state import BalancedGroup, BalancedState
from coordinator.groups.outcome import Answer, IdSource, Outcome
from coordinator.groups.ownership import Owners
from coordinator.records.codec import encode, encode_marker, encode_offsets
from coordinator.records.records import (
    BalancedMetadata,
    BalancedTombstone,
    CommittedOffset,
    GroupMetadata,
    GroupTombstone,
    MemberReplaced,
    Note,
    OffsetTombstone,
    Ownership,
    OwnershipTombstone,
    ShardRecord,
    TransactionEnded,
)
from coordinator.runtime.expiry_rules import earliest_expiry_ms
from coordinator.runtime.expiry_schedule import ExpirySchedule
from coordinator.runtime.group_counts import GroupCounts
from coordinator.runtime.group_kinds import AnyEvent, AnyGroup, append_failed, handle
from coordinator.runtime.journal import Journal, encode_note
from coordinator.runtime.offset_table import OffsetAndMetadata, OffsetTable
from coordinator.runtime.outbox import Outbox
from partition_log.log.partition_log import PartitionLog
from partition_log.store.log_store import AppendError, LogStore
from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.messages.offsets import OffsetCommit, TxnOffsetCommit
from protocol.record_batch import TRANSACTIONAL, encode_batch, seal_batch
from purgatory.purgatory import DelayedOperationPurgatory

_SETTLE_ROUNDS = 64
NO_PRODUCER = -1  # producer id of a batch outside a transaction

# See docs/spec/group-protocol.md#0.5: a full disk is a storage error, which reads as NOT_COORDINATOR
_APPEND_ERRORS = {
    AppendError.DISK_FULL: ErrorCode.NOT_COORDINATOR,
    AppendError.RECORD_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
}
_RULING = (GroupMetadata, MemberReplaced, OffsetTombstone, BalancedMetadata, BalancedTombstone)
"""Records that may bring the expiry of a group or its offsets forward."""
_TOO_LARGE = _APPEND_ERRORS[AppendError.RECORD_TOO_LARGE]


class ShardState(enum.Enum):
    """States of a shard."""

    LOADING = "loading"
    ACTIVE = "active"
    FAILED = "failed"
    UNLOADED = "unloaded"


class EventResult(NamedTuple):
    """Result of an event and of all its follow-up events."""

    answers: list[Answer]
    position: int


class ShardTools(NamedTuple):
    """Parts of a node that its shards share."""

    store: LogStore
    purgatory: DelayedOperationPurgatory[Any]
    journal: Journal
    notes_log: PartitionLog
    outbox: Outbox
    ids: IdSource
    settings: GroupSettings
    max_batch_bytes: int
    directory: MutableMapping[str, tuple["Shard", Group]]
    """Every group of the node, by id; the hot path finds a group here without hashing its id as Java does."""
    overrides: Mapping[str, GroupSettings] = {}  # of groups that do not follow `settings`
    broker_id: int = 0  # the node of every partition here
    offsets_retention_ms: int = 0


class Shard:
    """The groups whose ids hash to one partition of `__consumer_offsets`."""

    def __init__(self, index: int, log: PartitionLog, tools: ShardTools) -> None:
        self.index = index
        self.log = log
        self.state = ShardState.LOADING
        self.is_replaying = True
        """True while records of the log or of its snapshot are applied: the earlier state of a group does not count."""
        self.failure = ""
        self.groups: dict[str, Group] = {}
        self.balanced: dict[str, BalancedGroup] = {}
        """Groups that are, or were, client-balanced. Their commits and grants are in the classic group of the same id,
        which is Empty while this one has members."""
        self.offsets = OffsetTable()
        self.expirations = ExpirySchedule()
        self.loaded_records = 0
        self.snapshot_end = -1
        """End of the snapshot from which the shard was loaded; -1: no usable one."""
        self.counts = GroupCounts(self.groups, self.balanced)
        self.deleting: set[str] = set()
        """Groups whose deletion takes several steps; requests for them are refused meanwhile."""
        self._tools = tools

    # --- the write rule ---

    def process(self, group: AnyGroup, event: AnyEvent, moment: Moment) -> None:
        """Run the event on the group. Its replies are sent at once, or when their record is on disk."""
        self.deliver(self.run(group, event, moment))

    def deliver(self, ran: EventResult) -> None:
        """Send the replies that are marked `at_once`, hold the others."""
        outbox = self._tools.outbox
        for ref, reply, at_once in ran.answers:
            if at_once:
                outbox.send(ref, reply)
            else:
                outbox.hold(ran.position, ref, reply)

    def run(self, group: AnyGroup, event: AnyEvent, moment: Moment) -> EventResult:
        """Run the event on the group, and follow-up events until nothing changes any more."""
        answers: list[Answer] = []
        events: deque[AnyEvent] = deque((event,))
        state = group.state
        for _ in range(_SETTLE_ROUNDS):
            while events:
                self._step(group, events.popleft(), moment, events, answers)
            if group.phase is not None:
                events.extend(self._tools.purgatory.check_and_complete(group.phase))
                if group.phase not in self._tools.purgatory:
                    group.phase = None
            if not events:
                self.counts.count(group.group_id)
                if group.state is not state and group.group_id in self.groups:
                    self.expirations.note_change(group.group_id)
                return EventResult(answers, self.position_of(group.group_id))
        raise AssertionError(f"{group.group_id} does not settle after {event!r}")

    def _step(
        self, group: AnyGroup, event: AnyEvent, moment: Moment, events: deque[AnyEvent], answers: list[Answer]
    ) -> None:
        tools = self._tools
        out = Outcome(moment, tools.ids)
        handle(group, event, out)
        if out.records:
            if group.group_id in self.balanced and type(out.records[-1]) is GroupTombstone:
                out.records.append(BalancedTombstone(group.group_id))
            failed = self._record(out.records, group, moment, is_splittable=out.is_splittable)
            if failed is not None:
                events.appendleft(append_failed(group, event, failed))
                return
        for key, operation in out.watched.items():
            if operation is None:
                tools.purgatory.cancel(key)
            else:
                events.extend(tools.purgatory.try_complete_else_watch(operation))
        answers.extend(out.replies)
        for connection, message in out.pushes:
            tools.outbox.push(connection, message)
        if out.notes:
            self.append_notes(out.notes, moment)
        events.extend(out.follow_ups)

    def store(self, group: Group, message: OffsetCommit | TxnOffsetCommit, moment: Moment) -> Message | ErrorCode:
        """Append a commit: return the reply, valid when `position_of` the group is durable, or the error. A commit
        completes no delayed operation and has no follow-up events, so nothing is settled."""
        if self.balanced and self.is_balanced(group.group_id):
            return ErrorCode.UNKNOWN_MEMBER_ID  # only the owner of a partition commits for it
        records: list[CommittedOffset] = []
        decided = decide(group, message, moment, records)
        if not records:
            return decided
        payload = encode_offsets(records, self._tools.max_batch_bytes)
        if payload is None:
            return _TOO_LARGE
        producer_id = NO_PRODUCER
        if type(message) is TxnOffsetCommit:
            producer_id = message.producer_id
            producer = producer_id, message.producer_epoch, 0
            batch = seal_batch(payload, len(records), moment.wall_ms, TRANSACTIONAL, producer)
        else:
            batch = seal_batch(payload, len(records), moment.wall_ms)
        failed = self._write_of(group.group_id, batch)
        if failed is not None:
            return failed
        self._apply_offsets(records, producer_id, group)
        return decided

    def import_offsets(self, group: Group, records: Sequence[CommittedOffset], moment: Moment) -> ErrorCode | None:
        """Store offsets imported from another coordinator, all of them or none; durable when `position_of` is. They are
        one batch, limited only by a segment of the write-ahead log. At least one record is required."""
        payload = encode_offsets(records, INT_MAX)
        if payload is None:
            return _TOO_LARGE
        batch = seal_batch(payload, len(records), moment.wall_ms)
        appended = self._tools.store.append(self.log, batch, must_fit=False)
        if isinstance(appended, AppendError):
            return _APPEND_ERRORS[appended]
        self._tools.outbox.wrote(group.group_id, appended.position)
        self._apply_offsets(records, NO_PRODUCER, group)
        return None

    def delete_offsets_of(
        self, group_id: str, topic: str, partitions: Sequence[int], moment: Moment
    ) -> ErrorCode | None:
        """Delete the group's offsets of these partitions, pending ones too, in any state of the group; durable when
        `position_of` is."""
        tombstones: list[ShardRecord] = [OffsetTombstone(group_id, topic, partition) for partition in partitions]
        failed = self._append(tombstones, moment)
        if failed is None:
            for tombstone in tombstones:
                self.apply(tombstone)
        return failed

    def end_transaction(self, marker: TransactionEnded, moment: Moment) -> int | ErrorCode:
        """Append the marker and return its write-ahead position. The marker of an unknown producer changes nothing
        here, and is appended all the same: other partitions' logs may know the producer."""
        position = self._write(_marker_batch(marker, moment))
        if not isinstance(position, ErrorCode):
            for group_id in self.apply_marker(marker):
                self._tools.outbox.wrote(group_id, position)
        return position

    def _record(
        self, records: list[ShardRecord], group: AnyGroup, moment: Moment, *, is_splittable: bool
    ) -> ErrorCode | None:
        """Append and apply the records. Of splittable records some parts may be stored when a later one is refused."""
        failed = self._append(records, moment)
        if failed is _TOO_LARGE and is_splittable and len(records) > 1:
            half = len(records) // 2
            for part in (records[:half], records[half:]):
                if failed := self._record(part, group, moment, is_splittable=True):
                    return failed
            return None
        if failed is None:
            for record in records:
                self.apply(record, group)
        return failed

    def _append(self, records: list[ShardRecord], moment: Moment) -> ErrorCode | None:
        """Append all records or none, as one batch. They share the position of the batch."""
        encoded = _encoded(records, self._tools.max_batch_bytes)
        batch = None if encoded is None else encode_batch(encoded, timestamp_ms=moment.wall_ms)
        return _TOO_LARGE if batch is None else self._write_of(records[0].group_id, batch)

    def _write_of(self, group_id: str, batch: bytes) -> ErrorCode | None:
        position = self._write(batch)
        if isinstance(position, ErrorCode):
            return position
        self._tools.outbox.wrote(group_id, position)
        return None

    def _write(self, batch: bytes) -> int | ErrorCode:
        """Append the batch. Return its position, or the error for clients."""
        if len(batch) > self._tools.max_batch_bytes:
            return _TOO_LARGE
        appended = self._tools.store.append(self.log, batch)
        return _APPEND_ERRORS[appended] if isinstance(appended, AppendError) else appended.position

    def append_notes(self, unnumbered: Iterable[Note], moment: Moment) -> None:
        """Append notes to the journal."""
        # A note that finds no room on disk is still in the journal: it must not fail the rebalance it explains.
        numbered = [self._tools.journal.add(note) for note in unnumbered]
        news = [encode_note(note) for note in numbered if note is not None]
        if news:
            self._tools.store.append(self._tools.notes_log, encode_batch(news, timestamp_ms=moment.wall_ms))

    def apply(self, record: ShardRecord, happened: AnyGroup | None = None, producer_id: int = NO_PRODUCER) -> None:
        """Apply a record: with `_apply_offsets` and `apply_marker` the only mutator of hard state, live and at load
        alike. `happened` is the group of the record's event; `producer_id` that of the batch, if it is a transaction's.
        """
        group = happened if isinstance(happened, Group) else None
        if type(record) is CommittedOffset:
            self._apply_offsets((record,), producer_id, group)
        elif isinstance(record, OffsetTombstone):
            self.offsets.remove(record.group_id, record.topic, record.partition)
        elif isinstance(record, GroupMetadata):
            known = self.groups.get(record.group_id)
            group = known or self.adopt(group or self.new_group(record.group_id))
            applying.apply(group, record, live=not self.is_replaying)
        elif isinstance(record, MemberReplaced) and record.group_id in self.groups:
            applying.replace_member(self.groups[record.group_id], record)
        elif isinstance(record, GroupTombstone):
            self.remove(record.group_id)
        elif isinstance(record, Ownership):
            self.owners_of(record.group_id).apply(record)
        elif isinstance(record, OwnershipTombstone):
            self.owners_of(record.group_id).drop((record.topic, record.partition))
        elif isinstance(record, BalancedMetadata):
            one = happened if isinstance(happened, BalancedGroup) else self.balanced_group(record.group_id)
            self.balanced[record.group_id] = one
            balanced_applying.apply(one, record)
        elif isinstance(record, BalancedTombstone):
            self.balanced.pop(record.group_id, None)
        if type(record) in _RULING and record.group_id in self.groups:
            self.expirations.note_change(record.group_id)

    def _apply_offsets(self, records: Sequence[CommittedOffset], producer_id: int, group: Group | None) -> None:
        """Apply commits of one group."""
        group_id = records[0].group_id
        known = self.groups.get(group_id) or self.adopt(group or self.new_group(group_id))
        if producer_id == NO_PRODUCER:
            self.offsets.set(records)
            due_ms = earliest_expiry_ms(known, self.balanced.get(group_id), records, self._tools.offsets_retention_ms)
            self.expirations.bring_forward(known.group_id, due_ms)
        else:
            self.offsets.set_pending(producer_id, records)

    def apply_marker(self, marker: TransactionEnded) -> list[str]:
        """Apply a marker: the producer's pending offsets become valid or are dropped. Return their groups."""
        group_ids = self.offsets.end_transaction(marker.producer_id, is_committed=marker.is_committed)
        for group_id in group_ids:
            self.expirations.note_change(group_id)
        return group_ids

    def owners_of(self, group_id: str) -> Owners:
        """Return the group's ownership registry; the group is added if it is absent."""
        group = self.groups.get(group_id) or self.adopt(self.new_group(group_id))
        if group.owners is None:
            group.owners = Owners()
        return group.owners

    def balanced_group(self, group_id: str) -> BalancedGroup:
        """Return the client-balanced group. An unknown one is Empty, and is added only when a record of it
        is applied."""
        known = self.balanced.get(group_id)
        if known is not None:
            return known
        is_there = self.is_replaying or group_id in self.groups
        settings = self._tools.overrides.get(group_id, self._tools.settings)
        owners = self.owners_of(group_id) if is_there else Owners()
        return BalancedGroup(group_id, owners, self._tools.broker_id, settings.max_size)

    def is_balanced(self, group_id: str) -> bool:
        """Return true if the group is client-balanced and has members now."""
        group = self.balanced.get(group_id)
        return group is not None and bool(group.members)

    def new_group(self, group_id: str) -> Group:
        """Make a new group: Empty, and added only when a record of it is applied."""
        return Group(group_id, self._tools.overrides.get(group_id, self._tools.settings))

    def adopt(self, group: Group) -> Group:
        """Add the group to the shard."""
        self.groups[group.group_id] = group
        self._tools.directory[group.group_id] = (self, group)
        self.counts.count(group.group_id)
        self.expirations.note_change(group.group_id)
        return group

    def remove(self, group_id: str) -> None:
        """Remove the group; its committed offsets stay."""
        group = self.groups.pop(group_id, None)
        removed = self.balanced.pop(group_id, None)
        if removed is not None:
            removed.state = BalancedState.DEAD
        if group is not None:
            group.state = GroupState.DEAD
            self.counts.drop(group)
            self.expirations.remove(group_id)
            self._tools.directory.pop(group_id, None)
        if self.offsets.holds(group_id):
            # Offsets outlive their group's record only in a log; they make a simple group
            # (docs/spec/group-protocol.md#5.3).
            self.adopt(self.new_group(group_id))

    def create(self, group_id: str, moment: Moment) -> Group | ErrorCode:
        """Create a group and record it before its first event: its empty record is appended and applied here."""
        record = GroupMetadata(group_id, "", 0, None, None, moment.wall_ms)
        failed = self._append([record], moment)
        if failed is not None:
            return failed
        self.apply(record)
        return self.groups[group_id]

    def partitions_of(self, group_id: str, topic: str) -> dict[int, OffsetAndMetadata]:
        """Return the dictionary for commits of the group to the topic, for a loader that decodes without records. The
        caller must put at least one offset there and count it; the group is added."""
        group = self.groups.get(group_id) or self.adopt(self.new_group(group_id))
        return self.offsets.partitions_to_load(group.group_id, topic)

    def drop_state(self) -> None:
        """Drop all state: half of a log must not be shown."""
        for group_id in self.groups:
            del self._tools.directory[group_id]
        self.groups.clear()
        self.balanced.clear()
        self.offsets = OffsetTable()
        self.expirations = ExpirySchedule()
        self.counts = GroupCounts(self.groups, self.balanced)
        self.loaded_records = 0

    def position_of(self, group_id: str) -> int:
        """Write-ahead position of the group's last record: its state may be shown only when that is durable."""
        return self._tools.outbox.position_of(group_id)


def _marker_batch(marker: TransactionEnded, moment: Moment) -> bytes:
    return encode_batch(
        [encode_marker(marker)],
        timestamp_ms=moment.wall_ms,
        producer_id=marker.producer_id,
        producer_epoch=marker.producer_epoch,
        transactional=True,
        control=True,
    )


def _encoded(records: Sequence[ShardRecord], most_bytes: int) -> list[tuple[bytes, bytes | None]] | None:
    """Encode the records; None if they are larger than a batch may be, found before the memory is taken."""
    encoded, size = [], 0
    for record in records:
        key, value = encode(record)
        size += len(key) + len(value or b"")
        if size > most_bytes:
            return None
        encoded.append((key, value))
    return encoded
