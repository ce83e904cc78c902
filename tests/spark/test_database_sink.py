"""Rows of Spark in a database: how their values are written. Each record once: test_marks.py."""

import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql.types import LongType, StructField, StructType, TimestampNTZType, TimestampType

from pyspark_muster.sinks.database import _insert_rows

SCHEMA = StructType(
    [StructField("offset", LongType()), StructField("at", TimestampType()), StructField("wall", TimestampNTZType())]
)
INSTANTS = [
    datetime(2026, 10, 25, 0, 30, tzinfo=UTC),
    datetime(2026, 10, 25, 1, 30, 0, 5, tzinfo=UTC),  # an hour later, at the same wall time in Berlin
    datetime(1969, 7, 20, 20, 17, 40, tzinfo=UTC),
]
WALL = datetime(2026, 3, 29, 2, 30)  # noqa: DTZ001 # a time without a zone, which Berlin skips


@pytest.fixture(params=["UTC", "Europe/Berlin", "America/New_York"])
def zone(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", request.param)
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def rows() -> Any:
    """Return rows as Spark does: times are those of this process's zone."""
    times = SCHEMA["at"].dataType
    found: list[tuple[Any, ...]] = [
        (at, times.fromInternal(times.toInternal(instant)), WALL) for at, instant in enumerate(INSTANTS)
    ]
    found.append((len(found), None, None))
    return SimpleNamespace(
        columns=SCHEMA.names,
        schema=SCHEMA,
        toLocalIterator=lambda **_options: iter(found),
    )


@pytest.mark.usefixtures("zone")
@pytest.mark.filterwarnings("ignore:The default datetime adapter:DeprecationWarning")
def test_sqlite_has_timestamps_in_utc_with_their_zone(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "table.db")) as connection:
        connection.execute('CREATE TABLE orders ("offset" INTEGER, at TEXT, wall TEXT)')
        _insert_rows(connection, "orders", rows(), "?")
        found = connection.execute("SELECT at FROM orders ORDER BY 1").fetchall()
        by_sqlite = connection.execute("SELECT unixepoch(at) FROM orders WHERE at IS NOT NULL ORDER BY at").fetchall()
    assert [at for (at,) in found] == [
        None,
        "1969-07-20 20:17:40+00:00",
        "2026-10-25 00:30:00+00:00",
        "2026-10-25 01:30:00.000005+00:00",
    ]
    assert [seconds for (seconds,) in by_sqlite] == [int(instant.timestamp()) for instant in sorted(INSTANTS)]


class Cursor:
    """Stands in for the cursor of a driver with times of its own."""

    def __init__(self) -> None:
        self.inserted: list[Sequence[Any]] = []

    def executemany(self, _sql: str, rows: Sequence[Sequence[Any]]) -> None:
        self.inserted += rows


@pytest.mark.usefixtures("zone")
def test_other_databases_get_instants_and_times_without_a_zone_as_they_are() -> None:
    cursor = Cursor()
    connection: Any = SimpleNamespace(cursor=lambda: cursor)
    _insert_rows(connection, "orders", rows(), "%s")
    assert [at for _, at, _ in cursor.inserted] == [*INSTANTS, None]
    assert all(at.tzinfo is UTC for _, at, _ in cursor.inserted if at is not None)
    assert [wall for _, _, wall in cursor.inserted] == [WALL] * len(INSTANTS) + [None]
