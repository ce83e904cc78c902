"""The Spark source beside Spark's own Kafka source: `python -m bench spark`.

Both read the same topics of one musterd in one session, by turns. Only the ratios travel from machine to machine.
"""

import os
import random
import time
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from bench import builds
from bench.builds import NotHere
from bench.processes import Daemon, descendants, scratch, spark_readers
from bench.report import Options, Sheet, Value, median
from muster import Producer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

PARTITIONS = 2
OURS, THEIRS = "muster", "kafka"
_RUN_S = 300


class Load(NamedTuple):
    """Records read in batches of so many rows. `value_bytes`: of a value, on average; `spread`: how much longer or
    shorter one may be."""

    topic: str
    value_bytes: int
    records: int
    batches: tuple[int, ...]
    spread: int = 0

    @property
    def sizes(self) -> str:
        least, most = self.value_bytes - self.spread, self.value_bytes + self.spread
        return f"{least} to {most}" if self.spread else str(self.value_bytes)

    def values(self) -> list[bytes]:
        """Return values to send by turns, of all lengths in no order."""
        lengths = range(self.value_bytes - self.spread, self.value_bytes + self.spread + 1)
        return [os.urandom(length) for length in random.Random(1).sample(lengths, len(lengths))]


LOADS = (
    Load("small", 100, 2_000_000, (2_000_000, 500_000, 100_000, 10_000)),
    Load("varying", 100, 2_000_000, (2_000_000, 500_000), 50),
    Load("large", 1_000, 300_000, (300_000, 50_000)),
)
QUICK_LOADS = (Load("small", 100, 500_000, (500_000, 100_000)),)
BATCHES = 30
"""Batches of a measurement of what each costs, and the most of any other."""


def measure(options: Options) -> list[Sheet]:
    """Skipped, with a sentence, where there is no connector or no Spark."""
    try:
        if find_spec("pyspark") is None:
            raise NotHere("pyspark is not installed: the extra `spark` brings it")
        jars = builds.spark_kafka_jars(may_fetch=options.may_fetch)
    except NotHere as reason:
        return [Sheet("Beside Spark's Kafka source: skipped", ("why",), [(str(reason),)])]
    from pyspark_muster.session import local_session

    with scratch() as folder, Daemon(folder / "data", {}, http=False) as daemon:
        spark = local_session("bench", settings={"spark.jars": ",".join(map(str, sorted(jars.glob("*.jar"))))})
        try:
            return list(Comparison(spark, daemon, folder, options).sheets())
        finally:
            spark.stop()


class Run(NamedTuple):
    """One query, from its start to its end."""

    progress: list[Any]
    wall_s: float
    cpu_s: float

    @property
    def rows_a_second(self) -> float:
        """Rows of all batches over the time of their triggers."""
        return self._rows / sum(self._trigger_s(one) for one in self.progress if one["numInputRows"])

    @property
    def cpu_us_a_row(self) -> float:
        return 1e6 * self.cpu_s / self._rows

    @property
    def batch_ms(self) -> float:
        """Median time of a trigger that has rows, without the first two."""
        return 1000 * median([self._trigger_s(one) for one in self.progress if one["numInputRows"]][2:])

    @property
    def _rows(self) -> int:
        rows: int = sum(one["numInputRows"] for one in self.progress)
        return rows

    @staticmethod
    def _trigger_s(progress: Any) -> float:
        return float(progress["durationMs"]["triggerExecution"]) / 1000


class Comparison:
    """Queries of both sources in one session."""

    def __init__(self, spark: "SparkSession", daemon: Daemon, folder: Path, options: Options) -> None:
        self._spark = spark
        self._daemon = daemon
        self._folder = folder
        self._options = options
        self._runs = 0

    def sheets(self) -> list[Sheet]:
        is_short = self._options.quick or not self._options.may_fetch  # a part of a run of everything
        loads = QUICK_LOADS if is_short else LOADS
        for load in loads:
            self._fill(load)
        self._pairs(loads[0].topic, loads[0].records, 1)  # the JVM grows warm
        rows: list[tuple[Value, ...]] = []
        for load in loads:
            for batch in load.batches:
                batches = None if load.records <= batch * BATCHES else BATCHES
                runs = self._pairs(load.topic, batch, self._options.rounds, batches)
                rates = {name: median([run.rows_a_second for run in each]) for name, each in runs.items()}
                cpu = {name: median([run.cpu_us_a_row for run in each]) for name, each in runs.items()}
                rows.append(
                    (
                        load.sizes,
                        batch,
                        *(rates[name] / 1000 for name in (OURS, THEIRS)),
                        *(rates[name] * load.value_bytes / 1_000_000 for name in (OURS, THEIRS)),
                        rates[OURS] / rates[THEIRS],
                        *(cpu[name] for name in (OURS, THEIRS)),
                    )
                )
        return [
            Sheet(
                "Spark: rows a second",
                (
                    *("bytes", "rows a batch", "muster k/s", "kafka k/s", "muster MB/s", "kafka MB/s", "ratio"),
                    *("muster CPU us a row", "kafka CPU us a row"),
                ),
                rows,
                ("Rows over the time of their triggers; processor time of Spark's processes, Java's and Python's.",),
            ),
            self._overheads(loads[0].topic),
        ]

    def _overheads(self, topic: str) -> Sheet:
        rounds = self._options.rounds
        small = self._pairs(topic, 200, rounds, BATCHES)
        rows: list[tuple[Value, ...]] = [
            self._row("a batch of 200 rows, ms", {name: [one.batch_ms for one in each] for name, each in small.items()})
        ]
        empty: dict[str, list[float]] = {OURS: [], THEIRS: []}
        starts = {name: self._start_of(name, topic, 1_000_000) for name in empty}
        for start in starts.values():
            self._run(start)
        for _ in range(rounds):
            for name, start in starts.items():
                empty[name].append(1000 * self._run(start).wall_s)
        rows.append(self._row("an availableNow run that has nothing to read, ms", empty))
        return Sheet("Spark: what is paid once", ("what", "muster", "kafka", "ratio"), rows)

    def _row(self, what: str, times: Mapping[str, list[float]]) -> tuple[Value, ...]:
        ours, theirs = median(times[OURS]), median(times[THEIRS])
        return (what, ours, theirs, ours / theirs)

    def _fill(self, load: Load) -> None:
        self._daemon.create_topic(load.topic, PARTITIONS)
        host, port = self._daemon.native
        values = load.values()
        with Producer(f"{host}:{port}", linger_ms=20) as producer:
            for number in range(load.records):
                producer.send(load.topic, values[number % len(values)], partition=number % PARTITIONS)

    def _pairs(self, topic: str, batch: int, rounds: int, batches: int | None = None) -> dict[str, list[Run]]:
        runs: dict[str, list[Run]] = {OURS: [], THEIRS: []}
        for _ in range(rounds):
            for name, each in runs.items():
                each.append(self._run(self._start_of(name, topic, batch), batches))
        return runs

    def _start_of(self, name: str, topic: str, batch: int) -> "Callable[[int | None], StreamingQuery]":
        """Return a function that starts a query with the same checkpoint and group each time."""
        self._runs += 1
        checkpoint, group = self._folder / f"checkpoint-{self._runs}", f"group-{self._runs}"
        stream = self._spark.readStream.format(name).options(**self._options_of(name, topic, batch, group)).load()

        def start(batches: int | None) -> "StreamingQuery":
            writer = stream.writeStream.format("noop").option("checkpointLocation", str(checkpoint))
            return (writer.trigger(availableNow=True) if batches is None else writer).start()

        return start

    def _options_of(self, name: str, topic: str, batch: int, group: str) -> dict[str, str]:
        (host, port), (kafka_host, kafka_port) = self._daemon.native, self._daemon.addresses["kafka"]
        if name == OURS:
            return {
                "bootstrap": f"{host}:{port}",
                "group": group,
                "topics": topic,
                "startingOffsets": "earliest",
                "maxRecordsPerBatch": str(batch),
            }
        return {
            "kafka.bootstrap.servers": f"{kafka_host}:{kafka_port}",
            "subscribe": topic,
            "startingOffsets": "earliest",
            "maxOffsetsPerTrigger": str(batch),
        }

    def _run(self, start: "Callable[[int | None], StreamingQuery]", batches: int | None = None) -> Run:
        """Run a query to its end, or until it has read so many batches."""
        began_s, began_cpu_s = time.monotonic(), self._cpu_s()
        query = start(batches)
        if batches is None:
            assert query.awaitTermination(_RUN_S), "the query does not end"
        else:
            while query.isActive and _last_batch(query) + 1 < batches:
                time.sleep(0.1)
            query.stop()
        if (failure := query.exception()) is not None:
            raise failure
        wall_s = time.monotonic() - began_s
        _await_end_of_readers()
        cpu_s = self._cpu_s() - began_cpu_s
        return Run(list(query.recentProgress), wall_s, cpu_s)

    def _cpu_s(self) -> float:
        """Processor time of this process's descendants but musterd, of those that have ended as far as their parents
        live."""
        ticks = sum(sum(map(int, fields[11:15])) for pid, fields in descendants().items() if pid != self._daemon.pid)
        return ticks / os.sysconf("SC_CLK_TCK")


def _last_batch(query: "StreamingQuery") -> int:
    """Return the number of the query's last batch, -1 before the first. Spark's `lastProgress` takes 0.1 s of processor
    time."""
    progress = query._jsq.lastProgress()  # noqa: SLF001  (not in Python's API)
    return -1 if progress is None else int(progress.batchId())


def _await_end_of_readers() -> None:
    """Wait for the Python process of a query that has ended, since its last work must not count as the next one's."""
    ends = time.monotonic() + _RUN_S
    while spark_readers():
        assert time.monotonic() < ends, "the reader of a query does not end"
        time.sleep(0.05)
