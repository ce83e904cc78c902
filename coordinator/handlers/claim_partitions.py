"""Answer ClaimPartitions (docs/spec/consumer-client.md#E2)."""

from coordinator.clock import Moment
from coordinator.core.admission import Found
from coordinator.core.core import Core
from coordinator.groups.classic.events import Claim
from protocol.errors import ErrorCode
from protocol.messages.ownership import ClaimPartitions, ClaimPartitionsReply
from protocol.session import RequestRef

_NO_OFFSET = -1


def claim_partitions(core: Core, ref: RequestRef, message: ClaimPartitions, found: Found, moment: Moment) -> None:
    """Grant all partitions or none. The committed offsets are read in the same step as the grant is made, so no commit
    of a former owner can come in between."""
    shard, group = found
    if group is None:
        core.outbox.send(ref, ClaimPartitionsReply(error_code=ErrorCode.UNKNOWN_MEMBER_ID))
        return
    committed = []
    for topic, partition in dict.fromkeys((item.topic, item.partition) for item in message.items):
        stored = shard.offsets.get(message.group_id, topic, partition)
        committed.append(_NO_OFFSET if stored is None else stored.offset)
    shard.process(group, Claim(ref, message, tuple(committed)), moment)
