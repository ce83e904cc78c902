"""Answer DescribeClientQuotas (KIP-546)."""

from coordinator.accounts.quotas import IP, TYPES, Entity
from coordinator.clock import Moment
from coordinator.core.core import Core
from protocol.errors import ErrorCode
from protocol.messages.quotas import (
    DescribeClientQuotas,
    DescribeClientQuotasReply,
    DescribedQuota,
    QuotaEntity,
    QuotaFilter,
    QuotaValue,
)
from protocol.session import RequestRef

_EXACT, _DEFAULT, _ANY = 0, 1, 2


def describe_client_quotas(core: Core, ref: RequestRef, message: DescribeClientQuotas, moment: Moment) -> None:
    """List the limits of the entities that match."""
    problem = _problem(message)
    if problem is not None:
        core.outbox.send(ref, DescribeClientQuotasReply(*problem))
        return
    entries = tuple(
        DescribedQuota(
            tuple(QuotaEntity(kind, name) for kind, name in entity),
            tuple(QuotaValue(key, value) for key, value in sorted(values.items())),
        )
        for entity, values in core.accounts.quotas.limits.items()
        if _matches(message, entity)
    )
    core.outbox.hold(core.accounts.position, ref, DescribeClientQuotasReply(entries=entries))


def _problem(message: DescribeClientQuotas) -> tuple[ErrorCode, str] | None:
    types = [one.entity_type for one in message.components]
    if "" in types:
        return ErrorCode.INVALID_REQUEST, "an entity type is empty"
    if strange := [one for one in types if one not in TYPES]:
        return ErrorCode.UNSUPPORTED_VERSION, f"entities of type {strange[0][:100]!r} have no limits here"
    if len(set(types)) != len(types):
        return ErrorCode.INVALID_REQUEST, "an entity type is named twice"
    if IP in types and len(types) > 1:
        return ErrorCode.INVALID_REQUEST, "an address is asked for by itself"
    for one in message.components:
        if one.match_type not in (_EXACT, _DEFAULT, _ANY):
            return ErrorCode.INVALID_REQUEST, f"{one.match_type} is no match type"
        if (one.match is not None) is not (one.match_type == _EXACT):
            return ErrorCode.INVALID_REQUEST, "a name is matched by match type 0, and by it alone"
    return None


def _matches(message: DescribeClientQuotas, entity: Entity) -> bool:
    names = dict(entity)
    if message.strict and len(names) != len(message.components):
        return False
    return all(one.entity_type in names and _matches_name(one, names[one.entity_type]) for one in message.components)


def _matches_name(wanted: QuotaFilter, name: str | None) -> bool:
    return wanted.match_type == _ANY or name == wanted.match
