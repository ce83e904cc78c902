"""Transactions of the cluster: requests to their coordinators, and AddOffsetsToTxn, which clients send."""

from protocol.errors import ErrorCode
from protocol.messages import GroupId, Int16, Int32, Int64, Message, Text


class TransactionTopic(Message):
    name: Text
    partitions: tuple[Int32, ...]


class AddPartitionsToTxn(Message):
    """Add partitions to the producer's transaction, which begins with the first one."""

    transactional_id: Text
    producer_id: Int64
    producer_epoch: Int16
    topics: tuple[TransactionTopic, ...]


class AddedPartition(Message):
    partition_index: int
    error_code: ErrorCode = ErrorCode.NONE


class AddedTopic(Message):
    name: str
    partitions: tuple[AddedPartition, ...]


class AddPartitionsToTxnReply(Message):
    topics: tuple[AddedTopic, ...] = ()
    throttle_time_ms: int = 0


class AddOffsetsToTxn(Message):
    """Add the partition of the group's offsets to the producer's transaction."""

    transactional_id: Text
    producer_id: Int64
    producer_epoch: Int16
    group_id: GroupId


class AddOffsetsToTxnReply(Message):
    error_code: ErrorCode = ErrorCode.NONE
    throttle_time_ms: int = 0


class EndTxn(Message):
    """End the producer's transaction."""

    transactional_id: Text
    producer_id: Int64
    producer_epoch: Int16
    committed: bool


class EndTxnReply(Message):
    error_code: ErrorCode = ErrorCode.NONE
    throttle_time_ms: int = 0


class DescribeTransactions(Message):
    """Describe the transactions of these transactional ids."""

    transactional_ids: tuple[Text, ...]


class DescribedTransactionTopic(Message):
    topic: str
    partitions: tuple[int, ...]


class DescribedTransaction(Message):
    """State of a transaction, by its name: `Ongoing` while it is open."""

    error_code: ErrorCode
    transactional_id: str
    transaction_state: str = ""
    transaction_timeout_ms: int = -1
    transaction_start_time_ms: int = -1
    producer_id: int = -1
    producer_epoch: int = -1
    topics: tuple[DescribedTransactionTopic, ...] = ()


class DescribeTransactionsReply(Message):
    transactions: tuple[DescribedTransaction, ...] = ()
    throttle_time_ms: int = 0
