"""Rebalances, as applications live through them: docs/spec/consumer-client.md#H.17 to #H.29."""

from itertools import pairwise

import pytest

from membership.consumer_protocol import decode_subscription
from membership.events import Assigned, SubscribedToPattern
from muster import Consumer, TopicPartition, WokenUp, WrongSubscription
from protocol.messages.groups import JoinGroup
from protocol.messages.topics import Metadata
from tests.client.consumer_rig import Callback, ConsumerRig, P
from tests.client.member_rig import MemberRig, metadata

COOPERATIVE = {"assignors": ("cooperative-sticky",)}


def test_h17_a_wakeup_leaves_the_join_outstanding_and_the_next_poll_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = ConsumerRig(monkeypatch).make()
    a, b, c = (rig.consumer(who, "t") for who in "abc")
    rig.steady(a, b)
    rig.polls(c, for_ms=100)
    a.poll(0.0)  # joins; the coordinator waits for b
    rig.after(500, a.wakeup)
    with pytest.raises(WokenUp):
        a.poll(60.0)
    rig.steady_again(a, b, c)
    assert rig.kinds("a", of=("JoinGroup", "SyncGroup")) == ["JoinGroup", "SyncGroup"]
    assert [one.what for one in rig.told if one.who == "a"] == ["revoked", "assigned"]


def test_h18_what_on_assigned_raises_comes_out_of_poll_and_the_assignment_stands(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rig = ConsumerRig(monkeypatch).make()
    rig.append(P[0], count=3)
    consumer, called = rig.consumer("A"), []

    def stumbles(partitions: tuple[TopicPartition, ...]) -> None:
        called.append(partitions)
        raise ZeroDivisionError

    consumer.subscribe(["t"], on_assigned=stumbles)
    with pytest.raises(ZeroDivisionError):
        consumer.poll(5.0)
    assert list(consumer.assignment) == P[:6]
    assert [record.offset for record in consumer.poll(5.0)] == [0, 1, 2]
    assert called == [tuple(P[:6])]
    assert rig.kinds(of=("SyncGroup",)) == ["SyncGroup"]


def test_h19_a_wakeup_inside_on_assigned_has_it_called_again_with_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = ConsumerRig(monkeypatch).make()
    consumer, called = rig.consumer("A"), []

    def commits(partitions: tuple[TopicPartition, ...]) -> None:
        called.append(partitions)
        if len(called) == 1:
            consumer.wakeup()
        consumer.commit(dict.fromkeys(partitions, 0))

    consumer.subscribe(["t"], on_assigned=commits)
    with pytest.raises(WokenUp):
        consumer.poll(5.0)
    consumer.poll(0.1)
    consumer.poll(0.1)
    assert called == [tuple(P[:6])] * 2
    assert rig.kinds(of=("SyncGroup",)) == ["SyncGroup"]


def test_h20_eager_everything_is_revoked_everywhere_before_anything_is_assigned(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rig = ConsumerRig(monkeypatch).make()
    a, b, c = (rig.consumer(who, "t") for who in "abc")
    rig.steady(a, b)
    had = {"a": a.assignment, "b": b.assignment}
    rig.steady_again(a, b, c)
    first = [one.what for one in rig.told].index("assigned")
    assert sorted(rig.told[:first]) == [Callback("a", "revoked", had["a"]), Callback("b", "revoked", had["b"])]
    assert [one.what for one in rig.told[first:]] == ["assigned"] * 3
    assert sorted((*a.assignment, *b.assignment, *c.assignment)) == P[:6]


def test_h22_cooperative_only_what_moves_is_revoked_and_the_rest_is_delivered_throughout(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rig = ConsumerRig(monkeypatch).make()
    a, b = rig.consumer("a", "t", **COOPERATIVE), rig.consumer("b", "t", **COOPERATIVE)
    rig.steady(a)
    handed_out: dict[TopicPartition, list[int]] = {one: [] for one in P[:6]}
    b.poll(0.0)
    for _ in range(100):
        rig.append(*P[:6])
        for record in a.poll(0.0):
            handed_out[TopicPartition("t", record.partition)].append(rig.now_ms)
        b.poll(0.0)
        rig.run(10)
    (gone,) = (one.partitions for one in rig.told if (one.who, one.what) == ("a", "revoked"))
    assert len(gone) == 3
    assert list(b.assignment) == sorted(gone)
    assert [one.partitions for one in rig.told if (one.who, one.what) == ("b", "assigned")] == [(), gone]
    assert rig.kinds("a", of=("SyncGroup",)) == ["SyncGroup"] * 2
    for one in a.assignment:
        pauses = [after - before for before, after in pairwise(handed_out[one])]
        assert max(pauses) <= 30, f"{one} stood still"
        assert len(handed_out[one]) >= 90


def test_h26_only_the_leader_watches_partitions_grow_and_all_get_shares(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = ConsumerRig(monkeypatch).make("t", 2)
    a, b = (rig.consumer(who, "t", metadata_max_age_ms=5_000) for who in "ab")
    rig.steady(a, b)
    rig.grow("t", 6)
    grown_ms = rig.now_ms
    rig.polls(a, b, until=lambda: len(a.assignment) + len(b.assignment) == 6, for_ms=6_000)
    assert (len(a.assignment), len(b.assignment)) == (3, 3)
    leads = next(one.who for one in rig.requests if one.kind == "SyncGroup" and one.message.assignments)  # type: ignore[attr-defined]
    joins = [one for one in rig.requests if one.kind == "JoinGroup"]
    assert [one.who for one in joins] == [leads, *({"a", "b"} - {leads})]
    assert joins[0].at_ms - grown_ms <= 5_100
    assert joins[0].message.reason == "the partitions of its topics changed"  # type: ignore[attr-defined]
    assert joins[1].message.reason.startswith("the group is rebalancing")  # type: ignore[attr-defined]


def test_h27_a_new_topic_that_matches_is_met_by_all_in_one_rebalance(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = ConsumerRig(monkeypatch).make("aa", 2).make("xa", 1)
    a, b = (rig.consumer(who, metadata_max_age_ms=5_000) for who in "ab")
    for who, one in (("a", a), ("b", b)):
        one.subscribe(pattern="a.*", **rig.listeners(who))
        rig.polls(one, for_ms=1_000)  # they do not look at the same moments
    rig.steady(a, b)
    rig.make("ab", 2).make("xab", 2)
    rig.append(*(TopicPartition(topic, number) for topic in ("ab", "xab") for number in (0, 1)))
    records = rig.polls(a, b, for_ms=12_000)
    assert sorted(rig.kinds(of=("JoinGroup",))) == ["JoinGroup"] * 2
    assert sorted((*a.assignment, *b.assignment)) == [TopicPartition(one, n) for one in ("aa", "ab") for n in (0, 1)]
    assert {record.topic for record in records} == {"ab"}
    assert len(records) == 2


def test_h28_a_follower_accepts_a_matching_topic_it_had_not_heard_of() -> None:
    rig = MemberRig(topics=(), metadata_max_age_ms=5_000)
    rig.feed(SubscribedToPattern("a.*")).answer(metadata(aa=1)).poll().find()
    (join,) = (one for one in rig.sent if isinstance(one, JoinGroup))
    assert decode_subscription(join.protocols[0].metadata).topics == ("aa",)
    newer = TopicPartition("ab", 0)
    assert rig.join().sync(newer).told == [Assigned((newer,), 1, (newer,))]
    assert rig.member.is_steady
    assert not any(isinstance(one, JoinGroup | Metadata) for one in rig.poll().beat().poll().sent)
    rig.beat().answer(metadata(aa=1, ab=1), "Metadata").poll()  # now it hears of it, and nothing follows
    assert rig.member.is_steady


@pytest.mark.parametrize("first", ["topics", "a pattern", "partitions"])
@pytest.mark.parametrize("second", ["topics", "a pattern", "partitions"])
def test_h29_two_kinds_of_subscription_do_not_mix(monkeypatch: pytest.MonkeyPatch, first: str, second: str) -> None:
    rig = ConsumerRig(monkeypatch).make()
    consumer = rig.consumer("A")
    choose(consumer, first)
    if first == second:
        choose(consumer, second)
    else:
        with pytest.raises(WrongSubscription, match="unsubscribe before"):
            choose(consumer, second)
    consumer.unsubscribe()
    choose(consumer, second)


def choose(consumer: Consumer, kind: str) -> None:
    match kind:
        case "topics":
            consumer.subscribe(["t"])
        case "a pattern":
            consumer.subscribe(pattern="t.*")
        case _:
            consumer.assign([P[0]])
