"""Answer ReleasePartitions (docs/spec/consumer-client.md#E2)."""

from coordinator.clock import Moment
from coordinator.core.admission import Found
from coordinator.core.core import Core
from coordinator.groups.classic.events import Release
from coordinator.runtime.group import GroupKind
from protocol.errors import ErrorCode
from protocol.messages.ownership import ReleasePartitions, ReleasePartitionsReply
from protocol.session import RequestRef


def release_partitions(core: Core, ref: RequestRef, message: ReleasePartitions, found: Found, moment: Moment) -> None:
    """End the member's grants."""
    shard, group = found
    if group is None:
        core.outbox.send(ref, ReleasePartitionsReply(error_code=ErrorCode.UNKNOWN_MEMBER_ID))
    elif group.kind is not GroupKind.CLASSIC:  # its members unregister instead
        core.outbox.send(ref, ReleasePartitionsReply(error_code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
    else:
        shard.process(group, Release(ref, message), moment)
