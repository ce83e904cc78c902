"""Checks of commits and fetches of offsets: membership and member epochs (docs/spec/consumer-group-protocol.md#10).
The offsets themselves are stored as those of any group."""

from collections.abc import Sequence

from coordinator.groups.consumer.state import ConsumerGroup, ConsumerMember
from protocol.errors import ErrorCode
from protocol.messages.offsets import (
    OffsetCommit,
    OffsetCommitTopic,
    OffsetFetchGroup,
    TxnOffsetCommit,
    TxnOffsetCommitTopic,
)

_NONE = ErrorCode.NONE


def refuse_commit(group: ConsumerGroup, request: OffsetCommit) -> ErrorCode:
    """Return the error for all partitions of a commit; its topics have their present ids."""
    if request.generation_id < 0 and not group.members:
        return _NONE
    member = group.members.get(request.member_id)
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if not member.is_classic and not request.knows_member_epochs:
        return ErrorCode.UNSUPPORTED_VERSION
    return _refuse_epoch(group, member, request.generation_id, request.topics)


def refuse_transactional_commit(group: ConsumerGroup, request: TxnOffsetCommit) -> ErrorCode:
    """Return the error for all partitions of a commit in a transaction; its API knows no stale member epochs."""
    if request.generation_id < 0 and not request.member_id:
        return _NONE
    member = group.members.get(request.member_id)
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    refused = _refuse_epoch(group, member, request.generation_id, request.topics)
    return ErrorCode.ILLEGAL_GENERATION if refused else _NONE


def _refuse_epoch(
    group: ConsumerGroup,
    member: ConsumerMember,
    epoch: int,
    topics: Sequence[OffsetCommitTopic | TxnOffsetCommitTopic],
) -> ErrorCode:
    """Accept the member's epoch, or an older one from which on it has held every partition of the commit."""
    current = member.current
    if epoch == current.epoch or (0 <= epoch < current.epoch and _held_since(group, member, epoch, topics)):
        return _NONE
    return _stale(member)


def _held_since(
    group: ConsumerGroup,
    member: ConsumerMember,
    epoch: int,
    topics: Sequence[OffsetCommitTopic | TxnOffsetCommitTopic],
) -> bool:
    current = member.current
    for topic in topics:
        known = group.topics.find(topic.name)
        if known is None:
            return False
        assigned, pending = current.assigned.get(known.topic_id, {}), current.pending.get(known.topic_id, {})
        for part in topic.partitions:
            since = assigned.get(part.partition_index, pending.get(part.partition_index))
            if since is None or since > epoch:
                return False
    return True


def refuse_fetch(group: ConsumerGroup, request: OffsetFetchGroup) -> ErrorCode:
    """Return the error for all offsets that a client asks for. Unlike a commit, a fetch names the epoch exactly."""
    if request.member_id is None and request.member_epoch < 0:
        return _NONE
    member = group.members.get(request.member_id) if request.member_id is not None else None
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    return _NONE if request.member_epoch == member.current.epoch else _stale(member)


def _stale(member: ConsumerMember) -> ErrorCode:
    return ErrorCode.ILLEGAL_GENERATION if member.is_classic else ErrorCode.STALE_MEMBER_EPOCH
