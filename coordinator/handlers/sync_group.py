"""Answer SyncGroup."""

from coordinator.clock import Moment
from coordinator.core.admission import Found, admit
from coordinator.core.core import Core
from coordinator.groups.classic.events import Sync
from coordinator.groups.consumer.events import ClassicSync
from coordinator.runtime.group import GroupKind
from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.messages.groups import SyncGroup, SyncGroupReply
from protocol.session import RequestRef


def admit_sync(core: Core, message: SyncGroup) -> Found | Message:
    """Admit a SyncGroup: the newest version must name its protocol. While the shard loads the error is
    REBALANCE_IN_PROGRESS, since clients take error 14 here as fatal (docs/spec/group-protocol.md#0.3)."""
    if message.must_name_protocol and (message.protocol_type is None or message.protocol_name is None):
        return SyncGroupReply(error_code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    refused = admit(core, message.group_id)
    if refused is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
        refused = ErrorCode.REBALANCE_IN_PROGRESS
    return SyncGroupReply(error_code=refused) if refused else Found(*core.find(message.group_id))


def sync_group(core: Core, ref: RequestRef, message: SyncGroup, found: Found, moment: Moment) -> None:
    """Return the member's assignment of a generation; the leader's request brings them all
    (docs/spec/group-protocol.md#2.2)."""
    shard, group = found
    if group is None:
        core.outbox.send(ref, SyncGroupReply(error_code=ErrorCode.UNKNOWN_MEMBER_ID))
    elif group.kind is GroupKind.CONSUMER:
        shard.process(group, ClassicSync(ref, message), moment)
    else:
        shard.process(group, Sync(ref, message), moment)
