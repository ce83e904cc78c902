"""One offsets-log partition with its groups: decide, append, apply, settle, hold (the write rule)."""

import enum
from collections import deque
from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from coordinator.clock import Moment
from coordinator.config.keys import BackwardCommits
from coordinator.groups.classic import applying
from coordinator.groups.classic.group_states import GroupSettings, GroupState
from coordinator.groups.classic.state import ClassicGroup
from coordinator.groups.classic.table import decide
from coordinator.groups.consumer.events import ConsumerJoin
from coordinator.groups.consumer.state import ConsumerGroup, ConsumerGroupSettings
from coordinator.groups.consumer.topics import NoTopics, TopicImage
from coordinator.groups.outcome import Answer, IdSource, Outcome
from coordinator.records.consumer_records import (
    ConsumerGroupRecord,
    ConsumerMemberRecord,
    ConsumerRecord,
    ConsumerTombstone,
)
from coordinator.records.records import (
    BalancedMetadata,
    BalancedTombstone,
    CommittedOffset,
    GroupMetadata,
    GroupSettingsRecord,
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
from coordinator.runtime.group import Group, GroupKind
from coordinator.runtime.group_counts import GroupCounts
from coordinator.runtime.journal import Journal, encode_note
from coordinator.runtime.kinds.commit_checks import checked, refuse_backward
from coordinator.runtime.kinds.commit_plan import CommitPlan
from coordinator.runtime.kinds.group_kinds import AnyEvent, append_failed, handle
from coordinator.runtime.kinds.kind_records import apply_further, end_on_record
from coordinator.runtime.kinds.own_settings import OwnSettings
from coordinator.runtime.offset_and_metadata import Committer, OffsetAndMetadata
from coordinator.runtime.offset_table import OffsetTable
from coordinator.runtime.outbox import Outbox
from coordinator.runtime.partition_writer import NONE_PRECEDING, TOO_LARGE, PartitionWriter, Preceding
from coordinator.runtime.shard_log import ShardLog
from coordinator.runtime.slices import SlicedRequests, Work, run_steps
from partition_log.store.limits import Appended
from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.messages.offsets import OffsetCommit, TxnOffsetCommit
from protocol.record_batch import encode_batch
from purgatory.purgatory import DelayedOperationPurgatory

_SETTLE_ROUNDS = 64
NO_PRODUCER = -1  # producer id of a batch outside a transaction

_RULING = (
    GroupMetadata,
    MemberReplaced,
    OffsetTombstone,
    BalancedMetadata,
    BalancedTombstone,
    ConsumerGroupRecord,
    ConsumerMemberRecord,
    ConsumerTombstone,
    GroupSettingsRecord,
)
"""Records that may bring the expiry of a group or its offsets forward."""


class ShardState(enum.Enum):
    """States of a shard. A shard that another node serves is UNLOADED here."""

    LOADING = "loading"
    ACTIVE = "active"
    FAILED = "failed"
    UNLOADED = "unloaded"


class ShardTools(NamedTuple):
    """Parts of a node that its shards share."""

    purgatory: DelayedOperationPurgatory[Any]
    journal: Journal
    notes_log: ShardLog
    outbox: Outbox
    ids: IdSource
    settings: GroupSettings
    max_batch_bytes: int
    directory: MutableMapping[str, Group]
    """Every group of the node, by id; the hot path finds a group here without hashing its id as Java does."""
    overrides: Mapping[str, GroupSettings] = {}  # of groups that do not follow `settings`
    broker_id: int = 0  # the node of every partition here
    offsets_retention_ms: int = 0
    consumer_settings: Callable[[str], ConsumerGroupSettings] = lambda _: ConsumerGroupSettings()
    """Settings in force for a consumer group."""
    take_settings: Callable[[str, dict[str, str]], None] = lambda _group_id, _own: None
    """Receives a group's own settings, read from the log of its shard."""
    topics: TopicImage = NoTopics()
    """All topics, as consumer groups see them."""
    slices: SlicedRequests | None = None
    """Work in slices of the node; None for shards that only load."""
    share_notes: Callable[[list[Note]], list[Note]] | None = None
    """Appends notes that other nodes keep too, and returns the rest, which only this node keeps."""


class Shard:
    """The groups whose ids hash to one partition of `__consumer_offsets`."""

    def __init__(self, index: int, log: ShardLog, tools: ShardTools) -> None:
        self.index = index
        self.broker_id = tools.broker_id
        self.log = log
        self.outbox = tools.outbox
        self.state = ShardState.LOADING
        self.is_replaying = True
        """True while records of the log or of its snapshot are applied: the earlier state of a group does not count."""
        self.failure = ""
        self.groups: dict[str, Group] = {}
        kinds = [kind for kind in GroupKind if kind is not GroupKind.CLASSIC]
        self.of_kind: dict[GroupKind, dict[str, Group]] = {kind: {} for kind in kinds}
        """The same groups by their kind; most groups are classic, and are not listed."""
        self.offsets = OffsetTable()
        self.expirations = ExpirySchedule()
        self.loaded_records = 0
        self.snapshot_end = -1
        """End of the snapshot from which the shard was loaded; -1: no usable one."""
        self.counts = GroupCounts(tools.journal.tallies)
        self.deleting: set[str] = set()
        """Groups whose deletion takes several steps; requests for them are refused meanwhile."""
        self.converting: dict[str, list[ConsumerJoin]] = {}
        """Joins that wait until a group has changed its protocol, which takes several steps."""
        self.own_settings = OwnSettings(tools.take_settings, tools.overrides, tools.settings)
        self._tools = tools
        self._writer = PartitionWriter(log, tools.outbox, tools.max_batch_bytes)

    # --- the write rule ---

    def process(self, group: Group, event: AnyEvent, moment: Moment, preceding: Preceding = NONE_PRECEDING) -> None:
        """Run the event on the group. Its replies are sent at once, or when their record is durable. `preceding`:
        records of the change that precedes the event, in one batch with the event's own, if it has any."""
        self.outbox.deliver(group.group_id, self.run(group, event, moment, preceding))

    def run(self, group: Group, event: AnyEvent, moment: Moment, preceding: Preceding = NONE_PRECEDING) -> list[Answer]:
        """Run the event on the group, and follow-up events until nothing changes any more. Return the replies to
        deliver. A conversion replaces the group's object: follow-up events run on the new one."""
        events: deque[AnyEvent] = deque((event,))
        run = _Run(moment, events, [])
        classic = group.classic
        before, since_ms = classic.state, classic.state_since_ms
        driven = None if group.consumer is None else group.consumer.state
        for _ in range(_SETTLE_ROUNDS):
            while events:
                if self._step(group, events.popleft(), run, preceding):
                    group = self.groups.get(group.group_id, group)
                    classic = group.classic
                preceding = NONE_PRECEDING
            if (phase := classic.phase) is not None and phase.is_satisfied():
                events.extend(self._tools.purgatory.check_and_complete(phase.key))
            if not events:
                if (present := self.groups.get(group.group_id)) is not None:
                    self.counts.count(present)
                    if (consumer := present.consumer) is not None and consumer.state is not driven:
                        consumer.state_since_ms = run.moment.wall_ms
                    if classic.state is not before:
                        lasted_ms = run.moment.wall_ms - since_ms if since_ms >= 0 else 0  # else not known
                        self._state_changed(group.group_id, before, lasted_ms)
                return run.answers
        raise AssertionError(f"{group.group_id} does not settle after {event!r}")

    def _step(self, group: Group, event: AnyEvent, run: "_Run", preceding: Preceding) -> bool:
        """Run one event; return true if records were written."""
        tools, events = self._tools, run.events
        out = Outcome(run.moment, tools.ids)
        handle(group, event, out)
        if out.records:
            end_on_record(group, out.records)
            failed = self.record(out.records, group, run.moment, preceding, is_splittable=out.is_splittable)
            if failed is not None:
                events.appendleft(append_failed(event, failed))
                return False
        for key, operation in out.watched.items():
            if operation is None:
                tools.purgatory.cancel(key)
            else:
                events.extend(tools.purgatory.try_complete_else_watch(operation))
        run.answers.extend(out.replies)
        tools.outbox.push(out.pushes)
        if out.notes:
            self.append_notes(out.notes, run.moment)
        events.extend(out.follow_ups)
        for steps in out.work:
            self.begin_work(run_steps(steps, partial(self._process_if_present, group)))
        return bool(out.records)

    def begin_work(self, work: Work) -> None:
        """Begin work in slices, in the node's next round."""
        assert self._tools.slices is not None, "work of groups needs a node"
        self._tools.slices.add(work)

    def _state_changed(self, group_id: str, before: GroupState, lasted_ms: int) -> None:
        """Note that the group has left the state `before` after `lasted_ms`."""
        self.expirations.note_change(group_id)
        self.counts.tallies.lasted(group_id, before, lasted_ms)

    def _process_if_present(self, group: Group, event: AnyEvent, moment: Moment) -> bool:
        """Run the event unless the group has ended; return whether it was run."""
        if self.state is not ShardState.ACTIVE or self.groups.get(group.group_id) is not group:
            return False
        self.process(group, event, moment)
        return True

    def store(
        self, group: Group, message: OffsetCommit | TxnOffsetCommit, moment: Moment, by: Committer | None = None
    ) -> Message | ErrorCode:
        """Append a commit: return the reply, valid when `position_of` the group is durable, or the error. A commit
        completes no delayed operation and has no follow-up events, so nothing is settled."""
        if group.kind is not GroupKind.CLASSIC:
            taken = checked(group, message, moment)
            if isinstance(taken, ErrorCode):
                return taken
            message = taken
        records: list[CommittedOffset] = []
        decided = decide(group.classic, message, moment, records)
        if group.classic.settings.offsets_backward is BackwardCommits.REJECTED:
            decided = refuse_backward(group, records, decided)
        if not records:
            return decided
        producer = (message.producer_id, message.producer_epoch) if type(message) is TxnOffsetCommit else None
        if (failed := self._writer.append_offsets(group.group_id, records, moment, producer)) is not None:
            return failed
        self._apply_offsets(records, NO_PRODUCER if producer is None else producer[0], group, by)
        return decided

    def store_again(self, group: Group, plan: CommitPlan, offsets: Sequence[int], moment: Moment) -> bool:
        """Append and apply a commit that `decide` allows, of the same partitions as before. Return false, and change
        nothing, if the commit needs more than that: then the caller uses `store`."""
        group_id, wall_ms = group.group_id, moment.wall_ms
        forward = self.offsets.forward(group_id, plan.topics, offsets, wall_ms, plan.committer)
        if forward is None or not self._writer.append_again(group_id, plan.template, offsets, wall_ms):
            return False
        for present, new in forward:
            present.update(new)
        self.expirations.bring_forward(group_id, wall_ms + self._tools.offsets_retention_ms)
        return True

    def import_offsets(self, group: Group, records: Sequence[CommittedOffset], moment: Moment) -> ErrorCode | None:
        """Store offsets imported from another coordinator, all of them or none; durable when `position_of` is. They are
        one batch, limited only by a segment of the write-ahead log. At least one record is required."""
        if (failed := self._writer.import_offsets(group.group_id, records, moment)) is not None:
            return failed
        self._apply_offsets(records, NO_PRODUCER, group)
        return None

    def delete_offsets_of(
        self, group_id: str, topic: str, partitions: Sequence[int], moment: Moment
    ) -> ErrorCode | None:
        """Delete the group's offsets of these partitions, pending ones too, in any state of the group; durable when
        `position_of` is."""
        return self.record([OffsetTombstone(group_id, topic, partition) for partition in partitions], None, moment)

    def end_transaction(self, marker: TransactionEnded, moment: Moment) -> Appended | ErrorCode:
        """Append the marker and return its place. The marker of an unknown producer changes nothing
        here, and is appended all the same: other partitions' logs may know the producer."""
        appended = self._writer.append_marker(marker, moment)
        if not isinstance(appended, ErrorCode):
            for group_id in self.apply_marker(marker):
                self.outbox.wrote(group_id, appended.position)
        return appended

    def record(
        self,
        records: list[ShardRecord],
        group: Group | None,
        moment: Moment,
        preceding: Preceding = NONE_PRECEDING,
        *,
        is_splittable: bool = False,
    ) -> ErrorCode | None:
        """Append and apply the records. Of splittable records some parts may be stored when a later one is refused."""
        failed = self._writer.append_records(records, moment, preceding.encoded)
        if failed is TOO_LARGE and is_splittable and len(records) > 1:
            half = len(records) // 2
            for part in (records[:half], records[half:]):
                if failed := self.record(part, group, moment, is_splittable=True):
                    return failed
            return None
        if failed is None:
            for record in (*preceding.unapplied, *records):
                self.apply(record, group)
        return failed

    def append_notes(self, unnumbered: Iterable[Note], moment: Moment) -> None:
        """Append notes to the journal."""
        # A note that finds no room on disk is still in the journal: it must not fail the rebalance it explains.
        tools = self._tools
        numbered = [note for note in map(tools.journal.add, unnumbered) if note is not None]
        if own := numbered if tools.share_notes is None else tools.share_notes(numbered):
            tools.notes_log.append(encode_batch([encode_note(note) for note in own], timestamp_ms=moment.wall_ms))

    def apply(self, record: ShardRecord, group: Group | None = None, producer_id: int = NO_PRODUCER) -> None:
        """Apply a record: the only mutator of hard state, live and at load alike, with `_apply_offsets`, `store_again`
        and `apply_marker`. `group`: that of the record's event; `producer_id`: that of a transaction's batch."""
        group_id = record.group_id
        if type(record) is CommittedOffset:
            self._apply_offsets((record,), producer_id, group)
        elif isinstance(record, OffsetTombstone):
            self.offsets.remove(group_id, record.topic, record.partition)
        elif isinstance(record, GroupMetadata):
            applying.apply(self._ensure(group_id, group).classic, record, live=not self.is_replaying)
        elif isinstance(record, MemberReplaced) and group_id in self.groups:
            applying.replace_member(self.groups[group_id].classic, record)
        elif isinstance(record, GroupTombstone):
            self.remove(group_id, group)
        elif isinstance(record, Ownership):
            self._ensure(group_id, group).owners().apply(record)
        elif isinstance(record, OwnershipTombstone):
            self._ensure(group_id, group).owners().drop((record.topic, record.partition))
        elif isinstance(record, BalancedMetadata):
            self._ensure(group_id, group).apply_balanced(record)
        elif isinstance(record, BalancedTombstone) and group_id in self.groups:
            self.groups[group_id].drop_balanced()
        elif isinstance(record, ConsumerRecord | GroupSettingsRecord):
            apply_further(self, record, group)
        if type(record) in _RULING and group_id in self.groups:
            self.expirations.note_change(group_id)

    def _apply_offsets(
        self, records: Sequence[CommittedOffset], producer_id: int, group: Group | None, by: Committer | None = None
    ) -> None:
        """Apply commits of one group."""
        group_id = records[0].group_id
        known = self.groups.get(group_id) or self._ensure(group_id, group)
        if producer_id == NO_PRODUCER:
            self.offsets.set(records, by)
            due_ms = earliest_expiry_ms(known, records, self._tools.offsets_retention_ms)
            self.expirations.bring_forward(known.group_id, due_ms)
        else:
            self.offsets.set_pending(producer_id, records, by)

    def apply_marker(self, marker: TransactionEnded) -> list[str]:
        """Apply a marker: the producer's pending offsets become valid or are dropped. Return their groups."""
        group_ids = self.offsets.end_transaction(marker.producer_id, is_committed=marker.is_committed)
        for group_id in group_ids:
            self.expirations.note_change(group_id)
        return group_ids

    def new_group(self, group_id: str) -> Group:
        """Make a new group: Empty, and added only when a record of it is applied."""
        return Group(group_id, self, ClassicGroup(group_id, self.own_settings.in_force(group_id)))

    def new_consumer(self, group_id: str) -> ConsumerGroup:
        """Make the server-driven state of a group."""
        return ConsumerGroup(group_id, self._tools.consumer_settings(group_id), self._tools.topics)

    def _ensure(self, group_id: str, group: Group | None = None) -> Group:
        """Return the group, added if it is absent: this object, or a new one."""
        usable = group if group is not None and group.classic.state is not GroupState.DEAD else None
        return self.groups.get(group_id) or self.adopt(usable or self.new_group(group_id))

    def adopt(self, group: Group) -> Group:
        """Add the group to the shard."""
        self.groups[group.group_id] = self._tools.directory[group.group_id] = group
        self.counts.count(group)
        self.expirations.note_change(group.group_id)
        return group

    def remove(self, group_id: str, successor: Group | None = None) -> None:
        """Remove the group; its offsets and its ownership registry stay. `successor`: the group in its place."""
        group, owners = self.groups.pop(group_id, None), None
        if group is not None:
            group.end()
            owners = group.classic.owners
            self.counts.drop(group)
            self.expirations.remove(group_id)
            self._tools.directory.pop(group_id, None)
        if successor is None or successor is group:
            if not self.offsets.holds(group_id) and not owners:
                return
            # Offsets outlive their group's record in a log, and when the kind of the group changes; they make a simple
            # group (docs/spec/group-protocol.md#5.3).
            successor = self.new_group(group_id)
        successor.classic.owners = owners
        self.adopt(successor)

    def create(self, group_id: str, moment: Moment) -> Group | ErrorCode:
        """Create a group and record it before its first event: its empty record is appended and applied here."""
        failed = self.record([GroupMetadata(group_id, "", 0, None, None, moment.wall_ms)], None, moment)
        return self.groups[group_id] if failed is None else failed

    def partitions_of(self, group_id: str, topic: str) -> dict[int, OffsetAndMetadata]:
        """Return the dictionary for commits of the group to the topic, for a loader that decodes without records. The
        caller must put at least one offset there and count it; the group is added."""
        return self.offsets.partitions_to_load(self._ensure(group_id).group_id, topic)

    def drop_state(self) -> None:
        """Drop all state: a partly loaded log must not be served."""
        for group_id in self.groups:
            del self._tools.directory[group_id]
        for groups in (self.groups, *self.of_kind.values()):
            groups.clear()
        self.own_settings.drop()
        self.offsets = OffsetTable()
        self.expirations = ExpirySchedule()
        self.counts = GroupCounts(self._tools.journal.tallies)
        self.loaded_records = 0


class _Run(NamedTuple):
    """An event and what follows from it: events still to come, replies so far."""

    moment: Moment
    events: deque[AnyEvent]
    answers: list[Answer]
