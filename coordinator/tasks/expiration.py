"""Expiration of offsets and groups (docs/spec/group-protocol.md#4.4): a periodic pass over the groups that are due, or
have changed since the last one, a slice at a time.

Offsets whose tombstones cannot be appended stay, and the next pass finds them again. The same holds after a crash
between two slices.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

from coordinator.clock import Moment
from coordinator.groups.classic.events import RetentionDue
from coordinator.groups.classic.subscriptions import SubscriptionCache, Subscriptions
from coordinator.runtime.expiry_rules import KeepReason, Rule, expires_ms, is_by_subscription, rule_of
from coordinator.runtime.group import Group
from coordinator.runtime.offset_and_metadata import OffsetAndMetadata
from coordinator.runtime.offset_table import OffsetTable, TopicPartitionKey
from coordinator.runtime.shard import Shard, ShardState
from partition_log.store.log_store import LogStore

TASK = "expiry"
SLICE_WORK = 5_000
"""Work of one slice in microseconds, estimated from counts, since a node reads no clock."""
BATCH_PLACES = 500
"""Offsets deleted at once; their tombstones are one batch in the log."""
_WORK_A_GROUP, _WORK_A_LOOK, _WORK_A_TOMBSTONE, _WORK_AN_EVENT = 12, 1, 4, 40
_TOMBSTONE_BYTES, _BYTES_A_CHARACTER = 48, 4
_NEXT_SLICE_MS, _BLOCKED_MS = 10, 200
_BUSY_BYTES = 4 * 1024 * 1024
"""Unflushed bytes from which the disk counts as behind, so that clients' requests come first."""


class _Visit:
    """A group being checked, and the offsets deleted of it, by topic."""

    __slots__ = ("due_ms", "expired", "group_id", "keys", "reading", "shard", "subscriptions")

    def __init__(self, shard: Shard, group_id: str) -> None:
        self.shard = shard
        self.group_id = group_id
        self.keys = _keys(shard.offsets.topics(group_id))
        self.expired: dict[str, int] = {}
        self.subscriptions: Subscriptions | None = None
        self.reading: Iterator[int] = iter(())
        self.due_ms: int | None = None
        """Earliest time at which one of the offsets that stay may expire."""
        shard.expirations.remove(group_id)  # changes during the visit add it again

    def end(self, *, is_done: bool) -> None:
        """Schedule the next visit: at the next pass if this one is not done."""
        if self.group_id in self.shard.groups:
            if not is_done:
                self.shard.expirations.note_change(self.group_id)
            elif self.due_ms is not None:
                self.shard.expirations.bring_forward(self.group_id, self.due_ms)


def _keys(topics: Mapping[str, Mapping[int, OffsetAndMetadata]]) -> Iterator[TopicPartitionKey]:
    """Partitions at the beginning of the visit; groups change between two slices."""
    for topic in list(topics):
        for partition in list(topics.get(topic, ())):
            yield topic, partition


class Expiry:
    """State of the pass. `due_ms` is the monotonic time at which the next pass begins, or this one continues;
    `offsets_expired` and `groups_expired` count the deletions since the start, `groups_visited` the visits."""

    def __init__(
        self, retention_ms: int, check_interval_ms: int, max_batch_bytes: int, subscriptions: SubscriptionCache
    ) -> None:
        self.retention_ms = retention_ms
        self.due_ms = 0
        self.offsets_expired = self.groups_expired = self.groups_visited = 0
        self._subscriptions = subscriptions
        self._check_interval_ms = check_interval_ms
        self._batch_bytes = min(64 * 1024, max_batch_bytes // 2)
        self._visits: Iterator[_Visit] | None = None
        self._visit: _Visit | None = None

    def wait(self, moment: Moment) -> int:
        """Wait for a whole interval. Return its end by the monotonic clock."""
        self.due_ms = moment.monotonic_ms + self._check_interval_ms
        return self.due_ms

    def run(self, shards: Sequence[Shard], store: LogStore, moment: Moment) -> int:
        """Run one slice. Return the milliseconds to the next."""
        delay_ms = self._run(shards, store, moment)
        self.due_ms = moment.monotonic_ms + delay_ms
        return delay_ms

    def _run(self, shards: Sequence[Shard], store: LogStore, moment: Moment) -> int:
        if self._visits is None:
            self._visits = self._due_groups(shards, moment.wall_ms)
        work = SLICE_WORK
        while work > 0 and not store.disk_full:
            if self._must_wait(store):
                return _BLOCKED_MS
            self._visit = self._visit or next(self._visits, None)
            if self._visit is None:
                break
            work -= self._continue_visit(self._visit, work, moment)
        if work <= 0 and not store.disk_full:
            return _NEXT_SLICE_MS
        if self._visit is not None:
            self._note_deleted(self._visit, moment)
            self._visit.end(is_done=False)
        self._visits = self._visit = None
        return self._check_interval_ms

    def _due_groups(self, shards: Sequence[Shard], wall_ms: int) -> Iterator[_Visit]:
        for shard in shards:
            for group_id in shard.expirations.due(wall_ms) if shard.state is ShardState.ACTIVE else ():
                self.groups_visited += 1
                yield _Visit(shard, group_id)

    def _must_wait(self, store: LogStore) -> bool:
        """Return true if the disk is behind, or the next segment of the write-ahead log is being made."""
        return store.position - store.flushed > _BUSY_BYTES or store.should_wait(self._batch_bytes)

    def _continue_visit(self, visit: _Visit, most: int, moment: Moment) -> int:
        """Continue with the group. Return the work done."""
        shard = visit.shard
        group = shard.groups.get(visit.group_id)
        if group is None or shard.state is not ShardState.ACTIVE:
            self._visit = None
            return _WORK_A_GROUP
        if visit.subscriptions is None and is_by_subscription(group):
            visit.subscriptions = self._subscriptions.of(group.classic)
            visit.reading = visit.subscriptions.reading()
        work = _WORK_A_GROUP
        for cost in visit.reading:
            work += cost
            if work >= most:
                return work
        rule = rule_of(group, visit.subscriptions)
        keys: list[TopicPartitionKey] = []
        is_over = True
        if not isinstance(rule, KeepReason):
            looked, is_over = self._find(visit, rule, max(most - work + _WORK_A_GROUP, 1), moment.wall_ms, keys)
            work += _WORK_A_LOOK * looked + _WORK_A_TOMBSTONE * len(keys)
        is_done = self._expire(visit, group, keys, moment, is_over=is_over)
        if keys or group.group_id not in shard.groups:
            work += _WORK_AN_EVENT
        if is_over or not is_done:
            visit.end(is_done=is_done)
            self._visit = None
        return work

    def _find(
        self, visit: _Visit, rule: Rule, most: int, wall_ms: int, found: list[TopicPartitionKey]
    ) -> tuple[int, bool]:
        """Find expired offsets, at most those of one slice and one batch. Return the number of offsets checked, and
        true if no other is left to check."""
        offsets, group_id = visit.shard.offsets, visit.group_id
        pending = offsets.pending.of(group_id)
        looked, room = 0, self._batch_bytes
        for topic, partition in islice(visit.keys, most):
            looked += 1
            committed = offsets.get(group_id, topic, partition)
            if committed is None:
                continue
            at_ms = expires_ms(rule, (topic, partition), committed, pending, self.retention_ms)
            if isinstance(at_ms, KeepReason):
                continue
            if wall_ms < at_ms:
                visit.due_ms = at_ms if visit.due_ms is None else min(visit.due_ms, at_ms)
                continue
            found.append((topic, partition))
            room -= _TOMBSTONE_BYTES + _BYTES_A_CHARACTER * (len(group_id) + len(topic))
            if len(found) == BATCH_PLACES or room <= 0:
                return looked, False
        return looked, looked < most

    def _expire(
        self, visit: _Visit, group: Group, keys: list[TopicPartitionKey], moment: Moment, *, is_over: bool
    ) -> bool:
        """Delete the offsets, and the group with the last of them. Return false if the tombstones cannot be
        appended."""
        shard, before = visit.shard, visit.shard.log.next_offset
        expired = dict(visit.expired)
        for topic, _partition in keys:
            expired[topic] = expired.get(topic, 0) + 1
        may_die = is_over and group.is_empty
        leaves_nothing = may_die and _leaves_nothing(shard.offsets, group.group_id, len(keys))
        if not (keys or leaves_nothing or (is_over and expired)):
            return True
        event = RetentionDue(group.group_id, tuple(keys), tuple(expired.items()), is_over, leaves_nothing)
        shard.process(group, event, moment)
        if (keys or leaves_nothing) and shard.log.next_offset == before:
            self._note_deleted(visit, moment)
            return False
        visit.expired = expired
        self.offsets_expired += len(keys)
        self.groups_expired += group.group_id not in shard.groups
        return True

    def _note_deleted(self, visit: _Visit, moment: Moment) -> None:
        """Append the note of the visit; the rest is left to the next pass."""
        group = visit.shard.groups.get(visit.group_id)
        if visit.expired and group is not None:
            expired = tuple(visit.expired.items())
            visit.shard.process(group, RetentionDue(group.group_id, (), expired, True, False), moment)


def _leaves_nothing(offsets: OffsetTable, group_id: str, going: int) -> bool:
    return not offsets.pending.of(group_id) and offsets.count_of(group_id) == going
