"""Answer DeleteGroups: each group by itself, in slices (docs/spec/group-protocol.md#2.10).

A group with few offsets is deleted in one batch, whole or not at all. Of a group with many, the offsets are deleted
first, a batch at a time, then the group. Until then admission refuses every request for it, so no client sees half of
its offsets or joins it. A crash in between leaves an Empty group with the rest of its offsets, as an OffsetDelete
would: the request was not answered.
"""

from collections.abc import Generator

from coordinator.clock import Moment
from coordinator.core.admission import admit, admit_to_shard, admit_write
from coordinator.core.core import Core
from coordinator.groups.classic.events import Deleted, GroupDeleted
from coordinator.runtime.group import Group, GroupKind
from coordinator.runtime.outbox import Awaited
from coordinator.runtime.shard import Shard
from coordinator.runtime.slices import BLOCKED, Served, Work
from protocol.errors import ErrorCode
from protocol.messages.groups import DeletedGroup, DeleteGroups, DeleteGroupsReply
from protocol.session import RequestRef

BATCH_OFFSETS = 500
"""Offsets deleted in one batch; a group with no more is deleted together with them."""
_WORK_A_GROUP, _WORK_AN_OFFSET = 40, 5
"""Work of a group and of an offset, in microseconds."""
_BATCH_BYTES = 64 * 1024
_BUSY_BYTES = 4 * 1024 * 1024
"""Unflushed bytes from which the disk counts as behind: other clients' requests come first then."""

OffsetDeletion = Generator[int, Moment, tuple[ErrorCode, int, Moment]]


def delete_groups(core: Core, ref: RequestRef, message: DeleteGroups, moment: Moment) -> None:
    """Answer when every group that may be deleted is durably deleted; duplicates collapse."""
    core.slices.begin(core.outbox, ref, _deleting(core, ref, message), moment, changes=True)


def _deleting(core: Core, ref: RequestRef, message: DeleteGroups) -> Work:
    moment = yield 0
    results, awaited = [], Awaited()
    for group_id in dict.fromkeys(message.groups_names):
        shard, group = core.find(group_id)
        error = admit(core, group_id, may_be_empty=True) or admit_write(core)
        is_admitted = not error
        work, deleted = _WORK_A_GROUP + _WORK_AN_OFFSET * min(shard.offsets.count_of(group_id), BATCH_OFFSETS), 0
        if not error and group is not None and _is_large(shard, group):
            shard.deleting.add(group_id)
            error, deleted, moment = yield from _delete_offsets(core, shard, group_id, moment)
            shard.deleting.discard(group_id)
        if not error:
            error = _delete(core, ref, group_id, deleted, moment)
        results.append(DeletedGroup(group_id, error))
        if is_admitted:
            awaited.add_group(shard.outbox, group_id)
        moment = yield work
    return Served(DeleteGroupsReply(tuple(results)), awaited)


def _is_large(shard: Shard, group: Group) -> bool:
    """Return true if the group may be deleted, and has more offsets than one step should delete."""
    return group.is_empty and shard.offsets.count_of(group.group_id) > BATCH_OFFSETS


def _delete_offsets(core: Core, shard: Shard, group_id: str, moment: Moment) -> OffsetDeletion:
    """Delete all offsets of the group. Yields the cost of each piece; returns the error, the number deleted, and the
    moment at which it ended."""
    offsets, deleted = shard.offsets, 0
    for topic in list(offsets.topics(group_id)):
        partitions = list(offsets.topics(group_id).get(topic, ()))
        for at in range(0, len(partitions), BATCH_OFFSETS):
            while _must_wait(core):
                moment = yield BLOCKED
            if refused := admit_to_shard(shard):
                return refused, deleted, moment
            there = offsets.topics(group_id).get(topic, {})
            some = [partition for partition in partitions[at : at + BATCH_OFFSETS] if partition in there]
            failed = shard.delete_offsets_of(group_id, topic, some, moment) if some else None
            if failed is not None:
                return failed, deleted, moment
            deleted += len(some)
            moment = yield _WORK_A_GROUP + _WORK_AN_OFFSET * len(some)
    return ErrorCode.NONE, deleted, moment


def _must_wait(core: Core) -> bool:
    """Return true if the disk is behind, or the next segment of the write-ahead log is being made."""
    store = core.store
    return not store.disk_full and (store.position - store.flushed > _BUSY_BYTES or store.should_wait(_BATCH_BYTES))


def _delete(core: Core, ref: RequestRef, group_id: str, deleted: int, moment: Moment) -> ErrorCode:
    """Delete the group with its remaining offsets; `deleted` offsets are deleted already."""
    shard, group = core.find(group_id)
    if group is None:
        return ErrorCode.NONE if deleted else ErrorCode.GROUP_ID_NOT_FOUND  # it has expired meanwhile
    if group.kind is not GroupKind.CLASSIC and not group.is_empty:
        return ErrorCode.NON_EMPTY_GROUP
    offsets = tuple(shard.offsets.partitions(group_id))
    answers = shard.run(group, Deleted(ref, group_id, offsets, deleted, core.sender(ref)), moment)
    verdicts = [answer.reply for answer in answers if isinstance(answer.reply, GroupDeleted)]
    shard.outbox.deliver(group_id, [answer for answer in answers if not isinstance(answer.reply, GroupDeleted)])
    return verdicts[0].error_code
