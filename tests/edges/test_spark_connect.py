"""Queries through a Spark Connect server on a standalone cluster. Needs the extra `connect`."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from muster import Producer, TopicPartition
from pyspark_muster.sinks.manifest import Manifest
from tests.edges.musterd import Daemon, free_port, running, within
from tests.edges.spark_cluster import ROOT, Driver, environment, standalone
from tests.edges.spark_tour import ROWS, SEEN, what_was_seen
from tests.edges.test_client import create

pytest.importorskip("grpc_status", reason="the extra `connect` is not installed")
pytestmark = [pytest.mark.xdist_group("spark-cluster"), pytest.mark.long, pytest.mark.timeout(1_800)]

TOPIC, PARTITIONS = "orders", 2


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    folder = tmp_path_factory.mktemp("connect") / "cluster"
    size = ("--workers", "1", "--cores", "2", "--memory", "2g", "--connect", str(free_port()))
    with standalone(folder, *size) as addresses:
        yield addresses


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    with running(tmp_path / "data", "group.initial.rebalance.delay.ms=0") as daemon:
        create(daemon, TOPIC, PARTITIONS)
        yield daemon


def write(daemon: Daemon, records: int) -> None:
    """Write so many records to each partition."""
    with Producer(daemon.bootstrap) as producer:
        for number in range(records * PARTITIONS):
            producer.send(TOPIC, b"an order", partition=number % PARTITIONS)


def positions(table: Path) -> dict[TopicPartition, int]:
    return dict(Manifest(table).newest().positions)


def every(offset: int) -> dict[TopicPartition, int]:
    return {TopicPartition(TOPIC, number): offset for number in range(PARTITIONS)}


def test_a_job_runs_unchanged_through_connect_and_on_the_cluster(
    cluster: dict[str, str], daemon: Daemon, tmp_path: Path
) -> None:
    table = tmp_path / "table"
    job = [sys.executable, str(ROOT / "deploy" / "spark" / "orders.py"), "--bootstrap", daemon.bootstrap]
    places = ({"SPARK_REMOTE": cluster["connect"]}, {"MASTER": cluster["master"]}, {"SPARK_REMOTE": cluster["connect"]})
    for number, place in enumerate(places, 1):
        write(daemon, 50)
        command = [*job, "--table", str(table), "--once"]
        done = subprocess.run(command, env=environment(**place), capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[-4000:]
        assert positions(table) == every(50 * number)


def test_guard_progress_sinks_and_tables_work_and_a_query_outlives_its_client(
    cluster: dict[str, str], daemon: Daemon, tmp_path: Path
) -> None:
    folder = tmp_path / "tour"
    folder.mkdir()
    command = ["-m", "tests.edges.spark_tour", daemon.bootstrap, "flights", TOPIC, str(folder)]
    client = Driver(command, folder, SPARK_REMOTE=cluster["connect"])
    assert within(300, lambda: "last" in what_was_seen(folder) or client.has_ended, every_s=0.2), client.said()
    assert what_was_seen(folder) == SEEN, client.said()

    client.kill()
    write(daemon, 30)
    assert within(100, lambda: positions(folder / "table") == every(ROWS // PARTITIONS + 30), every_s=0.2)
