"""Worlds with logins, users and access rules. Repeat one with `python -m tests.simulation.accounts_world --seeds 1
--first N`."""

from collections import Counter

import pytest

from tests.enumerations import share_of, worlds_of
from tests.simulation.accounts.known import Known
from tests.simulation.accounts_world import AccountsWorld
from tests.simulation.errors import Broken

SEEDS, SHARES = worlds_of(36), share_of(3)
MARKS = (
    *("passwords set", "users deleted", "ACLs granted", "ACLs revoked", "accounts compared after a start"),
    *("commits with an ACL", "commits without an ACL", "requests without an ACL"),
    *("logins with the right password", "logins with a wrong password", "changes of accounts without an answer"),
    *("tokens made", "tokens deleted", "access tokens let in", "access tokens refused"),
    *("logins by a token", "logins by a false token", "PasswordChecks", "TokenChecks"),
    *("logins renewed", "expired logins closed"),
    *("power failures", "daemons killed", "stops"),
)
"""Marks that a share of the worlds must have reached."""
USER = "user", "alice"


@pytest.mark.parametrize("share", range(SHARES))
def test_nothing_acknowledged_is_lost_and_nothing_refused_has_an_effect(share: int) -> None:
    total = Counter[str]()
    for seed in range(share, SEEDS, SHARES):
        total.update(AccountsWorld(seed).run().counts)
    assert [mark for mark in MARKS if not total[mark]] == []


@pytest.mark.parametrize("seed", [60_409, 60_581])
def test_a_static_member_that_missed_a_generation_commits_over_its_successor(seed: int) -> None:
    """In these worlds it gives a partition back in the next generation, and its successor, which is behind it, commits
    a smaller offset afterwards."""
    assert AccountsWorld(seed).run().counts["clients logged in"]


def test_one_seed_is_one_trace() -> None:
    worlds = [AccountsWorld(seed) for seed in (3, 3, 4)]
    for world in worlds:
        world.run()
    traces = [world.trace() for world in worlds]
    assert traces[0] == traces[1] != traces[2]


def test_a_change_that_was_acknowledged_must_be_there() -> None:
    known = Known()
    known.asked(USER, b"first")
    known.compare({})
    known.compare({USER: b"first"})
    known.answered(USER, b"first")
    with pytest.raises(Broken, match="alice"):
        known.compare({})


def test_what_nobody_asked_for_may_not_be_there() -> None:
    with pytest.raises(Broken, match="alice"):
        Known().compare({USER: b"other"})


def test_a_change_without_an_answer_may_be_there_until_the_next_start_has_decided() -> None:
    known = Known()
    known.asked(USER, b"first")
    known.unanswered(USER)
    known.compare({})
    known.recovered({USER: b"first"})
    assert known.is_certain(USER)
    with pytest.raises(Broken, match="alice"):
        known.compare({})
