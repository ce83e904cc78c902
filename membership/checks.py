"""Checks of an application's arguments, made in the call itself, since a later ValueError would not reach the
caller."""

from collections.abc import Iterable
from operator import index
from typing import Final

from membership.topic_partition import TopicPartition

MOST_32: Final = 2**31 - 1
MOST_64: Final = 2**63 - 1
_LONGEST_NAME: Final = 32_767


def check_number(what: str, value: object, least: int, most: int = MOST_32) -> int:
    """Return a whole number within the bounds; numpy's and similar integers are accepted. Raises ValueError."""
    try:
        number = index(value)  # type: ignore[arg-type]
    except TypeError:
        raise ValueError(f"{what} is {value!r}, it must be a whole number") from None
    if number < least:
        raise ValueError(f"{what} is {number}, it must be {least} or more")
    if number > most:
        raise ValueError(f"{what} is {number}, it must be {most} at most")
    return number


def check_name(what: str, value: object) -> str:
    """Return a text that can be sent, such as a topic's name. Raises ValueError."""
    if not isinstance(value, str) or len(value.encode()) > _LONGEST_NAME:
        raise ValueError(f"{what} is {str(value)[:100]!r}, it must be a text of at most {_LONGEST_NAME:,} bytes")
    return value


def check_partitions(partitions: Iterable[TopicPartition]) -> tuple[TopicPartition, ...]:
    """Return the partitions sorted and without duplicates. Raises ValueError."""
    return tuple(sorted({_partition(one) for one in partitions}))


def _partition(one: TopicPartition) -> TopicPartition:
    if not isinstance(one, TopicPartition):
        raise ValueError(f"{one!r} is no TopicPartition")
    topic = check_name("a topic", one.topic)
    return TopicPartition(topic, check_number(f"a partition of {topic!r}", one.partition, 0))
