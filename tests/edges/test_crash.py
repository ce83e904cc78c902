"""A real daemon killed under commits; `make crash` does it fifty times."""

from pathlib import Path

from bench import crash
from tests.enumerations import share_of

KILLS = share_of(6)


def test_kills_lose_no_acknowledged_commit_and_take_no_generation_back(tmp_path: Path) -> None:
    outcome = crash.run(KILLS, seed=20, folder=tmp_path / "data")
    assert outcome.violations == []
    assert outcome.kills == len(outcome.restart_s) == KILLS
    assert outcome.committed > 0, "nothing was tested"
    assert outcome.generations > 0, "nothing was tested"


def test_kills_at_any_phase_of_small_segments_and_much_cleaning_lose_nothing_either(tmp_path: Path) -> None:
    manner = crash.TORTURE._replace(in_start=0.3, looked_at=1.0)
    outcome = crash.run(6, seed=3, folder=tmp_path / "data", manner=manner)
    assert outcome.violations == []
    assert outcome.kills == 6
    assert outcome.committed > 0, "nothing was tested"
    assert outcome.hits["looked at from outside"] >= 6
    assert outcome.hits["killed in the start"] > 0


def test_an_offset_behind_the_acknowledged_one_is_a_violation() -> None:
    kept = {"topics": [{"partitions": [{"partition_index": n, "committed_offset": 6} for n in range(8)]}]}
    assert crash.wrong_in("g", kept, acknowledged=6, under_way=7) == []
    assert crash.wrong_in("g", kept, acknowledged=5, under_way=6) == []
    assert crash.wrong_in("g", kept, acknowledged=7, under_way=8) == ["g: at [6], acknowledged 7, under way 8"]
    assert crash.wrong_in("g", {"topics": []}, acknowledged=7, under_way=8) == ["g: partitions [] have offsets, of 8"]
