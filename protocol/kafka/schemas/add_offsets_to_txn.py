"""AddOffsetsToTxn, key 25.

0  as it began (KIP-98)
1  the client holds back by itself when throttled
2  PRODUCER_FENCED may be answered
3  flexible
4  TRANSACTION_ABORTABLE may be answered (KIP-890)
"""

from protocol.kafka.fields import ERROR, GROUP_ID, INT16, INT32, INT64, STRING, f, schema
from protocol.messages.transactions import AddOffsetsToTxn, AddOffsetsToTxnReply

REQUEST = schema(
    AddOffsetsToTxn,
    f("transactional_id", STRING),
    f("producer_id", INT64),
    f("producer_epoch", INT16),
    f("group_id", GROUP_ID),
    versions=(0, 4),
    flexible=3,
)

REPLY = schema(AddOffsetsToTxnReply, f("throttle_time_ms", INT32), f("error_code", ERROR), versions=(0, 4), flexible=3)
