"""Spark queries and services in one group, whatever dies: `python -m bench.sharing [--readers]`.

Two Spark queries, a confluent-kafka consumer and a native one share twelve partitions that are written all the time,
and one table, each row of it in one transaction with the mark of its partition (`pyspark_muster.sinks`). The group is
scaled up and down; a member of each kind is killed; a query's batch is held until others have its partitions, and
written then.

With `--readers` there is no Spark: each query is its reader in a process that calls it as Spark does.

Exits 1 if a record is missing from the table, or in it twice.
"""

import argparse
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from bench.processes import QUICK_GROUPS, Daemon, scratch, spark_readers
from bench.sharing_member import MARKS, TABLE, connect, query_settings
from muster import Producer, TopicPartition
from muster.blocking import ClusterClient
from muster.blocking.cluster import LATEST
from protocol.messages.groups import DescribedMember, DescribeGroups, DescribeGroupsReply
from protocol.messages.reports import DrainMembers, DrainMembersReply
from pyspark_muster.session import local_session
from pyspark_muster.sinks import DatabaseSink

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

TOPIC, GROUP, PARTITIONS = "flights", "sharing", 12
_SETTINGS = {**QUICK_GROUPS, "group.min.session.timeout.ms": "1000"}
_PATIENCE_S = 600.0
_PAUSE_S = 0.1


class Query:
    """A Spark query, with a checkpoint that outlives it."""

    def __init__(self, rig: "SharingRig", name: str) -> None:
        self._rig, self.name = rig, name
        self._sink = DatabaseSink(lambda: connect(rig.database), TABLE, marks=MARKS)
        self._query: StreamingQuery | None = None
        self._may_write = threading.Event()
        self._may_write.set()
        self._is_held = threading.Event()
        self.is_wanted = False

    def start(self) -> None:
        """Start the query, which is started again whenever it ends, until it is drained."""
        self.is_wanted = True
        spark = self._rig.spark
        assert spark is not None
        settings = query_settings(self.name, self._rig.bootstrap, GROUP, TOPIC)
        stream = spark.readStream.format("muster").options(**settings).load()
        writer = stream.writeStream.foreachBatch(self._write).queryName(self.name)
        self._query = writer.option("checkpointLocation", str(self._rig.folder / self.name)).start()

    def _write(self, batch: "DataFrame", number: int) -> None:
        if not self._may_write.is_set():
            self._is_held.set()
            self._may_write.wait()
        self._sink.write(batch.selectExpr("topic", "partition", "offset", f"'{self.name}' writer"), number)

    def hold(self) -> None:
        """Hold the next batch before it is written."""
        self._may_write.clear()

    def is_held(self) -> bool:
        return self._is_held.is_set()

    def release(self) -> None:
        self._may_write.set()

    def kill(self) -> None:
        """Kill the readers of the session."""
        for reader in spark_readers():
            os.kill(reader, signal.SIGKILL)

    @property
    def has_ended(self) -> bool:
        return self._query is not None and not self._query.isActive

    def stop(self) -> None:
        self.release()
        if self._query is not None:
            self._query.stop()


class Reader:
    """The reader of a query, in a process of its own, without Spark."""

    def __init__(self, rig: "SharingRig", name: str) -> None:
        self._rig, self.name = rig, name
        self._checkpoint = rig.folder / name
        self._process: subprocess.Popen[bytes] | None = None
        self.is_wanted = False

    def start(self) -> None:
        """Start the query, which is started again whenever it ends, until it is drained."""
        self.is_wanted = True
        arguments = (self.name, self._rig.bootstrap, GROUP, TOPIC, self._rig.database, str(self._checkpoint))
        self._process = subprocess.Popen([sys.executable, "-m", "bench.sharing_member", *arguments])

    def hold(self) -> None:
        """Hold the next batch before it is written."""
        self._checkpoint.with_suffix(".hold").touch()

    def is_held(self) -> bool:
        return self._checkpoint.with_suffix(".held").exists()

    def release(self) -> None:
        self._checkpoint.with_suffix(".hold").unlink(missing_ok=True)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    @property
    def has_ended(self) -> bool:
        return self._process is not None and self._process.poll() is not None

    def stop(self) -> None:
        self.kill()


class Service:
    """A consumer in a process of its own."""

    def __init__(self, rig: "SharingRig", kind: str) -> None:
        self._rig, self.name = rig, kind
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        bootstrap = self._rig.bootstrap if self.name == "native" else self._rig.kafka
        arguments = (self.name, bootstrap, GROUP, TOPIC, self._rig.database)
        self.process = subprocess.Popen([sys.executable, "-m", "bench.sharing_member", *arguments])

    def end(self, number: signal.Signals) -> None:
        if self.process is not None:
            self.process.send_signal(number)
            self.process.wait()


class SharingRig:
    """The group, its members, who writes its topic, and its table."""

    def __init__(self, spark: "SparkSession | None", daemon: Daemon, folder: Path) -> None:
        self.spark, self.folder = spark, folder
        host, port = daemon.native
        self.bootstrap = f"{host}:{port}"
        self.kafka = ":".join(map(str, daemon.addresses["kafka"]))
        self.database = str(folder / "table.db")
        with closing(connect(self.database)) as connection:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute(f'CREATE TABLE {TABLE} (topic TEXT, "partition" INTEGER, "offset" INTEGER, writer TEXT)')
            connection.commit()
        kind = Reader if spark is None else Query
        self.queries: list[Query | Reader] = [kind(self, "first"), kind(self, "second")]
        self.services = [Service(self, "stock"), Service(self, "native")]
        self._operator = ClusterClient(self.bootstrap)
        self._began_s = time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for query in self.queries:
            query.stop()
        for service in self.services:
            service.end(signal.SIGKILL)
        self._operator.close()

    def say(self, what: str) -> None:
        print(f"{time.monotonic() - self._began_s:6.1f} s  {what}", flush=True)

    def until(self, holds: Callable[[], bool], what: str) -> None:
        ends_s = time.monotonic() + _PATIENCE_S
        while not holds():
            for query in self.queries:
                if query.is_wanted and query.has_ended:
                    self.say(f"the query {query.name} has ended, and is started again")
                    query.start()
            if time.monotonic() > ends_s:
                raise TimeoutError(f"{_PATIENCE_S} s were too short: {what}")
            time.sleep(0.2)
        self.say(what)

    def members(self) -> dict[str, DescribedMember]:
        """Return the members by client id."""
        asked = DescribeGroups((GROUP,), absent_is_error=False, with_facts=True)
        (group,) = self._operator.ask_coordinator(DescribeGroupsReply, GROUP, asked).groups
        return {one.client_id: one for one in group.members}

    def ask(self, sql: str) -> list[Any]:
        with closing(connect(self.database)) as connection:
            return connection.execute(sql).fetchall()

    def written(self) -> dict[str, int]:
        return dict(self.ask(f"SELECT writer, count(*) FROM {TABLE} GROUP BY writer"))

    def all_write(self, *names: str) -> None:
        before = self.written()
        self.until(
            lambda: all(self.written().get(name, 0) > before.get(name, 0) for name in names),
            f"{', '.join(names)}: each writes",
        )

    def drain(self, query: Query | Reader) -> None:
        """Drain the query from outside, as `muster groups drain` does."""

        def is_told() -> bool:
            member = self.members().get(query.name)
            if member is None:
                return False
            asked = DrainMembers(GROUP, (member.member_id,))
            (answer,) = self._operator.ask_coordinator(DrainMembersReply, GROUP, asked).members
            return not answer.error_code

        self.until(is_told, f"an operator drains {query.name}")
        query.is_wanted = False
        self.until(
            lambda: query.has_ended and query.name not in self.members(), f"{query.name} has left, and has ended"
        )

    def ends(self) -> dict[int, int]:
        found = self._operator.offsets([TopicPartition(TOPIC, number) for number in range(PARTITIONS)], LATEST)
        return {one.partition: end for one, end in found.items()}


@contextmanager
def producing(bootstrap: str) -> "Iterator[None]":
    """Write to all partitions meanwhile."""
    stopped = threading.Event()

    def run() -> None:
        with Producer(bootstrap, linger_ms=20) as producer:
            while not stopped.wait(_PAUSE_S):
                for number in range(PARTITIONS):
                    producer.send(TOPIC, b"a flight", partition=number)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        stopped.set()
        thread.join()


def play(rig: SharingRig) -> None:
    """Scale up and down, kill a member of each kind, hold a batch."""
    first, second = rig.queries
    stock, native = rig.services
    first.start()
    rig.all_write("first")
    second.start()
    stock.start()
    native.start()
    rig.all_write("first", "second", "stock", "native")

    rig.drain(second)
    stock.end(signal.SIGTERM)
    rig.all_write("first", "native")
    second.start()
    stock.start()
    rig.all_write("first", "second", "stock", "native")

    for service in (stock, native):
        service.end(signal.SIGKILL)
        rig.say(f"{service.name} was killed")
        service.start()
    first.kill()
    rig.say("the reader of the first query was killed")
    rig.all_write("first", "second", "stock", "native")

    second.hold()
    rig.until(second.is_held, "a batch of the second query is held")
    rig.until(lambda: "second" not in rig.members(), "its member has left: others have its partitions")
    rig.all_write("first", "stock", "native")
    second.release()
    rig.all_write("first", "second", "stock", "native")


def figures(rig: SharingRig) -> bool:
    """Wait until all is read, and print what the table has; whether each record is in it once."""
    ends = rig.ends()
    records = sum(ends.values())
    marks = f"SELECT sum(next) FROM {MARKS} WHERE sink = '{TABLE}' AND part >= 0"
    rig.until(lambda: (rig.ask(marks)[0][0] or 0) >= records, "all partitions are read to their ends")
    ((rows, distinct),) = rig.ask(f'SELECT count(*), count(DISTINCT "partition" * 1000000000 + "offset") FROM {TABLE}')
    print(f"{records} records, {rows} rows: {records - distinct} missing, {rows - distinct} twice")
    print(", ".join(f"{name} wrote {number}" for name, number in sorted(rig.written().items())))
    return bool(records == rows == distinct)


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser("python -m bench.sharing")
    parser.add_argument("--readers", action="store_true", help="without Spark: the readers of two queries")
    given = parser.parse_args(arguments)
    with scratch() as folder, Daemon(folder / "data", _SETTINGS, http=False) as daemon:
        daemon.create_topic(TOPIC, PARTITIONS)
        spark = None if given.readers else local_session("sharing")
        with SharingRig(spark, daemon, folder) as rig:
            with producing(rig.bootstrap):
                play(rig)
            is_whole = figures(rig)
        if spark is not None:
            spark.stop()
    sys.exit(0 if is_whole else 1)


if __name__ == "__main__":
    main(sys.argv[1:])
