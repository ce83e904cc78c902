"""Commits of a consumer: synchronous, asynchronous and automatic."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from membership.events import CommitDone, OffsetToCommit
from membership.topic_partition import TopicPartition
from muster.client.interceptors import ConsumerInterceptors
from muster.client.member import MemberProcedures
from muster.client.operations import Operations
from muster.client.positions import PositionProcedures
from muster.client.steps import Procedure, call_application
from muster.core.completions import Done, failure, refusal
from muster.core.consumer_state import ConsumerState
from muster.errors import Fenced, MusterError
from protocol.errors import ErrorCode

CommitCallback = Callable[[Mapping[TopicPartition, int], MusterError | None], object]


class CommitProcedures(PositionProcedures):
    """Procedures for commits, which need a membership."""

    def __init__(
        self,
        runner: Any,
        consuming: ConsumerState,
        membership: MemberProcedures | None,
        interceptors: ConsumerInterceptors,
    ) -> None:
        super().__init__(runner, consuming)
        self._membership = membership
        driver = self._driver
        self._operations = (
            membership.operations if membership else Operations(driver.changed.notify_all, driver.refusals)
        )
        self._fenced: Fenced | None = None
        self._interceptors = interceptors
        if interceptors:
            self._operations.on_commit = interceptors.on_commit

    def metrics(self, partition: TopicPartition | None = None) -> dict[str, float]:
        """Return the metrics by the names of Kafka's consumer metrics; with `partition`, its "records-lag" and
        "records-lead". Times are in milliseconds. Means, maxima and rates are those of the last half minute to minute,
        totals those since the beginning; NaN: nothing was measured. May be called at any time, from any thread unless
        the client belongs to an event loop. Raises ValueError for a partition that is not assigned.
        """
        with self._runner.locked():
            if partition is not None:
                return self._consuming.measured_of(partition)
            now_ms = self._driver.now_ms()
            of_group = {} if self._membership is None else self._consuming.metrics.of_membership(now_ms)
            assigned = {"assigned-partitions": float(len(self._consuming.subscription.assigned))}
            return {**self._consuming.measured(now_ms), **of_group, **assigned}

    @property
    def _group(self) -> MemberProcedures:
        """Return the membership. Raises MusterError without a `group_id`."""
        if self._membership is None:
            raise MusterError("this consumer has no group_id: it can `assign` partitions, not subscribe or commit")
        return self._membership

    def commit_async(
        self, offsets: Mapping[TopicPartition, int] | None = None, callback: CommitCallback | None = None
    ) -> None:
        """Send a commit once, without waiting. `callback(offsets, error)` is called from a later `poll`, `commit` or
        `close`, in the order in which commits ended. Raises ValueError for a negative offset.
        """
        with self._runner.entered(), self._runner.locked():
            wanted = dict(self._consuming.positions() if offsets is None else offsets)
            self._group.commit_later(wanted, lambda done: self._complete_commit(done, wanted, callback))

    def _commit(
        self, offsets: Mapping[TopicPartition, int | OffsetToCommit] | None, timeout_s: float
    ) -> Procedure[dict[TopicPartition, int]]:
        deadline, group = self._driver.time() + timeout_s, self._group
        yield from self._run_callbacks()
        wanted = self._consuming.positions() if offsets is None else offsets
        stored = (yield from group.commit(wanted, timeout_s)) if wanted else {}
        yield from group.operations.finish_later_ones(deadline - self._driver.time())
        return stored

    def _committed(
        self, partitions: Iterable[TopicPartition], timeout_s: float
    ) -> Procedure[dict[TopicPartition, int | None]]:
        return (yield from self._group.committed(partitions, timeout_s))

    def _commit_if_due(self, *, at_once: bool = False) -> None:
        now_ms = self._driver.now_ms()
        due = dict(self._consuming.commit_now(now_ms) if at_once else self._consuming.commit_due(now_ms))
        if due:
            self._group.commit_later(due, self._auto_commit_ended)

    def _auto_commit_ended(self, done: Done) -> Procedure[None]:
        assert isinstance(done, CommitDone)
        self._note_fencing(done)
        self._consuming.commit_ended(done.error_code, self._driver.now_ms())
        yield from ()

    def _complete_commit(
        self, done: Done, offsets: Mapping[TopicPartition, int], callback: CommitCallback | None
    ) -> Procedure[None]:
        assert isinstance(done, CommitDone)
        self._note_fencing(done)
        error = None if done.error_code == ErrorCode.NONE else failure(done)
        yield from call_application(callback, offsets, error)

    def _note_fencing(self, done: CommitDone) -> None:
        if done.error_code == ErrorCode.FENCED_INSTANCE_ID:
            self._fenced = Fenced(done.error_code, str(refusal(done)))

    def _run_callbacks(self) -> Procedure[None]:
        yield from self._group.operations.run_callbacks()
        fenced, self._fenced = self._fenced, None
        if fenced is not None:
            raise fenced
