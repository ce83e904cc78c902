"""Answer JoinGroup: admit the request, create the group if need be, hand the join to the shard."""

from coordinator.clock import Moment
from coordinator.groups.classic.events import OwnershipEnded, joined
from coordinator.groups.classic.state import Group
from coordinator.handlers.admission import Found, admit, admit_bytes, admit_operation, admit_write
from coordinator.handlers.core import Core
from coordinator.runtime.shard import Shard
from protocol.errors import ErrorCode
from protocol.messages import LONGEST_GROUP_ID, Message
from protocol.messages.groups import JoinGroup, JoinGroupReply
from protocol.session import RequestRef

_FORGETS_MEMBER_ID = (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR)
"""Errors with which a refused JoinGroup does not echo its member id (docs/spec/group-protocol.md#0.3)."""


def admit_join(core: Core, message: JoinGroup) -> Found | Message:
    """Admit a JoinGroup, with its own limits."""
    refused = _refuse(core, message)
    if refused:
        kept = "" if refused in _FORGETS_MEMBER_ID else message.member_id
        return JoinGroupReply(error_code=refused, member_id=kept)
    return Found(*core.find(message.group_id))


def _refuse(core: Core, message: JoinGroup) -> ErrorCode:
    if not message.group_id or len(message.group_id) > LONGEST_GROUP_ID:
        return ErrorCode.INVALID_GROUP_ID
    lowest, highest = core.group_configs.session_timeouts(message.group_id)
    if not lowest <= message.session_timeout_ms <= highest:
        return ErrorCode.INVALID_SESSION_TIMEOUT
    if refused := admit(core, message.group_id) or (admit_operation(core) if not message.member_id else ErrorCode.NONE):
        return refused
    return _admit_metadata(core, message)


def _admit_metadata(core: Core, message: JoinGroup) -> ErrorCode:
    added = sum(len(protocol.metadata) for protocol in message.protocols)
    group = core.find(message.group_id)[1]
    held = 0
    if group is not None:
        held = group.metadata_bytes
        member = group.members.get(message.member_id)
        added -= 0 if member is None else sum(len(protocol.metadata) for protocol in member.protocols)
    return admit_bytes(core, held, added)


def join_group(core: Core, ref: RequestRef, message: JoinGroup, found: Found, moment: Moment) -> None:
    """Admit a new member, or let a present one rejoin (docs/spec/group-protocol.md#2.1)."""
    shard = found.shard
    group = _group_to_join(core, message, found, moment)
    if isinstance(group, ErrorCode):
        kept = "" if group in _FORGETS_MEMBER_ID else message.member_id
        core.outbox.send(ref, JoinGroupReply(error_code=group, member_id=kept))
        return
    if group.owners is not None and message.member_id in group.members and group.owners.of(message.member_id):
        # A member that joins has stopped reading: this ends grants whose release was lost
        # (docs/spec/consumer-client.md#E3).
        shard.process(group, OwnershipEnded(group.group_id, message.member_id), moment)
    shard.process(group, joined(group, ref, message, core.client(ref.connection)), moment)


def _group_to_join(core: Core, message: JoinGroup, found: Found, moment: Moment) -> Group | ErrorCode:
    if found.shard.is_balanced(message.group_id):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL  # one mode a group (docs/spec/client-balanced-groups.md#12)
    if found.group is not None:
        return found.group
    return ErrorCode.UNKNOWN_MEMBER_ID if message.member_id else _create(core, found.shard, message.group_id, moment)


def _create(core: Core, shard: Shard, group_id: str, moment: Moment) -> Group | ErrorCode:
    if core.count_groups() >= core.config.max_groups:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    return admit_write(core) or shard.create(group_id, moment)
