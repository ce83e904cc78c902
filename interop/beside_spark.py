"""`python -m interop.beside_spark`: two Spark queries and a stock consumer in one group, over topics of an Apache Kafka
4.3.1 that a musterd stands beside (`docs/beside-kafka.md`).

One query and the consumer begin, the other query joins, the first one's driver is killed with all its processes, and
comes back; all the while records are written. Then every record must have been read, those that were read twice must
be behind the crash, Kafka's own coordinator has heard of no group, and Spark read at the broker itself while the stock
consumer never went there. `--speed` measures instead what Spark's tasks do: straight from the broker, through Muster.
"""

import argparse
import contextlib
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Final, Self

from confluent_kafka.admin import AdminClient

from bench.builds import NotHere
from interop.beside import Watch
from interop.beside_rows import RecordPosition, mark, mend, read, written_bytes
from interop.processes import kill_session
from interop.server import Musterd, apache_kafka
from muster import GroupMember, Producer, TopicPartition
from muster.blocking.cluster import ClusterClient, expect
from protocol.messages.topics import CreatableTopic, CreateTopics, CreateTopicsReply
from pyspark_muster.reading import read_range
from pyspark_muster.tasks import ReadSettings
from tests.edges.musterd import free_port

GROUP: Final = "reports"
TOPICS: Final = {"sales": 4, "returns": 2}
FIRST, SECOND, STOCK = "spark-1", "spark-2", "stock"
PATIENCE_S = 400.0
TESTS = "tests/edges/test_native_beside.py"
_ROOT = Path(__file__).parents[1]
_TESTS_S = 600.0
SPEED_RECORDS, SPEED_BYTES, SPEED_ROUNDS = 1_000_000, 100, 9


class Member:
    """A program of `interop`, in a session of processes of its own, and what it has read."""

    def __init__(self, program: str, bootstrap: str, name: str, folder: Path) -> None:
        self.name = name
        self.was_killed = False
        self._folder = folder
        command = [sys.executable, "-m", program, bootstrap, GROUP, ",".join(TOPICS), name, str(folder)]
        with (folder / f"{name}.log").open("ab") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=log, stderr=log, start_new_session=True
            )

    @property
    def rows(self) -> list[RecordPosition]:
        return read(self._folder, self.name)

    @property
    def written_bytes(self) -> int:
        return written_bytes(self._folder, self.name)

    def partitions_since(self, after_bytes: int) -> set[TopicPartition]:
        """Return the partitions read since the file had this size."""
        return {TopicPartition(*row[:2]) for row in read(self._folder, self.name, after_bytes)}

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def kill(self) -> None:
        self.was_killed = True
        kill_session(self._process)
        mend(self._folder, self.name)

    def end(self) -> None:
        """In good order."""
        if self.is_running:
            assert self._process.stdin is not None
            self._process.stdin.close()
            self._process.wait(PATIENCE_S)


class Source:
    """Writes to all partitions until it is left: at the brokers, which it is told of natively."""

    def __init__(self, bootstrap: str) -> None:
        self.ends = {TopicPartition(topic, number): 0 for topic, count in TOPICS.items() for number in range(count)}
        self._bootstrap = bootstrap
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="source")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        with Producer(self._bootstrap, linger_ms=20) as producer:
            while not self._stopped.wait(0.1):
                for one, end in self.ends.items():
                    for number in range(end, end + 5):
                        producer.send(one.topic, mark(one.topic, one.partition, number), partition=one.partition)
                    self.ends[one] = end + 5

    @property
    def everything(self) -> set[RecordPosition]:
        return {(*one, offset) for one, end in self.ends.items() for offset in range(end)}


class Story:
    """Runs the steps in order, and prints the time of each."""

    def __init__(self, native: str, kafka: str, broker_port: int, folder: Path) -> None:
        self._native, self._kafka, self._broker_port, self._folder = native, kafka, broker_port, folder
        self._began = time.monotonic()
        self._before_crash: list[RecordPosition] = []
        self._members: dict[str, Member] = {}

    def play(self) -> list[str]:
        """A line for each failure."""
        watch = Watch(self._broker_port, "-m coordinator", "kafka.Kafka", "-m interop.beside_spark ")
        try:
            with watch, Source(self._native) as source:
                self._act()
            self._await("the group has committed all of it", lambda: self._committed() == source.ends)
            for member in self._members.values():
                member.end()
        finally:
            for member in self._members.values():
                member.kill()
        strangers = list(watch.strangers.values())
        return [*self._judge(source.everything), *self._of_connections(strangers)]

    def _act(self) -> None:
        members = self._members
        members[FIRST] = self._query(FIRST)
        members[STOCK] = Member("interop.beside_stock_member", self._kafka, STOCK, self._folder)
        self._await_reading("a query and a stock consumer read", FIRST, STOCK)
        members[SECOND] = self._query(SECOND)
        self._await_reading("scaled up: two queries and the consumer read", FIRST, SECOND, STOCK)
        self._await_reading(f"{FIRST} has just read something", FIRST)
        members[FIRST].kill()
        self._before_crash = members[FIRST].rows
        self._tell(f"killed {FIRST} after {len(self._before_crash):,} records")
        everywhere = {TopicPartition(topic, number) for topic, count in TOPICS.items() for number in range(count)}
        others = [(members[name], members[name].written_bytes) for name in (SECOND, STOCK)]
        self._await(
            "the others have read of every partition since",
            lambda: set().union(*(one.partitions_since(seen) for one, seen in others)) == everywhere,
        )
        members[FIRST] = self._query(FIRST)
        self._await_reading("the killed one is back, all three read", FIRST, SECOND, STOCK)

    def _query(self, name: str) -> Member:
        return Member("interop.beside_spark_query", self._native, name, self._folder)

    def _await_reading(self, what: str, *names: str) -> None:
        before = {name: self._members[name].written_bytes for name in names}
        self._await(what, lambda: all(self._members[name].written_bytes > before[name] for name in names))

    def _await(self, what: str, holds: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not holds():
            for member in self._members.values():
                if not (member.is_running or member.was_killed):
                    raise RuntimeError(f"{member.name} has ended: {self._folder / member.name}.log says why")
            if time.monotonic() > deadline:
                raise TimeoutError(f"not within {PATIENCE_S:g} s: {what}")
            time.sleep(0.02)
        self._tell(what)

    def _tell(self, what: str) -> None:
        print(f"{time.monotonic() - self._began:6.1f} s  {what}", flush=True)

    def _committed(self) -> dict[TopicPartition, int | None]:
        ones = [TopicPartition(topic, number) for topic, count in TOPICS.items() for number in range(count)]
        with GroupMember(self._native, GROUP, TOPICS) as asking:
            return dict(asking.committed(ones))

    def _judge(self, everything: set[RecordPosition]) -> list[str]:
        read_by = {name: Counter(member.rows) for name, member in self._members.items()}
        total = sum(read_by.values(), Counter())
        twice = {place for place, times in total.items() if times > 1}
        behind = twice & set(self._before_crash)
        for name, rows in read_by.items():
            print(f"{name:8} read {rows.total():7,}")
        print(f"written {len(everything):,}, read {len(total):,}; more than once {len(twice):,}, of them")
        print(f"{len(behind):,} that the killed query had read and not committed", flush=True)
        failed = []
        if missing := everything - set(total):
            failed.append(f"{len(missing)} records were read by nobody, as {sorted(missing)[:3]}")
        if unknown := set(total) - everything:
            failed.append(f"{len(unknown)} records were read that nobody wrote, as {sorted(unknown)[:3]}")
        if elsewhere := twice - behind:
            failed.append(f"{len(elsewhere)} records came twice that no crash explains, as {sorted(elsewhere)[:3]}")
        return failed

    def _of_connections(self, strangers: list[str]) -> list[str]:
        failed = []
        if not any("pyspark" in who for who in strangers):
            failed.append("no process of Spark's went to the broker itself")
        failed += [f"connected to the broker: {who}" for who in strangers if "beside_stock_member" in who]
        admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{self._broker_port}"})
        heard = [one.group_id for one in admin.list_consumer_groups().result(30).valid or ()]
        return failed + [f"Kafka's own coordinator has heard of the group {one}" for one in heard]


def speed(front: Musterd) -> None:
    """Measure the work of a Spark task (fetch, check, decode to Arrow), and musterd's work for it."""
    native = front.native
    _make(native, {"speed": 1})
    value = b"x" * SPEED_BYTES
    with Producer(native, batch_bytes=256 * 1024, max_request_bytes=1024 * 1024) as producer:
        for _ in range(SPEED_RECORDS):
            producer.send("speed", value, partition=0)
        producer.flush()
    places = {"straight from the broker": native, "through Muster": f"kafka://{front.bootstrap}"}
    took: dict[str, list[float]] = {what: [] for what in places}
    used = dict.fromkeys(places, 0.0)
    for _ in range(SPEED_ROUNDS):
        for what, bootstrap in places.items():
            began, used_s = time.monotonic(), front.cpu_s
            rows = sum(batch.num_rows for batch in read_range(ReadSettings(bootstrap), "speed", 0, 0, SPEED_RECORDS))
            took[what].append(time.monotonic() - began)
            used[what] += front.cpu_s - used_s
            assert rows == SPEED_RECORDS
    for what, times in took.items():
        middle, best = (f"{SPEED_RECORDS / one:,.0f}" for one in (statistics.median(times), min(times)))
        print(f"{what}: {middle} records a second of {SPEED_BYTES} bytes in the median, {best} at best;")
        print(f"    for a million, musterd used {used[what] / len(times) * 1e6 / SPEED_RECORDS:.2f} s of a processor")


def _make(native: str, topics: dict[str, int]) -> None:
    cluster = ClusterClient(native)
    wanted = CreateTopics(tuple(CreatableTopic(name, count, 1) for name, count in topics.items()))
    made = expect(CreateTopicsReply, cluster.ask(wanted)).topics
    assert not any(one.error_code for one in made), made
    for name, count in topics.items():
        assert cluster.partition_count(name) == count
    cluster.close()


def _our_clients(bootstrap: str, log: Path) -> list[str]:
    """Run the clients without Spark at the same broker."""
    environment = {**os.environ, "TEST_BESIDE_KAFKA": bootstrap.rpartition(":")[2]}
    command = [sys.executable, "-m", "pytest", TESTS, "-q", "-p", "no:cacheprovider"]
    with log.open("wb") as out:
        subprocess.run(command, cwd=_ROOT, env=environment, stdout=out, stderr=out, timeout=_TESTS_S, check=False)
    lines = log.read_text(errors="replace").splitlines()
    print(f"{TESTS}: {lines[-1] if lines else 'nothing said'}", flush=True)
    return [line for line in lines if line.startswith((f"FAILED {TESTS}", f"ERROR {TESTS}"))]


def run(folder: Path, *, measures: bool) -> list[str]:
    """A line for each failure. What cannot be run here, for want of Java, is said and fails nothing."""
    with contextlib.ExitStack() as stack:
        try:
            broker = stack.enter_context(apache_kafka(folder / "kafka"))
        except NotHere as why:
            print(f"Spark beside an Apache Kafka: not here: {why}")
            return []
        first = free_port()
        settings = (f"upstream.servers={broker.bootstrap}", f"upstream.listener.ports={first}-{first + 50}")
        front = Musterd(folder / "musterd", *settings)
        stack.callback(front.end)
        if measures:
            speed(front)
            return []
        failed = _our_clients(broker.bootstrap, folder / "tests.log")
        _make(front.native, TOPICS)
        return failed + Story(front.native, front.bootstrap, int(broker.bootstrap.rpartition(":")[2]), folder).play()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m interop.beside_spark", description="Spark at Muster beside Kafka.")
    parser.add_argument("--speed", action="store_true", help="measure what Spark's tasks read, here and there")
    parser.add_argument("--keep", type=Path, help="a folder for what the servers and the programs leave and say")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="muster-beside-spark-") as scratch:
        folder = options.keep or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        failed = run(folder, measures=options.speed)
    for one in failed:
        print(f"FAILED {one}")
    print(f"{len(failed)} failed" if failed else "all of it passed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
