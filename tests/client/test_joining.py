"""The steps before a JoinGroup, and the errors that an application hears when there is none
(docs/spec/consumer-client.md#A3 to #A7, #A9)."""

import asyncio
from contextlib import suppress
from typing import Any

import pytest

import muster.aio
from membership.events import (
    CommitAsked,
    CommitDone,
    Fatal,
    HangUp,
    NodeAddress,
    OffsetsAsked,
    OffsetsDone,
    OffsetToCommit,
)
from membership.member import State
from muster import Consumer, TopicPartition
from muster.errors import CannotConnect, Fenced, GroupRefused, MusterError
from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.messages.groups import SyncGroupReply
from protocol.messages.node import ErrorReply, FindCoordinator, FindCoordinatorReply, FoundCoordinator
from protocol.messages.topics import Metadata, MetadataReply
from tests.client.consumer_rig import GROUP, ConsumerRig, Never, P
from tests.client.member_rig import P0, P1, MemberRig, synced

# --------------------------------------------------------------------------------------------------- without a group id


@pytest.mark.parametrize("how", [{"topics": ["t"]}, {"pattern": "t.*"}, {"topics": []}], ids=str)
@pytest.mark.parametrize("edge", [Consumer, muster.aio.Consumer], ids=["blocking", "aio"])
def test_subscribing_without_a_group_id_says_what_is_missing_and_changes_nothing(
    edge: Any, how: dict[str, Any]
) -> None:
    async def subscribes() -> None:
        consumer = edge("node:9")
        with pytest.raises(MusterError, match="this consumer has no group_id"):
            consumer.subscribe(**how)
        consumer.assign([P[0]])  # which a subscription would exclude
        for refused in (lambda: consumer.subscribe(**how), consumer.enforce_rebalance):
            with pytest.raises(MusterError, match="no group_id"):
                refused()
        assert consumer.assignment == (P[0],)
        closing = consumer.close()
        if closing is not None:
            await closing

    asyncio.run(subscribes())


# ----------------------------------------------------------------------------------------------------------- new topics


def test_five_members_meet_a_new_topic_of_a_pattern_in_one_rebalance(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = ConsumerRig(monkeypatch).make("aa", 5)
    members = []
    for number in range(5):
        member = rig.consumer(f"M{number}", metadata_max_age_ms=5_000, heartbeat_interval_ms=1_000)
        member.subscribe(pattern="a.*", **rig.listeners(f"M{number}"))
        members.append(member)
        rig.polls(*members, for_ms=700)  # they do not look at the same moments
    rig.steady(*members)
    generation = members[0].member.generation_id
    rig.make("ab", 10)
    rig.append(*(TopicPartition("ab", number) for number in range(10)))
    records = rig.polls(*members, for_ms=15_000)
    assert {one.member.generation_id for one in members} == {generation + 1}
    assert sorted(rig.kinds(of=("JoinGroup",))) == ["JoinGroup"] * 5
    for number, member in enumerate(members):
        assert [one.what for one in rig.told if one.who == f"M{number}"] == ["revoked", "assigned"]
        assert len(member.assignment) == 3
    assert sorted((record.topic, record.partition) for record in records) == [("ab", number) for number in range(10)]


def _withholds_metadata(_who: str, message: Message) -> type[Never] | None:
    return Never if isinstance(message, Metadata) else None


def test_a_pattern_without_metadata_joins_no_group(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = ConsumerRig(monkeypatch).make("aa", 2)
    rig.script = _withholds_metadata
    consumer = rig.consumer("A", request_timeout_ms=4_000)
    consumer.subscribe(pattern="a.*")
    for _ in range(20):
        with suppress(CannotConnect):  # nobody has answered anything
            consumer.poll(0.0)
        rig.run(1_000)
    assert rig.kinds(of=("JoinGroup",)) == []
    assert 3 <= len(rig.messages("Metadata")) <= 12, "asked again, with pauses"
    rig.script = lambda _who, _message: None
    rig.run(6_000)  # the next question is answered
    rig.steady_again(consumer)
    assert rig.kinds(of=("JoinGroup",)) == ["JoinGroup"] * 2, "the second has the member id"


def test_a_rebalance_of_a_pattern_waits_for_fresh_metadata_before_it_joins(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = ConsumerRig(monkeypatch).make("aa", 2)
    consumer = rig.consumer("A", request_timeout_ms=4_000)
    consumer.subscribe(pattern="a.*")
    rig.steady(consumer)
    rig.run(1_000)  # what it knows is no longer fresh
    rig.script = _withholds_metadata
    consumer.enforce_rebalance()
    rig.polls(consumer, for_ms=10_000, every_ms=50)
    assert rig.kinds(of=("JoinGroup",)) == []
    assert rig.members() == [consumer.member.member_id], "heartbeats go on"
    rig.script = lambda _who, _message: None
    rig.steady_again(consumer)
    assert rig.kinds(of=("JoinGroup",)) == ["JoinGroup"]


def test_a_leader_without_metadata_sends_no_sync_and_keeps_its_place() -> None:
    rig = MemberRig().poll().find().join(leader="me")
    assert rig.pass_time(30_000).sent_kinds.count("SyncGroup") == 0
    assert rig.member.state is State.SYNCING


# ------------------------------------------------------------------------------------------------- all brokers are down


@pytest.mark.parametrize("group_id", [None, GROUP], ids=["no group", "a group"])
def test_assigning_with_all_brokers_down_waits_without_asking_all_the_time(
    monkeypatch: pytest.MonkeyPatch, group_id: str | None
) -> None:
    rig = ConsumerRig(monkeypatch).make()
    rig.append(P[0], count=3)
    rig.is_up = False
    settings: dict[str, Any] = {"auto_offset_reset": "earliest", "enable_auto_commit": False}
    consumer = Consumer("node:9", group_id, client_id="A", **settings)
    consumer.assign([P[0], P[1]])
    assert consumer.assignment == (P[0], P[1])
    began_ms = rig.now_ms
    with pytest.raises(CannotConnect, match="node:9"):
        consumer.poll(10.0)
    assert rig.now_ms - began_ms == 10_000
    assert consumer.poll(0.0) == []
    assert rig.kinds(of=("JoinGroup", "Heartbeat")) == []
    # Ten seconds of pauses up to a second; who looks for the coordinator looks for nodes as well.
    most = {"Metadata": 15} if group_id is None else {"Metadata": 30, "FindCoordinator": 15}
    assert set(rig.kinds()) == most.keys()
    assert all(rig.kinds().count(kind) <= most[kind] for kind in most)
    rig.is_up = True
    records = rig.polls(consumer, for_ms=3_000)
    assert [record.offset for record in records] == [0, 1, 2]
    assert consumer.assignment == (P[0], P[1])
    assert rig.members() == []


# -------------------------------------------------------------------------------------------------------------- lookups


def _not_found(code: ErrorCode) -> FindCoordinatorReply:
    return FindCoordinatorReply((FoundCoordinator(GROUP, error_code=code),))


PASSING = {
    ErrorCode.UNKNOWN_SERVER_ERROR,  # of ours alone: Kafka's consumer gives up
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.NETWORK_EXCEPTION,
    ErrorCode.NOT_CONTROLLER,
    ErrorCode.LISTENER_NOT_FOUND,
    ErrorCode.THROTTLING_QUOTA_EXCEEDED,
    ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.KAFKA_STORAGE_ERROR,
}
"""Codes of a lookup that another lookup may mend."""
LASTING = {
    ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ErrorCode.SASL_AUTHENTICATION_FAILED,
    ErrorCode.INVALID_GROUP_ID,
    ErrorCode.INVALID_REQUEST,
    ErrorCode.UNSUPPORTED_VERSION,
    ErrorCode.GROUP_ID_NOT_FOUND,
    ErrorCode.GROUP_FORBIDDEN,
    ErrorCode(999),
}
"""Codes that looking again cannot mend."""


@pytest.mark.parametrize("code", sorted(PASSING), ids=lambda code: code.name)
def test_a_lookup_refused_for_now_is_made_again_after_a_pause(code: ErrorCode) -> None:
    rig = MemberRig().poll().answer(_not_found(code))
    assert rig.told == []
    assert rig.sent_kinds == ["FindCoordinator", "Metadata"]
    assert "FindCoordinator" not in rig.answer(MetadataReply()).pass_time(99).sent_kinds
    assert rig.pass_time(1).sent_kinds == ["FindCoordinator"]
    assert rig.find().sent_kinds == ["JoinGroup"]


@pytest.mark.parametrize("code", sorted(LASTING), ids=lambda code: code.name)
def test_a_lookup_refused_for_good_is_raised_and_made_again_by_the_next_poll(
    monkeypatch: pytest.MonkeyPatch, code: ErrorCode
) -> None:
    rig = ConsumerRig(monkeypatch).make()
    consumer = rig.consumer("A", "t")
    rig.script = lambda _who, message: _not_found(code) if isinstance(message, FindCoordinator) else None
    for _ in range(2):
        with pytest.raises(GroupRefused, match=f"coordinator of group {GROUP}: {code.name}") as refused:
            consumer.poll(1.0)
        assert refused.value.error_code == code
    assert rig.kinds() == ["FindCoordinator"] * 2
    rig.script = lambda _who, _message: None
    rig.steady_again(consumer)


def test_a_lookup_that_names_another_group_or_nobody_is_made_again() -> None:
    for found in ((), (FoundCoordinator("another", 1, "there", 1),)):
        rig = MemberRig().poll().answer(FindCoordinatorReply(found))
        assert rig.told == []
        assert rig.pass_time(100).sent_kinds[-1] == "FindCoordinator"


def test_operations_that_wait_for_a_lookup_refused_for_good_end_with_its_code() -> None:
    rig = MemberRig().steady(P0).beat(ErrorCode.NOT_COORDINATOR)
    rig.feed(CommitAsked(1, {P0: OffsetToCommit(3)}, rig.now_ms + 60_000))
    rig.feed(OffsetsAsked(2, (P1,), rig.now_ms + 60_000))
    ended = rig.answer(_not_found(ErrorCode.GROUP_AUTHORIZATION_FAILED)).heard
    codes = {type(one): one.error_code for one in ended if isinstance(one, CommitDone | OffsetsDone | Fatal)}
    assert codes == dict.fromkeys((CommitDone, OffsetsDone, Fatal), ErrorCode.GROUP_AUTHORIZATION_FAILED)


def test_the_session_timer_restarts_with_the_lookup() -> None:
    """A coordinator that was just found is given a whole session before it is doubted."""
    rig = MemberRig(request_timeout_ms=60_000).steady(P0).beat(ErrorCode.NOT_COORDINATOR)
    heard_at_ms = rig.now_ms - 3_000  # by the sync
    rig.pass_time(5_000)
    found_at_ms = rig.find("there", 2).now_ms
    assert rig.heard == [HangUp(NodeAddress("here", 1, 0))]
    rig.pass_time(heard_at_ms + 10_000 - found_at_ms + 1_000)
    assert rig.heard == [], "the session since the last answer is over, that since the lookup is not"
    rig.pass_time(found_at_ms + 9_999 - rig.now_ms)
    assert rig.heard == []
    assert rig.member.coordinator == NodeAddress("there", 2, 0)
    rig.pass_time(1)
    assert rig.heard == [HangUp(NodeAddress("there", 2, 0))]
    assert rig.sent_kinds[-1] == "FindCoordinator"
    assert rig.member.state is State.STEADY, "its place is kept until an answer says otherwise"


# ----------------------------------------------------------------------------------- what the application is told about

SENTENCE = "the coordinator's own words"


@pytest.mark.parametrize("reason", ["", SENTENCE], ids=["a code alone", "a code and words"])
@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
        ErrorCode.INVALID_SESSION_TIMEOUT,
        ErrorCode.INVALID_GROUP_ID,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.GROUP_MAX_SIZE_REACHED,
        ErrorCode.UNSUPPORTED_VERSION,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.UNKNOWN_SERVER_ERROR,
        ErrorCode.FENCED_INSTANCE_ID,
    ],
    ids=lambda code: code.name,
)
@pytest.mark.parametrize("kind", ["FindCoordinator", "JoinGroup", "SyncGroup"])
def test_what_refuses_a_member_is_raised_by_its_kind_with_the_code_and_the_name_of_the_group(
    monkeypatch: pytest.MonkeyPatch, kind: str, code: ErrorCode, reason: str
) -> None:
    if kind == "FindCoordinator" and code in PASSING:
        return  # that is looked up again
    rig = ConsumerRig(monkeypatch).make()
    consumer = rig.consumer("A", "t", group_instance_id="instance")
    refusal = ErrorReply(code, reason)
    rig.script = lambda _who, message: refusal if type(message).__name__ == kind else None
    with pytest.raises(GroupRefused) as refused:
        consumer.poll(5.0)
    _names_group_and_code(refused.value, code, reason)


def _names_group_and_code(refused: GroupRefused, code: ErrorCode, reason: str) -> None:
    assert type(refused) is (Fenced if code == ErrorCode.FENCED_INSTANCE_ID else GroupRefused)
    assert refused.error_code == code
    assert f"group {GROUP}" in str(refused)
    assert reason in str(refused)


@pytest.mark.parametrize("code", [ErrorCode.GROUP_AUTHORIZATION_FAILED, ErrorCode.FENCED_INSTANCE_ID])
@pytest.mark.parametrize("reason", ["", SENTENCE], ids=["a code alone", "a code and words"])
def test_a_heartbeat_refused_for_good_is_raised_by_its_kind_and_names_the_group(
    monkeypatch: pytest.MonkeyPatch, code: ErrorCode, reason: str
) -> None:
    rig = ConsumerRig(monkeypatch).make()
    consumer = rig.consumer("A", "t", group_instance_id="instance")
    consumer.poll(5.0)
    assert consumer.assignment
    rig.script = lambda _who, message: ErrorReply(code, reason) if type(message).__name__ == "Heartbeat" else None
    with pytest.raises(GroupRefused) as refused:
        consumer.poll(10.0)
    _names_group_and_code(refused.value, code, reason)


@pytest.mark.parametrize(
    ("reply", "sentence"),
    [
        (synced(P0, protocol="sticky"), f"group {GROUP}: joined with 'range', the assignment is of 'sticky'"),
        (SyncGroupReply(assignment=b"\x00"), f"group {GROUP}: the leader's assignment cannot be read"),
    ],
    ids=["another protocol", "no assignment"],
)
def test_an_assignment_that_cannot_be_taken_names_the_group(reply: SyncGroupReply, sentence: str) -> None:
    (fatal,) = MemberRig().poll().find().join().answer(reply).told
    assert isinstance(fatal, Fatal)
    assert fatal.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert fatal.reason.startswith(sentence)
