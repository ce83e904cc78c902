"""The streaming reader of a Spark query that is a group member (docs/spec/spark-member.md#3).

Spark constructs a `GroupReader` twice and pickles one of them, so the constructor has no side effects. The member joins
at the first call that needs it. Rebalances are served while no batch is under way: in `latestOffset`, and by the
keeper's thread after it if there was nothing to read, or once the driver's listener says that the batch is finished. So
a partition changes its owner only between micro-batches. Heartbeats are sent by the member's own thread.
"""

import atexit
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from muster import MusterError, TopicPartition
from pyspark_muster.control import DrainFile, Finished
from pyspark_muster.errors import Drained
from pyspark_muster.keeper import Keeper
from pyspark_muster.limits.size import ByteLimit
from pyspark_muster.options import Options
from pyspark_muster.outage import Outage, is_outage
from pyspark_muster.plan import Plan, Planner
from pyspark_muster.reporting import Facts, Reporter
from pyspark_muster.reports import lags
from pyspark_muster.tasks import read_task, tasks_of

if TYPE_CHECKING:
    import pyarrow as pa

    from pyspark_muster.member import QueryMember

_NOT_ALONE = "waiting for all partitions: newCheckpoint=startingOffsets needs a query that is alone in its group"
_SHARED = "gave partitions to others, and newCheckpoint=startingOffsets needs a query that is alone in its group"
_UNREAD = "gave all partitions to others, and they have not read them"
IDLE_WAIT_S = 0.1
"""Time that `latestOffset` waits for the group if there is nothing to read, before it returns to Spark."""
T = TypeVar("T")


class NoAssignment(Exception):
    """Raised if the group gave this member no assignment in time, or no partition yet."""


class StatefulQuery(Exception):
    """Raised if a query in a group keeps state, which does not follow a partition to another member."""

    def __init__(self, group: str) -> None:
        super().__init__(
            f"the query keeps state, and reads as a member of the group {group!r}: state does not follow a partition "
            "to another member. Keep no state, or give the query a group of its own and set soleMember to true"
        )


class GroupReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A streaming query as an ordinary member of a group."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._planner = Planner(options.starting_offsets, fail_on_data_loss=options.fail_on_data_loss)
        self._member: QueryMember | None = None
        self._keeper: Keeper | None = None
        self._reporter: Reporter | None = None
        self._facts: Facts = {}  # facts about the query, from the driver
        self._lock: Any = None  # made in the reader's process, since locks cannot be pickled
        self._outage = Outage(first_contact_ms=options.assignment_timeout_ms, timeout_ms=options.outage_timeout_ms)
        self._targets: dict[TopicPartition, int] | None = None  # end offsets of a run with AvailableNow
        self._has_nothing = False  # true for a run with AvailableNow that need not join
        self._joins_late = False  # such a run that may restart the group joins after its preparation
        self._failure: Exception | None = None  # error in the keeper's thread, raised by the next call
        self._state = ""
        self._byte_limit = ByteLimit(options)
        self._drain_file = DrainFile(options.drain_file)
        self._planned_s: float | None = None  # time of the newest plan, or of the first attempt

    # -------------------------------------------------------------------------------------------------- called by Spark

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadMaxRows(self._options.max_records_per_batch)

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """Return an empty plan: the group has the positions. Spark calls this twice, only for a new checkpoint. A
        restart is a part of it, since this process may end before the first batch, and then Spark does not call again.
        """
        return Plan(0, {}, restarts=self._options.new_checkpoint == "startingOffsets").to_json()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Fix the end offsets of this run. For a partition assigned later it is the log's end at that time. If the
        group has committed the ends of all logs, the run need not join it.
        """
        self._targets = {}
        self._joins_late = self._options.new_checkpoint == "startingOffsets"
        with self._inside() as member:
            self._has_nothing = not self._joins_late and self._endure(member.all_read)
            if not self._has_nothing and not self._joins_late:
                self._endure(self._await_partitions)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Return the next plan, or `start` if there is nothing to do. A call with `start` shows that `start` is in
        Spark's commit log, so its records are committed to the group first, before a rebalance can be served.
        """
        logged = Plan.from_json(start)
        if logged.restarts:
            self._planner.restart()
        with self._inside() as member:
            self._planner.settle(logged)
            if self._has_nothing:
                return start
            if self._joins_late:
                self._endure(self._await_partitions)
                self._joins_late = False
            plan = self._endure(lambda: self._await_plan(logged.seq + 1, limit), returns=self._targets is None)
            if plan is None:
                return start
            return Plan(plan.seq, plan.ranges, member.member_id, member.generation_id).to_json()

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        """Return the member's report for the query's progress; Spark does not compare it."""
        member = self._member
        if member is None:
            return None
        report: dict[str, Any] = {"ends": {str(one): end for one, end in sorted(member.ends.items())}}
        report |= lags(member.ends, self._planner.reached)
        report |= {"member": member.member_id, "generation": member.generation_id, "state": self._describe_state()}
        if member.deleted:
            report["deletedTopics"] = sorted(member.deleted)
        if self._keeper is not None and self._keeper.path is not None:
            report["control"] = self._keeper.path
        return report

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """Return the ranges of a batch. After a restart Spark calls this first, with its unfinished batch."""
        if start == end:
            return []
        plan, planned = Plan.from_json(end), self._planner.planned
        if planned is None or planned.seq != plan.seq:
            with self._inside():
                self._has_nothing = False
                self._endure(self._await_assignment)
                planned = self._planner.replay(plan)
        return list(tasks_of(planned, self._options))

    def read(self, partition: InputPartition) -> Iterator["pa.RecordBatch"]:
        """Read a range, on an executor. Raises the server's errors: a deleted range fails the query at once."""
        return read_task(partition)

    def commit(self, end: dict[str, Any]) -> None:
        """Do nothing: Spark calls this one batch late, and never while idle. `latestOffset` commits earlier."""

    def stop(self) -> None:
        """Leave the group. Spark runs this for a stopped query because of `_leave_on_sigterm`."""
        keeper, self._keeper = self._keeper, None
        if keeper is not None:
            keeper.stop()
        if self._reporter is not None:
            self._reporter.stop()
        member, self._member = self._member, None
        if member is not None:
            member.close()
        self._byte_limit.close()

    # ----------------------------------------------------------------------------------------------------- the member

    @contextmanager
    def _inside(self) -> Iterator["QueryMember"]:
        """Lock out the keeper's thread. Raises an error that it had since the last call."""
        if self._member is None:
            _leave_on_sigterm()
            self._lock = threading.Lock()
            self._member = _make_member(self._options, self._planner)
            self._keeper = Keeper(self._attend)
            self._keeper.start()
            self._reporter = Reporter(self._options, self._report)
            self._reporter.start()
        with self._lock:
            failure, self._failure = self._failure, None
            if failure is not None:
                raise failure
            yield self._member

    def _attend(self, message: Finished | None) -> None:
        """Serve the group between two batches; runs in the keeper's thread."""
        with self._lock:
            member = self._member
            if member is None or self._failure is not None:
                return
            self._failure = self._on_message(message) if message is not None else None
            if self._failure is not None or self._planner.has_open_batch or self._has_nothing:
                return
            try:
                member.flush()
                if self._is_asked_to_drain and not self._planner.due():
                    member.close()  # now, since the next trigger may be far off, and other members can continue at once
                    raise Drained(self._options.group)
                member.poll(0)
            except MusterError as error:
                if not is_outage(error):
                    self._failure = error
            except Exception as error:  # noqa: BLE001  (raised by the next call of Spark's)
                self._failure = error

    def _on_message(self, message: Finished) -> StatefulQuery | None:
        """Handle a message of the driver's listener about a batch. The batch of a stateful query is not committed to
        the group."""
        if message.is_stateful and not self._options.sole_member:
            return StatefulQuery(self._options.group)
        self._facts = message.facts
        self._planner.finished(message.seq)
        return None

    def _report(self) -> tuple[str, Facts]:
        """Return the member's id and its facts for operators."""
        member = self._member
        return "" if member is None else member.member_id, {**self._facts, "state": self._describe_state()}

    @property
    def _is_asked_to_drain(self) -> bool:
        return self._reporter is not None and self._reporter.is_draining

    def _endure(self, attempt: Callable[[], T], *, returns: bool = False) -> T | Any:
        """Return the result of an attempt. It is repeated while servers do not answer; if the query `returns`, only for
        a while, so that its progress can report the outage. Raises `OutageTooLong` after `outageTimeoutMs`.
        """
        give_up_s = time.monotonic() + self._options.assignment_timeout_ms / 1000
        while True:
            try:
                result = attempt()
            except MusterError as error:
                if not is_outage(error):
                    raise
                if self._the_member.member_id:
                    self._outage.reached()
                self._outage.failed(error, time.monotonic())
                if returns and time.monotonic() > give_up_s:
                    return None
                time.sleep(IDLE_WAIT_S)
            else:
                self._outage.over()
                return result

    def _listen(self) -> None:
        """Pause, since a steady member's poll returns at once, and an idle query would request ends without a pause."""
        if self._the_member.poll(IDLE_WAIT_S):
            time.sleep(IDLE_WAIT_S)
            self._the_member.poll(0)

    @property
    def _the_member(self) -> "QueryMember":
        assert self._member is not None
        return self._member

    def _is_assigned(self, *, reads_on: bool = False) -> bool:
        """Poll until the group has made an assignment, for at most `assignmentTimeoutMs`. `reads_on`: partitions that
        are kept in a cooperative rebalance are enough.
        """
        deadline = time.monotonic() + self._options.assignment_timeout_ms / 1000
        while not self._the_member.poll(IDLE_WAIT_S):
            self._state = "waiting for the group's assignment"
            if reads_on and self._planner.positions:
                return True
            if time.monotonic() > deadline:
                return False
        self._state = ""
        return True

    def _await_assignment(self) -> None:
        """Wait for an assignment. Raises `NoAssignment`."""
        if not self._is_assigned():
            raise self._no_assignment("gave this query no assignment")

    def _await_partitions(self) -> None:
        """Wait for partitions, unless others read all partitions; for all in a restart. Raises `NoAssignment`."""
        deadline = time.monotonic() + self._options.assignment_timeout_ms / 1000
        self._await_assignment()
        member, planner = self._the_member, self._planner
        while member.unowned() if planner.restarts else not (planner.positions or member.all_read()):
            if time.monotonic() > deadline:
                raise self._no_assignment(_SHARED if planner.restarts else _UNREAD)
            self._listen()

    def _no_assignment(self, what: str) -> NoAssignment:
        limit_ms = self._options.assignment_timeout_ms
        return NoAssignment(f"the group {self._options.group!r} {what} in {limit_ms} ms (assignmentTimeoutMs)")

    def _flush_all(self) -> None:
        """Commit at the end of a run, and retry during a rebalance. Records beyond accepted offsets are read again."""
        deadline = time.monotonic() + self._options.session_timeout_ms / 1000
        self._the_member.flush()
        while self._planner.due() and time.monotonic() < deadline:
            self._listen()
            self._the_member.flush()

    # ------------------------------------------------------------------------------------------------------- planning

    def _await_plan(self, seq: int, limit: ReadLimit) -> Plan | None:
        """Wait for an assignment, and check twice for records. Return the next plan, or None if there is none."""
        member = self._the_member
        member.flush()
        if self._is_draining():
            return None
        if not self._is_assigned(reads_on=True):
            if self._targets is not None:
                raise self._no_assignment("gave this query no assignment")
            return None
        plan = self._next_plan(seq, limit)
        if plan is None:
            self._listen()
            plan = self._next_plan(seq, limit)
        if plan is None and self._targets is not None:
            self._flush_all()
        return plan

    def _next_plan(self, seq: int, limit: ReadLimit) -> Plan | None:
        self._the_member.flush()  # a partition without a committed offset gets one before it is read
        if self._planner.restarts and self._the_member.unowned():
            self._state = _NOT_ALONE
            return None
        if not self._planner.positions:
            return None
        ends: Mapping[TopicPartition, int] = self._the_member.owned_ends()
        if self._targets is not None:
            targets = self._targets
            ends = {partition: min(end, targets.setdefault(partition, end)) for partition, end in ends.items()}
        most = most_records(limit, self._options.max_records_per_batch)
        ends, is_full = self._byte_limit.cap(self._planner.positions, ends)
        plan = self._planner.plan(seq, ends, most, at_least=1 if is_full else self._fewest(time.monotonic()))
        if plan is not None:
            self._planned_s = time.monotonic()
        return plan

    def _fewest(self, now_s: float) -> int:
        if self._planned_s is None:
            self._planned_s = now_s
        return self._options.fewest(now_s - self._planned_s, is_last=self._targets is not None)

    def _is_draining(self) -> bool:
        """Return true while the drain file exists, and write `drained` into it once all read offsets are committed. If
        an operator has requested the drain, raise `Drained` then."""
        if not self._drain_file.exists() and not self._is_asked_to_drain:
            return False
        self._state = "draining"
        self._the_member.poll(0)
        self._flush_all()
        if not self._planner.due():
            self._drain_file.answer()
            if self._is_asked_to_drain:
                raise Drained(self._options.group)
        return True

    def _describe_state(self) -> str:
        if (outage := self._outage.describe(time.monotonic())) or self._state:
            return outage or self._state
        note = "" if self._member is None else self._member.note
        return note or "reading"


def _make_member(options: Options, planner: Planner) -> "QueryMember":
    from pyspark_muster.member import QueryMember  # not imported by tasks, which have no member

    return QueryMember(options, planner)


def most_records(limit: ReadLimit, default: int | None) -> int | None:
    """Return the number of records of a read limit; None if it is unlimited."""
    match limit:
        case ReadMaxRows(max_rows):
            return max_rows
        case ReadAllAvailable():
            return None
        case _:
            return default


def _leave_on_sigterm() -> None:
    """Leave the group on SIGTERM. Spark ends the process of a stopped query by two SIGTERMs, without calling `stop()`.
    A SystemExit makes its runner call `stop()` in a `finally`; the second signal must not interrupt that. The process
    then ends at once: to take the interpreter's modules down would cost as much as a third of their imports.
    """
    if threading.current_thread() is not threading.main_thread():
        return  # a process other than Spark's runner may have signal handlers of its own

    def leave(*_: object) -> NoReturn:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        atexit.register(_end_at_once)
        raise SystemExit(0)

    signal.signal(signal.SIGTERM, leave)


def _end_at_once() -> None:
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)
