"""DeleteAcls, key 31.

1  pattern types (KIP-290)
2  flexible
3  resources of type USER (KIP-373)
"""

from protocol.kafka.fields import ERROR, INT8, INT32, LONG_STRING, STRING, array, f, schema
from protocol.kafka.schemas.acl_fields import ACCESS_CONTROL_ENTRY, BINDING_FILTER
from protocol.messages.acls import (
    AclBindingFilter,
    DeleteAcls,
    DeleteAclsFilterResult,
    DeleteAclsReply,
    DeletedAcl,
)

REQUEST = schema(
    DeleteAcls,
    array(
        "filters",
        AclBindingFilter,
        *BINDING_FILTER,
    ),
    versions=(1, 3),
    flexible=2,
)

REPLY = schema(
    DeleteAclsReply,
    f("throttle_time_ms", INT32),
    array(
        "filter_results",
        DeleteAclsFilterResult,
        f("error_code", ERROR),
        f("error_message", LONG_STRING, nullable=1),
        array(
            "matching_acls",
            DeletedAcl,
            f("error_code", ERROR),
            f("error_message", LONG_STRING, nullable=1),
            f("resource_type", INT8),
            f("resource_name", STRING),
            f("pattern_type", INT8),
            *ACCESS_CONTROL_ENTRY,
        ),
    ),
    versions=(1, 3),
    flexible=2,
)
