"""Marks of a database: each record once, whoever repeats a batch, comes late or is faster. SQLite; PostgreSQL's stand
with the tests that need processes.
"""

import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from pyspark_muster.sinks.bounds import Bounds
from pyspark_muster.sinks.marks import DbConnection, Marks
from tests.spark.random_writers import P0, P1, overtake_at_random
from tests.spark.table_writers import SINK, Table


@pytest.fixture
def connect(tmp_path: Path) -> Callable[[], DbConnection]:
    return lambda: sqlite3.connect(tmp_path / "table.db")


@pytest.fixture
def table(connect: Callable[[], DbConnection]) -> Table:
    return Table(connect)


def test_a_batch_that_is_repeated_whole_or_in_part_adds_what_is_missing(table: Table) -> None:
    assert table.add({P0: (0, 9), P1: (0, 4)})
    assert not table.add({P0: (0, 9)})
    assert table.inserts == 1  # what is all there is not even inserted
    assert table.add({P0: (5, 14)})
    assert table.has_once({P0: 15, P1: 5})


@pytest.mark.parametrize("other", [{P0: (5, 7)}, {P1: (0, 1)}])
def test_a_writer_that_is_overtaken_is_refused_before_it_writes_and_adds_what_is_missing(
    table: Table, other: Bounds
) -> None:
    """The mark stands elsewhere, or is one that was not there."""
    table.add({P0: (0, 4)})
    others = [other]
    table.add({P0: (0, 9), P1: (0, 2)}, meanwhile=lambda: others and table.add(others.pop()))
    assert table.inserts == 3, "the first, the other one's, and one of its own"
    assert table.has_once({P0: 10, P1: 3})


def test_a_writer_whose_rows_another_has_added_meanwhile_inserts_nothing(table: Table) -> None:
    others = [{P0: (0, 9)}]
    assert not table.add({P0: (0, 9)}, meanwhile=lambda: others and table.add(others.pop()))
    assert table.inserts == 1
    assert table.has_once({P0: 10})


def test_rows_and_marks_are_in_one_transaction(table: Table) -> None:
    table.add({P0: (0, 4)})

    def fail() -> None:
        raise OSError("the driver was killed")

    with pytest.raises(OSError, match="was killed"):
        table.add({P0: (5, 9), P1: (0, 4)}, then=fail)
    assert table.positions == {P0: 5}
    assert table.has_once({P0: 5})
    assert table.add({P0: (5, 9), P1: (0, 4)})
    assert table.has_once({P0: 10, P1: 5})


def test_sinks_that_share_a_table_of_marks_have_marks_of_their_own(
    table: Table, connect: Callable[[], DbConnection]
) -> None:
    table.add({P0: (0, 9)})
    connection = connect()
    other = Marks(connection, "landed", table="marks")
    other.prepare()
    assert other.positions() == {}
    assert other.append({P0: (0, 3)}, lambda firsts: None)
    assert (table.positions, other.positions()) == ({P0: 10}, {P0: 4})
    connection.close()


@pytest.mark.parametrize("seed", range(20))
def test_whoever_writes_when_each_record_is_there_once(table: Table, seed: int) -> None:
    overtake_at_random(table, seed)


def test_a_connection_that_commits_by_itself_is_refused_and_leaves_no_mark(tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "table.db", isolation_level=None)
    marks = Marks(connection, SINK, table="marks")
    with pytest.raises(ValueError, match="without autocommit"):
        marks.prepare()
    assert marks.positions() == {}
    connection.close()


def test_what_is_no_connection_of_a_driver_is_refused_by_its_name() -> None:
    class Foreign:
        cursor = commit = rollback = close = None

    with pytest.raises(ValueError, match=r"such as sqlite3 or psycopg, found tests\.spark\.test_marks\..*Foreign"):
        Marks(Foreign(), SINK, table="marks")  # type: ignore[arg-type]
