"""What a `Replied`, a `CallFailed` or a deadline turns into before the table sees it."""

from muster.events import MemberEvent
from muster.member import SentCall
from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.messages.groups import HeartbeatReply, JoinGroupReply, LeaveGroupReply, SyncGroupReply
from protocol.messages.node import FindCoordinatorReply, Refused
from protocol.messages.offsets import OffsetCommitReply, OffsetFetchReply
from protocol.messages.ownership import ClaimPartitionsReply, ReleasePartitionsReply
from protocol.messages.topics import Metadata, MetadataReply


class Answer(MemberEvent, frozen=True):
    """`reply` is None when none came (`error_code` NETWORK_EXCEPTION) or the request was refused as a whole."""

    sent: SentCall
    error_code: ErrorCode
    reason: str


class JoinAnswered(Answer, frozen=True):
    reply: JoinGroupReply | None


class SyncAnswered(Answer, frozen=True):
    reply: SyncGroupReply | None


class HeartbeatAnswered(Answer, frozen=True):
    reply: HeartbeatReply | None


class LeaveAnswered(Answer, frozen=True):
    reply: LeaveGroupReply | None


class LookupAnswered(Answer, frozen=True):
    reply: FindCoordinatorReply | None


class MetadataAnswered(Answer, frozen=True):
    reply: MetadataReply | None


class AllTopicsAnswered(Answer, frozen=True):
    """To a question for all topics there are, which whoever subscribed to a pattern asks."""

    reply: MetadataReply | None


class CommitAnswered(Answer, frozen=True):
    reply: OffsetCommitReply | None


class OffsetsAnswered(Answer, frozen=True):
    reply: OffsetFetchReply | None


class ClaimAnswered(Answer, frozen=True):
    reply: ClaimPartitionsReply | None


class ReleaseAnswered(Answer, frozen=True):
    reply: ReleasePartitionsReply | None


class PollOverdue(MemberEvent, frozen=True):
    """The application has not polled for max.poll.interval.ms (docs/spec/consumer-client.md#A10)."""


class SessionOverdue(MemberEvent, frozen=True):
    """No good word from the coordinator for session.timeout.ms: maybe it moved (docs/spec/consumer-client.md#A6)."""


_ANSWERS: dict[str, type[Answer]] = {
    "JoinGroup": JoinAnswered,
    "SyncGroup": SyncAnswered,
    "Heartbeat": HeartbeatAnswered,
    "LeaveGroup": LeaveAnswered,
    "FindCoordinator": LookupAnswered,
    "Metadata": MetadataAnswered,
    "OffsetCommit": CommitAnswered,
    "OffsetFetch": OffsetsAnswered,
    "ClaimPartitions": ClaimAnswered,
    "ReleasePartitions": ReleaseAnswered,
}


def answered(sent: SentCall, reply: Message, reason: str = "") -> Answer:
    """What came back, as an event; a reply of an unexpected kind counts as the server's own error."""
    kind = _kind_of(sent.message)
    if isinstance(reply, Refused):
        return kind(sent, reply.error_code, reply.error_message, None)  # type: ignore[call-arg]
    if type(reply).__name__ != f"{type(sent.message).__name__}Reply":
        reason = f"a {type(reply).__name__} came back to a {type(sent.message).__name__}"
        return kind(sent, ErrorCode.UNKNOWN_SERVER_ERROR, reason, None)  # type: ignore[call-arg]
    code = getattr(reply, "error_code", ErrorCode.NONE)
    return kind(sent, code, reason, reply)  # type: ignore[call-arg]


def unanswered(sent: SentCall, error_code: ErrorCode) -> Answer:
    """Nothing came back."""
    return _kind_of(sent.message)(sent, error_code, "", None)  # type: ignore[call-arg]


def _kind_of(message: Message) -> type[Answer]:
    if isinstance(message, Metadata) and message.topics is None:
        return AllTopicsAnswered
    return _ANSWERS[type(message).__name__]
