"""Limits of clients (KIP-546): Kafka's requests."""

from protocol.errors import ErrorCode
from protocol.messages import Int8, Message, Text


class QuotaEntity(Message):
    """A component of the entity that a limit is for. `entity_type`: `user`, `client-id` or `ip`; `entity_name` None:
    all without a limit of their own."""

    entity_type: Text
    entity_name: Text | None = None


class QuotaFilter(Message):
    """Condition on a component. `match_type` 0: with this name; 1: the default; 2: any."""

    entity_type: Text
    match_type: Int8
    match: Text | None = None


class DescribeClientQuotas(Message):
    """List the limits whose components match. `strict`: they have no other components."""

    components: tuple[QuotaFilter, ...] = ()
    strict: bool = False


class QuotaValue(Message):
    key: str
    value: float


class DescribedQuota(Message):
    entity: tuple[QuotaEntity, ...]
    values: tuple[QuotaValue, ...]


class DescribeClientQuotasReply(Message):
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    entries: tuple[DescribedQuota, ...] | None = None
    throttle_time_ms: int = 0


class QuotaChange(Message):
    """Limit to set, or to remove."""

    key: Text
    value: float = 0.0
    remove: bool = False


class AlteringQuota(Message):
    entity: tuple[QuotaEntity, ...]
    ops: tuple[QuotaChange, ...]


class AlterClientQuotas(Message):
    """Set and remove limits, with a result for each entity."""

    entries: tuple[AlteringQuota, ...]
    validate_only: bool = False


class AlteredQuota(Message):
    entity: tuple[QuotaEntity, ...]
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None


class AlterClientQuotasReply(Message):
    entries: tuple[AlteredQuota, ...] = ()
    throttle_time_ms: int = 0
