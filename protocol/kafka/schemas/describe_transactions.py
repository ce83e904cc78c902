"""DescribeTransactions, key 65, which nodes ask of transaction coordinators.

0  as it began, flexible (KIP-664)
"""

from protocol.kafka.fields import ERROR, INT16, INT32, INT64, STRING, array, each, f, schema
from protocol.messages.transactions import (
    DescribedTransaction,
    DescribedTransactionTopic,
    DescribeTransactions,
    DescribeTransactionsReply,
)

REQUEST = schema(DescribeTransactions, f("transactional_ids", each(STRING)), versions=(0, 0), flexible=0)

REPLY = schema(
    DescribeTransactionsReply,
    f("throttle_time_ms", INT32),
    array(
        "transactions",
        DescribedTransaction,
        f("error_code", ERROR),
        f("transactional_id", STRING),
        f("transaction_state", STRING),
        f("transaction_timeout_ms", INT32),
        f("transaction_start_time_ms", INT64),
        f("producer_id", INT64),
        f("producer_epoch", INT16),
        array("topics", DescribedTransactionTopic, f("topic", STRING), f("partitions", each(INT32))),
    ),
    versions=(0, 0),
    flexible=0,
)
