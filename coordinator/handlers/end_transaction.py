"""Answer EndTransaction, the marker that ends a transaction's pending offsets (docs/spec/group-protocol.md#4.3). It is
internal: no transaction coordinator exists yet, so no dialect offers the message."""

from coordinator.clock import Moment
from coordinator.core.admission import admit_to_shard, admit_write
from coordinator.core.core import Core
from coordinator.handlers.offset_commit import producer_error
from coordinator.records.records import TransactionEnded
from protocol.errors import ErrorCode
from protocol.messages.offsets import EndTransaction, EndTransactionReply
from protocol.session import RequestRef

_MOVED = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)
"""Errors that become NOT_LEADER_OR_FOLLOWER: a writer of markers looks for the leader of a partition, not for a group's
coordinator."""


def end_transaction(core: Core, ref: RequestRef, message: EndTransaction, moment: Moment) -> None:
    """Append the marker; it is durable and applied when the reply is sent."""
    if not 0 <= message.partition_index < len(core.shards):
        core.outbox.send(ref, EndTransactionReply(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
        return
    shard = core.shards[message.partition_index]
    refused = producer_error(message) or admit_to_shard(shard) or admit_write(core)
    marker = TransactionEnded(
        message.producer_id, message.producer_epoch, message.is_committed, message.coordinator_epoch
    )
    ended = refused or shard.end_transaction(marker, moment)
    if isinstance(ended, ErrorCode):
        core.outbox.send(ref, EndTransactionReply(ErrorCode.NOT_LEADER_OR_FOLLOWER if ended in _MOVED else ended))
    else:
        shard.outbox.hold(ended.position, ref, EndTransactionReply())
