"""EDGE: tables of a database, for `foreachBatch`: rows and their positions in one transaction."""

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from datetime import UTC
from itertools import islice
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.types import TimestampType

from pyspark_muster.sinks.batches import bounds_of, rows_from
from pyspark_muster.sinks.bounds import Positions
from pyspark_muster.sinks.marks import DbConnection, Marks

_CHUNK = 1_000
Insert = Callable[[DbConnection, DataFrame], None]


class DatabaseSink:
    """A table that has each record once, in PostgreSQL or SQLite. Pass `write` to `foreachBatch`; several queries, of
    one group or of none, may write one table.
    """

    def __init__(
        self,
        connect: Callable[[], DbConnection],
        table: str,
        *,
        insert: Insert | None = None,
        marks: str = "muster_marks",
    ) -> None:
        """`connect` makes a connection of any DB-API 2.0 driver, without autocommit; each batch has its own. The
        columns of the batch are inserted into those of `table` by name, timestamps with their zone, UTC. `insert` adds
        rows in another way, in the connection's transaction, which it must not commit. The table `marks` is made if it
        is missing.
        """
        self._connect = connect
        self._table = table
        self._insert = insert
        self._marks = marks
        self._is_prepared = False

    def write(self, batch: DataFrame, _batch_id: int = 0) -> None:
        """Add the rows whose offset the table does not have yet. Raises the driver's errors, and ValueError for rows
        without `topic`, `partition` or `offset`, and for a connection without transactions.
        """
        with bounds_of(batch) as bounds, closing(self._connect()) as connection:
            marks = Marks(connection, self._table, table=self._marks)
            if not self._is_prepared:
                marks.prepare()
                self._is_prepared = True

            def insert(firsts: Positions) -> None:
                rows = rows_from(batch, firsts)
                if self._insert is not None:
                    self._insert(connection, rows)
                else:
                    _insert_rows(connection, self._table, rows, marks.placeholder)

            marks.append(bounds, insert)


def _insert_rows(connection: DbConnection, table: str, rows: DataFrame, placeholder: str) -> None:
    names = ", ".join(_quoted(name, placeholder) for name in rows.columns)
    values = ", ".join([placeholder] * len(rows.columns))
    timestamps = [at for at, field in enumerate(rows.schema) if isinstance(field.dataType, TimestampType)]
    as_text = isinstance(connection, sqlite3.Connection)  # which has no type for times
    cursor = connection.cursor()
    for chunk in _chunks(rows.toLocalIterator(prefetchPartitions=True)):
        in_utc = [_in_utc(row, timestamps, as_text=as_text) for row in chunk] if timestamps else chunk
        cursor.executemany(f"INSERT INTO {table} ({names}) VALUES ({values})", in_utc)


def _quoted(name: str, placeholder: str) -> str:
    """Return the quoted name of a column."""
    quoted = '"' + name.replace('"', '""') + '"'
    return quoted.replace("%", "%%") if placeholder == "%s" else quoted


def _in_utc(row: Sequence[Any], timestamps: Iterable[int], *, as_text: bool) -> Sequence[Any]:
    """Return a row with these columns in UTC: Spark returns times of this process's zone, which do not name it."""
    values = list(row)
    for at in timestamps:
        if values[at] is not None:
            time = values[at].astimezone(UTC)
            values[at] = time.isoformat(" ") if as_text else time
    return values


def _chunks(rows: Iterable[Any]) -> Iterator[list[Any]]:
    rows = iter(rows)
    while chunk := list(islice(rows, _CHUNK)):
        yield chunk
