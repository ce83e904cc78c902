"""THE TABLE of the chores that a node does in slices: each says when its next slice is due."""

from collections.abc import Callable, Mapping

from coordinator import balanced_requests, compaction_chore, deletions, expiry_chore, produce_requests, retention
from coordinator.chores import Chore
from coordinator.core import Core
from coordinator.moment import Moment

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
    produce_requests.produce_when_due(core, moment)


def _look_at_topics(core: Core, moment: Moment) -> int:
    balanced_requests.topics_changed(core, moment)
    return _LOOK_AT_TOPICS_MS


CHORES: Mapping[str, Callable[[Core, Moment], int | None]] = {
    deletions.CHORE: _delete,
    retention.CHORE: _retain,
    expiry_chore.CHORE: _expire,
    compaction_chore.CHORE: compaction_chore.clean,
    produce_requests.CHORE: _produce,
    balanced_requests.CHORE: _look_at_topics,
}
"""What one slice is; milliseconds to the next, None when there is nothing more to do."""


def run_chore(core: Core, name: str, moment: Moment) -> None:
    """One slice now, the next when it is due."""
    delay_ms = CHORES[name](core, moment)
    if delay_ms is not None:
        core.purgatory.try_complete_else_watch(Chore(name, moment.monotonic_ms + delay_ms))


def begin(core: Core, moment: Moment) -> None:
    """At the start: what a crash came between goes on. Records and offsets are looked at after the first interval."""
    run_chore(core, deletions.CHORE, moment)
    core.purgatory.try_complete_else_watch(
        Chore(compaction_chore.CHORE, moment.monotonic_ms + core.config.log_cleaner_backoff_ms)
    )
    first_ms = moment.monotonic_ms + core.config.log_retention_check_interval_ms
    core.purgatory.try_complete_else_watch(Chore(retention.CHORE, first_ms))
    core.purgatory.try_complete_else_watch(Chore(balanced_requests.CHORE, moment.monotonic_ms + _LOOK_AT_TOPICS_MS))
    core.purgatory.try_complete_else_watch(Chore(expiry_chore.CHORE, core.expiry.wait(moment)))
