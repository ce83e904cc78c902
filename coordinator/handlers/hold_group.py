"""Answer HoldGroup: changes of a held group are collected, and cause one rebalance at the end."""

from coordinator.clock import Moment
from coordinator.core.admission import Found
from coordinator.core.core import Core
from coordinator.facts.admin_notes import acting_client
from coordinator.groups.classic.events import GroupHeld
from coordinator.groups.classic.notes import origin_of_client
from coordinator.groups.consumer.events import ConsumerGroupHeld
from coordinator.groups.hold import LONGEST_MS
from coordinator.runtime.group import Group, GroupKind
from protocol.errors import ErrorCode
from protocol.messages.groups import HoldGroup, HoldGroupReply
from protocol.session import RequestRef


def hold_group(core: Core, ref: RequestRef, message: HoldGroup, found: Found, moment: Moment) -> None:
    """Hold the group or release it. The hold is gone after a restart."""
    shard, group = found
    if group is None:
        refused = HoldGroupReply(error_code=ErrorCode.GROUP_ID_NOT_FOUND, error_message="there is no such group")
        core.outbox.send(ref, refused)
    elif why := _refused(message, group):
        core.outbox.send(ref, HoldGroupReply(error_code=ErrorCode.INVALID_REQUEST, error_message=why))
    else:
        sender = origin_of_client(acting_client(core, ref, message.actor, message.actor_host))
        event = ConsumerGroupHeld if group.kind is GroupKind.CONSUMER else GroupHeld
        shard.process(group, event(ref, message, sender), moment)


def _refused(message: HoldGroup, group: Group) -> str:
    if not 0 <= message.for_ms <= LONGEST_MS:
        return f"for_ms: a hold lasts {LONGEST_MS} ms at most, and clients give up waiting then; 0 releases"
    if message.until_members < 0:
        return "until_members: 0 or more"
    if group.kind is GroupKind.CLIENT_BALANCED:
        return "members of a client-balanced group choose their partitions themselves: there is no rebalance to hold"
    return ""
