"""Handlers of AddOffsetsToTxn and TxnOffsetCommit for shards in the cluster's log, and their requests to the cluster's
transaction coordinators (docs/spec/shared-log.md#7)."""

from collections.abc import Callable
from functools import partial

from coordinator.clock import Moment
from coordinator.cluster_log.settings import OFFSETS_LOG_TOPIC
from coordinator.cluster_node.cluster_shards import ClusterShards
from coordinator.cluster_node.shard_service import ShardService
from coordinator.cluster_node.transactions import OpenTransaction
from coordinator.core.admission import admit
from coordinator.core.core import Core
from coordinator.gateway.upstream_requests import BrokerRequest, Continuation, DelayedUpstreamRequest
from coordinator.handlers.offset_commit import producer_error
from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.messages.node import ErrorReply, FindCoordinator, FindCoordinatorReply
from protocol.messages.offsets import TxnOffsetCommit
from protocol.messages.transactions import (
    AddOffsetsToTxn,
    AddOffsetsToTxnReply,
    AddPartitionsToTxn,
    AddPartitionsToTxnReply,
    DescribedTransaction,
    DescribeTransactions,
    DescribeTransactionsReply,
    TransactionTopic,
)
from protocol.session import RequestRef

Ask = Callable[[BrokerRequest, RequestRef, Message, Moment, Continuation], bool]
"""Sends a request to a broker; returns false if none can be asked now."""

_TRANSACTION_KEY = 1
"""Type of the keys that are transactional ids, in a FindCoordinator."""
_ONGOING = "Ongoing"
_NOT_NOW = ErrorCode.COORDINATOR_NOT_AVAILABLE
_NOT_THERE = {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.OPERATION_NOT_ATTEMPTED}
_NO_SUCH_ID = {ErrorCode.TRANSACTIONAL_ID_NOT_FOUND}

TransactionRequest = AddOffsetsToTxn | TxnOffsetCommit
Then = Callable[[int, Moment], None]
"""Continues with the id of the broker that coordinates the transaction."""


class TransactionCalls:
    """Handlers of both requests."""

    def __init__(self, core: Core, shards: ClusterShards, ask: Ask) -> None:
        self._core = core
        self._shards = shards
        self._ask = ask

    # --- AddOffsetsToTxn: any node answers it, whoever owns the group's shard ---

    def add_offsets(self, core: Core, ref: RequestRef, message: AddOffsetsToTxn, moment: Moment) -> None:
        """Add the partition of the group's shard to the transaction."""
        self._find(ref, message, moment, partial(self._add, ref, message))

    def _add(self, ref: RequestRef, message: AddOffsetsToTxn, broker: int, moment: Moment) -> None:
        topic = TransactionTopic(OFFSETS_LOG_TOPIC, (self._core.placement.shard_of(message.group_id),))
        adding = AddPartitionsToTxn(message.transactional_id, message.producer_id, message.producer_epoch, (topic,))
        self._ask_broker(broker, adding, ref, message, moment, self._added)

    def _added(self, delayed: DelayedUpstreamRequest, moment: Moment) -> None:
        assert delayed.ref is not None
        _, reply = delayed.single_exchange
        error = _NOT_NOW
        if isinstance(reply, AddPartitionsToTxnReply):
            error = next((part.error_code for topic in reply.topics for part in topic.partitions), error)
        self._core.outbox.send(delayed.ref, AddOffsetsToTxnReply(_NOT_NOW if error in _NOT_THERE else error))

    # --- TxnOffsetCommit: the owner's ---

    def commit(self, core: Core, ref: RequestRef, message: TxnOffsetCommit, moment: Moment) -> None:
        """Commit offsets in a transaction, once its coordinator has said that it is open. The coordinator is also asked
        if the transaction was known as open, but may have ended and been followed by another."""
        if refused := producer_error(message) or admit(core, message.group_id):
            self._refuse(ref, refused)
            return
        ask = partial(self._ask_whether_open, ref, message)
        if not self._service_of(message).commit(core, ref, message, moment, ask):
            ask()

    def _ask_whether_open(self, ref: RequestRef, message: TxnOffsetCommit) -> None:
        service = self._service_of(message)
        service.at_log_end(lambda at: self._find(ref, message, at, partial(self._describe, ref, message)))

    def _describe(self, ref: RequestRef, message: TxnOffsetCommit, broker: int, moment: Moment) -> None:
        open_at = self._service_of(message).log.protocol.reader.tail.next_offset
        asked = DescribeTransactions((message.transactional_id,))
        self._ask_broker(broker, asked, ref, message, moment, partial(self._described, open_at))

    def _described(self, open_at: int, delayed: DelayedUpstreamRequest, moment: Moment) -> None:
        ref, message = delayed.ref, delayed.message
        assert ref is not None and isinstance(message, TxnOffsetCommit)
        service, (_, reply) = self._service_of(message), delayed.single_exchange
        if not isinstance(reply, DescribeTransactionsReply) or not reply.transactions:
            self._refuse(ref, _NOT_NOW)
        elif refused := error_of(message, reply.transactions[0], service.shard.index):
            self._refuse(ref, refused)
        else:
            service.transactions.opened(OpenTransaction(message.producer_id, message.producer_epoch, open_at))
            if not service.commit(self._core, ref, message, moment):
                self._refuse(ref, _NOT_NOW)  # the transaction has ended since, or another node has owned the shard

    def _service_of(self, message: TransactionRequest) -> ShardService:
        return self._shards.services[self._core.placement.shard_of(message.group_id)]

    # --- the coordinator of the transaction ---

    def _find(self, ref: RequestRef, message: TransactionRequest, moment: Moment, then: Then) -> None:
        asked = FindCoordinator((message.transactional_id,), _TRANSACTION_KEY)
        self._ask_broker(None, asked, ref, message, moment, partial(self._found, then))

    def _found(self, then: Then, delayed: DelayedUpstreamRequest, moment: Moment) -> None:
        assert delayed.ref is not None
        _, reply = delayed.single_exchange
        if not isinstance(reply, FindCoordinatorReply) or not reply.coordinators:
            self._refuse(delayed.ref, _NOT_NOW)
        elif refused := reply.coordinators[0].error_code:
            self._refuse(delayed.ref, refused)
        else:
            then(reply.coordinators[0].node_id, moment)

    def _ask_broker(
        self,
        broker: int | None,
        asked: Message,
        ref: RequestRef,
        message: Message,
        moment: Moment,
        continuation: Continuation,
    ) -> None:
        if not self._ask((asked, broker), ref, message, moment, continuation):
            self._refuse(ref, _NOT_NOW)

    def _refuse(self, ref: RequestRef, error: ErrorCode) -> None:
        self._core.outbox.send(ref, ErrorReply(error))


def error_of(message: TxnOffsetCommit, found: DescribedTransaction, shard: int) -> ErrorCode:
    """Return the error for a commit in the transaction that its coordinator described; NONE if it may commit."""
    if found.error_code:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING if found.error_code in _NO_SUCH_ID else found.error_code
    if found.producer_id != message.producer_id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if found.producer_epoch != message.producer_epoch:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    partitions = [one.partitions for one in found.topics if one.topic == OFFSETS_LOG_TOPIC]
    is_open = found.transaction_state == _ONGOING and any(shard in indexes for indexes in partitions)
    return ErrorCode.NONE if is_open else ErrorCode.TRANSACTION_ABORTABLE
