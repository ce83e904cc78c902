"""Two groups read by grants while readers and the daemon are killed; and that who judges them sees what is wrong."""

from pathlib import Path

import pytest

from bench.owners import KINDS, Handed, Story, judge


@pytest.mark.timeout(300)
def test_whatever_dies_each_record_is_handed_out_and_again_only_behind_a_death(tmp_path: Path) -> None:
    story = Story(tmp_path, records=12_000, seed=5, most_kills=4)
    story.run()
    assert 1 <= story.kills.total() <= 4
    assert story.sampler.samples > 10
    assert not story.sampler.violations
    for kind in KINDS:
        judged = story.judge(kind)
        assert (judged.missing, judged.unexplained) == (0, [])
        assert judged.handed >= 12_000


def handed(*lines: tuple[float, int, int]) -> list[Handed]:
    return [Handed(*line) for line in lines]


def test_a_record_that_comes_again_is_laid_to_whoever_died() -> None:
    twice = handed((1.0, 1, 0), (2.0, 1, 1), (5.0, 2, 1), (6.0, 2, 2))
    assert judge(twice, {1: 3.0}, []) == (1, 0, [])
    assert judge(twice, {}, [4.0]) == (0, 1, [])
    assert judge(twice, {2: 3.0}, [])[2] == ["offset 1 came to reader 2 3.000 s after reader 1, who lived"]
    assert judge(twice, {1: 5.5}, [])[2], "it died afterwards"


def test_two_that_read_at_once_and_an_offset_left_out_are_told() -> None:
    assert len(judge(handed((1.0, 1, 0), (1.1, 2, 0), (1.2, 1, 1), (1.3, 2, 1)), {}, [])[2]) == 2
    assert judge(handed((1.0, 1, 0), (2.0, 1, 2)), {}, [])[2] == ["offset 2 came when 1 was next"]
