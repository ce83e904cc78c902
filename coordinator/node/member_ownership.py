"""Members belong to principals: a request with a member id or instance id of another principal is refused, as if the
member did not exist, or had been fenced."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from coordinator.accounts.permission import GROUP
from coordinator.clock import Moment
from coordinator.core.core import HTTP, Connection, Core
from coordinator.handlers.audited import audit_foreign_member
from coordinator.handlers.list_refusals import note_foreign
from coordinator.handlers.table import Handler
from coordinator.runtime.group import Group, GroupKind
from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.messages.acls import AclOperation
from protocol.messages.balanced import (
    ConfirmConsumed,
    FetchRegistered,
    LeaveMember,
    MemberHeartbeat,
    PartitionMeta,
    RegisterPartitions,
    StartMember,
    UnregisterPartitions,
)
from protocol.messages.consumer_groups import ConsumerGroupHeartbeat
from protocol.messages.groups import Heartbeat, JoinGroup, LeaveGroup, SyncGroup
from protocol.messages.node import ErrorReply
from protocol.messages.offsets import OffsetCommit
from protocol.messages.ownership import ClaimPartitions, ReleasePartitions
from protocol.messages.reports import DrainMembers, ReportMember
from protocol.session import RequestRef

_ID_FIELDS: Final[Mapping[type[Message], str]] = {
    **dict.fromkeys((JoinGroup, SyncGroup, Heartbeat, LeaveGroup, OffsetCommit), "member_id"),
    **dict.fromkeys((ClaimPartitions, ReleasePartitions, ConsumerGroupHeartbeat, ReportMember), "member_id"),
    **dict.fromkeys((StartMember, MemberHeartbeat, PartitionMeta, RegisterPartitions), "consumer_id"),
    **dict.fromkeys((UnregisterPartitions, FetchRegistered, ConfirmConsumed, LeaveMember), "consumer_id"),
    DrainMembers: "member_ids",
}
"""Requests that name members, each with the name of its member id field."""
_INSTANCE_FIELDS: Final[Mapping[type[Message], str]] = {
    **dict.fromkeys((JoinGroup, SyncGroup, Heartbeat, OffsetCommit), "group_instance_id"),
    **dict.fromkeys((ConsumerGroupHeartbeat, StartMember), "instance_id"),
}


class MemberOwnership:
    """Checks of requests that name a member. A member loaded at the node's start has no owner until it joins again."""

    def __init__(self, core: Core) -> None:
        self._core = core

    def guarded(self, handlers: Mapping[type[Message], Handler]) -> dict[type[Message], Handler]:
        """Return the handlers, with the check put before those of members' requests."""
        guarded = {
            message: self._guarded(handler) if message in _ID_FIELDS else handler
            for message, handler in handlers.items()
        }
        guarded[OffsetCommit] = self._commits(handlers[OffsetCommit], guarded[OffsetCommit])
        return guarded

    def _guarded(self, handler: Handler) -> Handler:
        def serve(core: Core, ref: RequestRef, message: Any, moment: Moment) -> None:
            connection = core.connections.get(ref.connection)
            if connection is not None and connection.dialect == HTTP:  # HTTP requests do not come from members
                connection = None
            code = ErrorCode.NONE if connection is None else self._refusal(connection, message)
            if code:
                note_foreign(core, ref.connection, message, code, moment)
                audit_foreign_member(core, ref, message, code, moment)
                core.outbox.send(ref, ErrorReply(code))
            else:
                # This is the last check: the next heartbeat with the same bytes may skip all of them, if its member has
                # this owner: one without an owner may get another.
                is_heartbeat = isinstance(message, Heartbeat | ConsumerGroupHeartbeat)
                if is_heartbeat and connection is not None and self._is_owner(connection, message):
                    connection.permit(message)
                handler(core, ref, message, moment)

        return serve

    @staticmethod
    def _commits(handler: Handler, guarded: Handler) -> Handler:
        """Return a handler that skips the check for a member that joined on this very connection, as nearly all have
        done."""

        def serve(core: Core, ref: RequestRef, message: Any, moment: Moment) -> None:
            connection = core.connections.get(ref.connection)
            if connection is not None and has_joined(core, connection, message):
                handler(core, ref, message, moment)
            else:
                guarded(core, ref, message, moment)

        return serve

    def _is_owner(self, connection: Connection, message: Heartbeat | ConsumerGroupHeartbeat) -> bool:
        group = self._core.directory.get(message.group_id)
        return group is not None and _principal(group, message.member_id) == connection.shown_principal

    def _refusal(self, connection: Connection, message: Any) -> ErrorCode:
        group = self._core.directory.get(message.group_id)
        if group is None:
            return ErrorCode.NONE
        if not isinstance(message, LeaveGroup | DrainMembers):
            instance_id = getattr(message, _INSTANCE_FIELDS.get(type(message), ""), None)
            return _code(group, connection, getattr(message, _ID_FIELDS[type(message)]), instance_id)
        access = connection.access if self._core.accounts.authorizer.is_on else None
        if access is not None and access.permits(GROUP, message.group_id, AclOperation.DELETE):
            return ErrorCode.NONE  # an administrator of the group removes and drains members
        codes = (_code(group, connection, *named) for named in _named(message))
        return next((code for code in codes if code), ErrorCode.NONE)


def _named(message: LeaveGroup | DrainMembers) -> Iterator[tuple[str, str | None]]:
    """Yield member ids, each with its instance id. Clients may remove static members by their instance ids alone, as in
    Kafka."""
    if isinstance(message, DrainMembers):
        yield from ((member_id, None) for member_id in message.member_ids)
    else:
        yield from ((one.member_id, one.group_instance_id) for one in message.members if one.member_id)


def has_joined(core: Core, connection: Connection, commit: OffsetCommit) -> bool:
    """Return true if the member that commits has joined on this very connection, without an instance id."""
    found = core.directory.get(commit.group_id)
    return (
        found is not None
        and found.kind is GroupKind.CLASSIC
        and commit.group_instance_id is None
        and (member := found.classic.members.get(commit.member_id)) is not None
        and member.client is not None
        and member.client is connection.client
    )


def _code(group: Group, connection: Connection, member_id: str, instance_id: str | None) -> ErrorCode:
    mine = connection.shown_principal
    if instance_id is not None and _holder(group, instance_id) not in (None, mine):
        return ErrorCode.FENCED_INSTANCE_ID
    return ErrorCode.NONE if _principal(group, member_id) in (None, mine) else ErrorCode.UNKNOWN_MEMBER_ID


def _principal(group: Group, member_id: str) -> str | None:
    """Return the principal that the member belongs to; None if it has no owner or does not exist."""
    if (consumer := group.serving_consumer) is not None:
        known = consumer.members.get(member_id)
        return None if known is None else known.principal
    if group.balanced is not None and group.kind is GroupKind.CLIENT_BALANCED:
        member = group.balanced.members.get(member_id)
        return None if member is None else member.principal
    classic = group.classic.members.get(member_id)
    return None if classic is None or classic.client is None else classic.client.principal


def _holder(group: Group, instance_id: str) -> str | None:
    """Return the principal of the member with the instance id; None if it has no owner or does not exist."""
    if (consumer := group.serving_consumer) is not None:
        return _principal(group, consumer.static_members.get(instance_id, ""))
    if group.balanced is not None and group.kind is GroupKind.CLIENT_BALANCED:
        of_instance = (one.principal for one in group.balanced.members.values() if one.instance_id == instance_id)
        return next((one for one in of_instance if one is not None), None)
    return _principal(group, group.classic.static_members.get(instance_id, ""))
