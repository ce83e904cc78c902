"""A declarative pipeline over the source, as `deploy/spark/pipeline` has it. Needs the extra `connect`."""

import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pyspark
import pytest

from muster import Producer
from pyspark_muster.java import use_java
from tests.edges.musterd import Daemon, running
from tests.edges.spark_cluster import ROOT, environment
from tests.edges.streaming import ran_well
from tests.edges.test_client import create

pytest.importorskip("grpc_status", reason="the extra `connect` is not installed")
pytestmark = [pytest.mark.xdist_group("spark-cluster"), pytest.mark.long, pytest.mark.timeout(1_800)]

PIPELINE = ROOT / "deploy" / "spark" / "pipeline"
HIVE = "spark.sql.catalogImplementation=hive"
"""A catalog that outlives a run: it is a database in the folder, `metastore_db`."""
COMMAND = Path(pyspark.__file__).parent / "bin" / "spark-pipelines"


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    with running(tmp_path / "data", "group.initial.rebalance.delay.ms=0") as daemon:
        create(daemon, "orders", 2)
        yield daemon


def write(daemon: Daemon, numbers: range) -> None:
    with Producer(daemon.bootstrap) as producer:
        for number in numbers:
            producer.send("orders", b"item-%d" % (number % 10), partition=number % 2)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of the pipeline that writes everything below it."""
    folder = tmp_path / "pipeline"
    folder.mkdir()
    spec = folder / "spark-pipeline.yaml"
    spec.write_text((PIPELINE / spec.name).read_text().replace("/tmp/orders-pipeline", str(folder)))
    (folder / "tables.py").write_bytes((PIPELINE / "tables.py").read_bytes())
    return folder


def run(daemon: Daemon, folder: Path, *options: str) -> None:
    given = environment(MUSTER_BOOTSTRAP=daemon.bootstrap)
    use_java(given)
    command = [str(COMMAND), "run", "--conf", HIVE, *options]

    def once() -> tuple[int, str]:
        done = subprocess.run(command, cwd=folder, env=given, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout + done.stderr

    ran_well(once)


def rows(table: Path) -> list[dict[str, Any]]:
    return [row for file in table.glob("*.parquet") for row in pq.read_table(file).to_pylist()]


def offsets(folder: Path) -> Counter[tuple[object, object]]:
    return Counter((row["partition"], row["offset"]) for row in rows(folder / "spark-warehouse" / "orders"))


def each_once(offsets: range) -> Counter[tuple[object, object]]:
    return Counter((partition, offset) for partition in range(2) for offset in offsets)


def test_a_pipeline_reads_what_is_new_and_a_full_refresh_reads_everything(daemon: Daemon, folder: Path) -> None:
    ends = 0
    for options in ((), (), ("--full-refresh", "orders"), ("--full-refresh-all",)):
        write(daemon, range(100))
        ends += 50
        run(daemon, folder, *options)
        assert offsets(folder) == each_once(range(ends))
    assert {row["item"]: row["count"] for row in rows(folder / "spark-warehouse" / "items")} == {
        f"item-{number}": 40 for number in range(10)
    }


def test_a_full_refresh_that_starts_at_the_groups_offsets_has_what_came_after_them(
    daemon: Daemon, folder: Path
) -> None:
    tables = folder / "tables.py"
    as_shipped = tables.read_text()
    tables.write_text(as_shipped.replace('newCheckpoint="startingOffsets"', 'newCheckpoint="group"'))
    assert tables.read_text() != as_shipped
    write(daemon, range(100))
    run(daemon, folder)
    assert offsets(folder) == each_once(range(50))
    write(daemon, range(40))
    run(daemon, folder, "--full-refresh-all")
    assert offsets(folder) == each_once(range(50, 70))
    assert sum(row["count"] for row in rows(folder / "spark-warehouse" / "items")) == 40
