"""Writers of one table in a database, that overtake each other between reading the marks and the transaction."""

from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import closing

from muster import TopicPartition
from pyspark_muster.sinks.bounds import Bounds, Positions
from pyspark_muster.sinks.marks import DbConnection, Marks

SINK = "flown"


class Table:
    """A table of records, each with its place in its topic."""

    def __init__(self, connect: Callable[[], DbConnection]) -> None:
        self.connect = connect
        self.inserts = 0
        with closing(connect()) as connection:
            connection.cursor().execute(f"CREATE TABLE {SINK} (topic VARCHAR(99), part INTEGER, at BIGINT)")
            connection.commit()
            Marks(connection, SINK, table="marks").prepare()

    def add(
        self,
        bounds: Bounds,
        *,
        meanwhile: Callable[[], object] = lambda: None,
        then: Callable[[], object] = lambda: None,
    ) -> bool:
        """Add these rows. `meanwhile` runs between reading the marks and the transaction; `then` in it."""
        with closing(self.connect()) as connection:
            marks = _Overtaken(connection, SINK, table="marks")
            marks.meanwhile = meanwhile

            def insert(firsts: Positions) -> None:
                self.inserts += 1
                rows = [(*one, at) for one, first in firsts.items() for at in range(first, bounds[one][1] + 1)]
                sql = f"INSERT INTO {SINK} VALUES (?, ?, ?)".replace("?", marks.placeholder)
                connection.cursor().executemany(sql, rows)
                then()

            return marks.append(bounds, insert)

    @property
    def positions(self) -> Positions:
        with closing(self.connect()) as connection:
            return Marks(connection, SINK, table="marks").positions()

    def has_once(self, ends: Mapping[TopicPartition, int]) -> bool:
        with closing(self.connect()) as connection:
            cursor = connection.cursor()
            cursor.execute(f"SELECT topic, part, at FROM {SINK}")
            rows = Counter(map(tuple, cursor.fetchall()))
        return rows == Counter({(*one, at): 1 for one, end in ends.items() for at in range(end)})


class _Overtaken(Marks):
    meanwhile: Callable[[], object]

    def positions(self) -> Positions:
        found = super().positions()
        self.meanwhile()
        return found
