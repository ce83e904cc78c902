"""CreateTopics, key 19.

0  as it began
1  validate only; error messages
2  throttle time in the reply
3  the client holds back by itself when throttled
4  -1 for the node's number of partitions and replicas (KIP-464)
5  flexible; the topic's settings in the reply (KIP-525)
6  THROTTLING_QUOTA_EXCEEDED may be answered (KIP-599)
7  topic id in the reply (KIP-516)
"""

from protocol.kafka.fields import BOOL, ERROR, INT8, INT16, INT32, LONG_STRING, STRING, UUID, array, each, f, schema
from protocol.messages.topics import (
    CreatableTopic,
    CreatedTopic,
    CreatedTopicConfig,
    CreateTopics,
    CreateTopicsReply,
    ReplicaAssignment,
    TopicConfig,
)

REQUEST = schema(
    CreateTopics,
    array(
        "topics",
        CreatableTopic,
        f("name", STRING),
        f("num_partitions", INT32),
        f("replication_factor", INT16),
        array("assignments", ReplicaAssignment, f("partition_index", INT32), f("broker_ids", each(INT32))),
        array("configs", TopicConfig, f("name", STRING), f("value", STRING, nullable=0)),
    ),
    f("timeout_ms", INT32),
    f("validate_only", BOOL, since=1),
    versions=(0, 7),
    flexible=5,
)

REPLY = schema(
    CreateTopicsReply,
    f("throttle_time_ms", INT32, since=2),
    array(
        "topics",
        CreatedTopic,
        f("name", STRING),
        f("topic_id", UUID, since=7),
        f("error_code", ERROR),
        f("error_message", LONG_STRING, since=1, nullable=1),
        f("num_partitions", INT32, since=5),
        f("replication_factor", INT16, since=5),
        array(
            "configs",
            CreatedTopicConfig,
            f("name", STRING),
            f("value", STRING, nullable=5),
            f("read_only", BOOL),
            f("config_source", INT8),
            f("is_sensitive", BOOL),
            since=5,
            nullable=5,
        ),
    ),
    versions=(0, 7),
    flexible=5,
)
