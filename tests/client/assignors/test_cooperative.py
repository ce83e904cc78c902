"""Cooperative sharing: what moves from a living owner waits a round (docs/spec/group-protocol.md#6.6, KIP-429)."""

import pytest

from muster.assignors import (
    Subscriber,
    UnsafeAssignment,
    assign_cooperative_sticky,
    verify_cooperative,
)
from tests.client.assignors.story import Group, member, parts, shown


def test_the_worked_example_what_is_taken_away_is_handed_out_a_round_later() -> None:
    group = Group("cooperative-sticky", {"t": 7})
    for name in "ABC":
        group.join(name, ["t"])
    assert shown(group.rebalance()) == {"A": "t-0 t-3 t-6", "B": "t-1 t-4", "C": "t-2 t-5"}
    group.join("D", ["t"])
    assert shown(group.rebalance()) == {"A": "t-0 t-3", "B": "t-1 t-4", "C": "t-2 t-5", "D": ""}
    assert shown(group.rebalance()) == {"A": "t-0 t-3", "B": "t-1 t-4", "C": "t-2 t-5", "D": "t-6"}


def test_a_newcomer_waits_a_round_for_half_of_what_one_owns() -> None:
    group = Group("cooperative-sticky", {"t": 6})
    group.join("A", ["t"])
    group.rebalance()
    group.join("B", ["t"])
    assert shown(group.rebalance()) == {"A": "t-0 t-1 t-2", "B": ""}
    assert shown(group.rebalance()) == {"A": "t-0 t-1 t-2", "B": "t-3 t-4 t-5"}


def test_what_a_departed_member_had_is_free_at_once() -> None:
    group = Group("cooperative-sticky", {"t": 4})
    for name in "AB":
        group.join(name, ["t"])
    group.rebalance()
    group.leave("A")
    assert shown(group.rebalance()) == {"B": "t-0 t-1 t-2 t-3"}


def test_a_claim_that_is_out_of_date_still_holds_the_partition_back() -> None:
    members = [member("A", owned="t-0 t-1", generation=4), member("B", generation=5)]
    stale = member("C", owned="t-1 t-2", generation=3)
    assert shown(assign_cooperative_sticky({"t": 3}, [*members, stale])) == {"A": "t-0", "B": "", "C": "t-2"}


def test_the_owner_whose_claim_is_the_newer_one_keeps_the_partition_meanwhile() -> None:
    members = [member("A", owned="t-0", generation=5), member("B", owned="t-0 t-1", generation=4)]
    assert shown(assign_cooperative_sticky({"t": 2}, members)) == {"A": "t-0", "B": "t-1"}


def test_a_partition_claimed_twice_in_one_generation_is_taken_from_both() -> None:
    members = [member("A", owned="t-0 t-1", generation=5), member("B", owned="t-1 t-2", generation=5)]
    assert shown(assign_cooperative_sticky({"t": 3}, members)) == {"A": "t-0", "B": "t-2"}


def test_an_older_member_says_its_generation_in_its_user_data() -> None:
    old = Subscriber("A", ("t",), owned=parts("t-0"), user_data=bytes.fromhex("00000005"))
    new = member("B", owned="t-0 t-1", generation=4)
    assert shown(assign_cooperative_sticky({"t": 2}, [old, new])) == {"A": "t-0", "B": "t-1"}


def test_members_that_read_different_topics_wait_too() -> None:
    members = [member("A", "t0 t1", "t0-0 t0-1 t1-0 t1-1", 1), member("B", "t1", "", 1)]
    assert shown(assign_cooperative_sticky({"t0": 2, "t1": 2}, members)) == {"A": "t0-0 t0-1", "B": ""}


def test_an_assignor_that_gives_away_what_is_owned_is_found_out() -> None:
    members = [member("A", owned="t-0 t-1", generation=1), member("B", owned="t-2", generation=1)]
    with pytest.raises(UnsafeAssignment, match=r"assignor 'mine' says it is cooperative and gave away t-1 before") as e:
        verify_cooperative("mine", members, {"A": list(parts("t-0")), "B": list(parts("t-1 t-2"))})
    assert e.value.partitions == parts("t-1")


def test_many_partitions_at_fault_are_not_all_named() -> None:
    members = [member("A", owned=" ".join(f"t-{n}" for n in range(9)), generation=1), member("B")]
    with pytest.raises(UnsafeAssignment, match=r"t-0, t-1, t-2, t-3, t-4, … before"):
        verify_cooperative("mine", members, {"A": [], "B": list(members[0].owned)})


def test_what_is_revoked_and_left_out_or_free_and_added_is_no_fault() -> None:
    members = [member("A", owned="t-0 t-1", generation=1), member("B")]
    assignment = {"A": list(parts("t-0")), "B": list(parts("t-2"))}
    verify_cooperative("mine", members, assignment)
    assert shown(assignment) == {"A": "t-0", "B": "t-2"}


def test_what_one_of_two_owners_keeps_was_not_added() -> None:
    members = [member("A", owned="t-0", generation=1), member("B", owned="t-0", generation=1)]
    assignment = {"A": list(parts("t-0")), "B": []}
    verify_cooperative("mine", members, assignment)
    with pytest.raises(UnsafeAssignment):
        verify_cooperative("mine", [*members, member("C")], {"A": [], "B": [], "C": list(parts("t-0"))})
