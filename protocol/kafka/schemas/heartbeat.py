"""Heartbeat, key 12.

0  as it began
1  throttle time in the reply
2  the client holds back by itself when throttled
3  group instance id (KIP-345)
4  flexible
"""

from protocol.kafka.fields import ERROR, GROUP_ID, INT32, STRING, f, schema
from protocol.messages.groups import Heartbeat, HeartbeatReply

REQUEST = schema(
    Heartbeat,
    f("group_id", GROUP_ID),
    f("generation_id", INT32),
    f("member_id", STRING),
    f("group_instance_id", STRING, since=3, nullable=3),
    versions=(0, 4),
    flexible=4,
)

REPLY = schema(
    HeartbeatReply,
    f("throttle_time_ms", INT32, since=1),
    f("error_code", ERROR),
    versions=(0, 4),
    flexible=4,
)
