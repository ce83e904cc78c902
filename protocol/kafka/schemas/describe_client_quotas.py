"""DescribeClientQuotas, key 48 (KIP-546).

1  flexible
"""

from protocol.kafka.fields import BOOL, ERROR, FLOAT64, INT8, INT32, LONG_STRING, STRING, array, f, schema
from protocol.messages.quotas import (
    DescribeClientQuotas,
    DescribeClientQuotasReply,
    DescribedQuota,
    QuotaEntity,
    QuotaFilter,
    QuotaValue,
)

REQUEST = schema(
    DescribeClientQuotas,
    array(
        "components",
        QuotaFilter,
        f("entity_type", STRING),
        f("match_type", INT8),
        f("match", STRING, nullable=0),
    ),
    f("strict", BOOL),
    versions=(0, 1),
    flexible=1,
)

REPLY = schema(
    DescribeClientQuotasReply,
    f("throttle_time_ms", INT32),
    f("error_code", ERROR),
    f("error_message", LONG_STRING, nullable=0),
    array(
        "entries",
        DescribedQuota,
        array("entity", QuotaEntity, f("entity_type", STRING), f("entity_name", STRING, nullable=0)),
        array("values", QuotaValue, f("key", STRING), f("value", FLOAT64)),
        nullable=0,
    ),
    versions=(0, 1),
    flexible=1,
)
