"""A driver that uses all there is, for tests of where it runs: `python -m tests.edges.spark_tour BOOTSTRAP GROUP TOPIC
FOLDER`. `SPARK_REMOTE` or `MASTER` says where.

It writes each thing it has seen as a line of JSON, `["name", value]`, into FOLDER/seen, and lives until it is killed,
with a query under way.
"""

import json
import sqlite3
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from pyspark_muster import guard, progress
from pyspark_muster.java import use_java
from pyspark_muster.sinks import DatabaseSink, ParquetSink, read_parquet

ROWS = 40
SEEN = {
    "rows": ROWS,
    "committed": ROWS,
    "states": ["reading"],
    "parquet": ROWS,
    "database": ROWS,
    "stateful": True,
    "last": True,
}
"""Sights of it where everything works."""
_ENDS_WITHIN_S = 200


def what_was_seen(folder: Path) -> dict[str, Any]:
    """Return what a driver has seen so far."""
    path = folder / "seen"
    lines = path.read_text().split("\n")[:-1] if path.exists() else []
    return dict(json.loads(line) for line in lines)


class Tour:
    """Steps of a driver with a session of its own."""

    def __init__(self, spark: SparkSession, bootstrap: str, group: str, topic: str, folder: Path) -> None:
        self._spark, self._bootstrap, self._group, self._topic, self._folder = spark, bootstrap, group, topic, folder
        self._table = ParquetSink(str(folder / "table"))

    def rows(self) -> int:
        """Append to the topic, and read it in a batch."""
        rows = self._spark.range(ROWS).selectExpr("cast(id as string) value", "cast(id % 2 as int) partition")
        rows.write.format("muster").options(bootstrap=self._bootstrap, topic=self._topic).mode("append").save()
        return self._batch(topics=self._topic).count()

    def committed(self) -> int:
        """Return what the group has of one batch, long before the next trigger."""
        self._query = self._start(self._group, self._table.write, processingTime="1 hour")
        deadline = time.monotonic() + _ENDS_WITHIN_S
        committed = 0
        while committed < ROWS and time.monotonic() < deadline:
            time.sleep(0.2)
            commits = self._batch(table="commits").select("group", "offset").collect()
            committed = sum(row.offset for row in commits if row.group == self._group)
        return committed

    def states(self) -> list[str]:
        """Return what the query's progress tells, and stop it."""
        states = [report["state"] for report in progress(self._query)]
        self._query.stop()
        return states

    def parquet(self) -> int:
        return read_parquet(self._spark, str(self._folder / "table")).count()

    def database(self) -> int:
        path = str(self._folder / "table.db")
        with sqlite3.connect(path) as connection:
            connection.execute('CREATE TABLE flights (topic TEXT, "partition" INTEGER, "offset" INTEGER)')
        sink = DatabaseSink(lambda: sqlite3.connect(path, timeout=60), "flights")

        def write(batch: DataFrame, number: int) -> None:
            sink.write(batch.select("topic", "partition", "offset"), number)

        assert self._start(f"{self._group}-database", write, availableNow=True).awaitTermination(_ENDS_WITHIN_S)
        (rows,) = sqlite3.connect(path).execute("SELECT count(*) FROM flights").fetchone()
        return int(rows)

    def stateful(self) -> bool:
        """Return whether a query that keeps state in a group was ended."""
        rows = self._stream(f"{self._group}-state").dropDuplicates(["value"])
        query = rows.writeStream.format("noop").option("checkpointLocation", str(self._folder / "state")).start()
        try:
            query.awaitTermination(_ENDS_WITHIN_S)
        except StreamingQueryException as error:
            return "StatefulQuery" in str(error)
        return False

    def last(self) -> bool:
        """Start a query that is not stopped; return whether it is active."""
        return self._start(self._group, self._table.write, processingTime="0 seconds").isActive

    def _batch(self, **options: str) -> DataFrame:
        return self._spark.read.format("muster").options(bootstrap=self._bootstrap, **options).load()

    def _stream(self, group: str) -> DataFrame:
        stream = self._spark.readStream.format("muster").options(bootstrap=self._bootstrap, topics=self._topic)
        return stream.option("group", group).load()

    def _start(self, group: str, write: Callable[[DataFrame, int], None], **trigger: Any) -> StreamingQuery:
        writer = self._stream(group).writeStream.queryName(group).foreachBatch(write).trigger(**trigger)
        return writer.option("checkpointLocation", str(self._folder / f"checkpoint-{group}")).start()


def main(bootstrap: str, group: str, topic: str, folder: str) -> None:
    use_java()
    spark = guard(SparkSession.builder.appName(group).getOrCreate())
    tour = Tour(spark, bootstrap, group, topic, Path(folder))
    for see in (tour.rows, tour.committed, tour.states, tour.parquet, tour.database, tour.stateful, tour.last):
        with (Path(folder) / "seen").open("a") as seen:
            seen.write(json.dumps([see.__name__, see()]) + "\n")
    while True:
        time.sleep(1)


if __name__ == "__main__":
    main(*sys.argv[1:])
