"""THE TABLE of the chores that a node does in slices: each says when its next slice is due."""

from collections.abc import Callable, Mapping

from coordinator.clock import Moment
from coordinator.handlers import client_balanced, produce
from coordinator.handlers.core import Core
from coordinator.tasks import cleaning, expiration, retention, topic_deletion
from coordinator.tasks.scheduled_task import ScheduledTask

_LOOK_AT_TOPICS_MS = 60_000
"""What becomes of a log is not told; client-balanced groups look at theirs this often (client-balanced-groups 9)."""


def _delete(core: Core, moment: Moment) -> int | None:
    return core.deletions.run(core.topics, core.shards, core.outbox, moment)


def _retain(core: Core, moment: Moment) -> int | None:
    return core.retention.run(core.topics, core.store, moment)


def _expire(core: Core, moment: Moment) -> int | None:
    mine = [shard for shard in core.shards if core.placement.is_mine(shard.index)]
    return core.expiry.run(mine, core.store, moment)


def _produce(core: Core, moment: Moment) -> None:
    produce.produce_when_due(core, moment)


def _look_at_topics(core: Core, moment: Moment) -> int:
    client_balanced.topics_changed(core, moment)
    return _LOOK_AT_TOPICS_MS


TASKS: Mapping[str, Callable[[Core, Moment], int | None]] = {
    topic_deletion.TASK: _delete,
    retention.TASK: _retain,
    expiration.TASK: _expire,
    cleaning.TASK: cleaning.clean,
    produce.TASK: _produce,
    client_balanced.TASK: _look_at_topics,
}
"""What one slice is; milliseconds to the next, None when there is nothing more to do."""


def run_task(core: Core, name: str, moment: Moment) -> None:
    """One slice now, the next when it is due."""
    delay_ms = TASKS[name](core, moment)
    if delay_ms is not None:
        core.purgatory.try_complete_else_watch(ScheduledTask(name, moment.monotonic_ms + delay_ms))


def begin(core: Core, moment: Moment) -> None:
    """At the start: what a crash came between goes on. Records and offsets are looked at after the first interval."""
    run_task(core, topic_deletion.TASK, moment)
    core.purgatory.try_complete_else_watch(
        ScheduledTask(cleaning.TASK, moment.monotonic_ms + core.config.log_cleaner_backoff_ms)
    )
    first_ms = moment.monotonic_ms + core.config.log_retention_check_interval_ms
    core.purgatory.try_complete_else_watch(ScheduledTask(retention.TASK, first_ms))
    core.purgatory.try_complete_else_watch(
        ScheduledTask(client_balanced.TASK, moment.monotonic_ms + _LOOK_AT_TOPICS_MS)
    )
    core.purgatory.try_complete_else_watch(ScheduledTask(expiration.TASK, core.expiry.wait(moment)))
