"""The reader of a stream without a group: positions are in Spark's checkpoint, and nothing is committed elsewhere."""

import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from muster import MusterError, TopicPartition
from muster.blocking.cluster import EARLIEST, LATEST, ClusterClient
from pyspark_muster.batch import BatchOptions, RequestSender, find_partitions, high_watermarks, resolve
from pyspark_muster.bounds import split
from pyspark_muster.control import DrainFile
from pyspark_muster.limits.size import ByteLimit
from pyspark_muster.outage import Outage, is_outage
from pyspark_muster.reader import IDLE_WAIT_S, most_records
from pyspark_muster.reports import lags
from pyspark_muster.standalone.offsets import Positions, advance, begun, from_json, ranges_between, to_json, within
from pyspark_muster.tasks import RangePartition, ReadSettings, read_task

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T")


class StandaloneReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A streaming query that joins no group. Spark constructs it twice and pickles one of them, so it connects at the
    first call that needs it."""

    def __init__(self, options: BatchOptions) -> None:
        self._options = options
        shared = options.shared
        self._outage = Outage(first_contact_ms=shared.assignment_timeout_ms, timeout_ms=shared.outage_timeout_ms)
        self._cluster: RequestSender | None = None
        self._targets: Positions | None = None  # end offsets of a run with AvailableNow
        self._ends: Positions = {}
        self._planned: Positions = {}
        self._planned_s: float | None = None  # time of the newest batch, or of the first attempt
        self._state = "reading"
        self._byte_limit = ByteLimit(shared)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadMaxRows(self._options.shared.max_records_per_batch)

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """Return no positions, since Spark calls this again if it repeats the first batch, when the logs' ends have
        moved. The first batch sets the positions to `startingOffsets`, and reads nothing.
        """
        return {}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Fix the end offsets of this run. Partitions created later are left to the next run."""
        may_skip = not self._options.shared.fail_on_data_loss  # without positions: the first batch checks those
        self._targets = self._endure(lambda cluster: cluster.offsets(self._find(cluster, skips=may_skip), LATEST))

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Return the positions after the next batch, or `start` if there is nothing to do. Raises `NoSuchTopic`,
        `DataLoss`, `OptionError`, `OutageTooLong`, the client's errors.
        """
        positions = from_json(start)
        if self._is_draining():
            return start
        end = self._endure(lambda cluster: self._next(cluster, positions, limit), otherwise=positions)
        if end == positions:
            time.sleep(IDLE_WAIT_S)  # otherwise Spark would request ends a hundred times a second
            end = self._endure(lambda cluster: self._next(cluster, positions, limit), otherwise=positions)
        self._planned = end
        if end == positions:
            return start
        self._planned_s = time.monotonic()
        return to_json(end)

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        """Return the source's report for the query's progress; Spark does not compare it."""
        report: dict[str, Any] = {"ends": {str(one): end for one, end in sorted(self._ends.items())}}
        state = self._outage.describe(time.monotonic()) or self._state
        return report | lags(self._ends, self._planned) | {"member": "", "generation": -1, "state": state}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """Return the tasks of a batch. Sends no request, so a repeated batch is the same."""
        ranges = ranges_between(from_json(start), from_json(end))
        settings = ReadSettings.of(self._options.shared)
        tasks = split(ranges, self._options.min_partitions, self._options.shared.max_records_per_task)
        return [RangePartition(settings, *one, low, high) for one, low, high in tasks]

    def read(self, partition: InputPartition) -> Iterator["pa.RecordBatch"]:
        return read_task(partition)

    def commit(self, end: dict[str, Any]) -> None:
        """Do nothing: the checkpoint has the positions."""

    def stop(self) -> None:
        """Disconnect."""
        cluster, self._cluster = self._cluster, None
        if isinstance(cluster, ClusterClient):
            cluster.close()
        self._byte_limit.close()

    # ------------------------------------------------------------------------------------------------------- planning

    def _next(self, cluster: RequestSender, positions: Positions, limit: ReadLimit) -> dict[TopicPartition, int]:
        """Return the positions after the next batch: for new partitions the start, for others the advanced position."""
        options = self._options
        there = self._find(cluster, skips=bool(positions) and not options.shared.fail_on_data_loss)
        self._ends = ends = dict(cluster.offsets(there, LATEST))
        begins = cluster.offsets(there, EARLIEST)
        new = [one for one in there if one not in positions and (self._targets is None or one in self._targets)]
        if not positions:
            options.start.check(there, "startingOffsets")
            first = resolve(options.start, there, begins, ends, cluster)
        else:
            first = {one: begins[one] for one in new}
        may_fail = options.shared.fail_on_data_loss
        started = {one: first[one] for one in new}
        marks = high_watermarks(cluster, {**positions, **started}, ends)
        known = within(positions, begins, marks, fail_on_data_loss=may_fail)
        started = begun(started, begins, marks, explicit=not positions, fail_on_data_loss=may_fail)
        targets = ends if self._targets is None else self._targets
        until = {one: min(end, targets.get(one, 0)) for one, end in ends.items()}
        capped, is_full = self._byte_limit.cap(known, until)
        return started | advance(known, capped, most_records(limit, None), at_least=1 if is_full else self._fewest())

    def _find(self, cluster: RequestSender, *, skips: bool) -> list[TopicPartition]:
        return find_partitions(self._options.shared, cluster, self._options.assign, skips_missing=skips)

    def _fewest(self) -> int:
        now_s = time.monotonic()
        if self._planned_s is None:
            self._planned_s = now_s
        return self._options.shared.fewest(now_s - self._planned_s, is_last=self._targets is not None)

    def _is_draining(self) -> bool:
        """Return true while the drain file exists, and write `drained` into it: all planned batches are in Spark's
        commit log now."""
        drain_file = DrainFile(self._options.shared.drain_file)
        if not drain_file.exists():
            return False
        drain_file.answer()
        self._state = "draining"
        return True

    def _endure(self, attempt: Callable[[RequestSender], T], *, otherwise: Any = None) -> T | Any:
        """Return the result of an attempt. It is repeated while servers do not answer; a query that runs continuously
        returns `otherwise` instead, so that its progress can report the outage. Raises `OutageTooLong`.
        """
        while True:
            try:
                result = attempt(self._connected())
            except MusterError as error:
                if not is_outage(error):
                    raise
                self._outage.failed(error, time.monotonic())
                if otherwise is not None and self._targets is None:
                    return otherwise
                time.sleep(IDLE_WAIT_S)
            else:
                self._outage.over()
                return result

    def _connected(self) -> RequestSender:
        if self._cluster is None:
            self._cluster = self._options.shared.connect()
        return self._cluster
