"""ListOffsets, key 2.

 0  not served: it answered a list of offsets
 1  one offset and its timestamp
 2  isolation level, throttle time in the reply
 3  the client holds back by itself when throttled
 4  leader epochs (KIP-320)
 5  OFFSET_NOT_AVAILABLE may be answered
 6  flexible
 7  timestamp -3: the record with the largest timestamp (KIP-734)
 8  timestamp -4: the earliest local one (KIP-405)
 9  timestamp -5: the latest tiered one (KIP-1005)
10  timeout (KIP-1075)
11  timestamp -6: the earliest not yet uploaded (KIP-1023)
"""

from protocol.kafka.fields import ERROR, INT8, INT32, INT64, STRING, array, f, schema, skip
from protocol.messages.offsets import (
    ListOffsets,
    ListOffsetsPartition,
    ListOffsetsPartitionReply,
    ListOffsetsReply,
    ListOffsetsTopic,
    ListOffsetsTopicReply,
)

_KNOWN = "{{0}} if {{0}} >= -{} else -99"

REQUEST = schema(
    ListOffsets,
    skip(INT32, -1),
    f("isolation_level", INT8, since=2),
    array(
        "topics",
        ListOffsetsTopic,
        f("name", STRING),
        array(
            "partitions",
            ListOffsetsPartition,
            f("partition_index", INT32),
            f("current_leader_epoch", INT32, since=4),
            # A timestamp that the version does not have yet is replaced by one that no version has, and so answered
            # UNSUPPORTED_VERSION.
            f("timestamp", INT64, until=6, read_as=_KNOWN.format(2)),
            f("timestamp", INT64, since=7, until=7, read_as=_KNOWN.format(3)),
            f("timestamp", INT64, since=8, until=8, read_as=_KNOWN.format(4)),
            f("timestamp", INT64, since=9, until=10, read_as=_KNOWN.format(5)),
            f("timestamp", INT64, since=11),
        ),
    ),
    skip(INT32, 0, since=10),
    versions=(1, 11),
    flexible=6,
)

REPLY = schema(
    ListOffsetsReply,
    f("throttle_time_ms", INT32, since=2),
    array(
        "topics",
        ListOffsetsTopicReply,
        f("name", STRING),
        array(
            "partitions",
            ListOffsetsPartitionReply,
            f("partition_index", INT32),
            f("error_code", ERROR),
            f("timestamp", INT64),
            f("offset", INT64),
            f("leader_epoch", INT32, since=4),
        ),
    ),
    versions=(1, 11),
    flexible=6,
)
