"""The sticky assignor: the examples of docs/spec/group-protocol.md#6.5, claims, and members that read different
topics."""

import pytest

from muster.assignors import assign_sticky
from muster.assignors.general import balance_score
from tests.client.assignors.story import Group, member, shown


def test_the_worked_example_fresh_then_one_joins_then_one_leaves() -> None:
    group = Group("sticky", {"t": 7})
    for name in "CAB":
        group.join(name, ["t"])
    assert shown(group.rebalance()) == {"A": "t-0 t-3 t-6", "B": "t-1 t-4", "C": "t-2 t-5"}
    group.join("D", ["t"])
    assert shown(group.rebalance()) == {"A": "t-0 t-3", "B": "t-1 t-4", "C": "t-2 t-5", "D": "t-6"}
    group.leave("B")
    assert shown(group.rebalance()) == {"A": "t-0 t-3 t-4", "C": "t-2 t-5", "D": "t-1 t-6"}


def test_from_nothing_it_deals_as_round_robin_does() -> None:
    members = [member("A", "t0 t1"), member("B", "t0 t1")]
    assert shown(assign_sticky({"t0": 3, "t1": 3}, members)) == {"A": "t0-0 t0-2 t1-1", "B": "t0-1 t1-0 t1-2"}


def test_who_has_too_much_keeps_the_lowest_numbers_of_all_topics() -> None:
    members = [member("A", "t0 t1", "t0-0 t0-1 t1-0 t1-1", 1), member("B", "t0 t1")]
    assert shown(assign_sticky({"t0": 2, "t1": 2}, members)) == {"A": "t0-0 t1-0", "B": "t0-1 t1-1"}


def test_only_as_many_members_keep_one_more_as_there_are_partitions_over() -> None:
    members = [member("A", owned="t-0 t-1", generation=1), member("B", owned="t-2 t-3", generation=1), member("C")]
    assert shown(assign_sticky({"t": 4}, members)) == {"A": "t-0 t-1", "B": "t-2", "C": "t-3"}


def test_a_partition_claimed_twice_stays_with_the_newer_generation() -> None:
    members = [member("A", owned="t-0 t-1", generation=4), member("B", owned="t-0 t-2", generation=5)]
    assert shown(assign_sticky({"t": 4}, members)) == {"A": "t-1 t-3", "B": "t-0 t-2"}


def test_a_partition_claimed_twice_in_one_generation_stays_with_neither() -> None:
    members = [member("A", owned="t-1 t-3", generation=5), member("B", owned="t-0 t-1", generation=5), member("C")]
    assert shown(assign_sticky({"t": 4}, members)) == {"A": "t-2 t-3", "B": "t-0", "C": "t-1"}


def test_claims_of_topics_and_partitions_that_are_gone_are_dropped() -> None:
    members = [member("A", "t gone", "t-0 t-9 gone-0", 3), member("B", "t gone", "t--1 t-1", 3)]
    assert shown(assign_sticky({"t": 4}, members)) == {"A": "t-0 t-2", "B": "t-1 t-3"}


def test_claims_of_topics_a_member_no_longer_reads_are_dropped() -> None:
    members = [member("A", "t1", "t0-0 t1-0", 3), member("B", "t0 t1", "t0-1 t1-1", 3)]
    assert shown(assign_sticky({"t0": 2, "t1": 2}, members)) == {"A": "t1-0 t1-1", "B": "t0-0 t0-1"}


def test_a_member_that_reads_nothing_gets_nothing_though_it_comes_first() -> None:
    assert shown(assign_sticky({"t": 2}, [member("A", ""), member("B", "t")])) == {"A": "", "B": "t-0 t-1"}


def test_different_topics_are_balanced_where_round_robin_would_not_be() -> None:
    members = [member("C0", "t0"), member("C1", "t0 t1"), member("C2", "t0 t1 t2")]
    given = assign_sticky({"t0": 1, "t1": 2, "t2": 3}, members)
    assert shown(given) == {"C0": "t0-0", "C1": "t1-0 t1-1", "C2": "t2-0 t2-1 t2-2"}


def test_different_topics_after_a_leave_only_what_is_free_moves() -> None:
    members = [member("C1", "t0 t1", "t1-0 t1-1", 1), member("C2", "t0 t1 t2", "t2-0 t2-1 t2-2", 1)]
    given = assign_sticky({"t0": 1, "t1": 2, "t2": 3}, members)
    assert shown(given) == {"C1": "t0-0 t1-0 t1-1", "C2": "t2-0 t2-1 t2-2"}


def test_new_partitions_are_moved_before_those_that_are_held() -> None:
    members = [member("A", "t0", "t0-0 t0-1", 1), member("B", "t0 t1", "", 1), member("C", "t1", "", 1)]
    given = assign_sticky({"t0": 2, "t1": 4}, members)
    assert shown(given) == {"A": "t0-0 t0-1", "B": "t1-0 t1-2", "C": "t1-1 t1-3"}


def test_a_partition_moves_back_to_who_missed_the_newest_generation() -> None:
    members = [
        member("A", "t", "t-0 t-1 t-2 t-3", 6),
        member("B", "t other", "", 6),
        member("C", "t other", "t-0", 5),
    ]
    assert shown(assign_sticky({"t": 4}, members)) == {"A": "t-2 t-3", "B": "t-1", "C": "t-0"}


def test_topics_that_few_read_are_shared_out_first() -> None:
    members = [member("A", "t0 t1", "t0-0 t1-0", 1), member("B", "t0"), member("C", "t0 t1"), member("D", "t0")]
    assert shown(assign_sticky({"t0": 1, "t1": 1}, members)) == {"A": "t0-0", "B": "", "C": "t1-0", "D": ""}


def test_what_is_new_moves_so_that_what_is_held_can_stay() -> None:
    members = [member("A", "t1 t2", "", 1), member("B", "t0 t1", "", 1), member("C", "t0 t2", "t0-0 t2-3", 1)]
    given = assign_sticky({"t0": 2, "t1": 2, "t2": 4}, members)
    assert shown(given) == {"A": "t1-1 t2-0 t2-2", "B": "t0-1 t1-0", "C": "t0-0 t2-1 t2-3"}


def test_of_two_that_could_move_the_one_goes_that_gets_home_by_it() -> None:
    members = [
        member("A", "t1"),
        member("B", "t0 t1", "t0-1 t0-2 t1-0 t1-1 t1-2", 1),
        member("C", "t0 t1"),
        member("D", "t1"),
        member("E", "t1"),
    ]
    given = assign_sticky({"t0": 3, "t1": 3}, members)
    assert shown(given) == {"A": "t1-0", "B": "t0-1", "C": "t0-0 t0-2", "D": "t1-1", "E": "t1-2"}


def test_nobody_is_not_a_group_and_no_partition_no_share() -> None:
    assert assign_sticky({"t": 2}, []) == {}
    assert shown(assign_sticky({}, [member("A"), member("B")])) == {"A": "", "B": ""}


@pytest.mark.parametrize(("sizes", "score"), [((), 0), ((3, 3, 3), 0), ((0, 3), 3), ((2, 0, 1), 4), ((5, 1, 1, 3), 14)])
def test_the_score_is_the_sum_of_differences_of_all_pairs(sizes: tuple[int, ...], score: int) -> None:
    assert balance_score(sizes) == score == sum(abs(a - b) for n, a in enumerate(sizes) for b in sizes[n + 1 :])
