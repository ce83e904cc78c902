"""Queries on clusters, whose executors, tasks and drivers die: nothing is missing, and what comes twice is what may."""

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pyspark_muster.sinks import read_parquet
from tests.edges.musterd import Daemon, running, within
from tests.edges.spark_cluster import Driver, standalone
from tests.edges.spark_job import FAULTS, Row, rows_of
from tests.edges.spark_tour import SEEN, what_was_seen
from tests.edges.test_client import create, members_of
from tests.edges.test_spark import ALL, GROUP, TOPIC, Source, committed

pytestmark = [pytest.mark.xdist_group("spark-cluster"), pytest.mark.long, pytest.mark.timeout(1_800)]


LOCAL_CLUSTER = "local-cluster[2,1,1024]"
"""Two workers in the driver's JVM, and executors in JVMs of their own."""


@pytest.fixture(params=["standalone", LOCAL_CLUSTER])
def master(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == LOCAL_CLUSTER:
        yield LOCAL_CLUSTER
        return
    with standalone(tmp_path / "cluster", "--cores", "1", "--memory", "1g") as addresses:
        yield addresses["master"]


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    settings = ("group.initial.rebalance.delay.ms=0", "group.min.session.timeout.ms=500")
    with running(tmp_path / "data", *settings) as daemon:
        create(daemon, TOPIC, len(ALL))
        yield daemon


class Story:
    """One query, started again after each end, and what it has read."""

    def __init__(self, master: str, daemon: Daemon, folder: Path) -> None:
        self.folder = folder / "job"
        self.faults = self.folder / "faults"
        self.faults.mkdir(parents=True)
        self.source = Source(daemon)
        self.may_repeat: set[Row] = set()
        self._daemon = daemon
        self._command = ["-m", "tests.edges.spark_job", master, daemon.bootstrap, GROUP, TOPIC, str(self.folder)]
        self.start()

    def start(self) -> None:
        self.driver = Driver(self._command, self.folder)

    @property
    def rows(self) -> list[Row]:
        return rows_of(self.folder)

    @property
    def repeated(self) -> set[Row]:
        return {row for row, times in Counter(self.rows).items() if times > 1}

    def until(self, holds: Callable[[], bool]) -> None:
        assert within(100, lambda: holds() or self.driver.has_ended, every_s=0.2), self.driver.said()
        assert holds(), self.driver.said()

    def reads_on(self) -> None:
        """Write, and wait until all is read."""
        self.source.write(25)
        self.until(lambda: set(self.rows) == self.source.everything)

    def holds_a_batch(self) -> None:
        """Write, and hold the batch once it is in the table and in the rows."""
        (self.faults / "hold").touch()
        self.source.write(25)
        self.until((self.faults / "held").exists)

    def releases(self) -> None:
        (self.faults / "hold").unlink()
        (self.faults / "held").unlink()

    def has_ended(self) -> set[Row]:
        """Return what may come twice after this end: all that has been read and that the group has no commit of."""
        assert within(30, lambda: members_of(self._daemon, GROUP) == 0), "the query has left its group"
        done = {partition: offset or 0 for partition, offset in committed(self._daemon).items()}
        uncommitted = {(partition, offset) for partition, offset in self.rows if offset >= done[partition]}
        self.may_repeat |= uncommitted
        return uncommitted


def test_whatever_dies_on_a_cluster_nothing_is_missing_and_only_uncommitted_records_come_twice(
    master: str, daemon: Daemon, spark: SparkSession, tmp_path: Path
) -> None:
    story = Story(master, daemon, tmp_path)
    story.reads_on()
    for fault in FAULTS:
        (story.faults / fault).touch()
        story.reads_on()
        assert not (story.faults / fault).exists()
    assert not story.repeated, "a task is tried again inside its batch"

    (story.faults / "tasks").touch()
    story.source.write(25)
    assert story.driver.wait() != 0, "a task that fails four times ends the query"
    story.has_ended()
    (story.faults / "tasks").unlink()
    story.start()
    story.reads_on()

    story.holds_a_batch()
    story.driver.kill()
    held = story.has_ended()
    assert held, "a batch was written and was not committed"
    story.releases()
    story.start()
    story.reads_on()
    assert story.repeated >= held

    story.holds_a_batch()
    story.driver.stop()
    story.releases()
    assert story.driver.wait() == 0
    story.has_ended()
    story.start()
    story.reads_on()

    story.driver.stop()
    assert story.driver.wait() == 0
    assert story.repeated <= story.may_repeat
    table = read_parquet(spark, str(story.folder / "table")).select("partition", "offset", "value").collect()
    assert Counter((row.partition, row.offset) for row in table) == Counter(story.source.everything)
    assert all(bytes(row.value) == b"%d:%d" % (row.partition, row.offset) for row in table)
    print(f"{master}: {len(table)} records, each once in the table; {len(story.repeated)} were read twice")


def test_sources_sinks_and_tables_work_on_a_local_cluster(daemon: Daemon, tmp_path: Path) -> None:
    folder = tmp_path / "tour"
    folder.mkdir()
    command = ["-m", "tests.edges.spark_tour", daemon.bootstrap, GROUP, TOPIC, str(folder)]
    driver = Driver(command, folder, MASTER=LOCAL_CLUSTER)
    try:
        assert within(300, lambda: "last" in what_was_seen(folder) or driver.has_ended, every_s=0.2), driver.said()
        assert what_was_seen(folder) == SEEN, driver.said()
    finally:
        driver.kill()
