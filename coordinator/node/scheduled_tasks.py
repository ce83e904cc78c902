"""Scheduled tasks that a node runs in slices: each returns when its next slice is due."""

from collections.abc import Callable, Mapping

from coordinator.clock import Moment
from coordinator.core.core import Core
from coordinator.handlers import client_balanced, produce
from coordinator.tasks import balancing, cleaning, end_sampling, expiration, retention, topic_deletion

_LOOK_AT_TOPICS_MS = 60_000
"""Interval of refreshing client-balanced groups' partitions: changes of a log's state are not notified
(docs/spec/client-balanced-groups.md#9)."""


def _delete(core: Core, moment: Moment) -> int | None:
    return core.deletions.run(core.embedded, core.shards, core.outbox, moment)


def _retain(core: Core, moment: Moment) -> int | None:
    return core.retention.run(core.embedded, core.store, moment)


def _expire(core: Core, moment: Moment) -> int | None:
    return core.expiry.run(core.own_shards(), core.store, moment)


def _sample_ends(core: Core, moment: Moment) -> int:
    sampling = core.end_sampling
    request = sampling.next_request(core.own_shards(), core.topics, moment)
    return sampling.answer(core.embedded.list_offsets(request)[0], moment)


def _produce(core: Core, moment: Moment) -> None:
    produce.produce_when_due(core, moment)


def _look_at_topics(core: Core, moment: Moment) -> int:
    client_balanced.topics_changed(core, moment)
    return _LOOK_AT_TOPICS_MS


def _clean(core: Core, moment: Moment) -> int:
    delay_ms, grown = cleaning.clean(
        core.cleaner, lambda: cleaning.cleanable_logs(core.shards, core.own_logs, core.embedded), moment
    )
    for counter, by in grown.items():
        core.count(counter, by)
    return delay_ms


TASKS: Mapping[str, Callable[[Core, Moment], int | None]] = {
    topic_deletion.TASK: _delete,
    retention.TASK: _retain,
    expiration.TASK: _expire,
    end_sampling.TASK: _sample_ends,
    cleaning.TASK: _clean,
    produce.TASK: _produce,
    client_balanced.TASK: _look_at_topics,
    balancing.TASK: client_balanced.balance_groups,
}
"""One slice of each task; it returns the milliseconds to the next, None when there is nothing more to do."""


def run_task(core: Core, name: str, moment: Moment) -> None:
    """Run one slice now, and schedule the next."""
    delay_ms = TASKS[name](core, moment)
    if delay_ms is not None:
        core.schedule(name, moment.monotonic_ms + delay_ms)


def begin(core: Core, moment: Moment) -> None:
    """Schedule all tasks at the start. Deletions that a crash interrupted continue at once, the others start after
    their first interval."""
    now_ms, config = moment.monotonic_ms, core.config
    run_task(core, topic_deletion.TASK, moment)
    core.schedule(cleaning.TASK, now_ms + config.log_cleaner_backoff_ms)
    core.schedule(retention.TASK, now_ms + config.log_retention_check_interval_ms)
    core.schedule(client_balanced.TASK, now_ms + _LOOK_AT_TOPICS_MS)
    core.schedule(balancing.TASK, now_ms + config.server_balance_interval_ms)
    core.schedule(expiration.TASK, core.expiry.wait(moment))
    if config.ends_sample_interval_ms:
        core.schedule(end_sampling.TASK, now_ms + config.ends_sample_interval_ms)
