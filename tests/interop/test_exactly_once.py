"""Judgement of what transactions left behind: the judge, not the run."""

from interop.committed import Committed
from interop.exactly_once.judge import of_copies, of_counts, of_offsets


def test_each_number_once_is_right_in_any_order() -> None:
    assert of_copies(["2", "0", "1"], 3) == []


def test_missing_repeated_and_strange_numbers_are_told() -> None:
    assert of_copies(["0", "0", "7"], 3) == [
        "2 of 3 are missing: 1, 2",
        "1 are there more than once: 0",
        "1 were never written: 7",
    ]
    assert of_copies([], 9) == ["9 of 9 are missing: 0, 1, 2, 3, 4 ..."]


def test_counts_without_a_gap_are_right() -> None:
    assert of_counts(["0 1 0", "1 1 1", "0 2 2"], 3) == []


def test_a_number_that_counted_twice_in_the_state_is_found_though_its_record_is_there_once() -> None:
    assert of_counts(["0 1 0", "0 3 2", "1 1 1"], 3) == ["remainder 0 was counted [1, 3] ... [1, 3], which are 2"]


def test_a_state_that_was_lost_is_found() -> None:
    assert of_counts(["0 1 0", "0 1 2", "1 1 1"], 3) == ["remainder 0 was counted [1, 1] ... [1, 1], which are 2"]


def test_a_group_whose_offset_is_not_after_its_last_record_is_behind() -> None:
    records = [Committed(0, 4, "0"), Committed(0, 9, "1"), Committed(1, 0, "2"), Committed(2, 7, "3")]
    assert of_offsets({0: 10, 1: 3, 2: 8, 3: -1001}, records) == []
    assert of_offsets({0: 9, 1: -1001, 2: 8}, records) == [
        "partition 0: the group's offset is 9, its last record has 9",
        "partition 1: the group's offset is -1001, its last record has 0",
    ]
