"""Partitions that a member holds follow those that the coordinator gives it
(docs/spec/consumer-group-protocol.md#3.5, #4, #17)."""

import pytest

from membership.events import Assigned, CommitAsked, CommitDone, OffsetToCommit, Revoked, SubscribedToPattern
from membership.member import State
from protocol.errors import ErrorCode
from protocol.messages.consumer_groups import TopicIdPartitions
from protocol.messages.offsets import (
    OffsetCommit,
    OffsetCommitPartitionReply,
    OffsetCommitReply,
    OffsetCommitTopicReply,
)
from protocol.messages.topics import MetadataReply, MetadataTopicReply
from tests.client.server_driven.rig import IDS, T0, T1, T2, T3, ServerDrivenRig, refused


def owned(*partitions: int) -> tuple[TopicIdPartitions, ...]:
    return (TopicIdPartitions(IDS["t"], partitions),) if partitions else ()


def test_partitions_that_are_taken_away_are_released_then_reported() -> None:
    """Scenario 23: A's side of the timeline."""
    rig = ServerDrivenRig().holding(T0, T1, T2, T3)
    rig.pass_time(5_000)
    rig.hear(2, T0, T1)
    assert rig.told == [Revoked((T2, T3))]
    _ = rig.sent
    assert list(rig.member.held) == [T0, T1, T2, T3], "until the application has let go"
    rig.pass_time(5_000)
    bare = rig.last_beat
    assert bare.topic_partitions is None, "nothing has changed yet"
    rig.hear(2, unchanged=True)
    rig.let_go()
    assert rig.last_beat.topic_partitions == owned(0, 1)
    assert list(rig.member.held) == [T0, T1]
    rig.hear(3, unchanged=True)
    assert rig.member.generation_id == 3
    assert rig.member.is_steady
    assert rig.beats == []


def test_partitions_that_are_given_later_are_added() -> None:
    """Scenario 23: B's side of the timeline."""
    rig = ServerDrivenRig().holding(epoch=3)
    rig.pass_time(5_000)
    rig.hear(3, T2, T3)
    _ = rig.sent
    rig.name_topics()
    assert rig.told == [Assigned((T2, T3), 3, (T2, T3))]
    assert rig.last_beat.topic_partitions == owned(2, 3)


def test_a_first_assignment_of_nothing_is_told() -> None:
    rig = ServerDrivenRig()
    rig.poll().find().answer(refused(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
    rig.pass_time(1_000)
    rig.hear(3)
    assert rig.told == [Assigned((), 3, ())]
    assert rig.member.is_steady


def test_a_newer_assignment_waits_until_the_application_has_let_go() -> None:
    rig = ServerDrivenRig().holding(T0, T1)
    rig.pass_time(5_000)
    rig.hear(2, T0)
    assert rig.told == [Revoked((T1,))]
    rig.pass_time(5_000)
    rig.hear(2, T0, T1, T2)
    assert rig.told == []
    rig.let_go()
    assert rig.told == [Assigned((T0, T1, T2), 2, (T1, T2))]
    assert rig.member.held == (T0, T1, T2)


def test_all_partitions_may_be_taken_away() -> None:
    rig = ServerDrivenRig().holding(T0, T1)
    rig.pass_time(5_000)
    rig.hear(2)
    assert rig.told == [Revoked((T0, T1))]
    _ = rig.sent
    rig.let_go()
    assert rig.last_beat.topic_partitions == ()
    assert rig.told == []


def test_an_answer_to_a_heartbeat_of_before_a_fence_changes_nothing() -> None:
    rig = ServerDrivenRig().holding(T0)
    rig.pass_time(5_000)
    rig.feed(CommitAsked(1, {T0: OffsetToCommit(5)}, rig.now_ms + 9_000))
    rig.answer(committed(ErrorCode.UNKNOWN_MEMBER_ID), "OffsetCommit")
    rig.hear(9, T0, T1)
    assert rig.member.generation_id == -1
    assert rig.member.state is State.UNJOINED


def test_a_pattern_is_matched_here_and_its_topics_are_subscribed_to_by_name() -> None:
    rig = ServerDrivenRig(topics=())
    rig.feed(SubscribedToPattern("t|u.*"))
    topics = tuple(MetadataTopicReply(name, IDS.get(name, bytes(15) + b"\x09")) for name in ("t", "u", "v"))
    rig.answer(MetadataReply(topics=topics), "Metadata")
    rig.poll()
    rig.find()
    assert rig.beats[-1].subscribed_topic_names == ("t", "u")
    rig.hear(2, T0)
    assert rig.told == [Assigned((T0,), 2, (T0,))], "the list of all topics had its id"


# --- commits ---


def committed(code: ErrorCode = ErrorCode.NONE) -> OffsetCommitReply:
    return OffsetCommitReply((OffsetCommitTopicReply("t", (OffsetCommitPartitionReply(0, code),)),))


def ask(rig: ServerDrivenRig, *, once: bool = False) -> OffsetCommit:
    rig.feed(CommitAsked(1, {T0: OffsetToCommit(5)}, rig.now_ms + 9_000, once=once))
    (commit,) = (message for message in rig.sent if isinstance(message, OffsetCommit))
    return commit


def done(rig: ServerDrivenRig) -> ErrorCode:
    (ended,) = (effect for effect in rig.heard if isinstance(effect, CommitDone))
    return ended.error_code


def test_a_commit_has_the_member_epoch() -> None:
    rig = ServerDrivenRig().holding(T0, epoch=7)
    commit = ask(rig)
    assert (commit.generation_id, commit.member_id) == (7, rig.member.member_id)
    rig.answer(committed())
    assert done(rig) is ErrorCode.NONE


def test_a_stale_commit_is_sent_again_with_a_newer_epoch() -> None:
    rig = ServerDrivenRig().holding(T0)
    rig.pass_time(5_000)
    ask(rig)
    rig.hear(3, unchanged=True)
    rig.answer(committed(ErrorCode.STALE_MEMBER_EPOCH))
    rig.pass_time(1_000)
    (commit,) = (message for message in rig.sent if isinstance(message, OffsetCommit))
    assert commit.generation_id == 3
    rig.answer(committed())
    assert done(rig) is ErrorCode.NONE


@pytest.mark.parametrize("once", [False, True])
def test_a_stale_commit_fails_if_no_newer_epoch_is_known(once: bool) -> None:
    rig = ServerDrivenRig().holding(T0)
    ask(rig, once=once)
    rig.answer(committed(ErrorCode.STALE_MEMBER_EPOCH))
    assert done(rig) is ErrorCode.STALE_MEMBER_EPOCH
    assert rig.member.state is State.STEADY


def test_a_commit_goes_on_while_partitions_are_taken_away() -> None:
    rig = ServerDrivenRig().holding(T0, T1)
    rig.pass_time(5_000)
    rig.hear(2, T1)
    ask(rig)
    rig.answer(committed())
    assert done(rig) is ErrorCode.NONE


def test_a_commit_that_is_tried_again_ends_with_its_partition() -> None:
    rig = ServerDrivenRig().holding(T0, T1)
    rig.pass_time(5_000)
    ask(rig)
    rig.answer(committed(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
    rig.hear(2, T1)
    rig.let_go()
    _ = rig.sent
    rig.pass_time(1_000)
    assert done(rig) is ErrorCode.ILLEGAL_GENERATION
    assert "OffsetCommit" not in rig.sent_kinds


def test_a_commit_of_an_unknown_member_ends_its_membership() -> None:
    rig = ServerDrivenRig().holding(T0)
    ask(rig)
    rig.answer(committed(ErrorCode.UNKNOWN_MEMBER_ID))
    assert done(rig) is ErrorCode.UNKNOWN_MEMBER_ID
    assert rig.member.needs_poll
    assert rig.member.generation_id == -1


def test_nothing_is_committed_from_outside_the_group() -> None:
    rig = ServerDrivenRig()
    rig.feed(CommitAsked(1, {T0: OffsetToCommit(5)}, rig.now_ms + 9_000))
    assert done(rig) is ErrorCode.UNKNOWN_MEMBER_ID
