"""Tasks of a batch: one range of one partition, with everything that an executor needs to read it."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from msgspec import Struct
from pyspark.sql.datasource import InputPartition

from muster import Security
from pyspark_muster.options import Options
from pyspark_muster.plan import Plan

if TYPE_CHECKING:
    import pyarrow as pa


class ReadSettings(Struct, frozen=True):
    """Settings shared by all ranges of a query."""

    bootstrap: str
    security: Security | None = None
    broker_security: Security | None = None
    isolation_level: str = "read_committed"
    outage_timeout_ms: int = 600_000
    fail_on_data_loss: bool = True
    include_headers: bool = False

    @classmethod
    def of(cls, options: Options) -> "ReadSettings":
        return cls(**{name: getattr(options, name) for name in cls.__struct_fields__})


class RangePartition(InputPartition):
    """Records `[start, end)` of a partition."""

    def __init__(self, settings: ReadSettings, topic: str, partition: int, start: int, end: int) -> None:
        super().__init__(f"{topic}-{partition}[{start}, {end})")
        self.settings = settings
        self.topic = topic
        self.partition = partition
        self.start = start
        self.end = end


def tasks_of(plan: Plan, options: Options) -> Iterator[RangePartition]:
    """Split the ranges of a plan into tasks of at most `maxRecordsPerTask` records."""
    settings = ReadSettings.of(options)
    for partition, (start, end) in plan.ranges.items():
        step = options.max_records_per_task or max(end - start, 1)
        for at in range(start, end, step):
            yield RangePartition(settings, *partition, at, min(at + step, end))


def read_task(task: InputPartition) -> Iterator["pa.RecordBatch"]:
    """Read a range, on an executor."""
    from pyspark_muster.reading import read_range

    assert isinstance(task, RangePartition)
    return read_range(task.settings, task.topic, task.partition, task.start, task.end)
