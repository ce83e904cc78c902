"""DescribeTopicPartitions, key 75 (KIP-966).

0  as it began, flexible
"""

from protocol.kafka.fields import BOOL, ERROR, INT32, STRING, UUID, array, each, f, maybe, schema
from protocol.messages.topics import (
    DescribedPartition,
    DescribedTopic,
    DescribeTopicPartitions,
    DescribeTopicPartitionsReply,
    NamedTopic,
    TopicCursor,
)

_CURSOR = (f("topic_name", STRING), f("partition_index", INT32))

REQUEST = schema(
    DescribeTopicPartitions,
    array("topics", NamedTopic, f("name", STRING)),
    f("response_partition_limit", INT32),
    maybe("cursor", TopicCursor, *_CURSOR),
    versions=(0, 0),
    flexible=0,
)

REPLY = schema(
    DescribeTopicPartitionsReply,
    f("throttle_time_ms", INT32),
    array(
        "topics",
        DescribedTopic,
        f("error_code", ERROR),
        f("name", STRING, nullable=0),
        f("topic_id", UUID),
        f("is_internal", BOOL),
        array(
            "partitions",
            DescribedPartition,
            f("error_code", ERROR),
            f("partition_index", INT32),
            f("leader_id", INT32),
            f("leader_epoch", INT32),
            f("replica_nodes", each(INT32)),
            f("isr_nodes", each(INT32)),
            f("eligible_leader_replicas", each(INT32), nullable=0),
            f("last_known_elr", each(INT32), nullable=0),
            f("offline_replicas", each(INT32)),
        ),
        f("topic_authorized_operations", INT32),
    ),
    maybe("next_cursor", TopicCursor, *_CURSOR),
    versions=(0, 0),
    flexible=0,
)
