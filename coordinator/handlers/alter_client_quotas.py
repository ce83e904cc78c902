"""Answer AlterClientQuotas (KIP-546): each entity by itself, all of its changes or none."""

from collections import Counter
from operator import itemgetter

from coordinator.accounts.quotas import Entity, problem_of, problem_of_entity
from coordinator.accounts.records import QuotaRecord
from coordinator.clock import Moment
from coordinator.core.core import Core
from protocol.errors import ErrorCode
from protocol.messages.quotas import AlterClientQuotas, AlterClientQuotasReply, AlteredQuota, AlteringQuota
from protocol.session import RequestRef


def alter_client_quotas(core: Core, ref: RequestRef, message: AlterClientQuotas, moment: Moment) -> None:
    """Change the limits of the entities without a mistake, in one batch; durable when answered."""
    times = Counter(entity_of(one) for one in message.entries)
    problems = [_problem(one, times[entity_of(one)]) for one in message.entries]
    records = [
        QuotaRecord(entity_of(one), _changed(core, one))
        for one, problem in zip(message.entries, problems, strict=True)
        if problem is None
    ]
    failed = ErrorCode.NONE if message.validate_only else core.accounts.write(records, moment)
    results = tuple(
        AlteredQuota(one.entity, failed) if problem is None else AlteredQuota(one.entity, *problem)
        for one, problem in zip(message.entries, problems, strict=True)
    )
    core.outbox.hold(core.accounts.position, ref, AlterClientQuotasReply(results))


def entity_of(entry: AlteringQuota) -> Entity:
    """Return whom the entry is about."""
    return tuple(sorted(((one.entity_type, one.entity_name) for one in entry.entity), key=itemgetter(0)))


def _problem(entry: AlteringQuota, times: int) -> tuple[ErrorCode, str] | None:
    entity = entity_of(entry)
    problem = problem_of_entity(entity)
    if times > 1:
        problem = "an entity is named twice"
    for change in entry.ops:
        problem = problem or problem_of(entity, change.key, 1.0 if change.remove else change.value)
    return None if problem is None else (ErrorCode.INVALID_REQUEST, problem)


def _changed(core: Core, entry: AlteringQuota) -> dict[str, float]:
    values = dict(core.accounts.quotas.limits.get(entity_of(entry), {}))
    for change in entry.ops:
        if change.remove:
            values.pop(change.key, None)
        else:
            values[change.key] = change.value
    return values
