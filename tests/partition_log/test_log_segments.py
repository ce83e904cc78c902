"""The sorted segments of a log, also while it changes under a reader."""

import pytest

from partition_log.disk.open_files import OpenFiles
from partition_log.log.log_segments import LogSegments
from partition_log.segments.segment import Segment
from tests.simulation.disk import SimDisk


def segment(base_offset: int, next_offset: int) -> Segment:
    made = Segment(OpenFiles(SimDisk()), "data/t-0", base_offset)
    made.next_offset = next_offset
    return made


def segments(*bases: int, end: int) -> LogSegments:
    made = LogSegments()
    for base, following in zip(bases, (*bases[1:], end), strict=True):
        made.add(segment(base, following))
    return made


def bases(found: list[Segment]) -> list[int]:
    return [one.base_offset for one in found]


@pytest.mark.parametrize(
    ("offset", "expected"),
    [(0, [10, 20, 30]), (10, [10, 20, 30]), (19, [10, 20, 30]), (20, [20, 30]), (35, [30]), (90, [30])],
)
def test_reading_begins_with_the_segment_that_holds_the_offset(offset: int, expected: list[int]) -> None:
    assert bases(list(segments(10, 20, 30, end=40).starting_at(offset))) == expected


def test_an_empty_log_has_no_segments() -> None:
    empty = LogSegments()
    assert (len(empty), empty.active, list(empty.starting_at(0)), empty.count_below(9)) == (0, None, [], 0)


def test_a_reader_gets_what_is_appended_meanwhile() -> None:
    log = segments(0, 10, end=20)
    found = []
    for one in log.starting_at(0):
        found.append(one)
        if len(found) == 2:
            log.add(segment(20, 30))
    assert bases(found) == [0, 10, 20]


def test_a_reader_misses_nothing_of_segments_that_are_joined_meanwhile() -> None:
    log = segments(0, 10, 20, 30, end=40)
    reader = log.starting_at(0)
    assert next(reader).base_offset == 0
    joined = segment(0, 30)
    log.replace(log[:3], joined)
    assert next(reader) is joined, "it holds offset 10, where the reader has come to"
    assert bases(list(reader)) == [30]


def test_a_reader_goes_on_behind_what_is_dropped() -> None:
    log = segments(0, 10, 20, 30, end=40)
    reader = log.starting_at(0)
    next(reader)
    log.drop_oldest(3)
    assert bases(list(reader)) == [30]


def test_what_is_replaced_is_in_place_until_then() -> None:
    log = segments(0, 10, 20, end=30)
    old = log[:2]
    assert log.are_in_place(old) and all(map(log.holds, old))
    joined = segment(0, 20)
    log.replace(old, joined)
    assert bases(list(log)) == [0, 20]
    assert log.holds(joined) and not any(map(log.holds, old)) and not log.are_in_place(old)


def test_the_active_segment_goes_with_the_last() -> None:
    log = segments(0, 10, end=20)
    log.drop_oldest(1)
    assert log.active is log[0]
    log.drop_oldest(1)
    assert log.active is None


def test_segments_come_in_order() -> None:
    with pytest.raises(AssertionError, match="in order"):
        segments(10, 5, end=20)
