"""Scheduled deletion of the offsets committed for deleted topics, a slice at a time: there may be a hundred thousand.

A group that had such offsets gets a note in its journal.
"""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence

from coordinator.clock import Moment
from coordinator.gateway.deleted_topics import AbsentTopic
from coordinator.groups.classic.notes import Cause
from coordinator.records.records import Note
from coordinator.runtime.shard import Shard, ShardState
from coordinator.tasks.topic_deletion import SLICE_RECORDS
from protocol.words import counted

_BATCH_RECORDS = 500
_GROUPS_A_RECORD = 20
"""Number of groups that can be checked for the cost of one tombstone."""
_NEXT_SLICE_MS, _BLOCKED_MS = 1, 200

_NOT_READ = (ShardState.FAILED, ShardState.UNLOADED)
"""States of shards whose offsets are not served here: the node that serves them deletes them."""


class OffsetCleanup:
    """Deleted topics whose offsets are being deleted, one after the other. After a restart the rest is found by the
    topic ids stored with the offsets."""

    def __init__(self) -> None:
        self._topics: deque[AbsentTopic] = deque()
        self._next_shard = 0
        self._room = 0

    def stored(self, shards: Sequence[Shard]) -> Iterator[Mapping[bytes, str]]:
        """Yield names by id of the topics with stored offsets, without those under deletion."""
        under_way = {topic.topic_id for topic in self._topics}
        for shard in shards:
            names = shard.offsets.topic_names
            if under_way.isdisjoint(names):
                yield names
            else:
                yield {topic_id: name for topic_id, name in names.items() if topic_id not in under_way}

    def add(self, topics: Sequence[AbsentTopic]) -> bool:
        """Queue the topics; return true if `run` must be called, and was not under way before."""
        was_idle = not self._topics
        self._topics.extend(topics)
        return was_idle and bool(self._topics)

    def run(self, shards: Sequence[Shard], moment: Moment) -> int | None:
        """Run one slice. Return the milliseconds to the next; None when all is done."""
        self._room = SLICE_RECORDS
        while self._topics:
            topic = self._topics[0]
            while self._next_shard < len(shards):
                shard = shards[self._next_shard]
                is_active = shard.state is ShardState.ACTIVE
                if shard.state not in _NOT_READ and not (is_active and self._delete_in(shard, topic, moment)):
                    return _NEXT_SLICE_MS if self._room <= 0 else _BLOCKED_MS
                self._next_shard += 1
            self._next_shard = 0
            self._topics.popleft()
        return None

    def _delete_in(self, shard: Shard, topic: AbsentTopic, moment: Moment) -> bool:
        """Delete the topic's offsets in the shard. Return true if none is left; false if the slice is over, or the disk
        full."""
        for group_id in list(shard.groups):
            partitions = _partitions_of(shard, group_id, topic)
            deleted = 0
            is_whole = True
            for at in range(0, len(partitions), _BATCH_RECORDS):
                some = partitions[at : at + _BATCH_RECORDS]
                if self._room <= 0 or shard.delete_offsets_of(group_id, topic.name, some, moment) is not None:
                    is_whole = False
                    break
                self._room -= len(some)
                deleted += len(some)
            if deleted:
                _append_note(shard, group_id, f"{counted(deleted, 'offset')} of {topic.name}", moment)
            if not is_whole:
                return False
        self._room -= len(shard.groups) // _GROUPS_A_RECORD
        shard.offsets.forget_id(topic.topic_id)
        return True


def _append_note(shard: Shard, group_id: str, detail: str, moment: Moment) -> None:
    group = shard.groups.get(group_id)
    generation, members, state = 0, 0, "Empty"
    if group is not None:
        classic = group.classic
        generation, members, state = classic.generation_id, len(classic.members), classic.state.title
    cause = Cause.TOPIC_DELETED.value
    shard.append_notes(
        [Note(group_id, "expired", cause, "", detail, generation, members, state, moment.wall_ms)], moment
    )


def _partitions_of(shard: Shard, group_id: str, topic: AbsentTopic) -> list[int]:
    """Return the partitions whose offset belongs to the deleted topic, and not to another with its name."""
    committed = shard.offsets.topics(group_id).get(topic.name, {})
    return [part for part, kept in committed.items() if kept.topic_id == topic.topic_id]
