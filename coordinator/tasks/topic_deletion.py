"""Deletion of topics and of the offsets committed for them, a slice at a time (docs/spec/group-protocol.md#4.4): there
may be a hundred thousand offsets.

A deletion survives a crash by its order: first a record that the topic is deleted, then the tombstones of the offsets,
and last the record that frees the topic's name. A start in between continues the deletion.
"""

from collections.abc import Sequence

from msgspec.structs import replace

from coordinator.clock import Moment
from coordinator.runtime.offset_table import OffsetTable
from coordinator.runtime.outbox import Outbox
from coordinator.runtime.shard import Shard, ShardState
from coordinator.topics.embedded import EmbeddedTopics
from protocol.errors import ErrorCode
from protocol.messages.topics import DeletedTopic, DeleteTopicsReply
from protocol.session import RequestRef

TASK = "deletions"
SLICE_RECORDS = 2_000
"""Largest number of offsets deleted by one slice."""
_BATCH_RECORDS = 500
_GROUPS_A_RECORD = 20
"""Groups that can be checked for the cost of one tombstone."""
_NEXT_SLICE_MS, _BLOCKED_MS = 1, 200


class _Waiting:
    """A request that is answered when its topics are deleted, or at its deadline."""

    __slots__ = ("deadline_ms", "names", "ref", "replies")

    def __init__(self, ref: RequestRef, replies: Sequence[DeletedTopic], names: set[str], deadline_ms: int) -> None:
        self.ref = ref
        self.replies = replies
        self.names = names
        self.deadline_ms = deadline_ms


class Deletions:
    """Topics being deleted, and the requests that wait for it."""

    def __init__(self) -> None:
        self._next_shard: dict[str, int] = {}
        self._waiting: list[_Waiting] = []
        self._room = 0

    def wait(self, ref: RequestRef, replies: Sequence[DeletedTopic], names: set[str], deadline_ms: int) -> None:
        """Hold the replies until the topics of these names are deleted."""
        self._waiting.append(_Waiting(ref, replies, names, deadline_ms))

    def run(self, topics: EmbeddedTopics, shards: Sequence[Shard], outbox: Outbox, moment: Moment) -> int | None:
        """Run one slice. Return the milliseconds to the next; None when all is done."""
        self._room = SLICE_RECORDS
        left = []
        for name in topics.deleted:
            if self._room > 0 and self._delete_offsets(name, topics, shards, moment):
                self._next_shard.pop(name, None)
            else:
                left.append(name)
        self._answer(left, outbox, topics.position, moment)
        if not left:
            return None
        return _NEXT_SLICE_MS if self._room <= 0 else _BLOCKED_MS

    def _delete_offsets(self, name: str, topics: EmbeddedTopics, shards: Sequence[Shard], moment: Moment) -> bool:
        """Delete the topic's offsets; return true if none is left. Returns false if the slice is over, a shard is not
        loaded, or the disk is full. A shard that failed to load is left out: its offsets are never read."""
        index = self._next_shard.get(name, 0)
        while index < len(shards):
            shard = shards[index]
            self._next_shard[name] = index
            is_active = shard.state is ShardState.ACTIVE
            if shard.state is not ShardState.FAILED and not (
                is_active and self._delete_offsets_in(shard, name, moment)
            ):
                return False
            index += 1
        return topics.remove_logs(name) and topics.free(name, moment) is None

    def _delete_offsets_in(self, shard: Shard, topic: str, moment: Moment) -> bool:
        for group_id in list(shard.groups):
            partitions = held(shard.offsets, group_id, topic)
            for at in range(0, len(partitions), _BATCH_RECORDS):
                if self._room <= 0:
                    return False
                some = partitions[at : at + _BATCH_RECORDS]
                if shard.delete_offsets_of(group_id, topic, some, moment) is not None:
                    return False
                self._room -= len(some)
        self._room -= len(shard.groups) // _GROUPS_A_RECORD
        return True

    def _answer(self, left: Sequence[str], outbox: Outbox, position: int, moment: Moment) -> None:
        still: list[_Waiting] = []
        for waiting in self._waiting:
            late = waiting.names.intersection(left)
            if late and moment.monotonic_ms < waiting.deadline_ms:
                still.append(waiting)
                continue
            replies = [_timed_out(reply) if reply.name in late else reply for reply in waiting.replies]
            outbox.hold(position, waiting.ref, DeleteTopicsReply(tuple(replies)))
        self._waiting = still


def held(offsets: OffsetTable, group_id: str, topic: str) -> list[int]:
    """Partitions of the topic for which the group has an offset, committed or pending."""
    partitions = list(offsets.topics(group_id).get(topic, ()))
    if offsets.pending:
        pending = [partition for name, partition in offsets.pending.of(group_id) if name == topic]
        partitions = list(dict.fromkeys(partitions + pending))
    return partitions


def _timed_out(reply: DeletedTopic) -> DeletedTopic:
    text = "it is deleted, and what groups have committed for it is still being forgotten"
    return replace(reply, error_code=ErrorCode.REQUEST_TIMED_OUT, error_message=text)
