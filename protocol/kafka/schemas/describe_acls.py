"""DescribeAcls, key 29. Written and its answer read, never served: ACLs are the brokers'.

0  as it began
1  pattern types (KIP-290)
2  flexible
3  resources of type USER (KIP-373)
"""

from protocol.kafka.fields import ERROR, INT8, INT32, LONG_STRING, STRING, array, f, schema
from protocol.messages.acls import DescribeAcls, DescribeAclsReply, DescribedAcl, DescribedAclResource

REQUEST = schema(
    DescribeAcls,
    f("resource_type_filter", INT8),
    f("resource_name_filter", STRING, nullable=0),
    f("pattern_type_filter", INT8, since=1),
    f("principal_filter", STRING, nullable=0),
    f("host_filter", STRING, nullable=0),
    f("operation", INT8),
    f("permission_type", INT8),
    versions=(0, 3),
    flexible=2,
)

REPLY = schema(
    DescribeAclsReply,
    f("throttle_time_ms", INT32),
    f("error_code", ERROR),
    f("error_message", LONG_STRING, nullable=0),
    array(
        "resources",
        DescribedAclResource,
        f("resource_type", INT8),
        f("resource_name", STRING),
        f("pattern_type", INT8, since=1),
        array(
            "acls",
            DescribedAcl,
            f("principal", STRING),
            f("host", STRING),
            f("operation", INT8),
            f("permission_type", INT8),
        ),
    ),
    versions=(0, 3),
    flexible=2,
)
