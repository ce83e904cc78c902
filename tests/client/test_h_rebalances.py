"""Rebalances, as applications live through them: docs/spec/consumer-client.md#H.17 to #H.29."""

from itertools import pairwise

import pytest

from muster import Consumer, TopicPartition, WokenUp, WrongSubscription
from muster.consumer_protocol import decode_subscription
from muster.events import Assigned, SubscribedToPattern
from protocol.messages.groups import JoinGroup
from protocol.messages.topics import Metadata
from tests.client.stage import Stage, metadata
from tests.client.theatre import P, Theatre, Told

COOPERATIVE = {"assignors": ("cooperative-sticky",)}


def test_h17_a_wakeup_leaves_the_join_outstanding_and_the_next_poll_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    theatre = Theatre(monkeypatch).make()
    a, b, c = (theatre.consumer(who, "t") for who in "abc")
    theatre.steady(a, b)
    theatre.polls(c, for_ms=100)
    a.poll(0.0)  # joins; the coordinator waits for b
    theatre.after(500, a.wakeup)
    with pytest.raises(WokenUp):
        a.poll(60.0)
    theatre.steady_again(a, b, c)
    assert theatre.kinds("a", of=("JoinGroup", "SyncGroup")) == ["JoinGroup", "SyncGroup"]
    assert [one.what for one in theatre.told if one.who == "a"] == ["revoked", "assigned"]


def test_h18_what_on_assigned_raises_comes_out_of_poll_and_the_assignment_stands(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    theatre = Theatre(monkeypatch).make()
    theatre.append(P[0], count=3)
    consumer, called = theatre.consumer("A"), []

    def stumbles(partitions: tuple[TopicPartition, ...]) -> None:
        called.append(partitions)
        raise ZeroDivisionError

    consumer.subscribe(["t"], on_assigned=stumbles)
    with pytest.raises(ZeroDivisionError):
        consumer.poll(5.0)
    assert list(consumer.assignment) == P[:6]
    assert [record.offset for record in consumer.poll(5.0)] == [0, 1, 2]
    assert called == [tuple(P[:6])]
    assert theatre.kinds(of=("SyncGroup",)) == ["SyncGroup"]


def test_h19_a_wakeup_inside_on_assigned_has_it_called_again_with_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    theatre = Theatre(monkeypatch).make()
    consumer, called = theatre.consumer("A"), []

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
    assert theatre.kinds(of=("SyncGroup",)) == ["SyncGroup"]


def test_h20_eager_everything_is_revoked_everywhere_before_anything_is_assigned(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    theatre = Theatre(monkeypatch).make()
    a, b, c = (theatre.consumer(who, "t") for who in "abc")
    theatre.steady(a, b)
    had = {"a": a.assignment, "b": b.assignment}
    theatre.steady_again(a, b, c)
    first = [one.what for one in theatre.told].index("assigned")
    assert sorted(theatre.told[:first]) == [Told("a", "revoked", had["a"]), Told("b", "revoked", had["b"])]
    assert [one.what for one in theatre.told[first:]] == ["assigned"] * 3
    assert sorted((*a.assignment, *b.assignment, *c.assignment)) == P[:6]


def test_h22_cooperative_only_what_moves_is_revoked_and_the_rest_is_delivered_throughout(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    theatre = Theatre(monkeypatch).make()
    a, b = theatre.consumer("a", "t", **COOPERATIVE), theatre.consumer("b", "t", **COOPERATIVE)
    theatre.steady(a)
    handed_out: dict[TopicPartition, list[int]] = {one: [] for one in P[:6]}
    b.poll(0.0)
    for _ in range(100):
        theatre.append(*P[:6])
        for record in a.poll(0.0):
            handed_out[TopicPartition("t", record.partition)].append(theatre.now_ms)
        b.poll(0.0)
        theatre.run(10)
    (gone,) = (one.partitions for one in theatre.told if (one.who, one.what) == ("a", "revoked"))
    assert len(gone) == 3
    assert list(b.assignment) == sorted(gone)
    assert [one.partitions for one in theatre.told if (one.who, one.what) == ("b", "assigned")] == [(), gone]
    assert theatre.kinds("a", of=("SyncGroup",)) == ["SyncGroup"] * 2
    for one in a.assignment:
        pauses = [after - before for before, after in pairwise(handed_out[one])]
        assert max(pauses) <= 30, f"{one} stood still"
        assert len(handed_out[one]) >= 90


def test_h26_only_the_leader_watches_partitions_grow_and_all_get_shares(monkeypatch: pytest.MonkeyPatch) -> None:
    theatre = Theatre(monkeypatch).make("t", 2)
    a, b = (theatre.consumer(who, "t", metadata_max_age_ms=5_000) for who in "ab")
    theatre.steady(a, b)
    theatre.grow("t", 6)
    grown_ms = theatre.now_ms
    theatre.polls(a, b, until=lambda: len(a.assignment) + len(b.assignment) == 6, for_ms=6_000)
    assert (len(a.assignment), len(b.assignment)) == (3, 3)
    leads = next(one.who for one in theatre.asked if one.kind == "SyncGroup" and one.message.assignments)  # type: ignore[attr-defined]
    joins = [one for one in theatre.asked if one.kind == "JoinGroup"]
    assert [one.who for one in joins] == [leads, *({"a", "b"} - {leads})]
    assert joins[0].at_ms - grown_ms <= 5_100
    assert joins[0].message.reason == "the partitions of its topics changed"  # type: ignore[attr-defined]
    assert joins[1].message.reason.startswith("the group is rebalancing")  # type: ignore[attr-defined]


def test_h27_a_new_topic_that_matches_is_met_by_all_in_one_rebalance(monkeypatch: pytest.MonkeyPatch) -> None:
    theatre = Theatre(monkeypatch).make("aa", 2).make("xa", 1)
    a, b = (theatre.consumer(who, metadata_max_age_ms=5_000) for who in "ab")
    for who, one in (("a", a), ("b", b)):
        one.subscribe(pattern="a.*", **theatre.listeners(who))
        theatre.polls(one, for_ms=1_000)  # they do not look at the same moments
    theatre.steady(a, b)
    theatre.make("ab", 2).make("xab", 2)
    theatre.append(*(TopicPartition(topic, number) for topic in ("ab", "xab") for number in (0, 1)))
    records = theatre.polls(a, b, for_ms=12_000)
    assert sorted(theatre.kinds(of=("JoinGroup",))) == ["JoinGroup"] * 2
    assert sorted((*a.assignment, *b.assignment)) == [TopicPartition(one, n) for one in ("aa", "ab") for n in (0, 1)]
    assert {record.topic for record in records} == {"ab"}
    assert len(records) == 2


def test_h28_a_follower_accepts_a_matching_topic_it_had_not_heard_of() -> None:
    stage = Stage(topics=(), metadata_max_age_ms=5_000)
    stage.feed(SubscribedToPattern("a.*")).answer(metadata(aa=1)).poll().find()
    (join,) = (one for one in stage.sent if isinstance(one, JoinGroup))
    assert decode_subscription(join.protocols[0].metadata).topics == ("aa",)
    newer = TopicPartition("ab", 0)
    assert stage.join().sync(newer).told == [Assigned((newer,), 1, (newer,))]
    assert stage.member.is_steady
    assert not any(isinstance(one, JoinGroup | Metadata) for one in stage.poll().beat().poll().sent)
    stage.beat().answer(metadata(aa=1, ab=1), "Metadata").poll()  # now it hears of it, and nothing follows
    assert stage.member.is_steady


@pytest.mark.parametrize("first", ["topics", "a pattern", "partitions"])
@pytest.mark.parametrize("second", ["topics", "a pattern", "partitions"])
def test_h29_two_kinds_of_subscription_do_not_mix(monkeypatch: pytest.MonkeyPatch, first: str, second: str) -> None:
    theatre = Theatre(monkeypatch).make()
    consumer = theatre.consumer("A")
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
