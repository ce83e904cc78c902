"""LeaveGroup, key 13.

0  one member; the reply's error is that member's
1  throttle time in the reply
2  the client holds back by itself when throttled
3  a list of members, with group instance ids; an error each (KIP-345)
4  flexible
5  reason (KIP-800)
"""

from protocol.kafka.fields import ERROR, GROUP_ID, INT32, STRING, array, f, schema, sole
from protocol.messages.groups import LeaveGroup, LeaveGroupReply, LeavingMember, LeftMember

REQUEST = schema(
    LeaveGroup,
    f("group_id", GROUP_ID),
    sole("members", LeavingMember, f("member_id", STRING), until=2),
    array(
        "members",
        LeavingMember,
        f("member_id", STRING),
        f("group_instance_id", STRING, nullable=3),
        f("reason", STRING, since=5, nullable=5),
        since=3,
    ),
    versions=(0, 5),
    flexible=4,
)

REPLY = schema(
    LeaveGroupReply,
    f("throttle_time_ms", INT32, since=1),
    f("error_code", ERROR),
    array(
        "members",
        LeftMember,
        f("member_id", STRING),
        f("group_instance_id", STRING, nullable=3),
        f("error_code", ERROR),
        since=3,
    ),
    versions=(0, 5),
    flexible=4,
)
