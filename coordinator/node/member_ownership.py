"""Members belong to principals: a member id or instance id that another principal uses is refused, as if the member
were not there, or were another's."""

from typing import Any, Final

from coordinator.clock import Moment
from coordinator.groups.classic.state import ClassicGroup, Member
from coordinator.handlers.core import Connection, Core
from coordinator.handlers.list_refusals import note_foreign
from coordinator.handlers.table import Handler
from coordinator.node.serving import Serving
from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.messages.groups import Heartbeat, JoinGroup, LeaveGroup, SyncGroup
from protocol.messages.node import ErrorReply
from protocol.messages.offsets import OffsetCommit
from protocol.session import RequestRef

_OF_MEMBERS: Final[tuple[type[Message], ...]] = (JoinGroup, SyncGroup, Heartbeat, LeaveGroup, OffsetCommit)


class MemberOwnership:
    """Checks of requests that name a member. A member from before the node's start is anybody's until it joins."""

    def __init__(self, core: Core, serving: Serving) -> None:
        self._core = core
        serving.handlers = {
            message: self._guarded(handler) if message in _OF_MEMBERS else handler
            for message, handler in serving.handlers.items()
        }

    def _guarded(self, handler: Handler) -> Handler:
        def serve(core: Core, ref: RequestRef, message: Any, moment: Moment) -> None:
            connection = core.connections.get(ref.connection)
            code = ErrorCode.NONE if connection is None else self._refusal(connection, message)
            if code:
                note_foreign(core, ref.connection, message, code, moment)
                core.outbox.send(ref, ErrorReply(code))
            else:
                # The last of the checks: the next heartbeat of these bytes needs none of them.
                if type(message) is Heartbeat and connection is not None:
                    connection.permit(message)
                handler(core, ref, message, moment)

        return serve

    def _refusal(self, connection: Connection, message: Any) -> ErrorCode:
        group = self._core.directory.get(message.group_id)
        classic = None if group is None else group.classic
        if classic is None:
            return ErrorCode.NONE
        if not isinstance(message, LeaveGroup):
            return _code(classic, connection, message.member_id, message.group_instance_id)
        # An administrator removes static members by their instance ids alone, as in Kafka.
        named = (one for one in message.members if one.member_id)
        codes = (_code(classic, connection, one.member_id, one.group_instance_id) for one in named)
        return next((code for code in codes if code), ErrorCode.NONE)


def _code(group: ClassicGroup, connection: Connection, member_id: str, instance_id: str | None) -> ErrorCode:
    if instance_id is not None:
        holder = group.members.get(group.static_members.get(instance_id, ""))
        if holder is not None and _is_anothers(holder, connection):
            return ErrorCode.FENCED_INSTANCE_ID
    member = group.members.get(member_id)
    return ErrorCode.UNKNOWN_MEMBER_ID if member is not None and _is_anothers(member, connection) else ErrorCode.NONE


def _is_anothers(member: Member, connection: Connection) -> bool:
    return member.client is not None and member.client.principal != connection.shown_principal
