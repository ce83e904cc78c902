"""Commits, asked for and automatic: docs/spec/consumer-client.md#H.30 to #H.39."""

from typing import Any

import pytest

from muster import CommitRefused, TopicPartition
from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.messages.groups import HeartbeatReply
from protocol.messages.offsets import (
    OffsetCommit,
    OffsetCommitPartitionReply,
    OffsetCommitReply,
    OffsetCommitTopicReply,
)
from tests.client.consumer_rig import Callback, ConsumerRig, Never, P

AUTOMATIC: dict[str, Any] = {"enable_auto_commit": True, "auto_commit_interval_ms": 1_000}


def committed(message: OffsetCommit) -> dict[TopicPartition, int]:
    return {
        TopicPartition(topic.name, one.partition_index): one.committed_offset
        for topic in message.topics
        for one in topic.partitions
    }


def refused(message: OffsetCommit, code: ErrorCode) -> OffsetCommitReply:
    return OffsetCommitReply(
        tuple(
            OffsetCommitTopicReply(
                topic.name, tuple(OffsetCommitPartitionReply(one.partition_index, code) for one in topic.partitions)
            )
            for topic in message.topics
        )
    )


def test_h30_ten_seconds_of_polls_commit_every_second_what_earlier_polls_returned(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rig = ConsumerRig(monkeypatch).make()
    consumer = rig.consumer("A", "t", max_poll_records=2, **AUTOMATIC)
    rig.steady(consumer)
    rig.append(P[0], count=300)
    consumer.poll(0.1)
    end_ms, commits = rig.now_ms + 10_000, 0
    while rig.now_ms < end_ms:
        before = consumer.positions()
        assert len(consumer.poll(0.0)) == 2, "each poll hands something out, those that commit too"
        for one in rig.messages("OffsetCommit")[commits:]:
            assert committed(one) == before
            commits += 1
        rig.run(100)
    assert 9 <= commits <= 11
    assert consumer.positions()[P[0]] > 150


def test_h31_an_automatic_commit_that_may_work_later_is_soon_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = ConsumerRig(monkeypatch).make()
    consumer = rig.consumer("A", "t", **AUTOMATIC)
    rig.steady(consumer)

    def refuses_once(_who: str, message: Message) -> Message | None:
        if isinstance(message, OffsetCommit) and len(rig.messages("OffsetCommit")) == 1:
            return refused(message, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        return None

    rig.script = refuses_once
    rig.polls(consumer, for_ms=3_000)
    first, second, third = (one.at_ms for one in rig.requests if one.kind == "OffsetCommit")
    assert 100 <= second - first <= 120
    assert 1_000 <= third - second <= 1_020


def test_h32_what_is_committed_at_an_eager_revocation_is_the_position_and_nothing_comes_after_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rig = ConsumerRig(monkeypatch).make()
    b = rig.consumer("b", **AUTOMATIC)
    a = rig.consumer("a", **{**AUTOMATIC, "auto_commit_interval_ms": 60_000})
    at_revocation: list[dict[TopicPartition, int]] = []
    a.subscribe(["t"], on_revoked=lambda _partitions: at_revocation.append(a.positions()))
    rig.steady(a)
    rig.latency_ms = lambda message: 40 if isinstance(message, OffsetCommit) else 1
    b.subscribe(["t"])
    handed_out: dict[str, list[tuple[int, TopicPartition, int]]] = {"a": [], "b": []}
    for turn in range(400):
        if turn < 300:
            rig.append(*P[:6])
        for who, consumer in (("a", a), ("b", b)):
            for record in consumer.poll(0.0):
                handed_out[who].append((rig.now_ms, TopicPartition("t", record.partition), record.offset))
        rig.run(5)
    commit = next(one for one in rig.requests if (one.who, one.kind) == ("a", "OffsetCommit"))
    assert isinstance(commit.message, OffsetCommit)
    assert at_revocation == [committed(commit.message)]
    joined_ms = next(one.at_ms for one in rig.requests if (one.who, one.kind) == ("a", "SyncGroup"))
    assert [one for one in handed_out["a"] if commit.at_ms < one[0] < joined_ms] == []
    for each in P[:6]:
        offsets = [offset for who in "ab" for _, partition, offset in handed_out[who] if partition == each]
        assert sorted(offsets) == list(range(300))
    assert a.assignment
    assert b.assignment


def test_h33_a_commit_before_a_join_that_is_never_answered_holds_it_up_no_longer_than_the_rebalance(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rig = ConsumerRig(monkeypatch).make()
    consumer = rig.consumer("A", "t", max_poll_interval_ms=20_000, enable_auto_commit=True)
    rig.steady(consumer)
    rig.script = lambda _who, message: Never if isinstance(message, OffsetCommit) else None
    consumer.enforce_rebalance()
    began_ms = rig.now_ms
    rig.polls(consumer, until=lambda: "JoinGroup" in rig.kinds(), for_ms=60_000)
    (join,) = (one for one in rig.requests if one.kind == "JoinGroup")
    assert 20_000 <= join.at_ms - began_ms <= 20_100
    assert rig.told == [Callback("A", "revoked", tuple(P[:6]))]


def test_h34_a_commit_during_a_rebalance_says_so_and_works_after_polling(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = ConsumerRig(monkeypatch).make()
    rig.append(*P[:6])
    a, b = (rig.consumer(who, assignors=("cooperative-sticky",)) for who in "ab")
    a.subscribe(["t"])
    rig.steady(a)
    b.subscribe(["t"])
    rig.polls(b, for_ms=100)
    a.poll(0.0)  # it joins, and keeps what it has
    rig.forget()
    with pytest.raises(CommitRefused, match="rebalancing: poll") as refusal:
        a.commit()
    assert refusal.value.error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert rig.messages("OffsetCommit") == []
    rig.steady(a, b)
    assert a.commit() == a.positions() != {}


def test_h35_a_commit_of_a_member_expelled_fails_and_polling_joins_again(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = ConsumerRig(monkeypatch).make()
    consumer = rig.consumer("A", "t", session_timeout_ms=6_000)
    rig.steady(consumer)
    me = consumer.member.member_id
    rig.script = lambda _who, message: HeartbeatReply() if type(message).__name__ == "Heartbeat" else None
    rig.run(7_000)  # its heartbeats go astray
    assert me not in rig.members()
    rig.forget()
    with pytest.raises(CommitRefused, match="no longer in the group") as refusal:
        consumer.commit({P[0]: 1})
    assert refusal.value.error_code == ErrorCode.UNKNOWN_MEMBER_ID
    rig.polls(consumer, until=lambda: rig.is_settled(consumer))
    assert [one.what for one in rig.told] == ["lost", "assigned"]
    assert rig.members() == [consumer.member.member_id] != [me]
    assert consumer.commit({P[0]: 1}) == {P[0]: 1}


def test_h36_callbacks_of_earlier_commits_come_in_order_before_a_commit_returns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rig = ConsumerRig(monkeypatch).make()
    consumer = rig.consumer("A", "t")
    rig.steady(consumer)
    called: list[tuple[int, object]] = []
    for number in (1, 2, 3):
        consumer.commit_async({P[0]: number}, lambda offsets, error: called.append((offsets[P[0]], error)))
    assert called == []
    assert consumer.commit({P[0]: 4}) == {P[0]: 4}
    assert called == [(1, None), (2, None), (3, None)]
    assert consumer.committed([P[0]]) == {P[0]: 4}


def test_h37_an_asynchronous_commit_refused_for_now_is_told_so_and_not_sent_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rig = ConsumerRig(monkeypatch).make()
    consumer = rig.consumer("A", "t")
    rig.steady(consumer)
    rig.script = lambda _who, message: (
        refused(message, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS) if isinstance(message, OffsetCommit) else None
    )
    called: list[Exception | None] = []
    consumer.commit_async({P[0]: 1}, lambda _offsets, error: called.append(error))
    rig.polls(consumer, for_ms=5_000)
    assert len(rig.messages("OffsetCommit")) == 1
    (error,) = called
    assert isinstance(error, CommitRefused)
    assert error.error_code.retriable


def test_h38_an_offset_below_zero_is_refused_before_anything_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = ConsumerRig(monkeypatch).make()
    consumer = rig.consumer("A", "t")
    rig.steady(consumer)
    with pytest.raises(ValueError, match="cannot commit -5"):
        consumer.commit({P[0]: -5})
    with pytest.raises(ValueError, match="cannot commit -5"):
        consumer.commit_async({P[1]: 3, P[0]: -5})
    rig.run(100)
    assert rig.messages("OffsetCommit") == []


def test_h39_who_chose_partitions_itself_may_not_commit_for_a_group_with_members(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rig = ConsumerRig(monkeypatch).make()
    member, stranger = rig.consumer("member", "t"), rig.consumer("stranger")
    rig.steady(member)
    member.commit({P[0]: 7})
    stranger.assign([P[0]])
    with pytest.raises(CommitRefused):
        stranger.commit({P[0]: 3})
    (asked,) = rig.messages("OffsetCommit", "stranger")
    assert (asked.generation_id, asked.member_id) == (-1, "")
    assert member.committed([P[0]]) == {P[0]: 7}


def test_before_a_cooperative_rebalance_everything_is_committed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = ConsumerRig(monkeypatch).make()
    rig.append(*P[:6], count=5)
    how: dict[str, Any] = {**AUTOMATIC, "auto_commit_interval_ms": 60_000, "assignors": ("cooperative-sticky",)}
    a, b = rig.consumer("a", "t", **how), rig.consumer("b", **how)
    rig.steady(a)
    rig.polls(a, for_ms=500)
    b.subscribe(["t"])
    rig.polls(b, for_ms=100)
    rig.forget()
    a.poll(0.0)
    assert rig.kinds("a", of=("OffsetCommit", "JoinGroup")) == ["OffsetCommit", "JoinGroup"]
    assert committed(rig.messages("OffsetCommit")[0]) == dict.fromkeys(P[:6], 5)
    a.poll(0.0)
    assert len(rig.messages("OffsetCommit")) == 1
