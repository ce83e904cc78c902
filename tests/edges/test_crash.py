"""A real daemon killed under commits; `make crash` does it fifty times."""

from pathlib import Path

import pytest

from bench import crash
from bench.crash_accounts import lost
from tests.enumerations import share_of

KILLS = share_of(6)


def test_kills_lose_no_acknowledged_commit_and_take_no_generation_back(tmp_path: Path) -> None:
    lives = crash.CRASH._replace(life_s=3.0)  # on a busy machine the first generation takes long
    outcome = crash.run(KILLS, seed=20, folder=tmp_path / "data", manner=lives)
    assert outcome.violations == []
    assert outcome.kills == len(outcome.restart_s) == KILLS
    assert outcome.committed > 0, "nothing was tested"
    assert outcome.generations > 0, "nothing was tested"


@pytest.mark.long
def test_kills_at_any_phase_of_small_segments_and_much_cleaning_lose_nothing_either(tmp_path: Path) -> None:
    manner = crash.TORTURE._replace(in_start=0.3, looked_at=1.0)
    outcome = crash.run(6, seed=3, folder=tmp_path / "data", manner=manner)
    assert outcome.violations == []
    assert outcome.kills == 6
    assert outcome.committed > 0, "nothing was tested"
    assert outcome.hits["looked at from outside"] >= 6
    assert outcome.hits["killed in the start"] > 0
    assert outcome.changes > 0, "no user and no ACL was changed"
    assert outcome.refused > 0, "nobody tried to commit without an ACL"


def test_a_user_or_an_acl_that_is_not_as_it_was_acknowledged_is_a_violation() -> None:
    alice, team = ("user", "alice"), ("acl", "team")
    assert lost({alice: 4_097, team: 1}, {alice: 4_097, team: 1}, None) == []
    assert lost({alice: 4_097}, {alice: 4_096}, (alice, 4_097)) == [], "it was under way"
    assert lost({alice: 4_096}, {alice: 4_096}, (alice, 4_097)) == []
    assert len(lost({alice: 4_096}, {alice: 4_097}, None)) == 1, "the password of before"
    assert len(lost({}, {alice: 4_097, team: 1}, (alice, 4_098))) == 2, "both are gone"
    assert len(lost({team: 1}, {team: 0}, None)) == 1, "it was revoked"


def test_an_offset_behind_the_acknowledged_one_is_a_violation() -> None:
    kept = {"topics": [{"partitions": [{"partition_index": n, "committed_offset": 6} for n in range(8)]}]}
    assert crash.wrong_in("g", kept, acknowledged=6, under_way=7) == []
    assert crash.wrong_in("g", kept, acknowledged=5, under_way=6) == []
    assert crash.wrong_in("g", kept, acknowledged=7, under_way=8) == ["g: at [6], acknowledged 7, under way 8"]
    assert crash.wrong_in("g", {"topics": []}, acknowledged=7, under_way=8) == ["g: partitions [] have offsets, of 8"]
