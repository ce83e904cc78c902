"""Properties of all assignments: nothing twice, nothing forgotten, balance, stickiness, two rounds, any order."""

import random

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from membership.assignors import Assignment, Racks, Subscriber, by_name, verify_cooperative
from membership.assignors.general import balance_score
from membership.topic_partition import TopicPartition
from tests.client.assignors.story import Group, said

STICKY = ["sticky", "cooperative-sticky"]
ALL = ["range", "roundrobin", *STICKY]
TOPICS = ("t0", "t1", "t2", "t3")
Change = list[tuple[str, tuple[str, ...] | None, str | None]]
"""Members that join with topics and a rack, leave (None) or read something else."""
NAMES = [f"m{number}" for number in range(8)]

counts = st.dictionaries(st.sampled_from(TOPICS), st.integers(0, 9))
readings = st.sets(st.sampled_from(TOPICS)).map(lambda topics: tuple(sorted(topics)))
rack = st.none() | st.sampled_from("xyz")
racks: st.SearchStrategy[Racks] = st.dictionaries(
    st.sampled_from(TOPICS), st.lists(st.frozensets(st.sampled_from("xyz")), max_size=9), max_size=4
)
claims = st.lists(st.builds(TopicPartition, st.sampled_from(TOPICS), st.integers(0, 10)), max_size=12)


@st.composite
def members(draw: st.DrawFn, assignor: str) -> list[Subscriber]:
    """Anything members can say, true or not; half of the groups read the same."""
    alike = draw(st.none() | readings)
    names = draw(st.lists(st.sampled_from(NAMES), unique=True, min_size=1))
    return [
        said(
            assignor,
            name,
            alike if alike is not None else draw(readings),
            draw(claims),
            draw(st.integers(-1, 3)),
            draw(rack),
        )
        for name in names
    ]


@st.composite
def changes(draw: st.DrawFn) -> Change:
    reading = st.just(TOPICS[:2]) if draw(st.booleans()) else readings
    return draw(st.lists(st.tuples(st.sampled_from(NAMES), st.none() | reading, rack), min_size=1, max_size=6))


def every(partition_counts: dict[str, int], group: list[Subscriber]) -> list[TopicPartition]:
    wanted = {topic for one in group for topic in one.topics}
    return sorted(TopicPartition(t, n) for t, count in partition_counts.items() if t in wanted for n in range(count))


@pytest.mark.parametrize("name", ALL)
@settings(deadline=None)
@given(data=st.data(), partition_counts=counts, racks=racks, seed=st.integers(0, 99))
def test_every_partition_goes_once_to_a_subscriber_whatever_the_order(
    name: str, data: st.DataObject, partition_counts: dict[str, int], racks: Racks, seed: int
) -> None:
    group = data.draw(members(name))
    assignment = by_name(name).assign(partition_counts, group, racks)
    handed_out = sorted(one for ones in assignment.values() for one in ones)
    assert len(set(handed_out)) == len(handed_out)
    assert all(one.topic in member.topics for member in group for one in assignment[member.member_id])
    claimed = {one for member in group for one in member.owned}
    held_back = set(every(partition_counts, group)) - set(handed_out)
    assert not held_back or (name == "cooperative-sticky" and held_back <= claimed)
    assert set(handed_out) <= set(every(partition_counts, group))
    shuffled = list(group)
    random.Random(seed).shuffle(shuffled)
    topics_reversed = dict(reversed(partition_counts.items()))
    assert by_name(name).assign(topics_reversed, shuffled, racks) == assignment


@settings(deadline=None)
@given(data=st.data(), partition_counts=counts, racks=racks)
def test_sticky_is_as_balanced_as_moving_one_partition_can_make_it(
    data: st.DataObject, partition_counts: dict[str, int], racks: Racks
) -> None:
    group = data.draw(members("sticky"))
    assignment = by_name("sticky").assign(partition_counts, group, racks)
    size = {name: len(ones) for name, ones in assignment.items()}
    for giver in group:
        for one in assignment[giver.member_id]:
            takers = [size[member.member_id] for member in group if one.topic in member.topics]
            assert size[giver.member_id] <= min(takers) + 1
    if len({member.topics for member in group}) == 1:
        assert max(size.values()) - min(size.values()) <= 1


@pytest.mark.parametrize("name", STICKY)
@settings(deadline=None)
@given(partition_counts=counts, first=changes(), second=changes())
def test_a_group_that_did_not_change_keeps_what_it_has(
    name: str, partition_counts: dict[str, int], first: Change, second: Change
) -> None:
    group = Group(name, partition_counts)
    for step in (first, second):
        change(group, step)
        settled = settle(group)[-1]
        assert group.rebalance() == settled


@pytest.mark.parametrize("name", STICKY)
@settings(deadline=None)
@given(partition_counts=counts, first=changes(), second=changes(), racks=racks)
def test_racks_leave_a_group_in_peace_after_a_while(
    name: str, partition_counts: dict[str, int], first: Change, second: Change, racks: Racks
) -> None:
    group = Group(name, partition_counts, racks)
    for step in (first, second):
        change(group, step)
        rounds = [group.rebalance() for _ in range(12)]
        assert rounds[-1] == rounds[-2]


@settings(deadline=None)
@given(partition_counts=counts, sizes=st.tuples(st.integers(1, 6), st.integers(0, 3), st.integers(0, 5)))
def test_members_that_read_the_same_lose_nothing_but_what_is_above_the_new_mean(
    partition_counts: dict[str, int], sizes: tuple[int, int, int]
) -> None:
    before, joining, leaving = sizes
    assume(leaving < before + joining)
    group = Group("sticky", partition_counts)
    for name in NAMES[:before]:
        group.join(name, TOPICS)
    held = group.rebalance()
    for number in range(joining):
        group.join(f"new{number}", TOPICS)
    for name in list(group.members)[:leaving]:
        group.leave(name)
    after = group.rebalance()
    lower, extra = divmod(len(group.every()), len(group.members))
    kept = {name: len(set(held.get(name, ())) & set(after[name])) for name in after}
    assert all(kept[name] >= min(len(held.get(name, ())), lower) for name in after)
    quota = sorted((min(len(held.get(name, ())), lower + 1) for name in after), reverse=True)
    assert sum(kept.values()) == sum(quota[:extra]) + sum(min(size, lower) for size in quota[extra:])


@settings(deadline=None)
@given(partition_counts=counts, first=changes(), second=changes())
def test_nothing_that_is_read_moves_but_for_balance(
    partition_counts: dict[str, int],
    first: Change,
    second: Change,
) -> None:
    group = Group("sticky", partition_counts)
    change(group, first)
    group.rebalance()
    change(group, second)
    held = {one.member_id: set(one.owned) for one in group.subscribers()}
    after = group.rebalance()
    size = {name: len(ones) for name, ones in after.items()}
    moved = any(not ones <= set(after[name]) for name, ones in held.items())
    if moved and sorted(one for ones in held.values() for one in ones) == group.every():
        assert balance_score(size.values()) < balance_score(map(len, held.values()))


@settings(deadline=None)
@given(partition_counts=counts, steps=st.lists(changes(), min_size=1, max_size=3), racks=racks)
def test_cooperative_rebalances_put_nothing_in_two_hands_and_come_to_an_end(
    partition_counts: dict[str, int], steps: list[Change], racks: Racks
) -> None:
    group = Group("cooperative-sticky", partition_counts, racks)
    for step in steps:
        change(group, step)
        subscribers = group.subscribers()
        first = group.rebalance()
        verify_cooperative("cooperative-sticky", subscribers, first)
        for one in subscribers:
            for other, ones in first.items():
                assert other == one.member_id or not set(one.owned) & set(ones)
        last = settle(group)[-1]
        assert sorted(one for ones in last.values() for one in ones) == group.every()


@settings(deadline=None)
@given(partition_counts=counts, names=st.lists(st.sets(st.sampled_from(NAMES), min_size=1), min_size=1, max_size=4))
def test_cooperative_members_that_read_the_same_need_two_rounds_at_most(
    partition_counts: dict[str, int], names: list[set[str]]
) -> None:
    group = Group("cooperative-sticky", partition_counts)
    for present in names:
        change(group, [(name, TOPICS if name in present else None, None) for name in NAMES])
        assert len(settle(group)) <= 2


def settle(group: Group) -> list[Assignment]:
    """Rebalances until nobody has to let go of anything, which is when nobody joins again."""
    rounds = []
    for _ in range(8):
        held = {one.member_id: set(one.owned) for one in group.subscribers()}
        rounds.append(group.rebalance())
        if all(ones <= set(rounds[-1][name]) for name, ones in held.items()):
            return rounds
    raise AssertionError("members go on rebalancing")


def change(group: Group, step: Change) -> None:
    for name, topics, where in step:
        if topics is not None:
            group.join(name, topics, where)
        elif name in group.members:
            group.leave(name)
