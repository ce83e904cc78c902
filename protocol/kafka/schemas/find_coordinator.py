"""FindCoordinator, key 10.

0  one group
1  key type, throttle time, an error message that says NONE when there is none
2  the client holds back by itself when throttled
3  flexible
4  many keys, an answer each (KIP-699)
5  TRANSACTION_ABORTABLE may be answered (KIP-890)
6  key type 2, share groups (KIP-932): refused here
"""

from protocol.kafka.fields import ERROR, GROUP_ID, INT8, INT32, STRING, array, each, f, schema, sole
from protocol.messages.node import FindCoordinator, FindCoordinatorReply, FoundCoordinator

REQUEST = schema(
    FindCoordinator,
    f("coordinator_keys", GROUP_ID, until=3, read_as="{},", write_as="{}[0]"),
    f("key_type", INT8, since=1),
    f("coordinator_keys", each(GROUP_ID), since=4),
    versions=(0, 6),
    flexible=3,
)

REPLY = schema(
    FindCoordinatorReply,
    f("throttle_time_ms", INT32, since=1),
    sole(
        "coordinators",
        FoundCoordinator,
        f("error_code", ERROR),
        f("error_message", STRING, since=1, nullable=1),
        f("node_id", INT32),
        f("host", STRING),
        f("port", INT32),
        until=3,
    ),
    array(
        "coordinators",
        FoundCoordinator,
        f("key", GROUP_ID),
        f("node_id", INT32),
        f("host", STRING),
        f("port", INT32),
        f("error_code", ERROR),
        f("error_message", STRING, nullable=4),
        since=4,
    ),
    versions=(0, 6),
    flexible=3,
)
