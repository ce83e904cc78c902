"""EndTxn, key 26, which producers ask of transaction coordinators.

0  as it began (KIP-98)
1  the client holds back by itself when throttled
2  PRODUCER_FENCED may be answered
3  flexible
4  TRANSACTION_ABORTABLE may be answered (KIP-890)

From version 5 on each transaction has an epoch of its own, and partitions are added by Produce.
"""

from protocol.kafka.fields import BOOL, ERROR, INT16, INT32, INT64, STRING, f, schema
from protocol.messages.transactions import EndTxn, EndTxnReply

REQUEST = schema(
    EndTxn,
    f("transactional_id", STRING),
    f("producer_id", INT64),
    f("producer_epoch", INT16),
    f("committed", BOOL),
    versions=(0, 4),
    flexible=3,
)

REPLY = schema(EndTxnReply, f("throttle_time_ms", INT32), f("error_code", ERROR), versions=(0, 4), flexible=3)
