"""Answer SyncGroup."""

from coordinator.clock import Moment
from coordinator.groups.classic.events import Sync
from coordinator.handlers.admission import admit_sync
from coordinator.handlers.core import Core
from protocol.errors import ErrorCode
from protocol.messages.groups import SyncGroup, SyncGroupReply
from protocol.session import RequestRef


def sync_group(core: Core, ref: RequestRef, message: SyncGroup, moment: Moment) -> None:
    """Fetch, or as leader bring, the assignments of a generation (docs/spec/group-protocol.md#2.2)."""
    refused = admit_sync(core, message)
    shard, group = core.find(message.group_id)
    if not refused and group is None:
        refused = ErrorCode.UNKNOWN_MEMBER_ID
    if refused or group is None:
        core.outbox.send(ref, SyncGroupReply(error_code=refused))
        return
    shard.process(group, Sync(ref, message), moment)
