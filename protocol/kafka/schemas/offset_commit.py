"""OffsetCommit, key 8.

 0  not served: it was for another store
 1  generation and member; a timestamp each partition
 2  retention time instead of timestamps
 3  throttle time in the reply
 4  the client holds back by itself when throttled
 5  no retention time any more (KIP-211)
 6  leader epoch (KIP-320)
 7  group instance id (KIP-345)
 8  flexible
 9  GROUP_ID_NOT_FOUND for a group that is absent, STALE_MEMBER_EPOCH (KIP-848)
10  topics by id
"""

from protocol.errors import ErrorCode
from protocol.kafka.fields import ERROR, GROUP_ID, INT32, INT64, LONG_STRING, STRING, UUID, array, f, schema
from protocol.messages.offsets import (
    OffsetCommit,
    OffsetCommitPartition,
    OffsetCommitPartitionReply,
    OffsetCommitReply,
    OffsetCommitTopic,
    OffsetCommitTopicReply,
)

# Times are limited to half of an int64, so that the sum of two fits one.
_BOUNDED = "min(max({}, -1), 0x3FFFFFFFFFFFFFFF)"

REQUEST = schema(
    OffsetCommit,
    f("group_id", GROUP_ID),
    f("generation_id", INT32),
    f("member_id", STRING),
    f("group_instance_id", STRING, since=7, nullable=7),
    f("retention_time_ms", INT64, since=2, until=4, read_as=_BOUNDED),
    array(
        "topics",
        OffsetCommitTopic,
        f("name", STRING, until=9),
        f("topic_id", UUID, since=10),
        array(
            "partitions",
            OffsetCommitPartition,
            f("partition_index", INT32),
            f("committed_offset", INT64),
            f("committed_leader_epoch", INT32, since=6),
            f("commit_timestamp_ms", INT64, until=1, read_as=_BOUNDED),
            f("committed_metadata", LONG_STRING, nullable=0),
        ),
    ),
    versions=(1, 10),
    flexible=8,
    facts={
        "absent_group_error": lambda version: (
            ErrorCode.GROUP_ID_NOT_FOUND if version >= 9 else ErrorCode.ILLEGAL_GENERATION
        ),
        "knows_member_epochs": lambda version: version >= 9,
    },
)

REPLY = schema(
    OffsetCommitReply,
    f("throttle_time_ms", INT32, since=3),
    array(
        "topics",
        OffsetCommitTopicReply,
        f("name", STRING, until=9),
        f("topic_id", UUID, since=10),
        array("partitions", OffsetCommitPartitionReply, f("partition_index", INT32), f("error_code", ERROR)),
    ),
    versions=(1, 10),
    flexible=8,
)
