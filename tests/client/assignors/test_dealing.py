"""Assignors: the examples of docs/spec/group-protocol.md#6.3 and #6.4, and what holds for every input."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.assignors import (
    Assignor,
    RebalanceProtocol,
    Subscriber,
    assign_range,
    assign_round_robin,
    by_name,
    common_protocol,
    register,
)
from muster.topic_partition import TopicPartition

TOPICS = ("t0", "t1", "t2", "t3")


def member(name: str, *topics: str, instance: str | None = None) -> Subscriber:
    return Subscriber(name, topics, instance)


def shown(assignment: dict[str, list[TopicPartition]]) -> dict[str, str]:
    return {name: " ".join(map(str, partitions)) for name, partitions in assignment.items()}


def test_range_gives_the_first_members_the_extra_partition_of_every_topic() -> None:
    given_out = assign_range({"t0": 5, "t1": 3}, [member("B", "t0", "t1"), member("A", "t0", "t1")])
    assert shown(given_out) == {"A": "t0-0 t0-1 t0-2 t1-0 t1-1", "B": "t0-3 t0-4 t1-2"}


def test_round_robin_skips_members_that_do_not_read_the_topic() -> None:
    members = [member("A", "t0", "t1"), member("B", "t1"), member("C", "t0")]
    assert shown(assign_round_robin({"t0": 3, "t1": 2}, members)) == {"A": "t0-0 t0-2 t1-1", "B": "t1-0", "C": "t0-1"}


def test_round_robin_deals_over_topics_without_starting_again() -> None:
    members = [member("A", "t0", "t1"), member("B", "t0", "t1")]
    assert shown(assign_round_robin({"t0": 3, "t1": 3}, members)) == {"A": "t0-0 t0-2 t1-1", "B": "t0-1 t1-0 t1-2"}


@pytest.mark.parametrize("name", ["range", "roundrobin"])
def test_more_members_than_partitions_leaves_one_with_nothing(name: str) -> None:
    given_out = by_name(name).assign({"t": 3}, [member(one, "t") for one in "ABCD"])
    assert shown(given_out) == {"A": "t-0", "B": "t-1", "C": "t-2", "D": ""}


@pytest.mark.parametrize("name", ["range", "roundrobin"])
def test_static_members_come_first_and_keep_their_place_under_a_new_member_id(name: str) -> None:
    before = [member("a", "t"), member("old", "t", instance="one")]
    after = [member("a", "t"), member("zzz-new", "t", instance="one")]
    first, second = (by_name(name).assign({"t": 2}, members) for members in (before, after))
    assert first["old"] == second["zzz-new"] == [TopicPartition("t", 0)]


@pytest.mark.parametrize("name", ["range", "roundrobin"])
def test_a_topic_without_metadata_is_skipped(name: str) -> None:
    assert shown(by_name(name).assign({"t": 1}, [member("A", "gone", "t")])) == {"A": "t-0"}
    assert shown(by_name(name).assign({}, [member("A", "gone")])) == {"A": ""}


def test_an_unknown_name_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"no assignor named 'stcky'; known are .*range, roundrobin"):
        by_name("stcky")


def test_a_name_is_given_once() -> None:
    with pytest.raises(ValueError, match="registered already"):
        register(Assignor("range", assign_range))


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["range", "cooperative-sticky"], RebalanceProtocol.EAGER),
        (["cooperative-sticky"], RebalanceProtocol.COOPERATIVE),
        (["sticky"], RebalanceProtocol.EAGER),
        (["range", "roundrobin"], RebalanceProtocol.EAGER),
    ],
)
def test_a_member_rebalances_in_the_highest_way_that_all_its_assignors_know(
    names: list[str], expected: RebalanceProtocol
) -> None:
    assert common_protocol(names) is expected


def test_a_member_without_assignors_has_no_way_to_rebalance() -> None:
    with pytest.raises(ValueError, match="no way to rebalance is common"):
        common_protocol([])


@pytest.mark.parametrize("name", ["range", "roundrobin", "sticky", "cooperative-sticky"])
def test_a_thousand_members_share_ten_thousand_partitions(name: str) -> None:
    topics = {f"t{number}": 100 for number in range(100)}
    members = [Subscriber(f"m{number:04}", tuple(topics)) for number in range(1_000)]
    given_out = by_name(name).assign(topics, members)
    assert sum(map(len, given_out.values())) == 10_000
    assert len(given_out) == 1_000


groups = st.lists(
    st.tuples(st.sets(st.sampled_from(TOPICS)), st.none() | st.sampled_from("wxyz")), min_size=1, max_size=8
).map(
    lambda ones: [
        Subscriber(f"m{number}", tuple(sorted(topics)), instance and f"{instance}{number}")
        for number, (topics, instance) in enumerate(ones)
    ]
)
counts = st.dictionaries(st.sampled_from(TOPICS), st.integers(0, 9))


@pytest.mark.parametrize("name", ["range", "roundrobin"])
@settings(deadline=None)
@given(partition_counts=counts, members=groups, seed=st.randoms(use_true_random=False))
def test_every_partition_goes_to_exactly_one_subscriber_whatever_the_order_of_members(
    name: str, partition_counts: dict[str, int], members: list[Subscriber], seed: object
) -> None:
    given_out = by_name(name).assign(partition_counts, members)
    wanted = {topic for one in members for topic in one.topics}
    assert sorted(p for ones in given_out.values() for p in ones) == sorted(
        TopicPartition(topic, n) for topic, count in partition_counts.items() if topic in wanted for n in range(count)
    )
    for one in members:
        assert all(p.topic in one.topics for p in given_out[one.member_id])
    shuffled = list(members)
    seed.shuffle(shuffled)  # type: ignore[attr-defined]
    assert by_name(name).assign(partition_counts, shuffled) == given_out


@settings(deadline=None)
@given(count=st.integers(0, 40), size=st.integers(1, 12))
def test_members_that_read_the_same_differ_by_one_partition_at_most(count: int, size: int) -> None:
    members = [member(f"m{n}", "t") for n in range(size)]
    for name in ("range", "roundrobin"):
        loads = [len(ones) for ones in by_name(name).assign({"t": count}, members).values()]
        assert max(loads) - min(loads) <= 1
