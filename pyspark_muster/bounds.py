"""Bounds of a batch in each partition: by offset, by time, or at the start or end of the log. Without I/O."""

import json
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Any, Literal

from msgspec import Struct

from muster import TopicPartition
from pyspark_muster.errors import OptionError

EARLIEST, LATEST = -2, -1
"""Numbers that stand for a log's start and end, as in the JSON of Spark's Kafka source."""


class Bound(Struct, frozen=True):
    """A start or an end: `offsets` or `times_ms` for single partitions, `time_ms` for all; without any, the start or
    end of the log, as `at` says."""

    at: Literal["earliest", "latest"]
    offsets: dict[TopicPartition, int] | None = None
    times_ms: dict[TopicPartition, int] | None = None
    time_ms: int | None = None

    def partitions(self) -> Iterable[TopicPartition]:
        """Partitions that the bound names; none if all have the same bound."""
        return (self.offsets or self.times_ms or {}).keys()

    def check(self, partitions: Iterable[TopicPartition], what: str) -> None:
        """Check that exactly these partitions are named, if any are. Raises `OptionError`."""
        named, there = set(self.partitions()), set(partitions)
        if named and named != there:
            missing, more = sorted(map(str, there - named)), sorted(map(str, named - there))
            raise OptionError(
                f"the option {what!r} must name all partitions and no others: {', '.join(missing) or 'none'} missing, "
                f"{', '.join(more) or 'none'} not read"
            )


def parse_bound(given: Mapping[str, str], side: Literal["starting", "ending"], *, is_stream: bool = False) -> Bound:
    """Parse the options of one side: `startingTimestamp`, `startingOffsetsByTimestamp`, `startingOffsets`, of which the
    first one given takes precedence. A stream may start at either end of a log. Raises `OptionError`.
    """
    at: Literal["earliest", "latest"] = "earliest" if side == "starting" and not is_stream else "latest"
    options = {name.lower(): (name, text.strip()) for name, text in given.items()}
    if (found := options.get(f"{side}timestamp")) is not None:
        name, text = found
        if not (text.isascii() and text.isdigit()):
            raise OptionError(f"the option {name!r} is {text!r}: it must be milliseconds since 1970")
        return Bound(at, time_ms=int(text))
    if (found := options.get(f"{side}offsetsbytimestamp")) is not None:
        return Bound(at, times_ms=parse_offsets(*found, least=0))
    name, text = options.get(f"{side}offsets", ("", at))
    if text.lower() == at:
        return Bound(at)
    if is_stream and text.lower() == "earliest":
        return Bound("earliest")
    if not text.startswith("{"):
        either = f"'earliest', {at!r}" if is_stream else repr(at)
        raise OptionError(
            f"the option {name!r} is {text!r}: it must be {either} or JSON like " + '{"orders": {"0": 17}}'
        )
    offsets = parse_offsets(name, text, least=EARLIEST)
    if is_stream:
        return Bound(at, offsets=offsets)
    wrong = LATEST if side == "starting" else EARLIEST
    if bad := [str(one) for one, offset in offsets.items() if offset == wrong]:
        raise OptionError(f"the option {name!r} has {wrong} for {', '.join(bad)}: a batch cannot be {side} there")
    return Bound(at, offsets=offsets)


def parse_assign(name: str, text: str) -> tuple[TopicPartition, ...]:
    """Parse `{"orders": [0, 1]}`. Raises `OptionError`."""
    topics = _json(name, text, '{"orders": [0, 1]}')
    try:
        return tuple(sorted({TopicPartition(topic, _whole(one, 0)) for topic, ones in topics.items() for one in ones}))
    except (TypeError, ValueError):
        raise OptionError(f"the option {name!r} is {text!r}: it must be JSON like " + '{"orders": [0, 1]}') from None


def parse_offsets(name: str, text: str, *, least: int) -> dict[TopicPartition, int]:
    """Parse `{"orders": {"0": 17}}`. Raises `OptionError`."""
    topics = _json(name, text, '{"orders": {"0": 17}}')
    try:
        numbers = {
            TopicPartition(topic, _whole(int(one), 0)): _whole(number, least)
            for topic, ones in topics.items()
            for one, number in ones.items()
        }
    except (AttributeError, TypeError, ValueError):
        raise OptionError(f"the option {name!r} is {text!r}: it must be JSON like " + '{"orders": {"0": 17}}') from None
    if not numbers:
        raise OptionError(f"the option {name!r} is {text!r}: it names no partition")
    return numbers


def _json(name: str, text: str, like: str) -> dict[str, Any]:
    try:
        topics = json.loads(text)
    except ValueError:
        topics = None
    if not isinstance(topics, dict) or not topics:
        raise OptionError(f"the option {name!r} is {text!r}: it must be JSON like {like}")
    return topics


def _whole(number: object, least: int) -> int:
    if not isinstance(number, int) or isinstance(number, bool) or number < least:
        raise ValueError(number)
    return number


def split(
    ranges: Mapping[TopicPartition, tuple[int, int]], at_least: int, at_most: int | None
) -> list[tuple[TopicPartition, int, int]]:
    """Split ranges evenly into tasks `(partition, start, end)`: at least `at_least` tasks, if there are as many
    records, each with at most `at_most` records. Empty ranges have no task.
    """
    total = sum(end - start for start, end in ranges.values())
    if at_least <= sum(start < end for start, end in ranges.values()):
        at_least = 0
    tasks: list[tuple[TopicPartition, int, int]] = []
    for partition, (start, end) in sorted(ranges.items()):
        records = end - start
        wanted = -(-records * at_least // total) if total else 0
        parts = min(records, max(1, wanted, -(-records // at_most) if at_most else 1))
        edges = [start + records * number // parts for number in range(parts + 1)] if parts else []
        tasks += [(partition, low, high) for low, high in pairwise(edges)]
    return tasks
