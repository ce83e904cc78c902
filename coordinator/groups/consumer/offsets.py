"""Checks of commits and fetches of offsets: membership and member epochs (docs/spec/consumer-group-protocol.md#10).
The offsets themselves are stored as those of any group."""

from collections.abc import Callable, Mapping

from coordinator.groups.consumer.state import ConsumerGroup, ConsumerMember, Current
from protocol.errors import ErrorCode
from protocol.messages.offsets import (
    OffsetCommit,
    OffsetCommitPartition,
    OffsetFetchGroup,
    TxnOffsetCommit,
    TxnOffsetCommitPartition,
)

_NONE = ErrorCode.NONE


Part = OffsetCommitPartition | TxnOffsetCommitPartition
Storable = Callable[[Part], bool]
"""Check that a partition's offset can be stored, regardless of the member."""


def _stores_all(part: Part) -> bool:
    return True


def refuse_commit(group: ConsumerGroup, request: OffsetCommit, is_storable: Storable = _stores_all) -> ErrorCode:
    """Return the error for all partitions of a commit; its topics have their present ids."""
    if request.generation_id < 0 and not group.members:
        return _NONE
    member = group.members.get(request.member_id)
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if not member.is_classic and not request.knows_member_epochs:
        return ErrorCode.UNSUPPORTED_VERSION
    return _refuse_epoch(group, member, request, is_storable)


def refuse_transactional_commit(
    group: ConsumerGroup, request: TxnOffsetCommit, is_storable: Storable = _stores_all
) -> ErrorCode:
    """Return the error for all partitions of a commit in a transaction; its API knows no stale member epochs."""
    if request.generation_id < 0 and not request.member_id:
        return _NONE
    member = group.members.get(request.member_id)
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    refused = _refuse_epoch(group, member, request, is_storable)
    return ErrorCode.ILLEGAL_GENERATION if refused else _NONE


def _refuse_epoch(
    group: ConsumerGroup, member: ConsumerMember, request: OffsetCommit | TxnOffsetCommit, is_storable: Storable
) -> ErrorCode:
    """Accept the member's epoch, or an older one since which it has held every storable partition of the commit."""
    current, epoch = member.current, request.generation_id
    if epoch == current.epoch:
        return _NONE
    if epoch > current.epoch or not _held_since(group, current, request, is_storable):
        return _stale(member)
    return _NONE


def _held_since(
    group: ConsumerGroup, current: Current, request: OffsetCommit | TxnOffsetCommit, is_storable: Storable
) -> bool:
    for topic in request.topics:
        known = group.topics.find(topic.name)
        held: Mapping[int, int] = {}
        if known is not None:
            held = {**current.pending.get(known.topic_id, {}), **current.assigned.get(known.topic_id, {})}
        for part in filter(is_storable, topic.partitions):
            since = held.get(part.partition_index)
            if since is None or since > request.generation_id:
                return False
    return True


def note_commit(group: ConsumerGroup, member_id: str, now_ms: int) -> None:
    """Note the time of the member's commit, for operators; a commit does not extend the session."""
    member = group.members.get(member_id)
    if member is not None:
        member.committed_ms = now_ms


def refuse_fetch(group: ConsumerGroup, request: OffsetFetchGroup) -> ErrorCode:
    """Return the error for all requested offsets. Unlike a commit, a fetch must name the current epoch."""
    if request.member_id is None and request.member_epoch < 0:
        return _NONE
    member = group.members.get(request.member_id) if request.member_id is not None else None
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    return _NONE if request.member_epoch == member.current.epoch else _stale(member)


def _stale(member: ConsumerMember) -> ErrorCode:
    return ErrorCode.ILLEGAL_GENERATION if member.is_classic else ErrorCode.STALE_MEMBER_EPOCH
