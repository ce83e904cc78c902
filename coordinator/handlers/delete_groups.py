"""Answer DeleteGroups: each group by itself, in slices (docs/spec/group-protocol.md#2.10).

A group with few offsets is deleted in one batch, whole or not at all. Of a group with many, the offsets are deleted
first, a batch at a time, then the group. Until then admission refuses every request for it, so no client sees half of
its offsets or joins it. A crash in between leaves an Empty group with the rest of its offsets, as an OffsetDelete
would: the request was not answered.
"""

from collections.abc import Generator, Mapping
from itertools import islice
from typing import Final

from coordinator.clock import Moment
from coordinator.core.admission import admit, admit_to_shard, admit_write
from coordinator.core.core import Core
from coordinator.facts.admin_notes import note_admin
from coordinator.facts.commit_notes import MOST_CHANGES
from coordinator.groups.classic.events import Deleted, GroupDeleted
from coordinator.groups.classic.notes import Cause
from coordinator.runtime.group import Group, GroupKind
from coordinator.runtime.offset_and_metadata import OffsetAndMetadata
from coordinator.runtime.outbox import Awaited
from coordinator.runtime.shard import Shard
from coordinator.runtime.slices import BLOCKED, Served, Work
from protocol.errors import ErrorCode
from protocol.messages.groups import DeletedGroup, DeleteGroups, DeleteGroupsReply, OffsetChange
from protocol.session import RequestRef
from protocol.words import counted

_MOST_KEPT: Final = 20_000
"""Offsets that the notes of one request name: many groups may be deleted at once, and the journal is bounded."""
BATCH_OFFSETS = 500
"""Offsets deleted in one batch; a group with no more is deleted together with them."""
_WORK_A_GROUP, _WORK_AN_OFFSET = 40, 5
"""Work of a group and of an offset, in microseconds."""
_BATCH_BYTES = 64 * 1024
_BUSY_BYTES = 4 * 1024 * 1024
"""Unflushed bytes from which the disk counts as behind: other clients' requests come first then."""

OffsetDeletion = Generator[int, Moment, tuple[ErrorCode, Moment]]


class _Gone:
    """Deleted offsets of a group: their number, and the first `limit` of them with their values, for the note."""

    def __init__(self, limit: int) -> None:
        self.count = 0
        self.first: list[OffsetChange] = []
        self._limit = limit

    def add(self, topic: str, partitions: Mapping[int, OffsetAndMetadata]) -> None:
        self.count += len(partitions)
        some = islice(partitions.items(), self._limit - len(self.first))
        self.first += [OffsetChange(topic, partition, kept.offset) for partition, kept in some]

    def truncate(self, count: int, first: int) -> None:
        """Forget all but the first `count` offsets, of which `first` have values: the others were not deleted after
        all."""
        self.count = count
        del self.first[first:]


def delete_groups(core: Core, ref: RequestRef, message: DeleteGroups, moment: Moment) -> None:
    """Answer when every group that may be deleted is durably deleted; duplicates collapse."""
    core.slices.begin(core.outbox, ref, _deleting(core, ref, message), moment, changes=True)


def _deleting(core: Core, ref: RequestRef, message: DeleteGroups) -> Work:
    moment = yield 0
    results, awaited = [], Awaited()
    kept = 0
    for group_id in dict.fromkeys(message.groups_names):
        shard, group = core.find(group_id)
        error = admit(core, group_id, may_be_empty=True) or admit_write(core)
        is_admitted = not error
        work = _WORK_A_GROUP + _WORK_AN_OFFSET * min(shard.offsets.count_of(group_id), BATCH_OFFSETS)
        gone = _Gone(min(MOST_CHANGES, _MOST_KEPT - kept))
        if not error and group is not None and _is_large(shard, group):
            shard.deleting.add(group_id)
            error, moment = yield from _delete_offsets(core, shard, group_id, gone, moment)
            shard.deleting.discard(group_id)
        if not error:
            before = gone.count, len(gone.first)
            if error := _delete(core, ref, group_id, gone, moment):
                gone.truncate(*before)
        if error and gone.count:
            _note_offsets(core, ref, group_id, gone, moment)
        kept += len(gone.first)
        results.append(DeletedGroup(group_id, error))
        if is_admitted:
            awaited.add_group(shard.outbox, group_id)
        moment = yield work
    return Served(DeleteGroupsReply(tuple(results)), awaited)


def _is_large(shard: Shard, group: Group) -> bool:
    """Return true if the group may be deleted, and has more offsets than one step should delete."""
    return group.is_empty and shard.offsets.count_of(group.group_id) > BATCH_OFFSETS


def _delete_offsets(core: Core, shard: Shard, group_id: str, gone: _Gone, moment: Moment) -> OffsetDeletion:
    """Delete all offsets of the group, and add them to `gone`. Yields the cost of each piece; returns the error, and
    the moment at which it ended."""
    offsets = shard.offsets
    for topic in list(offsets.topics(group_id)):
        partitions = list(offsets.topics(group_id).get(topic, ()))
        for at in range(0, len(partitions), BATCH_OFFSETS):
            while _must_wait(core):
                moment = yield BLOCKED
            if refused := admit_to_shard(shard):
                return refused, moment
            there = offsets.topics(group_id).get(topic, {})
            some = {
                partition: there[partition] for partition in partitions[at : at + BATCH_OFFSETS] if partition in there
            }
            failed = shard.delete_offsets_of(group_id, topic, list(some), moment) if some else None
            if failed is not None:
                return failed, moment
            gone.add(topic, some)
            moment = yield _WORK_A_GROUP + _WORK_AN_OFFSET * len(some)
    return ErrorCode.NONE, moment


def _must_wait(core: Core) -> bool:
    """Return true if the disk is behind, or the next segment of the write-ahead log is being made."""
    store = core.store
    return not store.disk_full and (store.position - store.flushed > _BUSY_BYTES or store.should_wait(_BATCH_BYTES))


def _delete(core: Core, ref: RequestRef, group_id: str, gone: _Gone, moment: Moment) -> ErrorCode:
    """Delete the group with its remaining offsets; those in `gone` are deleted already."""
    shard, group = core.find(group_id)
    if group is None:
        if not gone.count:
            return ErrorCode.GROUP_ID_NOT_FOUND
        _note_offsets(core, ref, group_id, gone, moment)  # the group has expired meanwhile
        return ErrorCode.NONE
    if group.kind is not GroupKind.CLASSIC and not group.is_empty:
        return ErrorCode.NON_EMPTY_GROUP
    offsets = tuple(shard.offsets.partitions(group_id))
    already_deleted = gone.count
    if group.is_empty:
        for topic, partitions in shard.offsets.topics(group_id).items():
            gone.add(topic, partitions)
    deleted = Deleted(ref, group_id, offsets, already_deleted, core.sender(ref), tuple(gone.first))
    answers = shard.run(group, deleted, moment)
    verdicts = [answer.reply for answer in answers if isinstance(answer.reply, GroupDeleted)]
    shard.outbox.deliver(group_id, [answer for answer in answers if not isinstance(answer.reply, GroupDeleted)])
    return verdicts[0].error_code


def _note_offsets(core: Core, ref: RequestRef, group_id: str, gone: _Gone, moment: Moment) -> None:
    """Note that offsets are deleted, but not the group."""
    detail, changes = counted(gone.count, "committed offset"), tuple(gone.first)
    note_admin(core, ref, Cause.OFFSETS_DELETED, "delete offsets", detail, moment, group_id, changes)
