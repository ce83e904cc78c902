"""DescribeGroups, key 15.

0  as it began
1  throttle time in the reply
2  the client holds back by itself when throttled
3  authorized operations (KIP-430)
4  group instance ids (KIP-345)
5  flexible
6  an absent group is GROUP_ID_NOT_FOUND, with a message (KIP-1043)
"""

from protocol.errors import ErrorCode
from protocol.kafka.fields import BOOL, BYTES, ERROR, GROUP_ID, INT32, STRING, array, each, f, schema
from protocol.messages.groups import DescribedGroup, DescribedMember, DescribeGroups, DescribeGroupsReply

REQUEST = schema(
    DescribeGroups,
    f("groups", each(GROUP_ID)),
    f("include_authorized_operations", BOOL, since=3),
    versions=(0, 6),
    flexible=5,
    facts={"absent_is_error": lambda version: version >= 6, "hides_consumer_groups": lambda _version: True},
)

REPLY = schema(
    DescribeGroupsReply,
    f("throttle_time_ms", INT32, since=1),
    array(
        "groups",
        DescribedGroup,
        f("error_code", ERROR, default=ErrorCode.NONE),
        f("error_message", STRING, since=6, nullable=6),
        f("group_id", GROUP_ID),
        f("group_state", STRING),
        f("protocol_type", STRING),
        f("protocol_data", STRING),
        array(
            "members",
            DescribedMember,
            f("member_id", STRING),
            f("group_instance_id", STRING, since=4, nullable=4, default=None),
            f("client_id", STRING),
            f("client_host", STRING),
            f("member_metadata", BYTES),
            f("member_assignment", BYTES),
        ),
        f("authorized_operations", INT32, since=3),
    ),
    versions=(0, 6),
    flexible=5,
)
