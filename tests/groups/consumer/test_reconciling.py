"""Reconciliation and batching (docs/spec/consumer-group-protocol.md#19.3, #19.4). Each test names its scenarios."""

from typing import Any

import pytest

from coordinator.groups.consumer.delayed import DelayedRevocation
from tests.groups.consumer.rig import Rig

UNKNOWN = 25


def two(**settings: Any) -> Rig:
    """A has T0-3 and is to revoke T2,3 for B."""
    rig = Rig(**settings)
    rig.join("A", "T")
    assert rig.joined("B", "T") == (0, 3, "")
    return rig


def test_scenarios_23_and_83_the_timeline_and_its_records() -> None:
    rig = two()
    assert rig.described == "Reconciling 3/3"
    assert rig.seen("B", 3) == (0, 3, None)
    assert rig.seen("A", 2) == (0, 2, "T0,1")
    assert rig.seen("A", 2) == (0, 2, None)
    assert rig.seen("A", 2, "T0,1,2,3") == (0, 2, None)
    assert rig.seen("A", 2, "T0,1") == (0, 3, None)
    assert rig.seen("B", 3) == (0, 3, "T2,3")
    assert rig.described == "Stable 3/3"
    assert rig.seen("B", -1) == (0, -1, None)
    assert rig.described == "Assigning 4/3"
    assert rig.seen("A", 3) == (0, 4, "T0,1,2,3")
    assert rig.described == "Stable 4/4"
    assert rig.written() == ("k5 k3 k7 k6 k8 | k5 k3 k7 k7 k6 k8 | k8 | k8 | k8 | k8 | -k8 -k7 -k5 k3 | k7 k6 k8")


def test_scenario_24_nothing_is_given_before_it_is_released() -> None:
    rig = two()
    rig.heartbeat("A", 2)
    for _ in range(5):
        assert rig.seen("B", 3) == (0, 3, None)
        assert rig.held("B") == ""


def test_scenario_25_a_revocation_ends_though_its_reason_is_gone() -> None:
    rig = two()
    rig.heartbeat("A", 2)
    rig.heartbeat("B", -1)
    assert rig.seen("A", 2, "T0,1,2,3") == (0, 2, None)
    assert rig.seen("A", 2, "T0,1") == (0, 4, "T0,1,2,3")
    (epochs,) = rig.group.members["A"].current.assigned.values()
    assert dict(epochs) == {0: 2, 1: 2, 2: 4, 3: 4}


@pytest.mark.parametrize("owned", ["T0,1", ""])
def test_scenario_26_what_was_revoked_already_takes_no_step(owned: str) -> None:
    rig = two()
    assert rig.seen("A", 2, owned) == (0, 3, "T0,1")


def test_scenario_27_a_full_request_repeats_what_is_to_be_kept() -> None:
    rig = two()
    rig.heartbeat("A", 2)
    full = {"rebalance_timeout_ms": 60_000, "subscribed_topic_names": ("T",)}
    assert rig.seen("A", 2, "T0,1,2,3", **full) == (0, 2, "T0,1")
    assert rig.joined("A", "T") == (0, 3, "T0,1")


def test_scenario_28_a_dropped_topic_is_revoked_first() -> None:
    rig = Rig()
    rig.join("A", "T", "U")
    assert rig.seen("A", 2, subscribed_topic_names=("T",)) == (0, 2, "T0,1,2,3")
    assert rig.held("A") == "T0,1,2,3 U0,1,2"
    assert rig.seen("A", 2, "T0,1,2,3") == (0, 3, None)
    assert rig.held("A") == "T0,1,2,3"


def test_scenario_29_a_member_that_does_not_revoke_is_fenced() -> None:
    rig = Rig()
    rig.join("A", "T", rebalance_timeout_ms=1_500)
    rig.join("B", "T")
    rig.heartbeat("A", 2)
    for _ in range(2):
        rig.wait(700)
        assert rig.seen("A", 2) == (0, 2, None)
    rig.wait(100)
    assert rig.seen("A", 2)[0] == UNKNOWN
    assert rig.seen("B", 3) == (0, 4, "T0,1,2,3")
    assert rig.joined("A", "T")[:2] == (0, 5)


def test_scenario_30_a_timer_of_an_earlier_epoch_has_no_effect() -> None:
    rig = two()
    rig.heartbeat("A", 2)
    timer = DelayedRevocation(rig.group, "A", 2, 0, 0)
    rig.heartbeat("A", 2, "T0,1")
    late = timer.overdue()
    assert late is not None
    rig.happen(late)
    assert "A" in rig.group.members


def test_scenario_31_four_members_converge_without_two_holders() -> None:
    rig = Rig({"T": 10})
    held: dict[str, str] = {}
    for name in "abcd":
        held[name] = rig.joined(name, "T")[2]
    for _ in range(4):
        for name in "abcd":
            told = rig.seen(name, rig.group.members[name].current.epoch, held[name])[2]
            held[name] = held[name] if told is None else told
            # The rig checks after each event that no partition has two holders.
    sizes = sorted(len(list(member.current.held)) for member in rig.group.members.values())
    assert (rig.described, sizes) == ("Stable 5/5", [2, 2, 3, 3])
    assert {member.current.epoch for member in rig.group.members.values()} == {5}


def test_scenario_32_a_member_that_revokes_still_holds_what_it_has_to_revoke() -> None:
    rig = two()
    rig.heartbeat("A", 2)
    assert (rig.held("A"), rig.target("A")) == ("T0,1,2,3", "T0,1")


def test_scenario_33_one_computation_an_interval() -> None:
    rig = Rig(assignment_interval_ms=3_000)
    assert rig.joined("A", "T") == (0, 2, "T0,1,2,3")
    assert rig.joined("B", "T") == (0, 2, "")
    assert rig.described == "Assigning 3/2"
    rig.wait(4_000)
    assert rig.described == "Assigning 3/2"
    assert rig.seen("B", 2) == (0, 3, None)
    assert rig.described == "Reconciling 3/3"


def test_a_clock_that_is_set_back_delays_no_computation() -> None:
    rig = Rig(assignment_interval_ms=3_000)
    rig.join("A", "T")
    rig.join("B", "T")
    rig.set_back_ms = 3_600_000
    assert rig.seen("B", 2) == (0, 3, None)


def test_scenario_34_a_newcomer_waits_for_the_interval_though_all_is_free() -> None:
    rig = Rig(assignment_interval_ms=3_000)
    rig.join("A", "T")
    rig.join("B", "T")
    rig.heartbeat("A", -1)
    assert rig.seen("B", 2) == (0, 2, None)
    rig.wait(3_000)
    assert rig.seen("B", 2) == (0, 4, "T0,1,2,3")


def test_scenario_35_a_topic_that_was_dropped_comes_back_with_the_next_computation() -> None:
    rig = Rig(assignment_interval_ms=4_000)
    rig.join("A", "T", "U")
    assert rig.seen("A", 2, subscribed_topic_names=("T",)) == (0, 2, "T0,1,2,3")
    assert rig.seen("A", 2, "T0,1,2,3")[:2] == (0, 2)
    assert rig.seen("A", 2, "T0,1,2,3", subscribed_topic_names=("T", "U"))[:2] == (0, 2)
    assert rig.held("A") == "T0,1,2,3"
    rig.wait(4_000)
    assert rig.seen("A", 2) == (0, 4, "T0,1,2,3 U0,1,2")


def test_scenario_36_a_group_that_was_emptied_keeps_its_interval() -> None:
    rig = Rig(assignment_interval_ms=3_000)
    rig.join("A", "T")
    rig.heartbeat("A", -1)
    assert rig.joined("B", "T") == (0, 2, "")
    rig.wait(3_000)
    assert rig.seen("B", 2) == (0, 4, "T0,1,2,3")


def test_scenario_91_a_topic_is_deleted_and_made_again() -> None:
    rig = Rig()
    rig.join("A", "T", "U")
    rig.topics.delete("U")
    assert rig.seen("A", 2) == (0, 2, "T0,1,2,3")
    assert rig.seen("A", 2, "T0,1,2,3") == (0, 3, None)
    rig.topics.create("U", 1)
    assert rig.seen("A", 3) == (0, 4, "T0,1,2,3 U0")


def test_partitions_are_added_to_a_subscribed_topic() -> None:
    rig = Rig()
    rig.join("A", "T")
    rig.topics.grow("U", 9)
    assert rig.seen("A", 2) == (0, 2, None)
    rig.topics.grow("T", 6)
    assert rig.seen("A", 2) == (0, 3, "T0,1,2,3,4,5")
