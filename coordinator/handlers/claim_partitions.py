"""Answer ClaimPartitions (docs/spec/consumer-client.md#E2)."""

from coordinator.clock import Moment
from coordinator.groups.classic.events import Claim
from coordinator.handlers.admission import admit, admit_write
from coordinator.handlers.core import Core
from protocol.errors import ErrorCode
from protocol.messages.ownership import ClaimPartitions, ClaimPartitionsReply
from protocol.session import RequestRef

_NO_OFFSET = -1


def claim_partitions(core: Core, ref: RequestRef, message: ClaimPartitions, moment: Moment) -> None:
    """Own partitions, all or none. What the group has committed is read in the same step as the grant is made: nothing
    a former owner commits can come in between."""
    refused = admit(core, message.group_id) or admit_write(core)
    shard, group = core.find(message.group_id)
    if refused or group is None:
        core.outbox.send(ref, ClaimPartitionsReply(error_code=refused or ErrorCode.UNKNOWN_MEMBER_ID))
        return
    committed = []
    for topic, partition in dict.fromkeys((item.topic, item.partition) for item in message.items):
        stored = shard.offsets.get(message.group_id, topic, partition)
        committed.append(_NO_OFFSET if stored is None else stored.offset)
    shard.process(group, Claim(ref, message, tuple(committed)), moment)
