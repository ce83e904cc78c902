"""EDGE: marks of a database: the offset of each partition up to which its tables have the records.

A mark moves by compare-and-set, in the transaction of the rows and before the first of them: of two writers that read
the same mark, the database lets one continue, and the other has written nothing. Connections are those of any DB-API
2.0 driver (PEP 249); the SQL is that of PostgreSQL and SQLite.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from muster import TopicPartition
from pyspark_muster.sinks.bounds import Bounds, Positions, new_rows, positions_after

_PLACEHOLDERS = {"qmark": "?", "format": "%s", "pyformat": "%s"}
_PROBE = TopicPartition("", -1)


class DbConnection(Protocol):
    """A connection of a DB-API 2.0 driver."""

    def cursor(self) -> Any: ...

    def commit(self) -> object: ...

    def rollback(self) -> object: ...

    def close(self) -> object: ...


class Marks:
    """The marks of one sink, in a table that sinks share."""

    def __init__(self, connection: DbConnection, sink: str, *, table: str) -> None:
        """Raise ValueError for anything but a connection of a supported driver."""
        self._connection = connection
        self._sink = sink
        self._table = table
        driver = _driver(connection)
        self.placeholder = _PLACEHOLDERS[driver.paramstyle]
        self._error: type[Exception] = driver.Error

    def prepare(self) -> None:
        """Make the table if it is missing. Raises ValueError if the connection has no transactions."""
        try:
            self._execute(
                f"CREATE TABLE IF NOT EXISTS {self._table} (sink VARCHAR(200) NOT NULL, topic VARCHAR(249) NOT NULL, "
                "part INTEGER NOT NULL, next BIGINT NOT NULL, PRIMARY KEY (sink, topic, part))"
            )
            self._connection.commit()
        except self._error:  # another sink is creating it, or this user may not: the table may exist all the same
            self._connection.rollback()
        with self._rolled_back():
            self._compare_and_set(_PROBE, None, 0)
        if _PROBE in self.positions():
            self._execute(f"DELETE FROM {self._table} WHERE part = -1")
            raise ValueError(
                "the connection commits each statement by itself: rows and marks must be in one transaction; "
                "connect without autocommit"
            )

    def positions(self) -> Positions:
        """Return the marks of this sink."""
        with self._rolled_back():  # ends the transaction, so that the next one sees others' commits
            found = self._execute(f"SELECT topic, part, next FROM {self._table} WHERE sink = ?", self._sink).fetchall()
        return {TopicPartition(topic, part): next_offset for topic, part, next_offset in found}

    def append(self, bounds: Bounds, insert: Callable[[Positions], None]) -> bool:
        """Add those rows that the tables do not have, and return whether there were any. `insert` gets the first row of
        each partition and adds the rows from there on; it is not called if there are none. If another writer has moved
        the marks before this transaction, it is retried; during it they are locked.
        """
        while wanted := new_rows(seen := self.positions(), bounds):
            with self._rolled_back():
                after = positions_after(seen, {one: bounds[one] for one in wanted})
                # In order, so that no two writers wait for each other.
                if all(self._compare_and_set(one, seen.get(one), after[one]) for one in sorted(after)):
                    insert(wanted)
                    self._connection.commit()
                    return True
        return False

    def _compare_and_set(self, one: TopicPartition, seen: int | None, after: int) -> bool:
        """Move a mark from the value `seen`, None if there was none; return false if it has another value by now."""
        if seen is None:
            sql = f"INSERT INTO {self._table} (next, sink, topic, part) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING"
            return bool(self._execute(sql, after, self._sink, *one).rowcount == 1)
        sql = f"UPDATE {self._table} SET next = ? WHERE sink = ? AND topic = ? AND part = ? AND next = ?"
        return bool(self._execute(sql, after, self._sink, *one, seen).rowcount == 1)

    def _execute(self, sql: str, *values: object) -> Any:
        cursor = self._connection.cursor()
        cursor.execute(sql.replace("?", self.placeholder), values)
        return cursor

    @contextmanager
    def _rolled_back(self) -> Iterator[None]:
        """Roll back everything that was not committed."""
        try:
            yield
        finally:
            self._connection.rollback()


def _driver(connection: DbConnection) -> Any:
    """Return the module of a connection's driver."""
    for known in type(connection).__mro__:
        module = sys.modules.get(known.__module__.partition(".")[0])
        if getattr(module, "paramstyle", None) in _PLACEHOLDERS:
            return module
    raise ValueError(
        f"a connection of a DB-API 2.0 driver with a paramstyle of {', '.join(_PLACEHOLDERS)} was expected, such as "
        f"sqlite3 or psycopg, found {type(connection).__module__}.{type(connection).__qualname__}"
    )
