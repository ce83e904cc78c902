"""Answer OffsetCommit (docs/spec/group-protocol.md#2.5)."""

from collections.abc import Mapping, Sequence

import msgspec

from coordinator.clock import Moment
from coordinator.core.admission import admit, admit_write
from coordinator.core.core import Core
from coordinator.facts.commit_notes import is_reset, note_reset, note_rewind, present_offsets
from coordinator.handlers.list_refusals import note_fenced
from coordinator.runtime.group import Group
from coordinator.runtime.offset_and_metadata import Committer
from coordinator.runtime.shard import ShardState
from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.messages.groups import OffsetChange
from protocol.messages.offsets import (
    EndTransaction,
    OffsetCommit,
    OffsetCommitPartitionReply,
    OffsetCommitReply,
    OffsetCommitTopic,
    OffsetCommitTopicReply,
    TxnOffsetCommit,
    TxnOffsetCommitReply,
    TxnOffsetCommitTopic,
)
from protocol.session import RequestRef

_HIGHEST_EPOCH = 2**15 - 1
_FENCED = (
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.FENCED_INSTANCE_ID,
    ErrorCode.STALE_MEMBER_EPOCH,
)
"""Errors of a member that is none any more."""

Topics = Sequence[OffsetCommitTopic | TxnOffsetCommitTopic]
Errors = Mapping[tuple[str, int], ErrorCode]


def offset_commit(core: Core, ref: RequestRef, message: OffsetCommit, moment: Moment) -> None:
    """Commit offsets. Partitions that do not exist are refused alone; the group sees only the others
    (docs/spec/group-protocol.md#2.5)."""
    found = core.directory.get(message.group_id)
    if (
        found is not None
        and found.shard.state is ShardState.ACTIVE
        and not found.shard.deleting
        and (known := _with_ids(core, message)) is not None
    ):  # The common case: no topic to refuse, and only the write is left.
        shard = found.shard
        before = present_offsets(shard, known) if message.generation_id < 0 and is_reset(found, message) else None
        stored = admit_write(core) or shard.store(found, known, moment, core.committer(ref.connection, message))
        if isinstance(stored, ErrorCode):
            if stored in _FENCED:
                core.journal.tallies.of(message.group_id).fenced_commits += 1
            if stored is ErrorCode.FENCED_INSTANCE_ID:
                note_fenced(core, ref.connection, message, moment)
            core.outbox.send(ref, OffsetCommitReply(refused_topics(message.topics, stored)))
        else:
            _note(core, ref, found, message, before, moment)
            shard.outbox.hold_for(message.group_id, ref, stored)
        return
    before = None if found is None or not is_reset(found, message) else _present_of_existing(core, found, message)
    in_shard = core.shard_of(message.group_id)
    topics, position = commit_what_exists(core, ref, message, moment)
    stored_in = core.directory.get(message.group_id)
    if position and stored_in is not None:
        _note(core, ref, stored_in, message, before, moment)
    in_shard.outbox.hold(position, ref, OffsetCommitReply(topics))


def _present_of_existing(core: Core, group: Group, message: OffsetCommit) -> tuple[OffsetChange, ...]:
    existing = _existing(core, message.topics, _names(core, message))
    return present_offsets(group.shard, msgspec.structs.replace(message, topics=existing))


def _note(
    core: Core,
    ref: RequestRef,
    group: Group,
    message: OffsetCommit,
    before: tuple[OffsetChange, ...] | None,
    moment: Moment,
) -> None:
    """Note who has committed. `before`: the changes of a reset; None for another commit."""
    shard, classic = group.shard, group.classic
    classic.commits_by(message.member_id, ref.connection)
    if before is not None:
        note_reset(core, shard, classic, before, ref.connection, moment)
    elif shard.offsets.went_back:
        note_rewind(core, shard, classic, message.member_id, ref.connection, moment)


def _with_ids(core: Core, message: OffsetCommit) -> OffsetCommit | None:
    """Return the commit with the ids to record, if all its partitions are known by name."""
    partition_count, id_to_record = core.topics.partition_count, core.topics.id_to_record
    is_set = True
    for topic in message.topics:
        count = partition_count(topic.name)
        if count is None:
            return None
        for part in topic.partitions:
            if not 0 <= part.partition_index < count:
                return None
        is_set = is_set and topic.topic_id == id_to_record(topic.name)
    if is_set:
        return message if message.topics else None
    topics = [msgspec.structs.replace(topic, topic_id=id_to_record(topic.name)) for topic in message.topics]
    return msgspec.structs.replace(message, topics=tuple(topics))


def refused_topics(topics: Topics, error_code: ErrorCode) -> tuple[OffsetCommitTopicReply, ...]:
    """The same error for each partition of a commit."""
    names = [topic.name for topic in topics]
    return _in_order(topics, names, _same_for_all(topics, error_code))


def commit_what_exists(
    core: Core, ref: RequestRef, message: OffsetCommit | TxnOffsetCommit, moment: Moment
) -> tuple[tuple[OffsetCommitTopicReply, ...], int]:
    """Commit the existing partitions. Return the reply for each topic in the request's order, and the position to wait
    for."""
    names = _names(core, message)
    known = _existing(core, message.topics, names)
    errors: Errors = {}
    position = 0
    if known:
        committer = core.committer(ref.connection, message)
        stored, position = _store(core, msgspec.structs.replace(message, topics=known), moment, committer)
        if isinstance(stored, ErrorCode):
            errors = _same_for_all(known, stored)
        else:
            assert isinstance(stored, OffsetCommitReply | TxnOffsetCommitReply)
            errors = {(t.name, p.partition_index): p.error_code for t in stored.topics for p in t.partitions}
    return _in_order(message.topics, names, errors), position


def _names(core: Core, message: OffsetCommit | TxnOffsetCommit) -> list[str | None]:
    return [topic.name or core.topics.name_of(topic.topic_id) for topic in message.topics]


def _existing(
    core: Core, topics: Topics, names: list[str | None]
) -> tuple[OffsetCommitTopic | TxnOffsetCommitTopic, ...]:
    """Return the existing topics and partitions, by name, with the id to record."""
    known = []
    for topic, name in zip(topics, names, strict=True):
        count = 0 if name is None else core.topics.partition_count(name) or 0
        parts = tuple([part for part in topic.partitions if 0 <= part.partition_index < count])
        if name is not None and parts:
            topic_id = core.topics.id_to_record(name)
            known.append(msgspec.structs.replace(topic, name=name, partitions=parts, topic_id=topic_id))
    return tuple(known)


def _store(
    core: Core, message: OffsetCommit | TxnOffsetCommit, moment: Moment, committer: Committer
) -> tuple[Message | ErrorCode, int]:
    """Store a commit. Return the group's reply and the position to wait for. A commit without a generation creates a
    missing group."""
    shard, group = core.find(message.group_id)
    refused = producer_error(message) or admit(core, message.group_id, may_be_empty=isinstance(message, OffsetCommit))
    refused = refused or admit_write(core)
    if not refused and group is None:
        if message.generation_id >= 0:
            refused = message.absent_group_error
        elif core.count_groups() >= core.config.max_groups:
            refused = ErrorCode.COORDINATOR_NOT_AVAILABLE
    if refused:
        return refused, 0
    stored = shard.store(group or shard.new_group(message.group_id), message, moment, committer)
    return stored, 0 if isinstance(stored, ErrorCode) else shard.outbox.position_of(message.group_id)


def producer_error(message: OffsetCommit | TxnOffsetCommit | EndTransaction) -> ErrorCode:
    if isinstance(message, OffsetCommit):
        return ErrorCode.NONE
    if message.producer_id < 0:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    return ErrorCode.NONE if 0 <= message.producer_epoch <= _HIGHEST_EPOCH else ErrorCode.INVALID_PRODUCER_EPOCH


def _same_for_all(topics: Topics, error_code: ErrorCode) -> Errors:
    return {(topic.name, part.partition_index): error_code for topic in topics for part in topic.partitions}


def _in_order(topics: Topics, names: Sequence[str | None], errors: Errors) -> tuple[OffsetCommitTopicReply, ...]:
    """Return the replies in the request's order; topics that are not in `errors` do not exist."""
    answered = []
    for topic, name in zip(topics, names, strict=True):
        missing = ErrorCode.UNKNOWN_TOPIC_ID if name is None else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        indexes = [part.partition_index for part in topic.partitions]
        parts = [OffsetCommitPartitionReply(index, errors.get((name or "", index), missing)) for index in indexes]
        answered.append(OffsetCommitTopicReply(topic.name, tuple(parts), topic.topic_id))
    return tuple(answered)
