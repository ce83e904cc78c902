"""Commits and offset fetches through a member: what is sent, what is refused before it is
(docs/spec/consumer-client.md#A5, #A8)."""

import pytest

from membership.events import (
    Closing,
    CommitAsked,
    CommitDone,
    HangUp,
    LostPartitions,
    NodeAddress,
    OffsetsAsked,
    OffsetsDone,
)
from membership.events import OffsetToCommit as At
from membership.member import State
from protocol.errors import ErrorCode
from protocol.messages.groups import JoinGroupReply, RebalanceStarted
from protocol.messages.offsets import (
    OffsetCommit,
    OffsetCommitPartition,
    OffsetCommitPartitionReply,
    OffsetCommitReply,
    OffsetCommitTopic,
    OffsetCommitTopicReply,
    OffsetFetch,
    OffsetFetchGroup,
    OffsetFetchGroupReply,
    OffsetFetchPartitionReply,
    OffsetFetchReply,
    OffsetFetchTopic,
    OffsetFetchTopicReply,
)
from tests.client.member_rig import GROUP, P0, P1, P2, MemberRig


def committed(*codes: ErrorCode) -> OffsetCommitReply:
    return OffsetCommitReply(
        (OffsetCommitTopicReply("t", tuple(OffsetCommitPartitionReply(n, code) for n, code in enumerate(codes))),)
    )


def ask(rig: MemberRig, *, until: int = 60_000) -> MemberRig:
    return rig.feed(CommitAsked(7, {P0: At(10), P1: At(20, "note")}, rig.now_ms + until))


def done(rig: MemberRig) -> CommitDone:
    (one,) = (one for one in rig.heard if isinstance(one, CommitDone))
    return one


def test_a_commit_carries_who_is_asking_and_in_which_generation() -> None:
    rig = ask(MemberRig().steady(P0, P1, generation=4))
    partitions = (OffsetCommitPartition(0, 10), OffsetCommitPartition(1, 20, committed_metadata="note"))
    assert rig.sent == [OffsetCommit(GROUP, (OffsetCommitTopic("t", partitions),), 4, "me")]
    rig.answer(committed(ErrorCode.NONE, ErrorCode.NONE))
    assert rig.heard == [CommitDone(7, ErrorCode.NONE, {P0: At(10), P1: At(20, "note")})]


def test_partitions_not_held_are_left_out() -> None:
    rig = ask(MemberRig().steady(P1, P2))
    (sent,) = rig.sent
    assert isinstance(sent, OffsetCommit)
    assert [one.partition_index for one in sent.topics[0].partitions] == [1]
    assert done(rig.answer(committed(ErrorCode.NONE))).offsets == {P1: At(20, "note")}


def test_a_commit_of_nothing_held_sends_nothing() -> None:
    rig = ask(MemberRig().steady(P2))
    assert rig.sent == []
    assert done(rig) == CommitDone(7, ErrorCode.NONE, {})


def test_outside_of_the_group_nothing_is_sent() -> None:
    rig = ask(MemberRig())
    assert rig.sent == []
    assert done(rig).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_in_the_middle_of_a_join_the_answer_is_to_poll_first() -> None:
    rig = ask(MemberRig().poll().find())
    assert done(rig).error_code == ErrorCode.REBALANCE_IN_PROGRESS


def test_while_letting_go_the_last_commit_of_the_generation_is_sent() -> None:
    rig = ask(MemberRig().steady(P0).push(RebalanceStarted(GROUP, 1, "x", "y", 1)).poll())
    assert rig.sent_kinds == ["OffsetCommit"]
    assert done(rig.answer(committed(ErrorCode.NONE))).error_code == ErrorCode.NONE


def test_while_closing_the_last_commit_is_sent() -> None:
    rig = ask(MemberRig().steady(P0).feed(Closing()))
    assert rig.sent_kinds == ["OffsetCommit"]
    assert done(rig.answer(committed(ErrorCode.NONE))).error_code == ErrorCode.NONE


def test_while_closing_a_commit_still_finds_a_coordinator_that_moved() -> None:
    rig = ask(MemberRig().steady(P0).feed(Closing()))
    rig.answer(committed(ErrorCode.NOT_COORDINATOR)).find("there", 2).pass_time(100)
    assert rig.sent_kinds == ["OffsetCommit", "FindCoordinator", "OffsetCommit"]
    assert done(rig.answer(committed(ErrorCode.NONE))).error_code == ErrorCode.NONE


@pytest.mark.parametrize("code", [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION])
def test_what_may_pass_is_tried_again_after_a_pause(code: ErrorCode) -> None:
    rig = ask(MemberRig().steady(P0))
    assert rig.answer(committed(code)).pass_time(99).sent_kinds == ["OffsetCommit"]
    assert rig.pass_time(1).sent_kinds == ["OffsetCommit"]


def test_a_moved_coordinator_is_found_and_asked_again() -> None:
    rig = ask(MemberRig().steady(P0)).cut("OffsetCommit")
    assert rig.heard == [HangUp(NodeAddress("here", 1, 0))]
    rig.find("there", 2).pass_time(100)
    assert rig.sent_kinds[:2] == ["OffsetCommit", "FindCoordinator"]
    assert done(rig.answer(committed(ErrorCode.NONE))).error_code == ErrorCode.NONE


def test_trying_again_ends_at_the_deadline_with_the_last_reason() -> None:
    rig = ask(MemberRig().steady(P0), until=2_000)
    for _ in range(20):
        if any(isinstance(one, OffsetCommit) for one in rig.waiting.values()):
            rig.answer(committed(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
        rig.pass_time(100)
    assert done(rig).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


def test_a_commit_refused_in_a_rebalance_keeps_the_place_and_asks_for_a_poll() -> None:
    rig = ask(MemberRig().steady(P0)).answer(committed(ErrorCode.REBALANCE_IN_PROGRESS))
    assert done(rig).error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert rig.member.needs_poll
    assert rig.member.member_id == "me"


@pytest.mark.parametrize("code", [ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION])
def test_a_commit_of_a_member_thrown_out_loses_its_share_at_the_next_poll(code: ErrorCode) -> None:
    rig = ask(MemberRig().steady(P0)).answer(committed(code))
    assert done(rig).error_code == code
    assert rig.member.state is State.UNJOINED
    assert [type(one) for one in rig.poll().told] == [LostPartitions]


def test_a_refusal_of_an_older_generation_changes_nothing() -> None:
    rig = ask(MemberRig().steady(P0))
    rig.push(RebalanceStarted(GROUP, 1, "x", "y", 1)).poll().released().join(2).sync(P0)
    rig.answer(committed(ErrorCode.ILLEGAL_GENERATION))
    assert done(rig).error_code == ErrorCode.ILLEGAL_GENERATION
    assert rig.member.state is State.STEADY


def test_a_commit_waiting_for_its_coordinator_is_not_sent_in_another_generation() -> None:
    rig = ask(MemberRig().steady(P0)).answer(committed(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
    rig.push(RebalanceStarted(GROUP, 1, "x", "y", 1)).poll().released().join(2).sync(P0).pass_time(1_000)
    assert done(rig).error_code in {ErrorCode.ILLEGAL_GENERATION, ErrorCode.REBALANCE_IN_PROGRESS}


def test_an_offset_too_talkative_is_refused_as_it_is() -> None:
    rig = ask(MemberRig().steady(P0)).answer(committed(ErrorCode.OFFSET_METADATA_TOO_LARGE))
    assert done(rig).error_code == ErrorCode.OFFSET_METADATA_TOO_LARGE
    assert rig.member.state is State.STEADY


# ------------------------------------------------------------------------------------------------------ offset fetches


def fetched(*partitions: OffsetFetchPartitionReply, error: ErrorCode = ErrorCode.NONE) -> OffsetFetchReply:
    return OffsetFetchReply((OffsetFetchGroupReply(GROUP, (OffsetFetchTopicReply("t", partitions),), error),))


def fetch(rig: MemberRig) -> MemberRig:
    return rig.feed(OffsetsAsked(3, (P0, P1), rig.now_ms + 60_000))


def test_committed_offsets_can_be_asked_for_without_joining() -> None:
    rig = fetch(MemberRig())
    assert rig.sent_kinds == ["FindCoordinator"]
    rig.find()
    assert rig.sent == [OffsetFetch((OffsetFetchGroup(GROUP, (OffsetFetchTopic("t", (0, 1)),)),), require_stable=True)]
    rig.answer(fetched(OffsetFetchPartitionReply(0, 42), OffsetFetchPartitionReply(1, -1)))
    assert rig.heard == [OffsetsDone(3, ErrorCode.NONE, {P0: 42, P1: None})]


@pytest.mark.parametrize("code", [ErrorCode.UNSTABLE_OFFSET_COMMIT, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS])
def test_offsets_not_settled_yet_are_asked_for_again(code: ErrorCode) -> None:
    rig = fetch(MemberRig()).find().answer(fetched(OffsetFetchPartitionReply(0, -1, error_code=code)))
    assert rig.sent_kinds == ["FindCoordinator", "OffsetFetch"]
    assert rig.pass_time(100).sent_kinds == ["OffsetFetch"]


def test_offsets_of_a_coordinator_that_moved_are_asked_of_the_new_one() -> None:
    rig = fetch(MemberRig()).find().answer(fetched(error=ErrorCode.NOT_COORDINATOR))
    assert rig.find("there", 2).pass_time(100).sent_kinds[-2:] == ["FindCoordinator", "OffsetFetch"]


def test_offsets_one_may_not_see_are_an_error() -> None:
    rig = fetch(MemberRig()).find().answer(fetched(error=ErrorCode.GROUP_AUTHORIZATION_FAILED))
    assert rig.heard == [OffsetsDone(3, ErrorCode.GROUP_AUTHORIZATION_FAILED, {})]


def test_asking_while_fenced_is_refused_as_fenced() -> None:
    rig = MemberRig(group_instance_id="one").poll().find().answer(JoinGroupReply(ErrorCode.FENCED_INSTANCE_ID))
    assert rig.told
    assert done(ask(rig)).error_code == ErrorCode.FENCED_INSTANCE_ID


def test_offsets_are_asked_for_when_a_commit_of_the_same_partitions_has_ended() -> None:
    rig = fetch(ask(MemberRig().steady(P0, P1)).cut("OffsetCommit").find())
    assert "OffsetFetch" not in rig.sent_kinds
    rig.pass_time(1_000)  # the commit is tried again; a fetch before it would tell of what was before both
    assert rig.sent_kinds == ["OffsetCommit"]
    rig.answer(committed(ErrorCode.NONE, ErrorCode.NONE))
    assert rig.sent_kinds == ["OffsetFetch"]


def test_offsets_of_other_partitions_wait_for_no_commit() -> None:
    rig = ask(MemberRig().steady(P0, P1))
    rig.feed(OffsetsAsked(3, (P2,), rig.now_ms + 60_000))
    assert rig.sent_kinds == ["OffsetCommit", "OffsetFetch"]


def test_a_commit_keeps_a_fetch_no_longer_than_its_own_deadline() -> None:
    rig = fetch(ask(MemberRig().steady(P0, P1), until=500))
    rig.pass_time(499)
    assert rig.sent_kinds == ["OffsetCommit"]
    rig.pass_time(1)
    assert "OffsetFetch" in rig.sent_kinds
