"""Positions of a stream without a group, without I/O: the JSON of Spark's own Kafka source, and the next batch.

A range is read only if both of its ends are in Spark's logs: a new partition gets its position in one batch, which
reads nothing from it, and is read from the next one on. So a repeated batch is always the same.
"""

from collections.abc import Mapping
from typing import Any

from muster import TopicPartition
from pyspark_muster.errors import DataLoss
from pyspark_muster.plan import share

Positions = Mapping[TopicPartition, int]
_LOST = "{}: records are lost. Set failOnDataLoss to false to go on with what is there"


def to_json(positions: Positions) -> dict[str, dict[str, int]]:
    """Return the positions as Spark logs them: `{"orders": {"0": 17}}`."""
    topics: dict[str, dict[str, int]] = {}
    for one, offset in sorted(positions.items()):
        topics.setdefault(one.topic, {})[str(one.partition)] = offset
    return topics


def from_json(offset: Mapping[str, Any]) -> dict[TopicPartition, int]:
    """Parse positions. Raises ValueError for anything else, such as the plan of a stream with a group."""
    try:
        return {
            TopicPartition(topic, int(number)): int(at)
            for topic, numbers in offset.items()
            for number, at in numbers.items()
        }
    except (AttributeError, TypeError, ValueError) as error:
        raise ValueError(
            f"the checkpoint holds an offset that no stream without a group wrote: {offset!r}; a query that changes "
            "between the two needs a new checkpoint"
        ) from error


def ranges_between(start: Positions, end: Positions) -> dict[TopicPartition, tuple[int, int]]:
    """Return the ranges of a batch; none for a partition without a position at the batch's start."""
    return {one: (start[one], at) for one, at in sorted(end.items()) if one in start and start[one] < at}


def begun(
    first: Positions, begins: Positions, ends: Positions, *, explicit: bool, fail_on_data_loss: bool
) -> dict[TopicPartition, int]:
    """Return the first positions of partitions, moved into their logs. `explicit`: `startingOffsets` names them; else
    the partitions came after the query began, and a log that begins after 0 has lost records. Raises `DataLoss` for
    lost records, if data may not be lost.
    """
    if explicit:
        lost = [
            f"startingOffsets has {at} of {one}, and its log holds {begins[one]} to {ends[one]}"
            for one, at in sorted(first.items())
            if not begins[one] <= at <= ends[one]
        ]
    else:
        lost = [
            f"{one} came after the query began, and its log begins at {at}" for one, at in sorted(first.items()) if at
        ]
    if lost and fail_on_data_loss:
        raise DataLoss(_LOST.format("; ".join(lost)))
    return {one: min(max(at, begins[one]), ends[one]) for one, at in first.items()}


def within(positions: Positions, begins: Positions, ends: Positions, *, fail_on_data_loss: bool) -> dict[Any, int]:
    """Return the positions in partitions that still exist, moved into their logs. Raises `DataLoss` for a position
    outside its log, or of a deleted partition, if data may not be lost.
    """
    lost = [f"{one} does not exist any more" for one in sorted(positions.keys() - ends.keys())]
    lost += [
        f"the log of {one} ends at {ends[one]}, and the query has read up to {at}"
        for one, at in sorted(positions.items())
        if one in ends and at > ends[one]
    ]
    if lost and fail_on_data_loss:
        raise DataLoss(_LOST.format("; ".join(lost)))
    return {one: min(max(at, begins.get(one, 0)), ends[one]) for one, at in positions.items() if one in ends}


def advance(
    positions: Positions, ends: Positions, limit: int | None, *, at_least: int = 1
) -> dict[TopicPartition, int]:
    """Return the positions after the next batch of at most `limit` records; unchanged if fewer than `at_least` are
    unread."""
    waiting = {one: max(0, ends.get(one, at) - at) for one, at in sorted(positions.items())}
    if sum(waiting.values()) < at_least:
        return dict(positions)
    shares = share(waiting, limit)
    return {one: at + shares.get(one, 0) for one, at in positions.items()}
