"""AlterClientQuotas, key 49 (KIP-546).

1  flexible
"""

from protocol.kafka.fields import BOOL, ERROR, FLOAT64, INT32, LONG_STRING, STRING, array, f, schema
from protocol.messages.quotas import (
    AlterClientQuotas,
    AlterClientQuotasReply,
    AlteredQuota,
    AlteringQuota,
    QuotaChange,
    QuotaEntity,
)

REQUEST = schema(
    AlterClientQuotas,
    array(
        "entries",
        AlteringQuota,
        array("entity", QuotaEntity, f("entity_type", STRING), f("entity_name", STRING, nullable=0)),
        array("ops", QuotaChange, f("key", STRING), f("value", FLOAT64), f("remove", BOOL)),
    ),
    f("validate_only", BOOL),
    versions=(0, 1),
    flexible=1,
)

REPLY = schema(
    AlterClientQuotasReply,
    f("throttle_time_ms", INT32),
    array(
        "entries",
        AlteredQuota,
        f("error_code", ERROR),
        f("error_message", LONG_STRING, nullable=0),
        array("entity", QuotaEntity, f("entity_type", STRING), f("entity_name", STRING, nullable=0)),
    ),
    versions=(0, 1),
    flexible=1,
)
