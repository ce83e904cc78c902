"""Racks: near partitions first, balance before nearness (KIP-881); range answers as Kafka 4.3.1 does."""

import pytest

from membership.assignors import Racks, assign_range, assign_sticky, by_name
from membership.assignors.racks import are_racks_worth_it, racks_of_partitions
from tests.client.assignors.story import Group, member, shown


def lie(**topics: str) -> Racks:
    """`t="1 2 12"`: partition 0 on rack 1, 1 on rack 2, 2 on both."""
    return {topic: [frozenset(each.strip("-")) for each in said.split()] for topic, said in topics.items()}


THREE = [member("A", rack="1"), member("B", rack="2"), member("C", rack="3")]
BOTH = [member("A", "t0 t1", rack="1"), member("B", "t0 t1", rack="2"), member("C", "t0 t1", rack="3")]


def test_range_gives_each_what_is_near_it() -> None:
    given = assign_range({"t": 6}, THREE, lie(t="1 2 3 1 2 3"))
    assert shown(given) == {"A": "t-0 t-3", "B": "t-1 t-4", "C": "t-2 t-5"}


def test_range_gives_no_more_than_its_share_to_who_is_near_everything() -> None:
    given = assign_range({"t": 4}, [member("A", rack="1"), member("B", rack="2")], lie(t="1 1 1 12"))
    assert shown(given) == {"A": "t-0 t-1", "B": "t-2 t-3"}


def test_range_keeps_equal_numbers_of_equal_topics_together_even_far_away() -> None:
    given = assign_range({"t0": 3, "t1": 3}, BOTH, lie(t0="1 2 3", t1="2 3 1"))
    assert shown(given) == {"A": "t0-0 t1-0", "B": "t0-1 t1-1", "C": "t0-2 t1-2"}


def test_range_takes_equal_numbers_together_to_where_all_of_them_lie() -> None:
    given = assign_range({"t0": 3, "t1": 3}, BOTH, lie(t0="3 2 1", t1="3 2 1"))
    assert shown(given) == {"A": "t0-2 t1-2", "B": "t0-1 t1-1", "C": "t0-0 t1-0"}


def test_a_member_without_a_rack_is_near_everything() -> None:
    given = assign_range({"t": 4}, [member("A"), member("B", rack="1")], lie(t="1 2 1 2"))
    assert shown(given) == {"A": "t-0 t-1", "B": "t-2 t-3"}


def test_range_looks_at_racks_in_the_topics_alone_where_they_matter() -> None:
    members = [member("A", "t0 t1", rack="2"), member("B", "t0 t1", rack="1")]
    given = assign_range({"t0": 2, "t1": 4}, members, lie(t0="1 2", t1="1 1 1 1"))
    assert shown(given) == {"A": "t0-1 t1-0 t1-1", "B": "t0-0 t1-2 t1-3"}


def test_range_is_as_ever_where_no_topic_is_worth_a_look_at_racks() -> None:
    members = [member("A", "t0 t1", rack="2"), member("B", "t0 t1", rack="1")]
    given = assign_range({"t0": 2, "t1": 2}, members, lie(t0="1 1", t1="1 1"))
    assert shown(given) == {"A": "t0-0 t1-0", "B": "t0-1 t1-1"}


@pytest.mark.parametrize("name", ["range", "roundrobin", "sticky", "cooperative-sticky"])
@pytest.mark.parametrize(
    "racks",
    [
        pytest.param(lie(t="12 12 12 12"), id="all lie alike"),
        pytest.param(lie(t="8 9 8 9"), id="nobody is near any"),
        pytest.param(lie(), id="nothing is known"),
    ],
)
def test_racks_that_make_no_difference_change_nothing(name: str, racks: Racks) -> None:
    members = [member("A", rack="2"), member("B", rack="1")]
    assert by_name(name).assign({"t": 4}, members, racks) == by_name(name).assign({"t": 4}, members)


def test_sticky_deals_to_those_who_are_near() -> None:
    given = assign_sticky({"t": 6}, THREE, lie(t="3 2 1 3 2 1"))
    assert shown(given) == {"A": "t-2 t-5", "B": "t-1 t-4", "C": "t-0 t-3"}


def test_sticky_lets_the_partitions_choose_first_that_have_fewest_near() -> None:
    given = assign_sticky({"t": 2}, [member("A", rack="1"), member("B", rack="2")], lie(t="12 1"))
    assert shown(given) == {"A": "t-1", "B": "t-0"}


def test_sticky_gives_away_what_is_held_far_from_its_replicas() -> None:
    members = [
        member("A", owned="t-0 t-1", generation=1, rack="1"),
        member("B", owned="t-2 t-3", generation=1, rack="2"),
    ]
    assert shown(assign_sticky({"t": 4}, members, lie(t="1 2 1 2"))) == {"A": "t-0 t-2", "B": "t-1 t-3"}


def test_sticky_prefers_balance_to_nearness() -> None:
    members = [member("A", rack="1"), member("B", rack="9")]
    assert shown(assign_sticky({"t": 4}, members, lie(t="1 1 1 12"))) == {"A": "t-0 t-1", "B": "t-2 t-3"}


def test_sticky_gives_nothing_to_who_is_near_but_has_its_share() -> None:
    members = [member("A", owned="t-0 t-1", generation=1, rack="1"), member("B", rack="9")]
    assert shown(assign_sticky({"t": 4}, members, lie(t="1 1 1 12"))) == {"A": "t-0 t-1", "B": "t-2 t-3"}


def test_sticky_leaves_what_is_far_where_it_is_if_it_would_be_far_elsewhere_too() -> None:
    members = [
        member("A", owned="t-2", generation=1, rack="1"),
        member("B", owned="t-0 t-1", generation=1, rack="2"),
        member("C", rack="1"),
    ]
    assert shown(assign_sticky({"t": 3}, members, lie(t="1 12 2"))) == {"A": "t-2", "B": "t-1", "C": "t-0"}


def test_sticky_among_members_of_different_topics_looks_at_racks_too() -> None:
    members = [member("A", "t0 t1", rack="1"), member("B", "t0", rack="2"), member("C", "t1", rack="3")]
    given = assign_sticky({"t0": 2, "t1": 2}, members, lie(t0="2 1", t1="3 3"))
    assert shown(given) == {"A": "t0-1", "B": "t0-0", "C": "t1-0 t1-1"}


def test_cooperative_moves_what_is_far_in_two_rounds() -> None:
    group = Group("cooperative-sticky", {"t": 2}, lie(t="2 1"))
    group.join("A", ["t"], "1")
    group.join("B", ["t"], "2")
    group.owned = {"A": member("A", owned="t-0").owned, "B": member("B", owned="t-1").owned}
    group.joined = {"A": 1, "B": 1}
    assert shown(group.rebalance()) == {"A": "", "B": ""}
    assert shown(group.rebalance()) == {"A": "t-1", "B": "t-0"}


def test_when_racks_are_worth_it() -> None:
    assert are_racks_worth_it({"a"}, [{"a"}, {"b"}])
    assert not are_racks_worth_it({"a"}, [{"a"}, {"a"}])
    assert not are_racks_worth_it({"c"}, [{"a"}, {"b"}])
    assert not are_racks_worth_it(frozenset(), [{"a"}, {"b"}])
    assert not are_racks_worth_it({"a"}, [])


def test_partitions_of_which_nothing_is_known_lie_nowhere() -> None:
    assert racks_of_partitions({"t": [{"a"}]}, "t", 2) == [{"a"}, frozenset()]
    assert racks_of_partitions({"t": [{"a"}, {"b"}]}, "t", 1) == [{"a"}]
