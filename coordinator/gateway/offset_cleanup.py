"""What groups have committed for topics that are gone from the cluster is forgotten, a slice at a time: it may be a
hundred thousand offsets. A group that had some has a note of it in its journal."""

from collections import deque
from collections.abc import Sequence

from coordinator.clock import Moment
from coordinator.gateway.deleted_topics import DeletedTopicRecord
from coordinator.groups.classic.notes import Cause, counted
from coordinator.records.records import Note
from coordinator.runtime.shard import Shard, ShardState
from coordinator.tasks.topic_deletion import SLICE_RECORDS

_BATCH_RECORDS = 500
_GROUPS_A_RECORD = 20
"""Groups that may be looked at for what one tombstone costs."""
_NEXT_SLICE_MS, _BLOCKED_MS = 1, 200


class OffsetCleanup:
    """The topics whose offsets are being forgotten, one after the other. A process that ends in between lets the rest
    be: it does not know of the topic any more."""

    def __init__(self) -> None:
        self._topics: deque[DeletedTopicRecord] = deque()
        self._next_shard = 0
        self._room = 0

    def add(self, topics: Sequence[DeletedTopicRecord]) -> bool:
        """Whether `run` has to be called, as it had not to be before."""
        was_idle = not self._topics
        self._topics.extend(topics)
        return was_idle and bool(self._topics)

    def run(self, shards: Sequence[Shard], moment: Moment) -> int | None:
        """One slice. How many milliseconds later the next is due; None when all is done."""
        self._room = SLICE_RECORDS
        while self._topics:
            topic = self._topics[0]
            while self._next_shard < len(shards):
                shard = shards[self._next_shard]
                is_active = shard.state is ShardState.ACTIVE
                # Of a shard that could not be loaded nobody reads the offsets.
                if shard.state is not ShardState.FAILED and not (is_active and self._forget_in(shard, topic, moment)):
                    return _NEXT_SLICE_MS if self._room <= 0 else _BLOCKED_MS
                self._next_shard += 1
            self._next_shard = 0
            self._topics.popleft()
        return None

    def _forget_in(self, shard: Shard, topic: DeletedTopicRecord, moment: Moment) -> bool:
        """Whether nothing is left; false if the slice is over, or the disk full."""
        for group_id in list(shard.groups):
            partitions = _of(shard, group_id, topic)
            forgotten = 0
            is_whole = True
            for at in range(0, len(partitions), _BATCH_RECORDS):
                some = partitions[at : at + _BATCH_RECORDS]
                if self._room <= 0 or shard.delete_offsets_of(group_id, topic.name, some, moment) is not None:
                    is_whole = False
                    break
                self._room -= len(some)
                forgotten += len(some)
            if forgotten:
                self._write_down(shard, group_id, topic.name, forgotten, moment)
            if not is_whole:
                return False
        self._room -= len(shard.groups) // _GROUPS_A_RECORD
        return True

    def _write_down(self, shard: Shard, group_id: str, topic: str, count: int, moment: Moment) -> None:
        group = shard.groups.get(group_id)
        generation, members, state = 0, 0, "Empty"
        if group is not None:
            generation, members, state = group.generation_id, len(group.members), group.state.title
        detail = f"{counted(count, 'offset')} of {topic}"
        cause = Cause.TOPIC_DELETED.value
        shard.append_notes(
            [Note(group_id, "expired", cause, "", detail, generation, members, state, moment.wall_ms)], moment
        )


def _of(shard: Shard, group_id: str, topic: DeletedTopicRecord) -> list[int]:
    """Partitions with an offset of the topic that is gone. What was committed when another had its name is of that; and
    another may have it by now, be it that there was no room for a while to forget anything."""
    committed = shard.offsets.topics(group_id).get(topic.name, {})
    first_ms, end_ms = topic.from_wall_ms, topic.until_wall_ms
    return [part for part, offset in committed.items() if first_ms <= offset.commit_timestamp_ms < end_ms]
