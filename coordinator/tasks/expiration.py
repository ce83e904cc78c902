"""Expired offsets and dead groups go (docs/spec/group-protocol.md#4.4): a pass over all groups from time to time, a
slice at a time.

What the log refuses stays as it was, and the next pass finds it again. A crash between two slices has the same end.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

from coordinator.clock import Moment
from coordinator.groups.classic.events import RetentionDue
from coordinator.groups.classic.state import Group, GroupState
from coordinator.runtime.expiry_rules import Kept, Rule, expires_ms, rule_of
from coordinator.runtime.offset_table import OffsetAndMetadata, OffsetTable, Place
from coordinator.runtime.shard import Shard, ShardState
from partition_log.store import LogStore

TASK = "expiry"
SLICE_WORK = 5_000
"""What one slice may do, in microseconds by and large: from counts, not a clock."""
BATCH_PLACES = 500
"""Offsets that may go at one time; they are one batch in the log."""
_WORK_A_GROUP, _WORK_A_MEMBER, _WORK_A_LOOK, _WORK_A_TOMBSTONE, _WORK_AN_EVENT = 12, 3, 1, 4, 40
_TOMBSTONE_BYTES, _BYTES_A_CHARACTER = 48, 4
_NEXT_SLICE_MS, _BLOCKED_MS = 10, 200
_BUSY_BYTES = 4 * 1024 * 1024
"""Not yet on disk: then the disk is behind, and what clients wait for comes first."""


class _Visit:
    """A group that is being looked at, and what has gone of it, by topic."""

    __slots__ = ("expired", "group_id", "places", "shard")

    def __init__(self, shard: Shard, group_id: str) -> None:
        self.shard = shard
        self.group_id = group_id
        self.places = _places(shard.offsets.topics(group_id))
        self.expired: dict[str, int] = {}


def _places(topics: Mapping[str, Mapping[int, OffsetAndMetadata]]) -> Iterator[Place]:
    """Those that are there at the beginning; groups change between two slices."""
    for topic in list(topics):
        for partition in list(topics.get(topic, ())):
            yield topic, partition


class Expiry:
    """Where the pass is. `due_ms` is when the next begins, or this one goes on, by the monotonic clock;
    `offsets_expired` and `groups_expired` count what went since the start."""

    def __init__(self, retention_ms: int, check_interval_ms: int, max_batch_bytes: int) -> None:
        self.retention_ms = retention_ms
        self.due_ms = 0
        self.offsets_expired = self.groups_expired = 0
        self._check_interval_ms = check_interval_ms
        self._batch_bytes = min(64 * 1024, max_batch_bytes // 2)
        self._visits: Iterator[_Visit] | None = None
        self._visit: _Visit | None = None

    def wait(self, moment: Moment) -> int:
        """There is nothing to do for a whole interval. When it is over, monotonic."""
        self.due_ms = moment.monotonic_ms + self._check_interval_ms
        return self.due_ms

    def run(self, shards: Sequence[Shard], store: LogStore, moment: Moment) -> int:
        """One slice. How many milliseconds later the next is due."""
        delay_ms = self._run(shards, store, moment)
        self.due_ms = moment.monotonic_ms + delay_ms
        return delay_ms

    def _run(self, shards: Sequence[Shard], store: LogStore, moment: Moment) -> int:
        if self._visits is None:
            self._visits = _all_groups(shards)
        work = SLICE_WORK
        while work > 0 and not store.disk_full:
            if self._must_wait(store):
                return _BLOCKED_MS
            self._visit = self._visit or next(self._visits, None)
            if self._visit is None:
                break
            work -= self._look(self._visit, work, moment)
        if work <= 0 and not store.disk_full:
            return _NEXT_SLICE_MS
        if self._visit is not None:
            self._tell_what_went(self._visit, moment)
        self._visits = self._visit = None
        return self._check_interval_ms

    def _must_wait(self, store: LogStore) -> bool:
        """Whether the disk is behind, or the next segment of the write-ahead log being made."""
        return store.position - store.flushed > _BUSY_BYTES or store.should_wait(self._batch_bytes)

    def _look(self, visit: _Visit, most: int, moment: Moment) -> int:
        """Go on with the group. How much work it was."""
        shard = visit.shard
        group = shard.groups.get(visit.group_id)
        if group is None or shard.state is not ShardState.ACTIVE:
            self._visit = None
            return _WORK_A_GROUP
        rule = rule_of(group, shard.balanced.get(group.group_id))
        places: list[Place] = []
        work, is_over = _WORK_A_GROUP, True
        if not isinstance(rule, Kept):
            looked, is_over = self._find(visit, rule, most, moment.wall_ms, places)
            work += _WORK_A_LOOK * looked + _WORK_A_TOMBSTONE * len(places) + _WORK_A_MEMBER * len(group.members)
        is_done = self._expire(visit, group, places, moment, is_over=is_over)
        if places or group.group_id not in shard.groups:
            work += _WORK_AN_EVENT
        if is_over or not is_done:
            self._visit = None
        return work

    def _find(self, visit: _Visit, rule: Rule, most: int, wall_ms: int, found: list[Place]) -> tuple[int, bool]:
        """What has expired, within the slice and a batch. How many were looked at, and whether these were all."""
        offsets, group_id = visit.shard.offsets, visit.group_id
        pending = offsets.pending.of(group_id)
        looked, room = 0, self._batch_bytes
        for topic, partition in islice(visit.places, most):
            looked += 1
            committed = offsets.get(group_id, topic, partition)
            if committed is None:
                continue
            at_ms = expires_ms(rule, (topic, partition), committed, pending, self.retention_ms)
            if isinstance(at_ms, Kept) or wall_ms < at_ms:
                continue
            found.append((topic, partition))
            room -= _TOMBSTONE_BYTES + _BYTES_A_CHARACTER * (len(group_id) + len(topic))
            if len(found) == BATCH_PLACES or room <= 0:
                return looked, False
        return looked, looked < most

    def _expire(self, visit: _Visit, group: Group, places: list[Place], moment: Moment, *, is_over: bool) -> bool:
        """Let them go, and the group with the last of them. False if the log refuses."""
        shard, before = visit.shard, visit.shard.log.next_offset
        expired = dict(visit.expired)
        for topic, _partition in places:
            expired[topic] = expired.get(topic, 0) + 1
        may_die = is_over and group.state is GroupState.EMPTY and not shard.is_balanced(group.group_id)
        leaves_nothing = may_die and _leaves_nothing(shard.offsets, group.group_id, len(places))
        if not (places or leaves_nothing or (is_over and expired)):
            return True
        event = RetentionDue(group.group_id, tuple(places), tuple(expired.items()), is_over, leaves_nothing)
        shard.process(group, event, moment)
        if (places or leaves_nothing) and shard.log.next_offset == before:
            self._tell_what_went(visit, moment)
            return False
        visit.expired = expired
        self.offsets_expired += len(places)
        self.groups_expired += group.group_id not in shard.groups
        return True

    def _tell_what_went(self, visit: _Visit, moment: Moment) -> None:
        """The rest is for the next pass."""
        group = visit.shard.groups.get(visit.group_id)
        if visit.expired and group is not None:
            expired = tuple(visit.expired.items())
            visit.shard.process(group, RetentionDue(group.group_id, (), expired, True, False), moment)


def _all_groups(shards: Sequence[Shard]) -> Iterator[_Visit]:
    for shard in shards:
        for group_id in list(shard.groups):
            yield _Visit(shard, group_id)


def _leaves_nothing(offsets: OffsetTable, group_id: str, going: int) -> bool:
    return not offsets.pending.of(group_id) and offsets.count_of(group_id) == going
