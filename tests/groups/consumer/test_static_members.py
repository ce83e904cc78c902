"""Static members (docs/spec/consumer-group-protocol.md#19.7). Each test names its scenarios."""

import pytest

from tests.groups.consumer.rig import Rig

UNKNOWN, INSTANCE_FENCED, FENCED, UNRELEASED = 25, 82, 110, 111
I = {"instance_id": "i"}  # noqa: E741 - as in the specification


def away(member_id: str = "A") -> Rig:
    """A#i has T0,1 and is away; B has T2,3."""
    rig = Rig()
    rig.join(member_id, "T", **I)
    rig.join("B", "T")
    kept = rig.target(member_id)
    rig.heartbeat(member_id, 2, kept)
    assert rig.seen("B", 3) == (0, 3, rig.target("B"))
    assert rig.seen(member_id, -2, **I) == (0, -2, None)
    return rig


def test_scenario_51_another_member_comes_back_for_the_instance() -> None:
    rig = away()
    assert rig.described == "Reconciling 3/3"
    assert rig.held("A") == "T0,1", "they are kept for it"
    assert rig.seen("B", 3) == (0, 3, None)
    written = len(rig.batches)
    assert rig.joined("A2", "T", **I) == (0, 3, "T0,1")
    assert rig.written(written) == "-k8 -k7 -k5 k5 k7 k8 k8"
    assert rig.described == "Stable 3/3"
    assert rig.seen("A", 3, **I)[0] == INSTANCE_FENCED
    assert rig.seen("A", 3)[0] == UNKNOWN


def test_scenario_52_a_live_instance_is_not_replaced() -> None:
    rig = Rig()
    rig.join("A", "T", **I)
    assert rig.joined("A2", "T", **I)[0] == UNRELEASED
    for epoch in (1, -1, -2):
        assert rig.seen("A2", epoch, **I)[0] == INSTANCE_FENCED


def test_scenario_53_the_instance_joins_again_without_its_name() -> None:
    rig = Rig()
    rig.join("A", "T", **I)
    assert rig.joined("A", "T", **I)[0] == UNRELEASED
    assert rig.joined("A", "T") == (0, 2, "T0,1,2,3")
    assert rig.group.static_members == {"i": "A"}


def test_scenario_54_leaving_for_a_while_extends_no_session() -> None:
    rig = Rig(session_timeout_ms=3_000)
    rig.join("A", "T", **I)
    rig.wait(2_000)
    rig.join("B", "T")
    rig.heartbeat("A", -2, **I)
    rig.wait(1_000)
    assert rig.described == "Assigning 4/3"
    assert rig.seen("B", 3) == (0, 4, "T0,1,2,3")


def test_scenario_55_requests_of_a_member_that_is_away() -> None:
    rig = away()
    assert rig.seen("A", 3, **I)[0] == FENCED
    written = len(rig.batches)
    assert rig.seen("A", -2, **I) == (0, -2, None)
    assert rig.written(written) == "k8"
    assert rig.seen("A", -1, **I) == (0, -1, None)
    assert rig.seen("B", 3) == (0, 4, "T0,1,2,3")


def test_scenario_56_pending_revocations_of_one_who_is_away_are_free_at_once() -> None:
    rig = Rig()
    rig.join("A", "T", **I)
    rig.join("B", "T")
    rig.heartbeat("A", 2)
    rig.heartbeat("A", -2, **I)
    assert rig.seen("B", 3) == (0, 3, "T2,3")
    assert rig.joined("A2", "T", **I) == (0, 3, "T0,1")


def test_scenario_56_the_target_moves_while_a_member_is_away() -> None:
    rig = away("X")
    assert rig.joined("C", "T") == (0, 4, "")
    assert (rig.target("X"), rig.target("C")) == ("T0", "T1")
    assert rig.seen("C", 4) == (0, 4, None)
    assert rig.joined("X2", "T", **I) == (0, 4, "T0")
    assert rig.seen("C", 4) == (0, 4, "T1")


def test_scenario_56_the_successor_reads_something_else() -> None:
    rig = away()
    assert rig.joined("A2", "T", "U", **I)[:2] == (0, 4)
    assert rig.described.split()[1] == "4/4"
    assert rig.held("A2") == "T0 U0,1,2", "T0 is kept; the target gives T1 to B"


@pytest.mark.parametrize("instance_id", ["i", None])
def test_a_member_comes_back_under_its_own_id(instance_id: str | None) -> None:
    rig = away()
    assert rig.joined("A", "T", instance_id=instance_id) == (0, 3, "T0,1")
    assert rig.group.static_members == {"i": "A"}
    rig.wait(44_999)
    assert "A" in rig.group.members
    rig.wait(1)
    assert "A" not in rig.group.members


def test_a_dynamic_member_becomes_static() -> None:
    rig = Rig()
    rig.join("A", "T")
    assert rig.joined("A", "T", **I) == (0, 2, "T0,1,2,3")
    assert rig.group.static_members == {"i": "A"}
