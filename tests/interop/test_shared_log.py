"""Judgement of nodes that count in a shared log: the judge, not the run."""

import pytest

from interop.shared_log import Line, faults_of, gaps, parsed


def own(tag: int, number: int, shard: int = 0) -> Line:
    return Line("own", shard, tag, number, 0.0)


def ack(tag: int, number: int, at_s: float = 0.0, shard: int = 0) -> Line:
    return Line("ack", shard, tag, number, at_s)


def test_lines_of_nodes_are_read_and_other_words_are_none() -> None:
    assert parsed("ack 3 17 4 12.500\n") == Line("ack", 3, 17, 4, 12.5)
    assert parsed("own 3 17 4 12.500") == Line("own", 3, 17, 4, 12.5)
    assert parsed("lost 3 another node claimed the shard") is None
    assert parsed("ack 3 17") is None


def test_owners_that_follow_each_other_have_no_fault() -> None:
    first = [own(0, 0), ack(0, 1), ack(0, 2)]
    second = [own(9, 3), ack(9, 4)]  # the first owner's last number was written and never acknowledged
    assert faults_of([*second, *first]) == []


@pytest.mark.parametrize(
    ("lines", "fault"),
    [
        ([own(0, 0), ack(0, 2), ack(0, 1)], "shard 0: numbers of one owner go back"),
        ([own(0, 0), ack(0, 5), own(9, 4), ack(9, 6)], "shard 0: 5 was acknowledged, an owner after it read less"),
        ([own(0, 0), ack(0, 5), own(9, 5), ack(9, 5)], "shard 0: 5 was acknowledged by two owners"),
    ],
)
def test_what_must_not_be_is_found(lines: list[Line], fault: str) -> None:
    assert faults_of(lines) == [fault]


def test_a_loss_is_found_after_more_than_one_take_over() -> None:
    lines = [own(0, 0), ack(0, 5), own(7, 5), own(9, 3)]
    assert faults_of(lines) == ["shard 0: 5 was acknowledged, an owner after it read less"]


def test_the_longest_time_without_an_acknowledgement_counts_from_when_it_began() -> None:
    lines = [ack(0, 1, 10.0), ack(0, 2, 16.0), ack(0, 3, 16.5), ack(0, 1, 15.0, shard=1)]
    assert sorted(gaps(lines, 12.0)) == [3.0, 6.0]
