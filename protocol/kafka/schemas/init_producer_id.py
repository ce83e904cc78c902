"""InitProducerId, key 22.

0  as it began (KIP-98)
1  the client holds back by itself when throttled
2  flexible
3  the id and epoch the producer has (KIP-360)
4  PRODUCER_FENCED may be answered
5  TRANSACTION_ABORTABLE may be answered (KIP-890)

Version 6 (two-phase commit, KIP-939) is not offered by Apache Kafka 4.3 either.
"""

from protocol.kafka.fields import ERROR, INT16, INT32, INT64, STRING, f, schema
from protocol.messages.data import InitProducerId, InitProducerIdReply

REQUEST = schema(
    InitProducerId,
    f("transactional_id", STRING, nullable=0),
    f("transaction_timeout_ms", INT32),
    f("producer_id", INT64, since=3),
    f("producer_epoch", INT16, since=3),
    versions=(0, 5),
    flexible=2,
)

REPLY = schema(
    InitProducerIdReply,
    f("throttle_time_ms", INT32),
    f("error_code", ERROR),
    f("producer_id", INT64),
    f("producer_epoch", INT16),
    versions=(0, 5),
    flexible=2,
)
