"""The group member inside a Spark query: the process in which Spark runs the streaming reader
(docs/spec/spark-member.md#3).

Spark constructs a `GroupReader` twice and pickles one of them, so the constructor touches nothing. The member joins at
the first call that needs it. Rebalances are served in `latestOffset` and nowhere else, so that a partition changes
hands between micro-batches and never inside one; heartbeats go on in the member's own thread meanwhile.
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
"""How long `latestOffset` listens to the group when there is nothing to read, before it says so to Spark."""
DRAINED = "drained"


class NoAssignment(Exception):
    """The group gave this member no assignment in time."""


class RangePartition(InputPartition):
    """One range of one partition, as an executor reads it: it needs nothing else."""

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
        self._targets: dict[TopicPartition, int] | None = None  # where a run with AvailableNow ends
        self._ends: Mapping[TopicPartition, int] = {}

    # ------------------------------------------------------------------------------------------------- what Spark calls

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadMaxRows(self._options.max_records_per_batch)

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """No position: that is the group's to say. Spark asks for it twice."""
        return INITIAL.to_json()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """A partition that is assigned only later ends where its log ends when it comes."""
        self._targets = {}
        self._await_assignment()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """The next plan, or `start` if there is nothing to do. That Spark calls this with `start` proves that `start`
        is in its commit log, so what `start` read is committed to the group first, before a rebalance can be served.
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
        """For the progress report: where the logs of our partitions end. Spark compares it with nothing."""
        return {str(partition): end for partition, end in sorted(self._ends.items())} or None

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """After a restart this comes first, with a batch that Spark logged and did not finish."""
        if start == end:
            return []
        plan, planned = Plan.from_json(end), self._planner.planned
        if planned is None or planned.seq != plan.seq:
            self._joined()
            self._await_assignment()
            planned = self._planner.replay(plan)
        return list(self._tasks(planned))

    def read(self, partition: InputPartition) -> Iterator["pa.RecordBatch"]:
        """On an executor. Raises what the daemon says: a range that is gone fails the query, it is not waited for."""
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
        """Comes a batch late, and never while idle: `latestOffset` knows earlier."""

    def stop(self) -> None:
        """Leaves the group. Spark runs this for a stopped query because of `_leave_on_sigterm`."""
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
        """Given up or lost: the same to us. What was due was committed just before the poll that told us."""
        gone = list(partitions)
        self._planner.revoked(gone)
        self._arrived = [partition for partition in self._arrived if partition not in gone]

    def _poll(self, timeout_s: float) -> bool:
        """Serves rebalances. Called within `latestOffset`, and before the first batch of a run: never inside one.
        Whether the member knows its share.
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
        """A steady member's poll does not wait, so a query with nothing to read would ask for the ends without rest."""
        if self._poll(IDLE_WAIT_S):
            time.sleep(IDLE_WAIT_S)
            self._poll(0)

    def _await_assignment(self) -> None:
        """Raises `NoAssignment` after `assignmentTimeoutMs`. An assignment of no partitions is one."""
        deadline = time.monotonic() + self._options.assignment_timeout_ms / 1000
        while not self._poll(IDLE_WAIT_S):
            if time.monotonic() > deadline:
                raise NoAssignment(
                    f"the group {self._options.group!r} gave this query no assignment in "
                    f"{self._options.assignment_timeout_ms} ms (assignmentTimeoutMs)"
                )

    def _flush(self) -> None:
        """A refused commit is no failure, nor is one whose answer is lost: the tail waits for the next assignment, that
        tells whether it holds.
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
        """At the end of a run: gives a rebalance the time to accept what is due. Not accepted, it is read again."""
        deadline = time.monotonic() + self._options.session_timeout_ms / 1000
        self._flush()
        while self._planner.due() and time.monotonic() < deadline:
            self._listen()
            self._flush()

    # ------------------------------------------------------------------------------------------------------- planning

    def _next_plan(self, seq: int, limit: ReadLimit) -> Plan | None:
        self._flush()  # where the group has no offset yet, it gets one before anything is read
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
        """While the drain file exists nothing is planned; it says `drained` once the group has all we read."""
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
    """Spark ends the process of a stopped query with SIGTERM, twice, and does not call `stop()`. A SystemExit takes
    its runner through the `finally` that does; the second signal must not end that.
    """
    if threading.current_thread() is not threading.main_thread():
        return  # not Spark's process: whoever runs us there has signals of its own

    def leave(*_: object) -> NoReturn:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        raise SystemExit(0)

    signal.signal(signal.SIGTERM, leave)
