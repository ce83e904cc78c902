"""OffsetFetch, key 9.

    0  not served: it was for another store
    1  as it began here
    2  null for all topics; an error of the whole
    3  throttle time in the reply
    4  the client holds back by itself when throttled
    5  leader epoch (KIP-320)
    6  flexible
    7  require_stable (KIP-447)
    8  many groups (KIP-709)
    9  member id and epoch, STALE_MEMBER_EPOCH (KIP-848)
   10  topics by id

In version 1 a group's error stands on each partition that was asked for: `quirks` sees to it.
"""

from protocol.kafka.fields import (
    BOOL,
    ERROR,
    GROUP_ID,
    INT32,
    INT64,
    LONG_STRING,
    STRING,
    UUID,
    array,
    each,
    f,
    schema,
    sole,
)
from protocol.messages.offsets import (
    OffsetFetch,
    OffsetFetchGroup,
    OffsetFetchGroupReply,
    OffsetFetchPartitionReply,
    OffsetFetchReply,
    OffsetFetchTopic,
    OffsetFetchTopicReply,
)

REQUEST = schema(
    OffsetFetch,
    sole(
        "groups",
        OffsetFetchGroup,
        f("group_id", GROUP_ID),
        array(
            "topics", OffsetFetchTopic, f("name", STRING), f("partition_indexes", each(INT32)), nullable=2, default=None
        ),
        until=7,
    ),
    array(
        "groups",
        OffsetFetchGroup,
        f("group_id", GROUP_ID),
        f("member_id", STRING, since=9, nullable=9),
        f("member_epoch", INT32, since=9),
        array(
            "topics",
            OffsetFetchTopic,
            f("name", STRING, until=9),
            f("topic_id", UUID, since=10),
            f("partition_indexes", each(INT32)),
            nullable=8,
        ),
        since=8,
        facts={"wants_topic_ids": lambda version: version >= 10},
    ),
    f("require_stable", BOOL, since=7),
    versions=(1, 10),
    flexible=6,
)

_PARTITIONS = array(
    "partitions",
    OffsetFetchPartitionReply,
    f("partition_index", INT32),
    f("committed_offset", INT64),
    f("committed_leader_epoch", INT32, since=5),
    f("metadata", LONG_STRING, nullable=0),
    f("error_code", ERROR),
)

REPLY = schema(
    OffsetFetchReply,
    f("throttle_time_ms", INT32, since=3),
    sole(
        "groups",
        OffsetFetchGroupReply,
        array("topics", OffsetFetchTopicReply, f("name", STRING), _PARTITIONS),
        f("error_code", ERROR, since=2),
        until=7,
    ),
    array(
        "groups",
        OffsetFetchGroupReply,
        f("group_id", GROUP_ID),
        array(
            "topics",
            OffsetFetchTopicReply,
            f("name", STRING, until=9),
            f("topic_id", UUID, since=10),
            _PARTITIONS,
        ),
        f("error_code", ERROR),
        since=8,
    ),
    versions=(1, 10),
    flexible=6,
)
