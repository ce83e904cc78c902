"""IncrementalAlterConfigs, key 44 (KIP-339).

0  as it began
1  flexible
"""

from protocol.kafka.fields import BOOL, ERROR, INT8, INT32, LONG_STRING, STRING, array, f, schema
from protocol.messages.configs import (
    AlterableConfig,
    AlterConfigsResource,
    AlteredConfigs,
    IncrementalAlterConfigs,
    IncrementalAlterConfigsReply,
)

REQUEST = schema(
    IncrementalAlterConfigs,
    array(
        "resources",
        AlterConfigsResource,
        f("resource_type", INT8),
        f("resource_name", STRING),
        array(
            "configs",
            AlterableConfig,
            f("name", STRING),
            f("config_operation", INT8),
            f("value", STRING, nullable=0),
        ),
    ),
    f("validate_only", BOOL),
    versions=(0, 1),
    flexible=1,
)

REPLY = schema(
    IncrementalAlterConfigsReply,
    f("throttle_time_ms", INT32),
    array(
        "responses",
        AlteredConfigs,
        f("error_code", ERROR),
        f("error_message", LONG_STRING, nullable=0),
        f("resource_type", INT8),
        f("resource_name", STRING),
    ),
    versions=(0, 1),
    flexible=1,
)
