"""A driver with one query, for tests that kill what it consists of: `python -m tests.edges.spark_job MASTER BOOTSTRAP
GROUP TOPIC FOLDER`.

Each batch goes into the table FOLDER/table (`ParquetSink`), then to the end of FOLDER/rows. Files in FOLDER/faults have
it fail: `task`, `worker` and `executor` are removed by the one task that raises, or kills its Python process, or the
JVM above it; while `tasks` exists all tasks raise; while `hold` exists a batch that is written does not end. The query
is stopped when standard input ends.
"""

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame, SparkSession

from pyspark_muster import guard
from pyspark_muster.java import use_java
from pyspark_muster.sinks import ParquetSink

if TYPE_CHECKING:
    import pyarrow as pa

Row = tuple[int, int]
"""A partition and an offset."""
FAULTS = ("task", "worker", "executor")
"""Faults of one task."""


def fail(faults: Path) -> None:
    if (faults / "tasks").exists():
        raise RuntimeError("a fault of the test, in all tasks")
    for fault in FAULTS:
        try:
            (faults / fault).unlink()
        except FileNotFoundError:
            continue
        if fault == "task":
            raise RuntimeError("a fault of the test")
        os.kill(_executor() if fault == "executor" else os.getpid(), signal.SIGKILL)


def _executor() -> int:
    """Return the JVM above this process: a worker's parent may be the daemon that forked it."""
    process = os.getppid()
    while b"java" not in Path(f"/proc/{process}/comm").read_bytes():
        process = int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
    return process


def rows_of(folder: Path) -> list[Row]:
    """Return what batches have read, in their order."""
    path = folder / "rows"
    lines = path.read_text().split("\n")[:-1] if path.exists() else []
    return [(int(partition), int(offset)) for partition, _, offset in (line.partition(" ") for line in lines)]


def run(master: str, bootstrap: str, group: str, topic: str, folder: Path) -> None:
    use_java()
    builder = SparkSession.builder.master(master).appName(group)
    spark = guard(builder.config("spark.ui.enabled", False).config("spark.cores.max", 2).getOrCreate())
    sink = ParquetSink(str(folder / "table"))
    faults = folder / "faults"

    def break_down(batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        for batch in batches:
            fail(faults)
            yield batch

    def take(batch: DataFrame, number: int) -> None:
        sink.write(batch.mapInArrow(break_down, batch.schema), number)
        lines = "".join(f"{row.partition} {row.offset}\n" for row in batch.select("partition", "offset").collect())
        with (folder / "rows").open("ab", buffering=0) as file:
            os.write(file.fileno(), lines.encode())
        while (faults / "hold").exists():
            (faults / "held").touch()
            time.sleep(0.05)

    stream = spark.readStream.format("muster").options(bootstrap=bootstrap, group=group, topics=topic)
    stream = stream.option("sessionTimeoutMs", "6000").option("heartbeatIntervalMs", "1000")
    writer = stream.option("maxRecordsPerBatch", "400").load().writeStream.foreachBatch(take)
    query = writer.option("checkpointLocation", str(folder / "checkpoint")).start()

    def stop() -> None:
        sys.stdin.read()
        query.stop()

    threading.Thread(target=stop, daemon=True).start()
    query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    *names, where = sys.argv[1:]
    master, bootstrap, group, topic = names
    run(master, bootstrap, group, topic, Path(where))
