"""Who answers DeleteGroups: each group by itself, in slices (docs/spec/group-protocol.md#2.10).

A group with few offsets goes in one batch, whole or not at all. Of one with many the offsets go first, a batch at a
time, then the group. Until it is gone nothing else is done with it (`gate`), so nobody sees half of its offsets, and
nobody joins what is about to go. A crash in between leaves an Empty group with the rest of its offsets, as deleting
some of them would: the request was not answered.
"""

from collections.abc import Generator

from coordinator.clock import Moment
from coordinator.groups.classic.events import Deleted, GroupDeleted
from coordinator.groups.classic.state import Group, GroupState
from coordinator.handlers.admission import admit, admit_to_shard, admit_write
from coordinator.handlers.core import Core
from coordinator.runtime.shard import Ran, Shard
from coordinator.runtime.slices import BLOCKED, Served, Work
from protocol.errors import ErrorCode
from protocol.messages.groups import DeletedGroup, DeleteGroups, DeleteGroupsReply
from protocol.session import RequestRef

BATCH_OFFSETS = 500
"""Offsets that go at one time; a group with no more goes with all of them."""
_WORK_A_GROUP, _WORK_AN_OFFSET = 40, 5
"""In microseconds."""
_BATCH_BYTES = 64 * 1024
_BUSY_BYTES = 4 * 1024 * 1024
"""Not yet on disk: then the disk is behind, and what other clients wait for comes first."""

Forgetting = Generator[int, Moment, tuple[ErrorCode, int, Moment]]


def delete_groups(core: Core, ref: RequestRef, message: DeleteGroups, moment: Moment) -> None:
    """Answer when every group that may go is durably gone; duplicates collapse."""
    core.slices.begin(core.outbox, ref, _deleting(core, ref, message), moment, changes=True)


def _deleting(core: Core, ref: RequestRef, message: DeleteGroups) -> Work:
    moment = yield 0
    results, position = [], 0
    for group_id in dict.fromkeys(message.groups_names):
        shard, group = core.find(group_id)
        error = admit(core, group_id, may_be_empty=True) or admit_write(core)
        work, forgotten = _WORK_A_GROUP + _WORK_AN_OFFSET * min(shard.offsets.count_of(group_id), BATCH_OFFSETS), 0
        if not error and group is not None and _is_large(shard, group):
            shard.deleting.add(group_id)
            error, forgotten, moment = yield from _forgetting(core, shard, group_id, moment)
            shard.deleting.discard(group_id)
        if not error:
            error = _delete(core, ref, group_id, forgotten, moment)
        results.append(DeletedGroup(group_id, error))
        position = max(position, shard.position_of(group_id))
        moment = yield work
    return Served(DeleteGroupsReply(tuple(results)), position)


def _is_large(shard: Shard, group: Group) -> bool:
    """Whether the group may go, and has more offsets than one step should forget."""
    may_go = group.state is GroupState.EMPTY and not shard.is_balanced(group.group_id)
    return may_go and shard.offsets.count_of(group.group_id) > BATCH_OFFSETS


def _forgetting(core: Core, shard: Shard, group_id: str, moment: Moment) -> Forgetting:
    """Forget all offsets of the group. Yields what each piece cost; returns why it could not, how many went, and the
    moment at which it was done."""
    offsets, forgotten = shard.offsets, 0
    for topic in list(offsets.topics(group_id)):
        partitions = list(offsets.topics(group_id).get(topic, ()))
        for at in range(0, len(partitions), BATCH_OFFSETS):
            while _must_wait(core):
                moment = yield BLOCKED
            if refused := admit_to_shard(core, shard):
                return refused, forgotten, moment
            there = offsets.topics(group_id).get(topic, {})
            some = [partition for partition in partitions[at : at + BATCH_OFFSETS] if partition in there]
            failed = shard.forget_offsets(group_id, topic, some, moment) if some else None
            if failed is not None:
                return failed, forgotten, moment
            forgotten += len(some)
            moment = yield _WORK_A_GROUP + _WORK_AN_OFFSET * len(some)
    return ErrorCode.NONE, forgotten, moment


def _must_wait(core: Core) -> bool:
    """Whether the disk is behind, or the next segment of the write-ahead log is being made."""
    store = core.store
    return not store.disk_full and (store.position - store.flushed > _BUSY_BYTES or store.should_wait(_BATCH_BYTES))


def _delete(core: Core, ref: RequestRef, group_id: str, forgotten: int, moment: Moment) -> ErrorCode:
    """Delete the group with what offsets it has left; `forgotten` are gone already."""
    shard, group = core.find(group_id)
    if group is None:
        return ErrorCode.NONE if forgotten else ErrorCode.GROUP_ID_NOT_FOUND  # it has expired meanwhile
    if shard.is_balanced(group_id):
        return ErrorCode.NON_EMPTY_GROUP
    ran = shard.run(group, Deleted(ref, group_id, tuple(shard.offsets.partitions(group_id)), forgotten), moment)
    verdicts = [answer.reply for answer in ran.answers if isinstance(answer.reply, GroupDeleted)]
    others = [answer for answer in ran.answers if not isinstance(answer.reply, GroupDeleted)]
    shard.deliver(Ran(others, ran.position))
    return verdicts[0].error_code
