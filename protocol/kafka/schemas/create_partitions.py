"""CreatePartitions, key 37.

0  as it began (KIP-195)
1  the client holds back by itself when throttled
2  flexible
3  THROTTLING_QUOTA_EXCEEDED may be answered (KIP-599)
"""

from protocol.kafka.fields import BOOL, ERROR, INT32, LONG_STRING, STRING, array, each, f, schema
from protocol.messages.topics import (
    CreatePartitions,
    CreatePartitionsReply,
    GrowingTopic,
    GrownTopic,
    PartitionAssignment,
)

REQUEST = schema(
    CreatePartitions,
    array(
        "topics",
        GrowingTopic,
        f("name", STRING),
        f("count", INT32),
        array("assignments", PartitionAssignment, f("broker_ids", each(INT32)), nullable=0),
    ),
    f("timeout_ms", INT32),
    f("validate_only", BOOL),
    versions=(0, 3),
    flexible=2,
)

REPLY = schema(
    CreatePartitionsReply,
    f("throttle_time_ms", INT32),
    array(
        "results",
        GrownTopic,
        f("name", STRING),
        f("error_code", ERROR),
        f("error_message", LONG_STRING, nullable=0),
    ),
    versions=(0, 3),
    flexible=2,
)
