"""InitProducerId, key 22.

0  as it began (KIP-98)
1  the client holds back by itself when throttled
2  flexible
3  the id and epoch the producer has (KIP-360)
4  PRODUCER_FENCED may be answered
5  TRANSACTION_ABORTABLE may be answered (KIP-890)
6  two-phase commit (KIP-939): read over, there are no transactions
"""

from protocol.kafka.fields import BOOL, ERROR, INT16, INT32, INT64, STRING, f, schema, skip
from protocol.messages.data import InitProducerId, InitProducerIdReply

REQUEST = schema(
    InitProducerId,
    f("transactional_id", STRING, nullable=0),
    f("transaction_timeout_ms", INT32),
    f("producer_id", INT64, since=3),
    f("producer_epoch", INT16, since=3),
    skip(BOOL, False, since=6),
    skip(BOOL, False, since=6),
    versions=(0, 6),
    flexible=2,
)

REPLY = schema(
    InitProducerIdReply,
    f("throttle_time_ms", INT32),
    f("error_code", ERROR),
    f("producer_id", INT64),
    f("producer_epoch", INT16),
    skip(INT64, -1, since=6),
    skip(INT16, -1, since=6),
    versions=(0, 6),
    flexible=2,
)
