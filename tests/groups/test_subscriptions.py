"""A group's subscriptions are parsed once, in pieces, with the same result as parsing all of them at any moment."""

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from coordinator.groups.classic import subscriptions
from coordinator.groups.classic.group_states import GroupSettings, GroupState
from coordinator.groups.classic.state import ClassicGroup, Member
from coordinator.groups.classic.subscriptions import SubscriptionCache, Subscriptions, names_of
from protocol.consumer_protocol import Subscription, TopicPartitions, decode_subscription, encode_subscription
from protocol.errors import ProtocolViolation
from protocol.messages.groups import JoinProtocol


def group(protocol_name: str | None = "range", group_id: str = "g") -> ClassicGroup:
    return ClassicGroup(
        group_id, GroupSettings(), GroupState.STABLE, protocol_type="consumer", protocol_name=protocol_name
    )


def offer(*topics: str, owned: int = 0, name: str = "range") -> tuple[JoinProtocol, ...]:
    told = Subscription(topics, owned_partitions=(TopicPartitions("t", tuple(range(owned))),))
    return (JoinProtocol(name, encode_subscription(told)),)


def member(member_id: str, protocols: tuple[JoinProtocol, ...]) -> Member:
    return Member(member_id, None, "c", "/h", 10_000, 10_000, protocols)


def as_version_0(data: bytes) -> tuple[str, ...] | None:
    """By the decoder that leaders and tools use."""
    version, rest = data[:2], data[2:]
    try:
        return decode_subscription(bytes(len(version)) + rest).topics
    except ProtocolViolation:
        return None


def whole(one: ClassicGroup) -> frozenset[str] | None:
    """Every member's bytes, parsed now."""
    if one.protocol_name is None:
        return None
    found = [as_version_0(of.metadata_for(one.protocol_name)) for of in one.members.values()]
    if any(topics is None for topics in found):
        return None
    return frozenset(name for topics in found for name in topics or ())


_SUBSCRIPTIONS = st.builds(
    lambda topics, data, owned: encode_subscription(Subscription(tuple(topics), data, owned)),
    st.lists(st.sampled_from(("", "a", "b", "topic", "ß" * 9)), max_size=4),
    st.sampled_from((None, b"", b"data")),
    st.sampled_from(((), (TopicPartitions("a", (1, 2)),))),
)
_BROKEN = st.builds(lambda data, end: data[:end], _SUBSCRIPTIONS, st.integers(0, 30)) | st.binary(max_size=24)


@given(_SUBSCRIPTIONS | _BROKEN)
@example(b"\0\0\0\0\0\1\0\2\xff\xfe\0\0\0\0")
@example(b"\0\0\0\0\0\1\xff\xff\0\0\0\0")
def test_names_are_read_as_the_decoder_reads_them(data: bytes) -> None:
    names = names_of(data)
    assert (None if names is None else tuple(name.decode(errors="replace") for name in names)) == as_version_0(data)


_MEMBERS = st.sampled_from("abc")
_OFFERS = st.tuples(st.sampled_from(("range", "sticky")), _SUBSCRIPTIONS | _BROKEN)
_MOVES = st.lists(
    st.one_of(
        st.tuples(st.just("join"), _MEMBERS, st.lists(_OFFERS, max_size=2, unique_by=lambda one: one[0])),
        st.tuples(st.just("leave"), _MEMBERS, st.none()),
        st.tuples(st.just("choose"), st.sampled_from(("range", "sticky", None)), st.none()),
        st.tuples(st.just("read some"), st.integers(0, 3), st.none()),
        st.tuples(st.just("ask"), st.none(), st.none()),
    ),
    max_size=25,
)


@given(_MOVES)
def test_whatever_members_do_the_topics_are_those_that_parsing_all_of_it_gives(moves: list[Any]) -> None:
    one = group()
    kept = Subscriptions(one)
    reading = kept.reading()
    subscriptions_piece = subscriptions._PIECE_US
    try:
        subscriptions._PIECE_US = 1  # one member a piece
        for move, what, offers in moves:
            if move == "join":
                protocols = tuple(JoinProtocol(name, metadata) for name, metadata in offers)
                if what in one.members:
                    one.offer(one.members[what], protocols)
                else:
                    one.add(member(what, protocols))
            elif move == "leave" and what in one.members:
                one.remove(one.members[what])
            elif move == "choose":
                one.protocol_name = what
            elif move == "read some":
                for _ in range(what):
                    next(reading, None)
                reading = kept.reading()
                next(reading, None)
            elif move == "ask":
                assert kept.topics() == whole(one)
        assert kept.topics() == whole(one)
        assert Subscriptions(one).topics() == whole(one)
    finally:
        subscriptions._PIECE_US = subscriptions_piece


def test_members_that_subscribe_to_the_same_are_parsed_once_and_not_again() -> None:
    one = group()
    for number in range(100):
        one.add(member(f"m{number}", offer("a", "b", owned=number)))
    kept = Subscriptions(one)
    assert kept.topics() == {"a", "b"}
    assert kept.parses == 1
    for number in range(100):
        one.offer(one.members[f"m{number}"], offer("a", "b", owned=number + 1))
    assert kept.topics() == {"a", "b"}
    assert kept.parses == 1, "what they own is not what they subscribe to"
    one.offer(one.members["m7"], offer("a", "c"))
    assert kept.topics() == {"a", "b", "c"}
    assert kept.parses == 2
    one.remove(one.members["m7"])
    assert kept.topics() == {"a", "b"}
    assert kept.parses == 2


def test_subscriptions_that_all_differ_are_read_in_pieces() -> None:
    one = group()
    for number in range(200):
        one.add(member(f"m{number}", offer(*(f"{number}-{topic}" for topic in range(50)))))
    kept = Subscriptions(one)
    costs = list(kept.reading())
    assert max(costs) <= 600
    assert len(costs) >= 5
    assert kept.parses == 200
    assert list(kept.reading()) == []
    assert len(kept.topics() or ()) == 10_000
    assert kept.parses == 200


def test_a_subscription_to_very_many_topics_counts_as_all_topics() -> None:
    assert names_of(encode_subscription(Subscription(("",) * subscriptions.MOST_TOPICS))) is not None
    assert names_of(encode_subscription(Subscription(("",) * (subscriptions.MOST_TOPICS + 1)))) is None


def test_what_is_remembered_of_all_groups_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subscriptions, "WORTH_BYTES", 100)
    monkeypatch.setattr(subscriptions, "MOST_REMEMBERED", 50)
    cache = SubscriptionCache()
    groups = [group(group_id=f"g{number}") for number in range(4)]
    for one in groups:
        one.add(member("m", offer(*(f"topic-{topic}" for topic in range(20)))))
        assert cache.of(one).topics() is not None
    parses = [cache.of(one).parses for one in reversed(groups)]
    assert parses[:2] == [1, 1], "the newest are there"
    assert 0 in parses[2:], "the oldest are not"
    small = group(group_id="small")
    small.add(member("m", offer("a")))
    assert cache.of(small) is not cache.of(small)
    again = group(group_id="g3")
    assert cache.of(again).group is again, "another group of the same id"
