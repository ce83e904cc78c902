"""ConsumerGroupDescribe, key 69 (KIP-848).

0  as it began, flexible
1  the type of each member (KIP-1099)
"""

from protocol.kafka.fields import (
    BOOL,
    ERROR,
    GROUP_ID,
    INT8,
    INT32,
    LONG_STRING,
    STRING,
    UUID,
    array,
    each,
    f,
    nested,
    schema,
)
from protocol.messages.consumer_groups import (
    ConsumerGroupDescribe,
    ConsumerGroupDescribeReply,
    DescribedAssignment,
    DescribedConsumer,
    DescribedConsumerGroup,
    DescribedTopicPartitions,
)

REQUEST = schema(
    ConsumerGroupDescribe,
    f("group_ids", each(GROUP_ID)),
    f("include_authorized_operations", BOOL),
    versions=(0, 1),
    flexible=0,
)

_PARTITIONS = array(
    "topic_partitions",
    DescribedTopicPartitions,
    f("topic_id", UUID),
    f("topic_name", STRING),
    f("partitions", each(INT32)),
)

REPLY = schema(
    ConsumerGroupDescribeReply,
    f("throttle_time_ms", INT32),
    array(
        "groups",
        DescribedConsumerGroup,
        f("error_code", ERROR),
        f("error_message", LONG_STRING, nullable=0),
        f("group_id", GROUP_ID),
        f("group_state", STRING),
        f("group_epoch", INT32),
        f("assignment_epoch", INT32),
        f("assignor_name", STRING),
        array(
            "members",
            DescribedConsumer,
            f("member_id", STRING),
            f("instance_id", STRING, nullable=0),
            f("rack_id", STRING, nullable=0),
            f("member_epoch", INT32),
            f("client_id", STRING),
            f("client_host", STRING),
            f("subscribed_topic_names", each(STRING)),
            f("subscribed_topic_regex", STRING, nullable=0),
            nested("assignment", DescribedAssignment, _PARTITIONS),
            nested("target_assignment", DescribedAssignment, _PARTITIONS),
            f("member_type", INT8, since=1),
        ),
        f("authorized_operations", INT32),
    ),
    versions=(0, 1),
    flexible=0,
)
