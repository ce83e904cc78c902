"""DeleteGroups, key 42.

0  as it began
1  the client holds back by itself when throttled
2  flexible
"""

from protocol.kafka.fields import ERROR, GROUP_ID, INT32, array, each, f, schema
from protocol.messages.groups import DeletedGroup, DeleteGroups, DeleteGroupsReply

REQUEST = schema(DeleteGroups, f("groups_names", each(GROUP_ID)), versions=(0, 2), flexible=2)

REPLY = schema(
    DeleteGroupsReply,
    f("throttle_time_ms", INT32),
    array("results", DeletedGroup, f("group_id", GROUP_ID), f("error_code", ERROR)),
    versions=(0, 2),
    flexible=2,
)
