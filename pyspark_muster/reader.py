"""The group member inside a Spark query: the process in which Spark runs the streaming reader
(docs/spec/spark-member.md#3).

Spark constructs a `GroupReader` twice and pickles one of them, so the constructor touches nothing. The member joins at
the first call that needs it. Rebalances are served in `latestOffset` and nowhere else, so that a partition changes
its owner between micro-batches and never inside one; heartbeats are sent by the member's own thread meanwhile.
"""

import signal
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from muster import CommitRefused, GroupMember, RequestTimedOut, Security, TopicPartition
from pyspark_muster.options import Options
from pyspark_muster.plan import INITIAL, Log, Plan, Planner

if TYPE_CHECKING:
    import pyarrow as pa

IDLE_WAIT_S = 0.1
"""Time that `latestOffset` waits for the group if there is nothing to read, before it returns to Spark."""
DRAINED = "drained"


class NoAssignment(Exception):
    """Raised if the group gave this member no assignment in time."""


class RangePartition(InputPartition):
    """One range of one partition, with everything that an executor needs to read it."""

    def __init__(
        self,
        bootstrap: str,
        topic: str,
        partition: int,
        start: int,
        end: int,
        security: Security | None = None,
        broker_security: Security | None = None,
    ) -> None:
        super().__init__(f"{topic}-{partition}[{start}, {end})")
        self.bootstrap = bootstrap
        self.security = security
        self.broker_security = broker_security
        self.topic = topic
        self.partition = partition
        self.start = start
        self.end = end


class GroupReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A streaming query as an ordinary member of a group."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._planner = Planner(options.starting_offsets, fail_on_data_loss=options.fail_on_data_loss)
        self._member: GroupMember | None = None
        self._arrived: list[TopicPartition] = []  # assigned by the group, not yet looked up
        self._targets: dict[TopicPartition, int] | None = None  # end offsets of a run with AvailableNow
        self._ends: Mapping[TopicPartition, int] = {}

    # ------------------------------------------------------------------------------------------------- what Spark calls

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadMaxRows(self._options.max_records_per_batch)

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """Return an empty plan: the group's offsets are the positions. Spark calls this twice."""
        return INITIAL.to_json()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Fix the end offsets of this run. For a partition assigned later it is the log's end at that time."""
        self._targets = {}
        self._await_assignment()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Return the next plan, or `start` if there is nothing to do. A call with `start` proves that `start` is in
        Spark's commit log. So its records are committed to the group first, before a rebalance can be served.
        """
        member = self._joined()
        logged = Plan.from_json(start)
        self._planner.settle(logged)
        self._flush()
        self._poll(0)
        if self._is_draining():
            return start
        if self._targets is not None:
            self._await_assignment()
        plan = self._next_plan(logged.seq + 1, limit)
        if plan is None:
            self._listen()
            plan = self._next_plan(logged.seq + 1, limit)
        if plan is None:
            if self._targets is not None:
                self._flush_all()
            return start
        return Plan(plan.seq, plan.ranges, member.member_id, member.generation_id).to_json()

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        """Return the end offsets of the owned partitions, for the progress report; Spark does not compare them."""
        return {str(partition): end for partition, end in sorted(self._ends.items())} or None

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """Return the ranges of a batch. After a restart Spark calls this first, with its unfinished batch."""
        if start == end:
            return []
        plan, planned = Plan.from_json(end), self._planner.planned
        if planned is None or planned.seq != plan.seq:
            self._joined()
            self._await_assignment()
            planned = self._planner.replay(plan)
        return list(self._tasks(planned))

    def read(self, partition: InputPartition) -> Iterator["pa.RecordBatch"]:
        """Read a range, on an executor. Raises the server's errors: a deleted range fails the query at once."""
        from pyspark_muster.decode import read_range

        assert isinstance(partition, RangePartition)
        return read_range(
            partition.bootstrap,
            partition.topic,
            partition.partition,
            partition.start,
            partition.end,
            security=partition.security,
            broker_security=partition.broker_security,
        )

    def commit(self, end: dict[str, Any]) -> None:
        """Do nothing: Spark calls this a batch late, and never while idle. `latestOffset` commits earlier."""

    def stop(self) -> None:
        """Leave the group. Spark runs this for a stopped query because of `_leave_on_sigterm`."""
        if self._member is not None:
            self._member.close()
            self._member = None

    # ----------------------------------------------------------------------------------------------------- the member

    def _joined(self) -> GroupMember:
        if self._member is None:
            _leave_on_sigterm()
            options = self._options
            self._member = GroupMember(
                options.bootstrap,
                options.group,
                options.topics,
                on_assigned=self._on_assigned,
                on_revoked=self._on_revoked,
                on_lost=self._on_revoked,
                session_timeout_ms=options.session_timeout_ms,
                heartbeat_interval_ms=options.heartbeat_interval_ms,
                max_poll_interval_ms=options.max_poll_interval_ms,
                client_id=options.client_id,
                group_instance_id=options.group_instance_id,
                security=options.security,
                broker_security=options.broker_security,
            )
        return self._member

    def _on_assigned(self, partitions: Iterable[TopicPartition]) -> None:
        self._arrived.extend(partitions)

    def _on_revoked(self, partitions: Iterable[TopicPartition]) -> None:
        """Drop partitions that were revoked or lost. Due offsets were committed before the poll that called this."""
        revoked = list(partitions)
        self._planner.revoked(revoked)
        self._arrived = [partition for partition in self._arrived if partition not in revoked]

    def _poll(self, timeout_s: float) -> bool:
        """Serve rebalances, in `latestOffset` and before the first batch of a run, never inside a batch. Return true if
        the member has an assignment.
        """
        member = self._joined()
        is_steady = member.poll(timeout_s)
        if self._arrived:
            arrived = self._arrived
            begins, ends = member.begin_offsets(arrived), member.end_offsets(arrived)
            logs = {partition: Log(begins[partition], ends[partition]) for partition in arrived}
            self._planner.assigned(member.committed(arrived), logs)
            self._arrived = []
        return is_steady

    def _listen(self) -> None:
        """Wait for the group: a steady member's poll returns at once, and an idle query would ask for ends all the
        time."""
        if self._poll(IDLE_WAIT_S):
            time.sleep(IDLE_WAIT_S)
            self._poll(0)

    def _await_assignment(self) -> None:
        """Poll until the group has assigned partitions, or none. Raises `NoAssignment` after `assignmentTimeoutMs`."""
        deadline = time.monotonic() + self._options.assignment_timeout_ms / 1000
        while not self._poll(IDLE_WAIT_S):
            if time.monotonic() > deadline:
                raise NoAssignment(
                    f"the group {self._options.group!r} gave this query no assignment in "
                    f"{self._options.assignment_timeout_ms} ms (assignmentTimeoutMs)"
                )

    def _flush(self) -> None:
        """Commit due offsets. A commit that is refused, or whose reply is lost, is no failure: its offsets stay in the
        tail, and the next assignment shows if they were stored.
        """
        due = self._planner.due()
        if not due:
            return
        self._planner.trying(due)
        try:
            stored = self._joined().commit(due)
        except (CommitRefused, RequestTimedOut):
            return
        self._planner.committed(stored)

    def _flush_all(self) -> None:
        """Commit at the end of a run, and wait while a rebalance refuses it. Offsets not accepted are read again."""
        deadline = time.monotonic() + self._options.session_timeout_ms / 1000
        self._flush()
        while self._planner.due() and time.monotonic() < deadline:
            self._listen()
            self._flush()

    # ------------------------------------------------------------------------------------------------------- planning

    def _next_plan(self, seq: int, limit: ReadLimit) -> Plan | None:
        self._flush()  # a partition without a committed offset gets one before anything is read
        owned = list(self._planner.positions)
        if not owned:
            return None
        self._ends = ends = self._joined().end_offsets(owned)
        if self._targets is not None:
            targets = self._targets
            ends = {partition: min(end, targets.setdefault(partition, end)) for partition, end in ends.items()}
        return self._planner.plan(seq, ends, _records(limit, self._options.max_records_per_batch))

    def _tasks(self, plan: Plan) -> Iterator[InputPartition]:
        options = self._options
        most = options.max_records_per_task
        for partition, (start, end) in plan.ranges.items():
            step = most or end - start
            for at in range(start, end, step):
                to = min(at + step, end)
                yield RangePartition(options.bootstrap, *partition, at, to, options.security, options.broker_security)

    def _is_draining(self) -> bool:
        """Return true while the drain file exists, and write `drained` into it once all read offsets are committed."""
        if self._options.drain_file is None:
            return False
        drain_file = Path(self._options.drain_file)
        if not drain_file.exists():
            return False
        self._flush_all()
        if not self._planner.due():
            drain_file.write_text(DRAINED)
        return True


def _records(limit: ReadLimit, default: int) -> int | None:
    match limit:
        case ReadMaxRows(max_rows):
            return max_rows
        case ReadAllAvailable():
            return None
        case _:
            return default


def _leave_on_sigterm() -> None:
    """Leave the group on SIGTERM. Spark ends the process of a stopped query with two SIGTERMs, without a call of
    `stop()`. A SystemExit makes its runner call `stop()` in a `finally`; the second signal must not interrupt that.
    """
    if threading.current_thread() is not threading.main_thread():
        return  # another process than Spark's runner may have signal handlers of its own

    def leave(*_: object) -> NoReturn:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        raise SystemExit(0)

    signal.signal(signal.SIGTERM, leave)
