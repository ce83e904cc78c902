"""AlterConfigs, key 33: all settings of a resource at once.

    0  as it began
    1  the client holds back by itself when throttled
    2  flexible

IncrementalAlterConfigs has taken its place (KIP-339); some clients know only this one.
"""

from protocol.kafka.fields import BOOL, ERROR, INT8, INT32, LONG_STRING, STRING, array, f, schema
from protocol.messages.configs import (
    AlterConfigs,
    AlterConfigsReply,
    AlteredConfigs,
    ReplaceConfigsResource,
    ReplacedConfig,
)

REQUEST = schema(
    AlterConfigs,
    array(
        "resources",
        ReplaceConfigsResource,
        f("resource_type", INT8),
        f("resource_name", STRING),
        array("configs", ReplacedConfig, f("name", STRING), f("value", STRING, nullable=0)),
    ),
    f("validate_only", BOOL),
    versions=(0, 2),
    flexible=2,
)

REPLY = schema(
    AlterConfigsReply,
    f("throttle_time_ms", INT32),
    array(
        "responses",
        AlteredConfigs,
        f("error_code", ERROR),
        f("error_message", LONG_STRING, nullable=0),
        f("resource_type", INT8),
        f("resource_name", STRING),
    ),
    versions=(0, 2),
    flexible=2,
)
