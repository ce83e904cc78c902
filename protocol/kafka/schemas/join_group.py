"""JoinGroup, key 11.

    0  rebalance timeout = session timeout
    1  rebalance timeout (KIP-62)
    2  throttle time in the reply
    3  the client holds back by itself when throttled
    4  a new member is first told its id: MEMBER_ID_REQUIRED (KIP-394)
    5  group instance id (KIP-345)
    6  flexible
    7  protocol type, and a protocol name that may be null, in the reply (KIP-559)
    8  reason (KIP-800)
    9  skip_assignment in the reply (KIP-814)

A rebalance timeout that is given and negative counts as 0: the largest of the group is never below it.
"""

from protocol.kafka.fields import BOOL, BYTES, ERROR, GROUP_ID, INT32, STRING, SameAs, array, f, schema
from protocol.messages.groups import JoinGroup, JoinGroupMember, JoinGroupReply, JoinProtocol

REQUEST = schema(
    JoinGroup,
    f("group_id", GROUP_ID),
    f("session_timeout_ms", INT32),
    f("rebalance_timeout_ms", INT32, since=1, default=SameAs("session_timeout_ms"), read_as="max({}, 0)"),
    f("member_id", STRING),
    f("group_instance_id", STRING, since=5, nullable=5),
    f("protocol_type", STRING),
    array("protocols", JoinProtocol, f("name", STRING), f("metadata", BYTES)),
    f("reason", STRING, since=8, nullable=8),
    versions=(0, 9),
    flexible=6,
    facts={
        "wants_member_id_first": lambda version: version >= 4,
        "accepts_skip_assignment": lambda version: version >= 9,
    },
)

REPLY = schema(
    JoinGroupReply,
    f("throttle_time_ms", INT32, since=2),
    f("error_code", ERROR),
    f("generation_id", INT32),
    f("protocol_type", STRING, since=7, nullable=7),
    f("protocol_name", STRING, nullable=7),
    f("leader", STRING),
    f("skip_assignment", BOOL, since=9),
    f("member_id", STRING),
    array(
        "members",
        JoinGroupMember,
        f("member_id", STRING),
        f("group_instance_id", STRING, since=5, nullable=5, default=None),
        f("metadata", BYTES),
    ),
    versions=(0, 9),
    flexible=6,
)
