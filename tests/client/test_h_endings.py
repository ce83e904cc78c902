"""Polls that stay out, and closing: docs/spec/consumer-client.md#H.40 to #H.44."""

from typing import Any

import pytest

from membership.topic_partition import TopicPartition
from muster import ClientClosed
from protocol.messages.offsets import OffsetCommit
from tests.client.consumer_rig import Callback, ConsumerRig, P, SentRequest

SLOW: dict[str, Any] = {"max_poll_interval_ms": 10_000, "session_timeout_ms": 20_000}


def test_h40_a_member_that_handles_too_long_leaves_and_hears_of_it_when_it_polls(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rig = ConsumerRig(monkeypatch).make()
    slow, other = rig.consumer("slow", "t", **SLOW), rig.consumer("other", "t", **SLOW)
    rig.steady(slow, other)
    had, began_ms = slow.assignment, rig.now_ms
    rig.polls(other, for_ms=11_000)
    left = next((one for one in rig.requests if one.kind == "LeaveGroup"), None)
    assert left is not None
    assert rig.kinds(of=("LeaveGroup",)) == ["LeaveGroup"]
    assert left.who == "slow"
    assert 9_900 <= left.at_ms - began_ms <= 10_100
    assert list(other.assignment) == P[:6]
    rig.forget()
    rig.steady_again(slow, other)
    assert rig.told[0] == Callback("slow", "lost", had)
    assert sorted((*slow.assignment, *other.assignment)) == P[:6]


def test_h41_a_static_member_that_handles_too_long_is_expelled_by_its_session(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = ConsumerRig(monkeypatch).make()
    slow = rig.consumer("slow", "t", group_instance_id="one", **SLOW)
    other = rig.consumer("other", "t", **SLOW)
    rig.steady(slow, other)
    had = slow.assignment
    rig.polls(other, for_ms=25_000)
    assert len(other.assignment) == 3
    rig.polls(other, for_ms=10_000)
    assert rig.messages("LeaveGroup") == []
    assert list(other.assignment) == P[:6]
    last_beat_ms = max(one.at_ms for one in rig.requests if (one.who, one.kind) == ("slow", "Heartbeat"))
    joined_ms = next(one.at_ms for one in rig.requests if (one.who, one.kind) == ("other", "JoinGroup"))
    assert 20_000 <= joined_ms - last_beat_ms <= 20_100
    rig.forget()
    rig.steady_again(slow, other)
    assert rig.told[0] == Callback("slow", "lost", had)


@pytest.mark.parametrize("assignor", ["range", "cooperative-sticky"])
def test_h42_closing_commits_then_revokes_then_leaves_and_the_rest_rebalance_at_once(
    monkeypatch: pytest.MonkeyPatch, assignor: str
) -> None:
    rig = ConsumerRig(monkeypatch).make()
    rig.append(*P[:6], count=5)
    how: dict[str, Any] = {"assignors": (assignor,), "enable_auto_commit": True, "auto_commit_interval_ms": 60_000}
    a, b = rig.consumer("a", "t", **how), rig.consumer("b", "t", **how)
    rig.polls(a, b, until=lambda: rig.is_settled(a) and rig.is_settled(b))
    rig.polls(a, b, for_ms=500)
    rig.forget()
    had, began_ms = a.assignment, rig.now_ms
    a.close()
    plot = [one.kind if isinstance(one, SentRequest) else one.what for one in rig.plot if one.who == "a"]
    assert [one for one in plot if one != "Fetch"] == ["OffsetCommit", "revoked", "LeaveGroup"]
    rig.polls(b, until=lambda: len(b.assignment) == 6)
    assert rig.now_ms - began_ms <= 100
    assert b.committed(had) == dict.fromkeys(had, 5)


@pytest.mark.parametrize("by_hand", [False, True])
def test_h43_closing_without_a_coordinator_takes_as_long_as_it_may(
    monkeypatch: pytest.MonkeyPatch, *, by_hand: bool
) -> None:
    rig = ConsumerRig(monkeypatch).make()
    rig.append(P[0], count=5)
    consumer = rig.consumer("A", enable_auto_commit=True)
    if by_hand:
        consumer.assign([P[0]])
    else:
        consumer.subscribe(["t"], **rig.listeners("A"))
    assert rig.polls(consumer, for_ms=1_000)
    rig.forget()
    rig.is_up = False
    began_ms = rig.now_ms
    consumer.close(2.0)
    assert 1_900 <= rig.now_ms - began_ms <= 2_100
    assert rig.told == ([] if by_hand else [Callback("A", "revoked", tuple(P[:6]))])


def test_h44_closing_twice_is_nothing_and_polling_after_it_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = ConsumerRig(monkeypatch).make()
    consumer = rig.consumer("A", "t")
    rig.steady(consumer)
    consumer.close()
    asked = list(rig.requests)
    consumer.close()
    assert rig.requests == asked
    with pytest.raises(ClientClosed, match="this consumer was closed"):
        consumer.poll(0.0)
    with pytest.raises(ClientClosed):
        consumer.seek(TopicPartition("t", 0), 0)


def test_closing_waits_for_commits_asked_for_before_whoever_chose_the_partitions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rig = ConsumerRig(monkeypatch).make()
    consumer = rig.consumer("A")
    consumer.assign([P[0]])
    rig.polls(consumer, for_ms=100)
    called: list[object] = []
    consumer.commit_async({P[0]: 3}, lambda offsets, error: called.append((offsets, error)))
    consumer.close()
    assert called == [({P[0]: 3}, None)]


def test_a_wakeup_while_closing_interrupts_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = ConsumerRig(monkeypatch).make()
    rig.append(P[0], count=5)
    consumer = rig.consumer("A", enable_auto_commit=True, auto_commit_interval_ms=60_000)
    consumer.assign([P[0]])
    assert rig.polls(consumer, for_ms=100)
    rig.latency_ms = lambda message: 50 if isinstance(message, OffsetCommit) else 1
    rig.after(20, consumer.wakeup)
    consumer.close()
    other = rig.consumer("B")
    assert other.committed([P[0]]) == {P[0]: 5}


def test_closing_in_the_middle_of_a_cooperative_rebalance_commits_what_was_read_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rig = ConsumerRig(monkeypatch).make()
    how: dict[str, Any] = {
        "assignors": ("cooperative-sticky",),
        "enable_auto_commit": True,
        "auto_commit_interval_ms": 60_000,
    }
    a, b = rig.consumer("a", "t", **how), rig.consumer("b", "t", **how)
    rig.steady(a, b)
    c = rig.consumer("c", "t", **how)
    rig.polls(c, for_ms=100)
    a.poll(0.0)  # it joins and keeps what it has; the coordinator waits for b
    had = a.assignment
    rig.append(*had, count=3)
    assert len(rig.polls(a, for_ms=1_000)) == 9
    rig.forget()
    a.close()
    plot = [one.kind if isinstance(one, SentRequest) else one.what for one in rig.plot if one.who == "a"]
    assert [one for one in plot if one != "Fetch"] == ["OffsetCommit", "lost", "LeaveGroup"]
    rig.append(*had)
    records = rig.polls(b, c, until=lambda: len(b.assignment) + len(c.assignment) == 6)
    records += rig.polls(b, c, for_ms=1_000)
    assert sorted((record.partition, record.offset) for record in records) == [(one.partition, 3) for one in had]


@pytest.mark.parametrize("assignor", ["range", "cooperative-sticky"])
def test_unsubscribing_in_the_middle_of_a_join_leaves_the_group(monkeypatch: pytest.MonkeyPatch, assignor: str) -> None:
    rig = ConsumerRig(monkeypatch).make()
    a, b, c = (rig.consumer(who, assignors=(assignor,)) for who in "abc")
    for one, who in ((a, "a"), (b, "b")):
        one.subscribe(["t"], **rig.listeners(who))
    rig.steady(a, b)
    had = b.assignment
    c.subscribe(["t"])
    rig.polls(c, for_ms=100)
    b.poll(0.0)  # it joins; the coordinator waits for a
    b.unsubscribe()
    assert rig.kinds("b", of=("LeaveGroup",)) == ["LeaveGroup"]
    assert rig.told == [Callback("b", "revoked" if assignor == "range" else "lost", had)]
    rig.steady(a, c)
    assert sorted((*a.assignment, *c.assignment)) == P[:6]
    assert len(rig.members()) == 2
    b.subscribe(["t"])
    rig.steady(a, b, c)
    assert len(b.assignment) == 2


def test_unsubscribing_without_a_coordinator_is_told_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = ConsumerRig(monkeypatch).make()
    consumer = rig.consumer("A", "t", session_timeout_ms=6_000)
    rig.steady(consumer)
    rig.is_up = False
    rig.run(10_000)
    consumer.unsubscribe()
    assert rig.told == [Callback("A", "revoked", tuple(P[:6]))]
    assert consumer.assignment == ()
    rig.is_up = True
    rig.forget()
    rig.run(10_000)
    assert rig.members() == [], "nothing keeps its place"
    consumer.subscribe(["t"], **rig.listeners("A"))
    rig.steady(consumer)
    assert list(consumer.assignment) == P[:6]
