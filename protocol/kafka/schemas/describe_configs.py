"""DescribeConfigs, key 32.

0  whether a value is the default
1  where a value comes from, and synonyms (KIP-226)
2  the client holds back by itself when throttled
3  types and documentation (KIP-569)
4  flexible
"""

from protocol.kafka.fields import BOOL, ERROR, INT8, INT32, LONG_STRING, STRING, array, each, f, schema
from protocol.messages.configs import (
    ConfigSynonym,
    DescribeConfigs,
    DescribeConfigsReply,
    DescribeConfigsResource,
    DescribedConfig,
    DescribedConfigs,
)

REQUEST = schema(
    DescribeConfigs,
    array(
        "resources",
        DescribeConfigsResource,
        f("resource_type", INT8),
        f("resource_name", STRING),
        f("configuration_keys", each(STRING), nullable=0),
    ),
    f("include_synonyms", BOOL, since=1),
    f("include_documentation", BOOL, since=3),
    versions=(0, 4),
    flexible=4,
)

REPLY = schema(
    DescribeConfigsReply,
    f("throttle_time_ms", INT32),
    array(
        "results",
        DescribedConfigs,
        f("error_code", ERROR),
        f("error_message", LONG_STRING, nullable=0),
        f("resource_type", INT8),
        f("resource_name", STRING),
        array(
            "configs",
            DescribedConfig,
            f("name", STRING),
            f("value", LONG_STRING, nullable=0),
            f("read_only", BOOL),
            f("config_source", INT8, since=1),
            f("is_default", BOOL, until=0),
            f("is_sensitive", BOOL),
            array(
                "synonyms",
                ConfigSynonym,
                f("name", STRING),
                f("value", LONG_STRING, nullable=0),
                f("source", INT8),
                since=1,
            ),
            f("config_type", INT8, since=3),
            f("documentation", LONG_STRING, since=3, nullable=3),
        ),
    ),
    versions=(0, 4),
    flexible=4,
)
