"""CreateAcls, key 30.

1  pattern types (KIP-290)
2  flexible
3  resources of type USER (KIP-373)
"""

from protocol.kafka.fields import ERROR, INT8, INT32, LONG_STRING, STRING, array, f, schema
from protocol.kafka.schemas.acl_fields import ACCESS_CONTROL_ENTRY
from protocol.messages.acls import AclCreation, AclCreationResult, CreateAcls, CreateAclsReply

REQUEST = schema(
    CreateAcls,
    array(
        "creations",
        AclCreation,
        f("resource_type", INT8),
        f("resource_name", STRING),
        f("resource_pattern_type", INT8),
        *ACCESS_CONTROL_ENTRY,
    ),
    versions=(1, 3),
    flexible=2,
)

REPLY = schema(
    CreateAclsReply,
    f("throttle_time_ms", INT32),
    array("results", AclCreationResult, f("error_code", ERROR), f("error_message", LONG_STRING, nullable=1)),
    versions=(1, 3),
    flexible=2,
)
