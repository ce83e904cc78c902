"""Remember refused members, and answer ListRefusals."""

from typing import Any, Final

from coordinator.clock import Moment
from coordinator.core.core import Core
from coordinator.groups.classic.state import ClassicGroup
from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.messages.consumer_groups import ConsumerGroupHeartbeat, ConsumerGroupHeartbeatReply
from protocol.messages.groups import (
    Heartbeat,
    JoinGroup,
    JoinGroupReply,
    ListRefusals,
    ListRefusalsReply,
    RefusedRequest,
)
from protocol.messages.offsets import OffsetCommit
from protocol.session import RequestRef
from protocol.words import counted

_TELLING: Final = frozenset(
    {
        ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
        ErrorCode.INVALID_SESSION_TIMEOUT,
        ErrorCode.GROUP_MAX_SIZE_REACHED,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.UNRELEASED_INSTANCE_ID,
        ErrorCode.UNSUPPORTED_ASSIGNOR,
        ErrorCode.INVALID_REGULAR_EXPRESSION,
    }
)
"""Errors that an operator must do something about; others are part of a member's life."""
_MOST_TEXT: Final = 300


def list_refusals(core: Core, ref: RequestRef, message: ListRefusals, moment: Moment) -> None:
    """List the clients that were refused lately."""
    core.outbox.send(ref, ListRefusalsReply(refusals=tuple(core.refusals.list(frozenset(message.groups)))))


def note_refused_join(core: Core, ref: RequestRef, message: Message, reply: Message, moment: Moment) -> None:
    """Remember a JoinGroup or ConsumerGroupHeartbeat that was refused for a reason that an operator can mend."""
    if type(reply) is JoinGroupReply and type(message) is JoinGroup and reply.error_code in _TELLING:
        group = core.find(message.group_id)[1]
        classic = None if group is None else group.classic
        detail = _why_not_joined(core, message, reply.error_code, classic)
        _add(core, ref.connection, message.group_id, "JoinGroup", reply.error_code, detail, moment)
    elif (
        type(reply) is ConsumerGroupHeartbeatReply
        and type(message) is ConsumerGroupHeartbeat
        and reply.error_code in _TELLING
    ):
        detail = (reply.error_message or "").removesuffix(".")
        _add(core, ref.connection, message.group_id, "ConsumerGroupHeartbeat", reply.error_code, detail, moment)


def note_fenced(core: Core, connection: int, message: Heartbeat | OffsetCommit, moment: Moment) -> None:
    """Remember a member that was replaced, and goes on sending requests."""
    detail = f"instance {message.group_instance_id} belongs to another member; this one is {message.member_id}"
    _add(core, connection, message.group_id, type(message).__name__, ErrorCode.FENCED_INSTANCE_ID, detail, moment)


def note_foreign(core: Core, connection: int, message: Any, error: ErrorCode, moment: Moment) -> None:
    """Remember a request for a member of another principal."""
    detail = "the member belongs to another principal"
    _add(core, connection, message.group_id, type(message).__name__, error, detail, moment)


def note_limited(core: Core, connection: int, message: Any, error: ErrorCode, limit: str, moment: Moment) -> None:
    """Remember a join beyond a limit of its client."""
    detail = f"its user, or its client id, has as many as {limit} allows, in all groups together"
    _add(core, connection, message.group_id, type(message).__name__, error, detail, moment)


def _add(core: Core, connection: int, group_id: str, api: str, error: ErrorCode, detail: str, moment: Moment) -> None:
    client = core.client(connection)
    if group_id in core.directory:  # others are not shown, and clients choose their names
        core.journal.tallies.of(group_id).refusals += 1
    core.refusals.add(
        RefusedRequest(
            group_id=group_id,
            api=api,
            error_code=error,
            client_id=client.client_id,
            client_host=client.client_host,
            client_port=client.client_port,
            principal=client.principal,
            detail=detail[:_MOST_TEXT],
            wall_ms=moment.wall_ms,
        )
    )


def _why_not_joined(core: Core, message: JoinGroup, error: ErrorCode, group: ClassicGroup | None) -> str:
    if error is ErrorCode.INVALID_SESSION_TIMEOUT:
        settings = core.group_configs.of(message.group_id)
        lowest, highest = settings.min_session_timeout_ms, settings.max_session_timeout_ms
        return f"its session timeout of {message.session_timeout_ms} ms is not within {lowest} and {highest} ms"
    if error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL:
        offered = ", ".join(offer.name for offer in message.protocols) or "nothing"
        if group is None or not group.members:
            return f"it offers {offered} as type {message.protocol_type or 'none'}"
        shared = [name for name, count in group.supported.items() if count == len(group.members)]
        return (
            f"it offers {offered} as type {message.protocol_type or 'none'}; all members of the group have "
            f"{', '.join(shared) or 'nothing'} in common, as type {group.protocol_type}"
        )
    if error is ErrorCode.GROUP_MAX_SIZE_REACHED and group is not None:
        return f"the group has {counted(len(group.members), 'member')}, {group.settings.max_size} allowed"
    if error is ErrorCode.FENCED_INSTANCE_ID:
        return f"instance {message.group_instance_id} belongs to another member"
    return "its subscription is larger than group.max.metadata.bytes" if error is ErrorCode.MESSAGE_TOO_LARGE else ""
