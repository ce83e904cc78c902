"""The examples `spark_orders.py` and `spark_orders_service.py`, run as the README says: one group, one table."""

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from muster import Producer
from pyspark_muster.sinks.manifest import Manifest
from tests.edges.musterd import Daemon, running, within
from tests.edges.streaming import ran_well
from tests.edges.test_client import create, members_of
from tests.edges.test_examples import example

pytestmark = [pytest.mark.xdist_group("spark-cluster"), pytest.mark.long, pytest.mark.timeout(1_800)]

PARTITIONS, CUSTOMERS = 4, 6


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    settings = ("group.initial.rebalance.delay.ms=0", "group.min.session.timeout.ms=500")
    with running(tmp_path / "data", *settings) as daemon:
        create(daemon, "orders", PARTITIONS)
        yield daemon


def order(daemon: Daemon, numbers: range) -> None:
    with Producer(daemon.bootstrap) as producer:
        for number in numbers:
            producer.send("orders", b"item-%d" % number, key=b"customer-%d" % (number % CUSTOMERS))


def items(folder: Path) -> Counter[str]:
    table = folder / "orders"
    files = Manifest(table).files()
    return Counter(item for file in files for item in pq.read_table(table / file)["item"].to_pylist())


def visits(folder: Path) -> dict[str, list[int]]:
    """Number of orders of each visit, by customer."""
    found: dict[str, list[int]] = {}
    for row in pq.read_table(folder / "visits").to_pylist():
        found.setdefault(row["customer"], []).append(row["orders"])
        assert len(row["items"]) == row["orders"]
    return found


def ran(daemon: Daemon, tmp_path: Path, folder: Path) -> None:
    def run() -> tuple[int, str]:
        with example("spark_orders", tmp_path, daemon.bootstrap, str(folder)) as query:
            return query.process.wait(900), "\n".join(query.lines)

    ran_well(run)


def test_a_query_and_a_service_share_orders_and_the_table_has_each_once(daemon: Daemon, tmp_path: Path) -> None:
    folder = tmp_path / "tables"
    ran(daemon, tmp_path, folder)  # there are no orders yet
    assert not (folder / "visits").exists()
    order(daemon, range(600))
    ran(daemon, tmp_path, folder)
    assert visits(folder) == {f"customer-{number}": [100] for number in range(CUSTOMERS)}

    with example("spark_orders_service", tmp_path, daemon.bootstrap, str(folder)) as service:
        order(daemon, range(600, 900))
        service.says(lambda lines: orders_in(lines) == 300, 60)
        with example("spark_orders", tmp_path, daemon.bootstrap, str(folder)) as query:
            assert within(120, lambda: members_of(daemon, "orders-table") == 2 or query.process.poll() is not None)
            order(daemon, range(900, 1_200))
            query.process.kill()
            query.process.wait()
        order(daemon, range(1_200, 1_500))
        assert within(60, lambda: items(folder).total() == 1_500)
        assert service.interrupted()
    order(daemon, range(1_500, 1_600))
    ran(daemon, tmp_path, folder)
    assert items(folder) == Counter(f"item-{number}" for number in range(1_600))
    assert sum(sum(each) for each in visits(folder).values()) == 1_600


def orders_in(lines: list[str]) -> int:
    return sum(int(found[1]) for line in lines if (found := re.fullmatch(r"(\d+) orders", line)))
