"""Spark's use of a streaming reader in a few verbs: an offset log, a commit log, a sink, and crashes in between."""

import json
from collections import Counter
from typing import Any

from pyspark.sql.streaming.datasource import ReadMaxRows

from muster import TopicPartition
from pyspark_muster.control import Finished
from pyspark_muster.options import Options
from pyspark_muster.reader import GroupReader, NoAssignment
from pyspark_muster.tasks import RangePartition

OPTIONS = {
    "bootstrap": "127.0.0.1:1",
    "group": "delays",
    "topics": "flights",
    # Nothing happens here while a reader waits, so it waits as briefly as possible.
    "assignmentTimeoutMs": "1",
    "heartbeatIntervalMs": "1",
    "sessionTimeoutMs": "2",
}


class Sink:
    """Rows by (topic, partition, offset), and how often each was written."""

    def __init__(self) -> None:
        self.rows: Counter[tuple[TopicPartition, int]] = Counter()

    def write(self, task: RangePartition) -> None:
        where = TopicPartition(task.topic, task.partition)
        self.rows.update((where, offset) for offset in range(task.start, task.end))

    @property
    def repeats(self) -> int:
        return self.rows.total() - len(self.rows)


class FakeQuery:
    """One streaming query with its checkpoint. A crash loses the reader; the logs and the sink stay."""

    def __init__(self, sink: Sink, **options: str) -> None:
        self.sink = sink
        self.options = Options.parse(OPTIONS | options)
        self.offset_log: list[dict[str, Any]] = []
        self.finished = 0  # batches in the commit log
        self.reader: GroupReader | None = None

    def start(self) -> GroupReader:
        if self.reader is None:
            self.reader = GroupReader(self.options)
            if not self.offset_log:
                self.offset_log.append(self.reader.initialOffset())
        return self.reader

    def prepare(self) -> None:
        """Begin a run with AvailableNow: Spark prepares its reader before it asks for an initial offset."""
        assert self.reader is None
        self.reader = GroupReader(self.options)
        self.reader.prepareForTriggerAvailableNow()
        if not self.offset_log:
            self.offset_log.append(self.reader.initialOffset())

    @property
    def last(self) -> dict[str, Any]:
        return self.offset_log[self.finished]

    def plan(self) -> bool:
        """Plan a batch, unless one is logged already; return whether there is one."""
        reader = self.start()
        if len(self.offset_log) == self.finished + 1:
            limit = reader.getDefaultReadLimit()
            assert isinstance(limit, ReadMaxRows)
            offset = json.loads(json.dumps(reader.latestOffset(self.last, limit)))
            if offset != self.last:
                self.offset_log.append(offset)
        return len(self.offset_log) > self.finished + 1

    def tasks(self) -> list[RangePartition]:
        tasks = self.start().partitions(self.last, self.offset_log[self.finished + 1])
        assert all(isinstance(task, RangePartition) for task in tasks)
        return [task for task in tasks if isinstance(task, RangePartition)]

    def finish(self, tasks: list[RangePartition]) -> None:
        for task in tasks:
            self.sink.write(task)
        self.finished += 1

    def run_batch(self) -> bool:
        """Run a batch, and return true if there was one. A replay that waits for the group is repeated."""
        if not self.plan():
            return False
        try:
            self.finish(self.tasks())
        except NoAssignment:
            return False
        return True

    @property
    def member(self) -> Any:
        """Return the member of the query; it has joined."""
        reader = self.start()
        with reader._inside() as member:
            if not member.member_id:
                member.poll(0)
            return member._member

    def attend(self, message: Finished | None = None) -> None:
        """Do as the keeper's thread does ten times a second."""
        with self.start()._inside():
            pass
        self.start()._attend(message)

    def crash(self) -> None:
        """Crash the process; the group notices when the test says so."""
        self.reader = None

    def stop(self) -> None:
        if self.reader is not None:
            self.reader.stop()
            self.reader = None


def settle(*queries: FakeQuery) -> None:
    """Run every query until none has had anything to read for as long as a rebalance takes."""
    quiet = 0
    while quiet < 4:
        quiet = 0 if sum([query.run_batch() for query in queries]) else quiet + 1
