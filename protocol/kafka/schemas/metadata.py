"""Metadata, key 3.

 0  no topics named: all of them
 1  null for all, nothing for none; controller, racks, internal topics
 2  cluster id
 3  throttle time in the reply
 4  whether topics may be made
 5  offline replicas
 6  the client holds back by itself when throttled
 7  leader epoch (KIP-320)
 8  authorized operations (KIP-430)
 9  flexible
10  topic ids (KIP-516)
11  the cluster's authorized operations are DescribeCluster's now (KIP-700)
12  topics by id
13  an error of the whole (KIP-1102)
"""

from protocol.kafka.fields import BOOL, ERROR, INT32, STRING, UUID, array, each, f, schema
from protocol.messages.topics import (
    Metadata,
    MetadataBroker,
    MetadataPartitionReply,
    MetadataReply,
    MetadataTopic,
    MetadataTopicReply,
)

_TOPIC = (f("topic_id", UUID, since=10), f("name", STRING, nullable=10))

REQUEST = schema(
    Metadata,
    array("topics", MetadataTopic, *_TOPIC, until=0, read_as="{} or None"),
    array("topics", MetadataTopic, *_TOPIC, since=1, nullable=1),
    f("allow_auto_topic_creation", BOOL, since=4, default=True),
    f("include_cluster_authorized_operations", BOOL, since=8, until=10),
    f("include_topic_authorized_operations", BOOL, since=8),
    versions=(0, 13),
    flexible=9,
)

REPLY = schema(
    MetadataReply,
    f("throttle_time_ms", INT32, since=3),
    array(
        "brokers",
        MetadataBroker,
        f("node_id", INT32),
        f("host", STRING),
        f("port", INT32),
        f("rack", STRING, since=1, nullable=1),
    ),
    f("cluster_id", STRING, since=2, nullable=2),
    f("controller_id", INT32, since=1),
    array(
        "topics",
        MetadataTopicReply,
        f("error_code", ERROR),
        f("name", STRING, nullable=12),
        f("topic_id", UUID, since=10),
        f("is_internal", BOOL, since=1),
        array(
            "partitions",
            MetadataPartitionReply,
            f("error_code", ERROR),
            f("partition_index", INT32),
            f("leader_id", INT32),
            f("leader_epoch", INT32, since=7),
            f("replica_nodes", each(INT32)),
            f("isr_nodes", each(INT32)),
            f("offline_replicas", each(INT32), since=5),
        ),
        f("topic_authorized_operations", INT32, since=8),
    ),
    f("cluster_authorized_operations", INT32, since=8, until=10),
    f("error_code", ERROR, since=13),
    versions=(0, 13),
    flexible=9,
)
