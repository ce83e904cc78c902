"""Events made from a `Replied`, a `CallFailed` or a deadline before the table sees them."""

from membership.channel import normalised
from membership.events import MemberEvent
from membership.member import SentCall
from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.messages.consumer_groups import ConsumerGroupHeartbeatReply
from protocol.messages.groups import HeartbeatReply, JoinGroupReply, LeaveGroupReply, SyncGroupReply
from protocol.messages.node import FindCoordinatorReply
from protocol.messages.offsets import OffsetCommitReply, OffsetFetchReply
from protocol.messages.ownership import ClaimPartitionsReply, ReleasePartitionsReply
from protocol.messages.topics import Metadata, MetadataReply


class CallAnswered(MemberEvent, frozen=True):
    """The outcome of a request. `reply` is None if there was none (`error_code` NETWORK_EXCEPTION), or if the request
    was refused as a whole."""

    sent: SentCall
    error_code: ErrorCode
    reason: str


class JoinAnswered(CallAnswered, frozen=True):
    reply: JoinGroupReply | None


class SyncAnswered(CallAnswered, frozen=True):
    reply: SyncGroupReply | None


class HeartbeatAnswered(CallAnswered, frozen=True):
    reply: HeartbeatReply | None


class ConsumerHeartbeatAnswered(CallAnswered, frozen=True):
    reply: ConsumerGroupHeartbeatReply | None


class LeaveAnswered(CallAnswered, frozen=True):
    reply: LeaveGroupReply | None


class LookupAnswered(CallAnswered, frozen=True):
    reply: FindCoordinatorReply | None


class MetadataAnswered(CallAnswered, frozen=True):
    reply: MetadataReply | None


class AllTopicsAnswered(CallAnswered, frozen=True):
    """The outcome of a Metadata for all topics, which a member with a pattern sends."""

    reply: MetadataReply | None


class CommitAnswered(CallAnswered, frozen=True):
    reply: OffsetCommitReply | None


class OffsetsAnswered(CallAnswered, frozen=True):
    reply: OffsetFetchReply | None


class ClaimAnswered(CallAnswered, frozen=True):
    reply: ClaimPartitionsReply | None


class ReleaseAnswered(CallAnswered, frozen=True):
    reply: ReleasePartitionsReply | None


class PollOverdue(MemberEvent, frozen=True):
    """The application has not polled for `max_poll_interval_ms` (docs/spec/consumer-client.md#A10)."""


class SessionTimedOut(MemberEvent, frozen=True):
    """The coordinator sent no successful reply for session.timeout.ms; maybe it moved
    (docs/spec/consumer-client.md#A6)."""


_ANSWERS: dict[str, type[CallAnswered]] = {
    "JoinGroup": JoinAnswered,
    "SyncGroup": SyncAnswered,
    "Heartbeat": HeartbeatAnswered,
    "ConsumerGroupHeartbeat": ConsumerHeartbeatAnswered,
    "LeaveGroup": LeaveAnswered,
    "FindCoordinator": LookupAnswered,
    "Metadata": MetadataAnswered,
    "OffsetCommit": CommitAnswered,
    "OffsetFetch": OffsetsAnswered,
    "ClaimPartitions": ClaimAnswered,
    "ReleasePartitions": ReleaseAnswered,
}


def answered(sent: SentCall, reply: Message, reason: str = "") -> CallAnswered:
    """Return the event of a reply; one of an unexpected type counts as UNKNOWN_SERVER_ERROR."""
    kind = _kind_of(sent.message)
    code, sentence, expected = normalised(sent.message, reply, reason)
    return kind(sent, code, sentence, expected)  # type: ignore[call-arg]


def unanswered(sent: SentCall, error_code: ErrorCode) -> CallAnswered:
    """Return the event of a request without a reply."""
    return _kind_of(sent.message)(sent, error_code, "", None)  # type: ignore[call-arg]


def _kind_of(message: Message) -> type[CallAnswered]:
    if isinstance(message, Metadata) and message.topics is None:
        return AllTopicsAnswered
    return _ANSWERS[type(message).__name__]
