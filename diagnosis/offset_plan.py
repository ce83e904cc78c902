"""Plans of offset resets: old and new value of each partition, and its lag before and after. A plan itself changes
nothing; it is applied only if the offsets still have the old values."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from diagnosis.assignments import Key
from protocol.errors import ErrorCode
from protocol.messages import Int32, Int64, Text
from protocol.messages.groups import ALL_NOTES, ListedNote, ListNotes, OffsetChange
from protocol.messages.topics import MetadataTopicReply

NONE = -1
"""Offset of a partition without a commit."""
_LONGEST_NUMBER = 18
"""Number of digits with which every number fits 64 bits."""


class Target(NamedTuple):
    """Target of a reset; exactly one field is set. `at_time` are the first offsets at or after a time, -1 if no record
    is so late; `offsets` are values by partition, as of a file or of another group."""

    to_earliest: bool = False
    to_latest: bool = False
    to_current: bool = False
    to_offset: int | None = None
    shift_by: int | None = None
    at_time: Mapping[Key, int] | None = None
    offsets: Mapping[Key, int] | None = None
    delete: bool = False


class PlannedOffset(msgspec.Struct, frozen=True):
    """One partition of a plan. Lags are None if the partition's end is unknown."""

    topic: Text
    partition: Int32
    previous_offset: Int64
    offset: Int64
    lag_before: int | None = None
    lag_after: int | None = None

    @property
    def is_change(self) -> bool:
        return self.previous_offset != self.offset


def existing_partitions(
    topics: Iterable[MetadataTopicReply], unknown: Callable[[MetadataTopicReply], Exception]
) -> dict[str, int]:
    """Return the numbers of partitions of the topics that exist. Raises the error that `unknown` makes of a topic of
    which it is not known whether it exists."""
    counts = {}
    for one in topics:
        if one.error_code not in (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
            raise unknown(one)
        if one.name is not None and not one.error_code:
            counts[one.name] = len(one.partitions)
    return counts


def make_plan(
    target: Target,
    keys: Iterable[Key],
    committed: Mapping[Key, int],
    begins: Mapping[Key, int],
    ends: Mapping[Key, int],
) -> list[PlannedOffset]:
    """Plan the partitions, by topic and number. An offset outside the log becomes its start or end, as with Kafka's
    tool. Partitions that the target does not name, or that do not exist, are omitted."""
    plan = []
    for key in sorted(set(keys)):
        begin, end = begins.get(key), ends.get(key)
        previous = committed.get(key, NONE)
        offset = _offset(target, key, previous, begin, end)
        if offset is None:
            continue
        if not target.delete and begin is not None and end is not None:
            offset = min(max(offset, begin), end)
        plan.append(PlannedOffset(*key, previous, offset, _lag(previous, begin, end), _lag(offset, begin, end)))
    return plan


def _offset(target: Target, key: Key, previous: int, begin: int | None, end: int | None) -> int | None:
    if target.delete:
        return NONE if previous != NONE else None
    if target.to_earliest:
        return begin
    if target.to_latest:
        return end
    if target.to_current:
        return end if previous == NONE else previous
    if target.to_offset is not None:
        return target.to_offset
    if target.shift_by is not None:
        return None if previous == NONE else max(0, previous + target.shift_by)
    if target.at_time is not None:
        found = target.at_time.get(key)
        return end if found == NONE else found
    return (target.offsets or {}).get(key)


def _lag(offset: int, begin: int | None, end: int | None) -> int | None:
    start = begin if offset == NONE else offset
    return None if end is None or start is None else max(0, end - start)


def changes(plan: Iterable[PlannedOffset]) -> tuple[OffsetChange, ...]:
    """Return the changes for the message that applies the plan, without unchanged offsets."""
    return tuple(
        OffsetChange(one.topic, one.partition, one.previous_offset, one.offset) for one in plan if one.is_change
    )


def reversed_changes(made: Sequence[OffsetChange]) -> tuple[OffsetChange, ...]:
    """Return the changes that undo these."""
    return tuple(OffsetChange(one.topic, one.partition_index, one.offset, one.previous_offset) for one in made)


def possible_changes(
    wanted: Iterable[OffsetChange], counts: Mapping[str, int], ends: Mapping[Key, int]
) -> tuple[OffsetChange, ...]:
    """Return the changes but those that would set an offset in a partition that does not exist, or beyond its end: the
    topic was created again. `counts`: numbers of partitions of existing topics; `ends`: those that are known."""
    return tuple(
        one
        for one in wanted
        if one.offset < 0
        or (
            one.partition_index < counts.get(one.topic, 0)
            and one.offset <= ends.get((one.topic, one.partition_index), one.offset)
        )
    )


def one_note(group_id: str, number: int) -> ListNotes:
    """Build the request for the note of this number. The reply to that for number 0 has all notes: `after` -1 means
    the newest."""
    return ListNotes(group_id, number - 1, 1 if number else ALL_NOTES)


def act_of(notes: Iterable[ListedNote], number: int) -> ListedNote | None:
    """Return the note of this number if it tells of changed offsets; else None."""
    return next((one for one in notes if one.number == number and one.changes), None)


def parse_act_id(text: str) -> tuple[str, int] | None:
    """Parse an act's id, `GROUP:NUMBER`, into the group and the number; None if it is invalid."""
    group_id, _colon, number = text.rpartition(":")
    is_number = number.isascii() and number.isdigit() and len(number) <= _LONGEST_NUMBER
    return (group_id, int(number)) if group_id and is_number else None
