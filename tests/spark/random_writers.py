"""Writers of one table that begin at random positions and overtake each other, for any kind of table."""

from collections.abc import Callable, Mapping
from random import Random
from typing import Protocol

from muster import TopicPartition
from pyspark_muster.sinks.bounds import Bounds, Positions

P0, P1 = TopicPartition("flights", 0), TopicPartition("planes-x", 1)


class WrittenTable(Protocol):
    """A table of records, each of which should be there once."""

    @property
    def positions(self) -> Positions: ...

    def add(self, bounds: Bounds, *, meanwhile: Callable[[], object]) -> object: ...

    def has_once(self, ends: Mapping[TopicPartition, int]) -> bool: ...


def overtake_at_random(table: WrittenTable, seed: int) -> None:
    """Have writers begin anywhere up to the table's positions, as after crashes and rebalances, and overtake each
    other. Each record is there once then."""
    random = Random(seed)
    reached: dict[TopicPartition, int] = {}

    def write(depth: int) -> None:
        positions = table.positions
        bounds = {}
        for one in random.sample([P0, P1], random.randint(1, 2)):
            first = random.randint(0, positions.get(one, 0))
            bounds[one] = (first, first + random.randint(0, 9))

        def overtake() -> None:
            if depth < 3 and random.random() < 0.5:
                write(depth + 1)

        table.add(bounds, meanwhile=overtake)
        reached.update({one: max(reached.get(one, 0), last + 1) for one, (_, last) in bounds.items()})

    for _ in range(15):
        write(0)
    assert table.positions == reached
    assert table.has_once(reached)
