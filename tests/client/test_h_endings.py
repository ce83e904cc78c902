"""Polls that stay out, and closing: docs/spec/consumer-client.md#H.40 to #H.44."""

from typing import Any

import pytest

from muster import ClientClosed
from muster.topic_partition import TopicPartition
from protocol.messages.offsets import OffsetCommit
from tests.client.theatre import Asked, P, Theatre, Told

SLOW: dict[str, Any] = {"max_poll_interval_ms": 10_000, "session_timeout_ms": 20_000}


def test_h40_a_member_that_handles_too_long_leaves_and_hears_of_it_when_it_polls(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    theatre = Theatre(monkeypatch).make()
    slow, other = theatre.consumer("slow", "t", **SLOW), theatre.consumer("other", "t", **SLOW)
    theatre.steady(slow, other)
    had, began_ms = slow.assignment, theatre.now_ms
    theatre.polls(other, for_ms=11_000)
    left = next((one for one in theatre.asked if one.kind == "LeaveGroup"), None)
    assert left is not None
    assert theatre.kinds(of=("LeaveGroup",)) == ["LeaveGroup"]
    assert left.who == "slow"
    assert 9_900 <= left.at_ms - began_ms <= 10_100
    assert list(other.assignment) == P[:6]
    theatre.forget()
    theatre.steady_again(slow, other)
    assert theatre.told[0] == Told("slow", "lost", had)
    assert sorted((*slow.assignment, *other.assignment)) == P[:6]


def test_h41_a_static_member_that_handles_too_long_is_expelled_by_its_session(monkeypatch: pytest.MonkeyPatch) -> None:
    theatre = Theatre(monkeypatch).make()
    slow = theatre.consumer("slow", "t", group_instance_id="one", **SLOW)
    other = theatre.consumer("other", "t", **SLOW)
    theatre.steady(slow, other)
    had = slow.assignment
    theatre.polls(other, for_ms=25_000)
    assert len(other.assignment) == 3
    theatre.polls(other, for_ms=10_000)
    assert theatre.messages("LeaveGroup") == []
    assert list(other.assignment) == P[:6]
    last_beat_ms = max(one.at_ms for one in theatre.asked if (one.who, one.kind) == ("slow", "Heartbeat"))
    joined_ms = next(one.at_ms for one in theatre.asked if (one.who, one.kind) == ("other", "JoinGroup"))
    assert 20_000 <= joined_ms - last_beat_ms <= 20_100
    theatre.forget()
    theatre.steady_again(slow, other)
    assert theatre.told[0] == Told("slow", "lost", had)


@pytest.mark.parametrize("assignor", ["range", "cooperative-sticky"])
def test_h42_closing_commits_then_revokes_then_leaves_and_the_rest_rebalance_at_once(
    monkeypatch: pytest.MonkeyPatch, assignor: str
) -> None:
    theatre = Theatre(monkeypatch).make()
    theatre.append(*P[:6], count=5)
    how: dict[str, Any] = {"assignors": (assignor,), "enable_auto_commit": True, "auto_commit_interval_ms": 60_000}
    a, b = theatre.consumer("a", "t", **how), theatre.consumer("b", "t", **how)
    theatre.polls(a, b, until=lambda: theatre.is_settled(a) and theatre.is_settled(b))
    theatre.polls(a, b, for_ms=500)
    theatre.forget()
    had, began_ms = a.assignment, theatre.now_ms
    a.close()
    plot = [one.kind if isinstance(one, Asked) else one.what for one in theatre.plot if one.who == "a"]
    assert [one for one in plot if one != "Fetch"] == ["OffsetCommit", "revoked", "LeaveGroup"]
    theatre.polls(b, until=lambda: len(b.assignment) == 6)
    assert theatre.now_ms - began_ms <= 100
    assert b.committed(had) == dict.fromkeys(had, 5)


@pytest.mark.parametrize("by_hand", [False, True])
def test_h43_closing_without_a_coordinator_takes_as_long_as_it_may(
    monkeypatch: pytest.MonkeyPatch, *, by_hand: bool
) -> None:
    theatre = Theatre(monkeypatch).make()
    theatre.append(P[0], count=5)
    consumer = theatre.consumer("A", enable_auto_commit=True)
    if by_hand:
        consumer.assign([P[0]])
    else:
        consumer.subscribe(["t"], **theatre.listeners("A"))
    assert theatre.polls(consumer, for_ms=1_000)
    theatre.forget()
    theatre.is_up = False
    began_ms = theatre.now_ms
    consumer.close(2.0)
    assert 1_900 <= theatre.now_ms - began_ms <= 2_100
    assert theatre.told == ([] if by_hand else [Told("A", "revoked", tuple(P[:6]))])


def test_h44_closing_twice_is_nothing_and_polling_after_it_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    theatre = Theatre(monkeypatch).make()
    consumer = theatre.consumer("A", "t")
    theatre.steady(consumer)
    consumer.close()
    asked = list(theatre.asked)
    consumer.close()
    assert theatre.asked == asked
    with pytest.raises(ClientClosed, match="this consumer was closed"):
        consumer.poll(0.0)
    with pytest.raises(ClientClosed):
        consumer.seek(TopicPartition("t", 0), 0)


def test_closing_waits_for_commits_asked_for_before_whoever_chose_the_partitions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    theatre = Theatre(monkeypatch).make()
    consumer = theatre.consumer("A")
    consumer.assign([P[0]])
    theatre.polls(consumer, for_ms=100)
    called: list[object] = []
    consumer.commit_async({P[0]: 3}, lambda offsets, error: called.append((offsets, error)))
    consumer.close()
    assert called == [({P[0]: 3}, None)]


def test_a_wakeup_while_closing_interrupts_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    theatre = Theatre(monkeypatch).make()
    theatre.append(P[0], count=5)
    consumer = theatre.consumer("A", enable_auto_commit=True, auto_commit_interval_ms=60_000)
    consumer.assign([P[0]])
    assert theatre.polls(consumer, for_ms=100)
    theatre.latency_ms = lambda message: 50 if isinstance(message, OffsetCommit) else 1
    theatre.after(20, consumer.wakeup)
    consumer.close()
    other = theatre.consumer("B")
    assert other.committed([P[0]]) == {P[0]: 5}


def test_closing_in_the_middle_of_a_cooperative_rebalance_commits_what_was_read_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    theatre = Theatre(monkeypatch).make()
    how: dict[str, Any] = {
        "assignors": ("cooperative-sticky",),
        "enable_auto_commit": True,
        "auto_commit_interval_ms": 60_000,
    }
    a, b = theatre.consumer("a", "t", **how), theatre.consumer("b", "t", **how)
    theatre.steady(a, b)
    c = theatre.consumer("c", "t", **how)
    theatre.polls(c, for_ms=100)
    a.poll(0.0)  # it joins and keeps what it has; the coordinator waits for b
    had = a.assignment
    theatre.append(*had, count=3)
    assert len(theatre.polls(a, for_ms=1_000)) == 9
    theatre.forget()
    a.close()
    plot = [one.kind if isinstance(one, Asked) else one.what for one in theatre.plot if one.who == "a"]
    assert [one for one in plot if one != "Fetch"] == ["OffsetCommit", "lost", "LeaveGroup"]
    theatre.append(*had)
    records = theatre.polls(b, c, until=lambda: len(b.assignment) + len(c.assignment) == 6)
    records += theatre.polls(b, c, for_ms=1_000)
    assert sorted((record.partition, record.offset) for record in records) == [(one.partition, 3) for one in had]


@pytest.mark.parametrize("assignor", ["range", "cooperative-sticky"])
def test_unsubscribing_in_the_middle_of_a_join_leaves_the_group(monkeypatch: pytest.MonkeyPatch, assignor: str) -> None:
    theatre = Theatre(monkeypatch).make()
    a, b, c = (theatre.consumer(who, assignors=(assignor,)) for who in "abc")
    for one, who in ((a, "a"), (b, "b")):
        one.subscribe(["t"], **theatre.listeners(who))
    theatre.steady(a, b)
    had = b.assignment
    c.subscribe(["t"])
    theatre.polls(c, for_ms=100)
    b.poll(0.0)  # it joins; the coordinator waits for a
    b.unsubscribe()
    assert theatre.kinds("b", of=("LeaveGroup",)) == ["LeaveGroup"]
    assert theatre.told == [Told("b", "revoked" if assignor == "range" else "lost", had)]
    theatre.steady(a, c)
    assert sorted((*a.assignment, *c.assignment)) == P[:6]
    assert len(theatre.members()) == 2
    b.subscribe(["t"])
    theatre.steady(a, b, c)
    assert len(b.assignment) == 2


def test_unsubscribing_without_a_coordinator_is_told_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    theatre = Theatre(monkeypatch).make()
    consumer = theatre.consumer("A", "t", session_timeout_ms=6_000)
    theatre.steady(consumer)
    theatre.is_up = False
    theatre.run(10_000)
    consumer.unsubscribe()
    assert theatre.told == [Told("A", "revoked", tuple(P[:6]))]
    assert consumer.assignment == ()
    theatre.is_up = True
    theatre.forget()
    theatre.run(10_000)
    assert theatre.members() == [], "nothing keeps its place"
    consumer.subscribe(["t"], **theatre.listeners("A"))
    theatre.steady(consumer)
    assert list(consumer.assignment) == P[:6]
