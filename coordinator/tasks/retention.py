"""Retention of embedded topics and the journal: a periodic pass deletes whole old segments by age and by size.

A pass visits the logs that are due, or have changed since the last one, a slice at a time.
"""

from coordinator.clock import Moment
from coordinator.runtime.expiry_schedule import ExpirySchedule
from coordinator.topics.embedded import EmbeddedTopics
from partition_log.cleanup_policy import Retain
from partition_log.errors import LogDamaged
from partition_log.log.partition_log import PartitionLog
from partition_log.store.log_store import LogStore

TASK = "retention"
SLICE_LOGS = 64
"""Partitions checked by one slice; few, since the index of a segment just closed may have to be read."""
_NEXT_SLICE_MS, _AGAIN_MS = 1, 1_000


class Retention:
    """State of the pass. A segment that must be flushed before its deletion is checked again after the flush."""

    def __init__(self, check_interval_ms: int) -> None:
        self._check_interval_ms = check_interval_ms
        self._to_do: list[str] = []
        self._is_under_way = False
        self._schedule = ExpirySchedule()
        self.dropped_segments = 0
        self.logs_checked = 0

    def run(self, topics: EmbeddedTopics, store: LogStore, moment: Moment) -> int:
        """Run one slice. Return the milliseconds to the next."""
        if not self._is_under_way:
            for log in store.take_changed():
                self._schedule.note_change(log.name)
            self._to_do = sorted(self._schedule.due(moment.wall_ms), reverse=True)
            self._is_under_way = True
        waiting = []
        for _ in range(min(SLICE_LOGS, len(self._to_do))):
            name = self._to_do.pop()
            if not self._drop(name, topics, store, moment):
                waiting.append(name)
        if self._to_do:
            self._to_do[:0] = waiting
            return _NEXT_SLICE_MS
        self._to_do = waiting
        self._is_under_way = bool(waiting)
        return _AGAIN_MS if waiting else self._check_interval_ms

    def _drop(self, name: str, topics: EmbeddedTopics, store: LogStore, moment: Moment) -> bool:
        """Apply retention to one log; false if it must be tried again."""
        self._schedule.remove(name)
        if not store.has(name):
            return True
        self.logs_checked += 1
        topic, _, partition = name.rpartition("-")
        found = topics.log_and_configs(topic, int(partition))
        if found is None:
            log = store.log(name)
            if not isinstance(log.policy, Retain):
                return True
            retention_ms, retention_bytes = log.policy.retention_ms, log.policy.retention_bytes
        else:
            log, configs = found
            retention_ms, retention_bytes = configs.retention_ms, configs.retention_bytes
        try:
            count = log.expired(moment.wall_ms, retention_ms, retention_bytes)
        except LogDamaged as damage:
            log.note_damage(damage)
            return True
        before = len(log.segments)
        done = count == 0 or store.drop(log, count)
        self.dropped_segments += before - len(log.segments)
        if done:
            self._set_due(log, retention_ms)
        return done

    def _set_due(self, log: PartitionLog, retention_ms: int) -> None:
        try:
            due_ms = log.expires_ms(retention_ms)
        except LogDamaged as damage:
            log.note_damage(damage)
            return
        if due_ms is not None:
            self._schedule.bring_forward(log.name, due_ms)
