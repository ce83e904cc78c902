"""ListGroups, key 16.

0  as it began
1  throttle time in the reply
2  the client holds back by itself when throttled
3  flexible
4  states: asked for and told (KIP-518)
5  types: asked for and told (KIP-848)
"""

from protocol.kafka.fields import ERROR, GROUP_ID, INT32, STRING, array, each, f, schema
from protocol.messages.groups import ListedGroup, ListGroups, ListGroupsReply

REQUEST = schema(
    ListGroups,
    f("states_filter", each(STRING), since=4),
    f("types_filter", each(STRING), since=5),
    versions=(0, 5),
    flexible=3,
)

REPLY = schema(
    ListGroupsReply,
    f("throttle_time_ms", INT32, since=1),
    f("error_code", ERROR),
    array(
        "groups",
        ListedGroup,
        f("group_id", GROUP_ID),
        f("protocol_type", STRING),
        f("group_state", STRING, since=4),
        f("group_type", STRING, since=5),
    ),
    versions=(0, 5),
    flexible=3,
)
