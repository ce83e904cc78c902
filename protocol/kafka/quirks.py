"""Adapts the core's replies to versions of Kafka's protocol that need other ones, by request type."""

from collections.abc import Callable
from typing import Any, Final

import msgspec

from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.messages.groups import (
    LeaveGroup,
    LeaveGroupReply,
)
from protocol.messages.node import (
    FindCoordinator,
    FindCoordinatorReply,
)
from protocol.messages.offsets import (
    OffsetCommitPartitionReply,
    OffsetCommitTopicReply,
    OffsetFetch,
    OffsetFetchReply,
    TxnOffsetCommit,
    TxnOffsetCommitReply,
)
from protocol.messages.transactions import AddOffsetsToTxn, AddOffsetsToTxnReply
from protocol.refusals import on_each_partition

OLDEST_PRODUCE: Final = 3
"""Oldest version whose records are in format v2."""


def _error_of_the_only_member(version: int, _request: LeaveGroup, reply: LeaveGroupReply) -> LeaveGroupReply:
    if version >= 3 or reply.error_code or not reply.members:
        return reply
    return LeaveGroupReply(error_code=reply.members[0].error_code)


def _error_on_each_partition(version: int, request: OffsetFetch, reply: OffsetFetchReply) -> OffsetFetchReply:
    """Put the group's error on its partitions, since version 1 has no other field for it."""
    if version >= 2 or not reply.groups[0].error_code:
        return reply
    return OffsetFetchReply((on_each_partition(request.groups[0], reply.groups[0].error_code),))


def _always_a_message(version: int, _request: FindCoordinator, reply: FindCoordinatorReply) -> FindCoordinatorReply:
    """Fill in the message, which is never null: NONE or the error's name in the single form, else empty or
    unchanged."""
    coordinators = tuple(
        msgspec.structs.replace(
            found, error_message=found.error_message or (found.error_code.name if version < 4 else "")
        )
        for found in reply.coordinators
    )
    return FindCoordinatorReply(coordinators, reply.throttle_time_ms)


_OLD_TRANSACTION_ERRORS: Final = (
    # Error, the first version that knows it, and the error for older versions (docs/spec/group-protocol.md#4.3).
    (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, 2, ErrorCode.COORDINATOR_NOT_AVAILABLE),
    (ErrorCode.TRANSACTION_ABORTABLE, 4, ErrorCode.INVALID_TXN_STATE),
)


def _errors_it_knows(version: int, _request: TxnOffsetCommit, reply: TxnOffsetCommitReply) -> TxnOffsetCommitReply:
    replaced = {error: instead for error, since, instead in _OLD_TRANSACTION_ERRORS if version < since}
    if not replaced:
        return reply
    return TxnOffsetCommitReply(
        tuple(
            OffsetCommitTopicReply(
                topic.name,
                tuple(
                    OffsetCommitPartitionReply(part.partition_index, replaced.get(part.error_code, part.error_code))
                    for part in topic.partitions
                ),
            )
            for topic in reply.topics
        ),
        reply.throttle_time_ms,
    )


_OLD_ADDING_ERRORS: Final = (
    (ErrorCode.PRODUCER_FENCED, 2, ErrorCode.INVALID_PRODUCER_EPOCH),
    (ErrorCode.TRANSACTION_ABORTABLE, 4, ErrorCode.INVALID_TXN_STATE),
)


def _adding_error_it_knows(
    version: int, _request: AddOffsetsToTxn, reply: AddOffsetsToTxnReply
) -> AddOffsetsToTxnReply:
    for error, since, instead in _OLD_ADDING_ERRORS:
        if reply.error_code is error and version < since:
            return AddOffsetsToTxnReply(instead, reply.throttle_time_ms)
    return reply


ADAPT: Final[dict[type[Message], Callable[[int, Any, Any], Message]]] = {
    LeaveGroup: _error_of_the_only_member,
    OffsetFetch: _error_on_each_partition,
    FindCoordinator: _always_a_message,
    TxnOffsetCommit: _errors_it_knows,
    AddOffsetsToTxn: _adding_error_it_knows,
}
"""Functions from version, request and the core's reply to the reply in that version."""
