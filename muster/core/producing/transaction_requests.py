"""Requests of transactions: their construction, and the errors in their replies (KIP-98)."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from membership.events import NodeAddress, OffsetToCommit
from membership.topic_partition import TopicPartition
from muster.core.producing.batch import ProducerId
from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.messages.node import ErrorReply, FindCoordinatorReply
from protocol.messages.offsets import (
    TxnOffsetCommit,
    TxnOffsetCommitPartition,
    TxnOffsetCommitReply,
    TxnOffsetCommitTopic,
)
from protocol.messages.transactions import AddPartitionsToTxnReply, TransactionTopic

NO_ANSWER: Final = ErrorCode.NETWORK_EXCEPTION
"""Error of a request that will not be answered."""


class OffsetsOfGroup(NamedTuple):
    """Offsets to commit with the transaction, and the member of the group that commits them; without one the group must
    have no members."""

    group_id: str
    offsets: Mapping[TopicPartition, OffsetToCommit]
    generation_id: int = -1
    member_id: str = ""
    group_instance_id: str | None = None


class CoordinatorRequest(NamedTuple):
    """A request, and the node to ask; None: any."""

    message: Message
    node: NodeAddress | None


def topics_of(partitions: tuple[TopicPartition, ...]) -> tuple[TransactionTopic, ...]:
    """Return the partitions by topic, for a request."""
    by_topic: dict[str, list[int]] = {}
    for one in partitions:
        by_topic.setdefault(one.topic, []).append(one.partition)
    return tuple(TransactionTopic(name, tuple(found)) for name, found in by_topic.items())


def commit_of(group: OffsetsOfGroup, transactional_id: str, producer: ProducerId) -> TxnOffsetCommit:
    """Return the request that commits offsets with the transaction."""
    by_topic: dict[str, list[TxnOffsetCommitPartition]] = {}
    for one, stored in group.offsets.items():
        part = TxnOffsetCommitPartition(one.partition, stored.offset, committed_metadata=stored.metadata)
        by_topic.setdefault(one.topic, []).append(part)
    topics = tuple(TxnOffsetCommitTopic(name, tuple(parts)) for name, parts in by_topic.items())
    return TxnOffsetCommit(
        transactional_id,
        group.group_id,
        *producer,
        topics,
        group.generation_id,
        group.member_id,
        group.group_instance_id,
    )


def error_of(reply: Message | None) -> tuple[ErrorCode, str]:
    """Return the first error in a reply, and its message."""
    match reply:
        case None:
            return NO_ANSWER, ""
        case ErrorReply():
            return reply.error_code, reply.error_message
        case FindCoordinatorReply(coordinators=()):
            return ErrorCode.COORDINATOR_NOT_AVAILABLE, ""
        case FindCoordinatorReply():
            return reply.coordinators[0].error_code, reply.coordinators[0].error_message or ""
        case AddPartitionsToTxnReply():
            codes = [part.error_code for topic in reply.topics for part in topic.partitions]
        case TxnOffsetCommitReply():
            codes = [part.error_code for topic in reply.topics for part in topic.partitions]
        case _:
            codes = [getattr(reply, "error_code", ErrorCode.UNKNOWN_SERVER_ERROR)]
    # A permanent error says more than a retriable one.
    bad = sorted((code for code in codes if code is not ErrorCode.NONE), key=lambda code: code.retriable)
    told = [code for code in bad if code is not ErrorCode.OPERATION_NOT_ATTEMPTED]
    return (told or bad or [ErrorCode.NONE])[0], ""
