"""Fields that the schemas of ACLs share."""

from protocol.kafka.fields import INT8, STRING, f

BINDING_FILTER = (
    f("resource_type_filter", INT8),
    f("resource_name_filter", STRING, nullable=1),
    f("pattern_type_filter", INT8),
    f("principal_filter", STRING, nullable=1),
    f("host_filter", STRING, nullable=1),
    f("operation", INT8),
    f("permission_type", INT8),
)

ACCESS_CONTROL_ENTRY = (
    f("principal", STRING),
    f("host", STRING),
    f("operation", INT8),
    f("permission_type", INT8),
)
