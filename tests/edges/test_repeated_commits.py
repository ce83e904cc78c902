"""Commits of real clients are recognized as their last ones with other offsets: of libraries, of Kafka's own consumer
and of Spark."""

import subprocess
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from bench import builds
from muster import Producer
from tests.edges.kafka.client import Committed, Library, Membership
from tests.edges.kafka.libraries import LIBRARIES
from tests.edges.kafka.with_muster import MUSTER
from tests.edges.musterd import Daemon, running, within
from tests.edges.streaming import started
from tests.edges.test_client import create

COMMITS = 8
READ_FIRST = 3
"""Commits that are read before one is recognized: two of a length, and one more after another kind of commit."""
TOPIC = "flights"
METRIC = "muster_commits_repeated_total "


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    settings = ("group.initial.rebalance.delay.ms=0",)
    with running(tmp_path / "data", *settings, with_http=True, with_kafka=True) as daemon:
        create(daemon, TOPIC, 1)
        yield daemon


def recognized(daemon: Daemon) -> int:
    with urllib.request.urlopen(f"http://127.0.0.1:{daemon.http_port}/metrics") as page:
        lines = page.read().decode().splitlines()
    return next((int(float(line.removeprefix(METRIC))) for line in lines if line.startswith(METRIC)), 0)


def kafka(daemon: Daemon) -> str:
    return f"127.0.0.1:{daemon.kafka_port}"


@pytest.fixture
def writes(daemon: Daemon) -> Iterator[None]:
    """Records are written all the time."""
    stopped = threading.Event()

    def write() -> None:
        with Producer(daemon.bootstrap) as producer:
            while not stopped.wait(0.02):
                producer.send(TOPIC, b"x")
                producer.flush()

    thread = threading.Thread(target=write)
    thread.start()
    yield
    stopped.set()
    thread.join()


@pytest.mark.parametrize("library", [*LIBRARIES, MUSTER], ids=lambda library: library.name)
def test_commits_of_a_library(library: Library, daemon: Daemon) -> None:
    bootstrap = f"kafka://{kafka(daemon)}" if library is MUSTER else kafka(daemon)
    consumer = library.consumer(bootstrap, Membership("g"))
    try:
        consumer.subscribe([TOPIC])
        assert within(10, lambda: consumer.poll(0.1) or consumer.assignment())
        for offset in range(COMMITS):
            consumer.commit({(TOPIC, 0): Committed(offset)})
        assert consumer.committed((TOPIC, 0)) == Committed(COMMITS - 1)
    finally:
        consumer.close()
    assert recognized(daemon) >= COMMITS - READ_FIRST


@pytest.mark.long
def test_commits_of_kafkas_own_consumer(daemon: Daemon, writes: None) -> None:
    try:
        java = [builds.java(), f"-Dlog4j2.configurationFile={builds.KAFKA_FILES / 'log4j2.xml'}"]
        jars = builds.kafka_jars(may_fetch=False)
    except builds.NotHere as missing:
        pytest.skip(str(missing))
    java += ["-cp", f"{jars}/*", "org.apache.kafka.tools.consumer.ConsoleConsumer"]
    java += ["--bootstrap-server", kafka(daemon), "--topic", TOPIC, "--group", "java"]
    java += ["--command-property", "auto.commit.interval.ms=50"]
    reader = subprocess.Popen(java, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        assert within(20, lambda: recognized(daemon) >= COMMITS)
    finally:
        reader.kill()
        reader.wait()


@pytest.mark.long
@pytest.mark.xdist_group("spark")
@pytest.mark.timeout(400)
def test_commits_of_a_query(daemon: Daemon, writes: None, spark: SparkSession, tmp_path: Path) -> None:
    reader = spark.readStream.format("muster").option("bootstrap", f"kafka://{kafka(daemon)}")
    stream = reader.option("group", "spark").option("topics", TOPIC).load()
    writer = stream.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "checkpoint"))
    query = started(writer.start)
    try:
        assert within(60, lambda: recognized(daemon) >= COMMITS)
    finally:
        query.stop()
