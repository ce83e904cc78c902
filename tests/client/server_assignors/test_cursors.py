"""Walks over the subscribers of a topic (docs/spec/consumer-group-protocol.md#5.3)."""

from membership.pace import Pace
from membership.server_assignors.cursors import Loads
from membership.server_assignors.spec import SubscribedMember
from membership.server_assignors.subscribers import subscribers
from tests.groups.consumer.generators import finish


def test_the_lowest_level_is_served_in_order_before_the_next() -> None:
    sizes = [3, 1, 2, 1]
    loads = Loads([0, 1, 2, 3], sizes)
    given = []
    for _ in range(9):
        given.append(loads.least())
        sizes[given[-1]] += 1
    assert given == [1, 3, 1, 3, 2, 1, 3, 2, 0]
    assert sizes == [4, 4, 4, 4]


def test_the_highest_level_is_walked_from_its_end() -> None:
    sizes = [3, 5, 5, 1]
    loads = Loads([0, 1, 2, 3], sizes)
    assert [loads.most() for _ in range(2)] == [2, 1]
    sizes[1] = sizes[2] = 4
    assert [loads.most() for _ in range(2)] == [2, 1]
    sizes[1] = sizes[2] = 3
    assert [loads.most() for _ in range(3)] == [2, 1, 0]


def test_a_member_that_is_skipped_never_returns() -> None:
    loads = Loads([0, 1, 2], [2, 2, 5])
    assert loads.most() == 2
    loads.skip()
    assert loads.most() == 1, "the level of those that are left"
    loads.skip()
    assert loads.most() == 0
    loads.skip()
    assert loads.most() is None


def test_topics_of_the_same_members_share_one_list() -> None:
    both, one = frozenset({b"T", b"U"}), frozenset({b"U"})
    members = [SubscribedMember(name, None, topics, {}) for name, topics in zip("abcd", [both, one] * 2, strict=True)]
    found = finish(subscribers(members, Pace()))
    assert found == {b"T": [0, 2], b"U": [0, 1, 2, 3]}
    alike = [SubscribedMember(name, None, both, {}) for name in "abcd"]
    found = finish(subscribers(alike, Pace()))
    assert found[b"T"] is found[b"U"]
