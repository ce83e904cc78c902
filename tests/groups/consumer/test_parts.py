"""Parts of the state machine by themselves (docs/spec/consumer-group-protocol.md#3.3, #3.4, #4.1, #11.1)."""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from msgspec.structs import replace

from coordinator.groups.consumer import subscriptions
from coordinator.groups.consumer.applying import apply
from coordinator.groups.consumer.describing import describe
from coordinator.groups.consumer.events import (
    AwaitedPartitionsFree,
    ConsumerAppendFailed,
    ConsumerBeat,
    ConsumerJoin,
    SessionExpired,
)
from coordinator.groups.consumer.members import known_member, new_member
from coordinator.groups.consumer.notes import ConsumerCause
from coordinator.groups.consumer.reconciliation import Goal, reconcile
from coordinator.groups.consumer.record_builders import records_of
from coordinator.groups.consumer.state import Current
from coordinator.groups.consumer.subscriptions import SubscriptionCounts, is_homogeneous, subscribes
from coordinator.groups.consumer.table import handle
from coordinator.groups.consumer.target import preferred_assignor
from coordinator.groups.consumer.topics import TopicOfGroup, metadata_hash
from coordinator.groups.outcome import Outcome
from coordinator.keys import ConsumerSessionKey
from coordinator.records.consumer_records import ConsumerMemberRecord, ConsumerTopicsRecord, ReconciliationState
from membership.pace import Pace
from membership.server_assignors.spec import SubscribedMember
from membership.server_assignors.subscribers import subscribers
from protocol.errors import ErrorCode
from protocol.messages.consumer_groups import ConsumerGroupHeartbeat, ConsumerGroupHeartbeatReply
from protocol.session import RequestRef
from tests.groups.checks import consumer_state, returned
from tests.groups.consumer.rig import Rig

T, U = b"T" * 16, b"U" * 16
STABLE, UNREVOKED, UNRELEASED = (ReconciliationState(number) for number in range(3))


def goal(epoch: int, target: dict[bytes, set[int]], *, wanted: bytes = T + U, taken: tuple[int, ...] = ()) -> Goal:
    frozen = {topic_id: frozenset(numbers) for topic_id, numbers in target.items()}
    return Goal(epoch, frozen, lambda topic_id: topic_id in wanted, lambda _, number: number not in taken)


def test_scenario_30_nothing_happens_to_a_reconciled_member() -> None:
    current = Current(3, 2, STABLE, {T: {0: 3}}, {})
    assert reconcile(current, goal(3, {T: {0, 1}}), None, is_forced=False) is current


def test_revoking_comes_before_taking() -> None:
    current = Current(3, 2, STABLE, {T: {0: 3, 1: 3}}, {})
    revoking = reconcile(current, goal(4, {T: {1, 2}}), None, is_forced=False)
    assert revoking == Current(3, 3, UNREVOKED, {T: {1: 3}}, {T: {0: 3}})
    assert reconcile(revoking, goal(5, {T: {1, 2}}), {T: {0, 1}}, is_forced=False) is revoking
    # Acknowledged, the member jumps to the newest epoch, and a revoked partition may come back with a new epoch.
    back = reconcile(revoking, goal(5, {T: {0, 1, 2}}, taken=(2,)), {T: {1}}, is_forced=False)
    assert back == Current(5, 3, UNRELEASED, {T: {1: 3, 0: 5}}, {})
    assert reconcile(back, goal(5, {T: {0, 1, 2}}), None, is_forced=False) == Current(
        5, 5, STABLE, {T: {1: 3, 0: 5, 2: 5}}, {}
    )


def test_a_dropped_topic_is_trimmed_whatever_the_target() -> None:
    current = Current(3, 2, STABLE, {T: {0: 3}, U: {1: 3}}, {})
    target = {T: {0}, U: {1}}
    trimmed = reconcile(current, goal(3, target, wanted=T), None, is_forced=True)
    assert trimmed == Current(3, 3, UNREVOKED, {T: {0: 3}}, {U: {1: 3}})
    assert reconcile(current, goal(3, target, wanted=T), {T: {0}}, is_forced=True) == Current(
        3, 3, STABLE, {T: {0: 3}}, {}
    )


def test_topics_that_are_dropped_during_a_revocation_wait_for_the_same_acknowledgement() -> None:
    current = Current(3, 3, UNREVOKED, {T: {4: 3}}, {T: {0: 3}})
    dropping = reconcile(current, goal(3, {T: {4}}, wanted=b""), {T: {0}}, is_forced=True)
    assert dropping == Current(3, 3, UNREVOKED, {}, {T: {0: 3, 4: 3}})
    assert reconcile(dropping, goal(4, {}), {}, is_forced=False) == Current(4, 3, STABLE, {}, {})


def test_scenario_41_the_assignor_with_most_votes() -> None:
    rig = Rig()
    rig.join("A", "T")
    assert preferred_assignor(rig.group) == "uniform"
    rig.join("B", "T", server_assignor="range")
    assert preferred_assignor(rig.group) == "range"
    rig.join("C", "T", server_assignor="uniform")
    assert preferred_assignor(rig.group) == "uniform", "a tie goes to the first in the configuration"
    rig.join("D", "T", server_assignor="range")
    assert preferred_assignor(rig.group) == "range"


def test_scenario_40_range_gives_static_members_the_first_partitions() -> None:
    rig = Rig({"T": 7})
    for name, instance_id in (("b", None), ("a", None), ("x", "0")):
        rig.join(name, "T", server_assignor="range", instance_id=instance_id)
    assert [rig.target(name) for name in "xab"] == ["T0,1,2", "T3,4", "T5,6"]


def test_scenario_42_new_partitions_move_no_others() -> None:
    rig = Rig()
    rig.join("A", "T")
    rig.join("B", "T")
    rig.topics.grow("T", 8)
    rig.heartbeat("A", 2)
    assert (rig.target("A"), rig.target("B")) == ("T0,1,4,5", "T2,3,6,7")


@pytest.mark.parametrize(
    ("names", "regexes", "expected"),
    [({"T": 2}, {}, True), ({"T": 2, "U": 1}, {}, False), ({}, {"x": 2}, True), ({"T": 1}, {"x": 2}, False)],
)
def test_members_that_subscribe_alike(names: dict[str, int], regexes: dict[str, int], expected: bool) -> None:
    assert is_homogeneous(SubscriptionCounts(Counter(names), Counter(regexes)), 2) is expected


def test_changes_of_a_subscription() -> None:
    rig = Rig()
    rig.join("A", "T")
    member = rig.group.members["A"]
    line = member.subscription
    assert not known_member(rig.group, member, line).names_changed
    assert new_member(line).names_changed
    assert not new_member(ConsumerMemberRecord("g", "B")).names_changed
    assert not new_member(ConsumerMemberRecord("g", "B", subscribed_topic_regex=None)).regex_changed


class _Searched(tuple[str, ...]):
    """Names that are not read one after the other."""

    __slots__ = ()

    def __iter__(self) -> Iterator[str]:
        raise AssertionError("all names were read")


def test_a_heartbeat_does_not_read_all_names_that_its_member_subscribes_to() -> None:
    rig = Rig()
    rig.join("A", "T", "U")
    rig.join("B", "T", "U", *(f"absent-{number}" for number in range(50)))
    member = rig.group.members["B"]
    names = _Searched(member.subscription.subscribed_topic_names)
    member.subscription = replace(member.subscription, subscribed_topic_names=names)
    for owned in (None, ()):
        request = ConsumerGroupHeartbeat("g", "B", member.current.epoch, topic_partitions=owned)
        out = Outcome(rig.moment, rig.ids)
        handle(rig.group, ConsumerBeat(RequestRef(1, 9), request, rig.client, "/10.0.0.1"), out)
        (answer,) = out.replies
        assert isinstance(answer.reply, ConsumerGroupHeartbeatReply)
        assert answer.reply.error_code is ErrorCode.NONE
    assert member.current.state is UNRELEASED, "its steps look for free partitions of the topics"


@pytest.mark.parametrize("name", ["", "T", "TA", "Z"])
def test_a_member_reads_topics_of_its_names(name: str) -> None:
    rig = Rig({"": 1, "T": 1, "TA": 1, "Z": 1})
    topic = rig.topics.find(name)
    assert topic is not None
    for names in ((), ("T",), ("T", "TA"), ("", "TA", "Z")):
        line = ConsumerMemberRecord("g", "B", subscribed_topic_names=names)
        assert subscribes(rig.group, line)(topic.topic_id) is (name in names)


def test_many_topics_are_digested_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subscriptions, "KEPT_FROM", 2)
    rig = Rig()
    for member_id in "ABC":
        rig.join(member_id, "T", "U")
    rig.join("P", subscribed_topic_regex="T|U")
    digest, digested = metadata_hash, list[int]()

    def count(topics: Iterable[TopicOfGroup]) -> int:
        found = tuple(topics)
        digested.append(len(found))
        return digest(found)

    monkeypatch.setattr(subscriptions, "metadata_hash", count)

    def is_right() -> bool:
        topics = [topic for topic in map(rig.topics.find, rig.group.subscribed) if topic is not None]
        return rig.group.metadata_hash == digest(topics)

    for member_id in "AB":
        rig.heartbeat(member_id, -1)
        assert is_right() and digested == [], "as for the pattern when it was resolved"
    rig.heartbeat("C", -1)
    assert is_right() and digested == [2], "subscribed to in another way"
    rig.topics.grow("T", 8)
    rig.heartbeat("P", rig.group.members["P"].current.epoch)
    assert is_right() and len(digested) > 1, "another number of partitions"
    rig.heartbeat("P", rig.group.members["P"].current.epoch, subscribed_topic_regex="", subscribed_topic_names=("U",))
    assert is_right()


def test_the_state_is_written_whole_for_a_snapshot() -> None:
    rig = Rig()
    rig.join("A", "T", instance_id="i", subscribed_topic_regex="U")
    rig.join("B", "T")
    rig.heartbeat("A", 2)
    rig.batches.append([ConsumerTopicsRecord("g")])
    apply(rig.group, rig.batches[-1][0])
    again = rig.replayed([list(records_of(rig.group))])
    assert consumer_state(again) == consumer_state(rig.group)
    assert again.has_partition_metadata


def test_an_old_record_of_topics_is_deleted_with_the_next_epoch() -> None:
    rig = Rig()
    rig.join("A", "T")
    rig.batches.append([ConsumerTopicsRecord("g")])
    apply(rig.group, rig.batches[-1][0])
    written = len(rig.batches)
    rig.join("B", "T")
    rig.join("C", "T")
    assert rig.written(written) == "k5 k3 -k4 k7 k7 k6 k8 | k5 k3 k7 k7 k6 k8"


def test_topics_that_are_gone_are_left_out_of_a_description() -> None:
    rig = Rig()
    rig.join("A", "T", "U")
    rig.topics.delete("T")
    (member,) = describe(rig.group).members
    assert [one.topic_name for one in member.assignment.topic_partitions] == ["U"]


def test_each_epoch_has_a_note_that_says_why() -> None:
    rig = Rig(session_timeout_ms=1_000)
    rig.join("A", "T")
    rig.topics.grow("T", 5)
    rig.heartbeat("A", 2)
    rig.heartbeat("A", 3, subscribed_topic_names=("U",))
    rig.wait(1_000)
    causes = [(note.cause, note.generation_id) for note in rig.notes if note.kind == "epoch"]
    assert causes == [
        (ConsumerCause.JOINED, 2),
        (ConsumerCause.TOPICS, 3),
        (ConsumerCause.SUBSCRIPTION, 4),
        (ConsumerCause.SESSION_EXPIRED, 5),
    ]
    assert rig.notes[0].detail == "group epoch 2: client at 10.0.0.1 reads T"


def test_members_are_told_at_once_that_their_target_has_changed() -> None:
    rig = Rig()
    rig.join("A", "T")
    rig.join("B", "T")
    assert rig.pushes == [(1, 3)], "A, of the target at epoch 3"
    rig.heartbeat("A", 2)
    assert len(rig.pushes) == 1
    rig.heartbeat("A", 2, "T0,1")
    assert rig.pushes == [(1, 3), (1, 3)], "B, of the partitions that became free"
    assert rig.seen("B", 3) == (0, 3, "T2,3")
    rig.heartbeat("A", 3)
    assert len(rig.pushes) == 2


def test_nobody_is_told_of_partitions_that_its_next_heartbeat_would_not_bring() -> None:
    rig = Rig()
    rig.join("A", "T")
    rig.join("B", "T")
    rig.heartbeat("A", 2)
    rig.topics.delete("T")
    pushed = len(rig.pushes)
    rig.group.members["B"].connection = -1
    rig.happen(AwaitedPartitionsFree("g", ((b"no topic", 0),)))
    rig.heartbeat("A", -1)
    assert len(rig.pushes) == pushed, "B has lost its connection, and the topic is gone"


def test_an_append_that_fails_is_answered_and_a_fence_is_tried_again() -> None:
    rig = Rig(session_timeout_ms=1_000)
    rig.join("A", "T")
    request = ConsumerGroupHeartbeat("g", "B", 0)
    failed: Any = ConsumerJoin(RequestRef(1, 99), request, "c", "/h")
    (reply,) = rig.happen(ConsumerAppendFailed(failed, ErrorCode.NOT_COORDINATOR))
    assert reply.error_code is ErrorCode.NOT_COORDINATOR
    rig.purgatory.cancel(ConsumerSessionKey("g", "A"))  # it is over
    rig.happen(ConsumerAppendFailed(SessionExpired("g", "A"), ErrorCode.NOT_COORDINATOR))
    assert "A" in rig.group.members
    rig.wait(1_000)
    assert "A" not in rig.group.members


def test_topics_of_a_class_of_members_have_one_order_in_every_process() -> None:
    topics = frozenset(bytes([number]) * 16 for number in range(40))
    member = SubscribedMember("A", None, topics, {})
    assert list(returned(subscribers([member], Pace()))) == sorted(topics)
