"""ConsumerGroupHeartbeat, key 68 (KIP-848).

0  as it began, flexible
1  subscription by a regular expression; the client makes its member id (KIP-1082)
"""

from protocol.kafka.fields import ERROR, GROUP_ID, INT32, LONG_STRING, STRING, UUID, array, each, f, maybe, schema
from protocol.messages.consumer_groups import (
    ConsumerGroupHeartbeat,
    ConsumerGroupHeartbeatReply,
    MemberAssignment,
    TopicIdPartitions,
)

_PARTITIONS = (f("topic_id", UUID), f("partitions", each(INT32)))

REQUEST = schema(
    ConsumerGroupHeartbeat,
    f("group_id", GROUP_ID),
    f("member_id", STRING),
    f("member_epoch", INT32),
    f("instance_id", STRING, nullable=0),
    f("rack_id", STRING, nullable=0),
    f("rebalance_timeout_ms", INT32),
    f("subscribed_topic_names", each(STRING), nullable=0),
    f("subscribed_topic_regex", STRING, since=1, nullable=1),
    f("server_assignor", STRING, nullable=0),
    array("topic_partitions", TopicIdPartitions, *_PARTITIONS, nullable=0),
    versions=(0, 1),
    flexible=0,
    facts={"may_lack_member_id": lambda version: version < 1},
)

REPLY = schema(
    ConsumerGroupHeartbeatReply,
    f("throttle_time_ms", INT32),
    f("error_code", ERROR),
    f("error_message", LONG_STRING, nullable=0),
    f("member_id", STRING, nullable=0),
    f("member_epoch", INT32),
    f("heartbeat_interval_ms", INT32),
    maybe("assignment", MemberAssignment, array("topic_partitions", TopicIdPartitions, *_PARTITIONS)),
    versions=(0, 1),
    flexible=0,
)
