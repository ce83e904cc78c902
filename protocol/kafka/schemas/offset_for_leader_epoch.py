"""OffsetForLeaderEpoch, key 23.

0  as it began
1  leader epoch in the reply
2  current leader epoch, throttle time (KIP-320)
3  replica id
4  flexible
"""

from protocol.kafka.fields import ERROR, INT32, INT64, STRING, array, f, schema, skip
from protocol.messages.data import (
    EpochEndOffset,
    EpochPartition,
    EpochTopic,
    EpochTopicReply,
    OffsetForLeaderEpoch,
    OffsetForLeaderEpochReply,
)

REQUEST = schema(
    OffsetForLeaderEpoch,
    skip(INT32, -1, since=3),
    array(
        "topics",
        EpochTopic,
        f("topic", STRING),
        array(
            "partitions",
            EpochPartition,
            f("partition", INT32),
            f("current_leader_epoch", INT32, since=2),
            f("leader_epoch", INT32),
        ),
    ),
    versions=(0, 4),
    flexible=4,
)

REPLY = schema(
    OffsetForLeaderEpochReply,
    f("throttle_time_ms", INT32, since=2),
    array(
        "topics",
        EpochTopicReply,
        f("topic", STRING),
        array(
            "partitions",
            EpochEndOffset,
            f("error_code", ERROR),
            f("partition", INT32),
            f("leader_epoch", INT32, since=1),
            f("end_offset", INT64),
        ),
    ),
    versions=(0, 4),
    flexible=4,
)
