"""AddPartitionsToTxn, key 24, which nodes ask of transaction coordinators.

0  as it began (KIP-98)
1  the client holds back by itself when throttled
2  PRODUCER_FENCED may be answered
3  flexible

From version 4 on brokers ask for several transactions at once, and to verify.
"""

from protocol.kafka.fields import ERROR, INT16, INT32, INT64, STRING, array, each, f, schema
from protocol.messages.transactions import (
    AddedPartition,
    AddedTopic,
    AddPartitionsToTxn,
    AddPartitionsToTxnReply,
    TransactionTopic,
)

REQUEST = schema(
    AddPartitionsToTxn,
    f("transactional_id", STRING),
    f("producer_id", INT64),
    f("producer_epoch", INT16),
    array("topics", TransactionTopic, f("name", STRING), f("partitions", each(INT32))),
    versions=(0, 3),
    flexible=3,
)

REPLY = schema(
    AddPartitionsToTxnReply,
    f("throttle_time_ms", INT32),
    array(
        "topics",
        AddedTopic,
        f("name", STRING),
        array("partitions", AddedPartition, f("partition_index", INT32), f("error_code", ERROR)),
    ),
    versions=(0, 3),
    flexible=3,
)
