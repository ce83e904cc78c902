"""SyncGroup, key 14.

0  as it began
1  throttle time in the reply
2  the client holds back by itself when throttled
3  group instance id (KIP-345)
4  flexible
5  protocol type and name, which a request must give (KIP-559)
"""

from protocol.kafka.fields import BYTES, ERROR, GROUP_ID, INT32, STRING, array, f, schema
from protocol.messages.groups import SyncGroup, SyncGroupAssignment, SyncGroupReply

REQUEST = schema(
    SyncGroup,
    f("group_id", GROUP_ID),
    f("generation_id", INT32),
    f("member_id", STRING),
    f("group_instance_id", STRING, since=3, nullable=3),
    f("protocol_type", STRING, since=5, nullable=5),
    f("protocol_name", STRING, since=5, nullable=5),
    array("assignments", SyncGroupAssignment, f("member_id", STRING), f("assignment", BYTES)),
    versions=(0, 5),
    flexible=4,
    facts={"must_name_protocol": lambda version: version >= 5},
)

REPLY = schema(
    SyncGroupReply,
    f("throttle_time_ms", INT32, since=1),
    f("error_code", ERROR),
    f("protocol_type", STRING, since=5, nullable=5),
    f("protocol_name", STRING, since=5, nullable=5),
    f("assignment", BYTES),
    versions=(0, 5),
    flexible=4,
)
