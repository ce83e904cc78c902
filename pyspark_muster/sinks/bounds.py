"""Positions of a table in its topics, and the rows of a batch that it does not have."""

from collections.abc import Mapping

from muster import TopicPartition

Positions = Mapping[TopicPartition, int]
"""The offset of each partition up to which a table has the records."""
Bounds = Mapping[TopicPartition, tuple[int, int]]
"""The first and the last offset among the rows of each partition."""


def new_rows(positions: Positions, bounds: Bounds) -> dict[TopicPartition, int]:
    """Return, for each partition with rows that the table does not have, the offset of the first row to add."""
    firsts = {one: max(first, positions.get(one, 0)) for one, (first, _) in bounds.items()}
    return {one: first for one, first in firsts.items() if first <= bounds[one][1]}


def positions_after(positions: Positions, bounds: Bounds) -> dict[TopicPartition, int]:
    """Return the positions of the partitions of `bounds` once the table has these rows."""
    return {one: max(positions.get(one, 0), last + 1) for one, (_, last) in bounds.items()}
