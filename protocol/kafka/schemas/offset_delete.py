"""OffsetDelete, key 47.

    0  as it began: the only one; never flexible (KIP-496)

In the reply the error comes before the throttle time.
"""

from protocol.kafka.fields import ERROR, GROUP_ID, INT32, STRING, array, each, f, schema
from protocol.messages.offsets import (
    OffsetDelete,
    OffsetDeletePartitionReply,
    OffsetDeleteReply,
    OffsetDeleteTopic,
    OffsetDeleteTopicReply,
)

REQUEST = schema(
    OffsetDelete,
    f("group_id", GROUP_ID),
    array("topics", OffsetDeleteTopic, f("name", STRING), f("partition_indexes", each(INT32))),
    versions=(0, 0),
)

REPLY = schema(
    OffsetDeleteReply,
    f("error_code", ERROR),
    f("throttle_time_ms", INT32),
    array(
        "topics",
        OffsetDeleteTopicReply,
        f("name", STRING),
        array("partitions", OffsetDeletePartitionReply, f("partition_index", INT32), f("error_code", ERROR)),
    ),
    versions=(0, 0),
)
