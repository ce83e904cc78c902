"""ApiVersions, key 18.

    0  as it began
    1  throttle time in the reply
    2  the client holds back by itself when throttled
    3  flexible; the client's software; features (KIP-511, KIP-584)
    4  features whose smallest version is 0 (KIP-848)

The reply's header has no tagged fields in any version: a client that does not know the server's versions must be able
to read it.
"""

from protocol.kafka.fields import BOOL, ERROR, INT16, INT32, INT64, STRING, array, f, schema
from protocol.messages.node import (
    ApiVersion,
    ApiVersions,
    ApiVersionsReply,
    FinalizedFeature,
    SupportedFeature,
)

REQUEST = schema(
    ApiVersions,
    f("client_software_name", STRING, since=3),
    f("client_software_version", STRING, since=3),
    versions=(0, 4),
    flexible=3,
)

REPLY = schema(
    ApiVersionsReply,
    f("error_code", ERROR),
    array("api_keys", ApiVersion, f("api_key", INT16), f("min_version", INT16), f("max_version", INT16)),
    f("throttle_time_ms", INT32, since=1),
    array(
        "supported_features",
        SupportedFeature,
        f("name", STRING),
        f("min_version", INT16),
        f("max_version", INT16),
        since=3,
        tag=0,
    ),
    f("finalized_features_epoch", INT64, since=3, tag=1),
    array(
        "finalized_features",
        FinalizedFeature,
        f("name", STRING),
        f("max_version_level", INT16),
        f("min_version_level", INT16),
        since=3,
        tag=2,
    ),
    f("zk_migration_ready", BOOL, since=3, tag=3),
    versions=(0, 4),
    flexible=3,
)
