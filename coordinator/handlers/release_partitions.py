"""Answer ReleasePartitions (docs/spec/consumer-client.md#E2)."""

from coordinator.clock import Moment
from coordinator.groups.classic.events import Release
from coordinator.handlers.admission import admit, admit_write
from coordinator.handlers.core import Core
from protocol.errors import ErrorCode
from protocol.messages.ownership import ReleasePartitions, ReleasePartitionsReply
from protocol.session import RequestRef


def release_partitions(core: Core, ref: RequestRef, message: ReleasePartitions, moment: Moment) -> None:
    """Own them no longer."""
    refused = admit(core, message.group_id) or admit_write(core)
    shard, group = core.find(message.group_id)
    if not refused and shard.is_balanced(message.group_id):
        refused = ErrorCode.INCONSISTENT_GROUP_PROTOCOL  # its members unregister
    if refused or group is None:
        core.outbox.send(ref, ReleasePartitionsReply(error_code=refused or ErrorCode.UNKNOWN_MEMBER_ID))
        return
    shard.process(group, Release(ref, message), moment)
