"""Claims and releases as a member makes them: on a stage, where the test plays the coordinator."""

import pytest

from membership.events import ClaimAsked, ClaimDone, Grant, ReleaseAsked, ReleaseDone
from protocol.errors import ErrorCode
from protocol.messages.groups import JoinGroupReply
from protocol.messages.ownership import (
    ClaimedPartition,
    ClaimItem,
    ClaimPartitions,
    ClaimPartitionsReply,
    ReleaseItem,
    ReleasePartitions,
    ReleasePartitionsReply,
)
from tests.client.member_rig import GROUP, P0, P1, MemberRig

CLAIM = ClaimAsked(7, {P0: 0, P1: 1}, generation_id=1, deadline_ms=60_000)
ASKED = ClaimPartitions(GROUP, "me", 1, (ClaimItem("t", 0, 0), ClaimItem("t", 1, 1)))
GRANTED = ClaimPartitionsReply(
    items=(ClaimedPartition("t", 0, epoch=3, committed_offset=5), ClaimedPartition("t", 1, epoch=1))
)


def _steady() -> MemberRig:
    stage = MemberRig()
    stage.steady(P0, P1)
    return stage


def _done(stage: MemberRig) -> ClaimDone:
    (done,) = (one for one in stage.heard if isinstance(one, ClaimDone))
    return done


def test_what_is_granted_comes_with_its_epoch_and_the_offset_of_that_moment() -> None:
    stage = _steady().feed(CLAIM)
    assert stage.sent == [ASKED]
    done = _done(stage.answer(GRANTED))
    assert done == ClaimDone(7, ErrorCode.NONE, {P0: Grant(3, 5), P1: Grant(1, None)}, {}, "me", 1)


def test_a_claim_whose_answer_is_lost_is_made_again() -> None:
    stage = _steady().feed(CLAIM)
    assert stage.sent == [ASKED]
    stage.cut("ClaimPartitions")
    stage.find().pass_time(200)
    assert [one for one in stage.sent if isinstance(one, ClaimPartitions)] == [ASKED]
    assert _done(stage.answer(GRANTED)).error_code == ErrorCode.NONE


def test_one_partition_that_is_somebody_elses_ends_the_claim_and_says_whose() -> None:
    stage = _steady().feed(CLAIM)
    refused = (ClaimedPartition("t", 0), ClaimedPartition("t", 1, ErrorCode.OWNED, owner="other"))
    done = _done(stage.answer(ClaimPartitionsReply(items=refused)))
    assert (done.error_code, done.grants, done.owners) == (ErrorCode.OWNED, {}, {P1: "other"})


def test_a_claim_that_meets_a_rebalance_ends_and_the_member_joins_again() -> None:
    stage = _steady().feed(CLAIM)
    done = _done(stage.answer(ClaimPartitionsReply(ErrorCode.REBALANCE_IN_PROGRESS)))
    assert done.error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert stage.member.needs_poll


def test_a_claim_of_who_is_no_member_any_more_ends_its_stay() -> None:
    stage = _steady().feed(CLAIM)
    done = _done(stage.answer(ClaimPartitionsReply(ErrorCode.UNKNOWN_MEMBER_ID)))
    assert done.error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert stage.member.member_id == ""


def test_a_claim_of_a_generation_gone_is_not_sent() -> None:
    stage = _steady().feed(ClaimAsked(7, {P0: 0}, generation_id=0, deadline_ms=60_000))
    assert stage.sent == []
    assert _done(stage).error_code == ErrorCode.ILLEGAL_GENERATION


def test_a_claim_that_is_not_answered_ends_in_its_time() -> None:
    stage = _steady().feed(ClaimAsked(7, {P0: 0}, generation_id=1, deadline_ms=3_000))
    stage.pass_time(3_000)
    assert _done(stage).error_code == ErrorCode.REQUEST_TIMED_OUT


def test_a_release_names_who_was_granted_it_and_is_sent_once() -> None:
    stage = _steady().feed(ReleaseAsked(8, {P1: 1, P0: 3}, "old", 0, deadline_ms=60_000))
    assert stage.sent == [ReleasePartitions(GROUP, "old", 0, (ReleaseItem("t", 0, 3), ReleaseItem("t", 1, 1)))]
    assert stage.answer(ReleasePartitionsReply()).heard == [ReleaseDone(8, ErrorCode.NONE)]


def test_a_release_that_is_lost_is_let_be() -> None:
    stage = _steady().feed(ReleaseAsked(8, {P0: 3}, "me", 1, deadline_ms=60_000))
    assert len(stage.sent) == 1
    stage.cut("ReleasePartitions")
    assert ReleaseDone(8, ErrorCode.NETWORK_EXCEPTION) in stage.heard
    stage.find().pass_time(1_000)
    assert "ReleasePartitions" not in stage.sent_kinds


def test_the_lease_runs_from_the_sending_of_what_was_answered() -> None:
    stage = _steady()
    assert stage.member.lease_from_ms == 1_000
    stage.pass_time(3_000)  # a heartbeat is sent
    stage.pass_time(500)
    assert stage.member.lease_from_ms == 1_000
    stage.beat()
    assert stage.member.lease_from_ms == 4_000
    stage.pass_time(3_000).beat(ErrorCode.UNKNOWN_MEMBER_ID)
    assert stage.member.lease_from_ms == 4_000


def test_the_lease_of_a_join_runs_from_its_sending_whatever_comes_after() -> None:
    stage = MemberRig().poll().find().pass_time(2_000)
    stage.join().pass_time(500).sync(P0)
    assert stage.member.lease_from_ms == 1_000, "a SyncGroup in Stable begins no session"


def test_a_join_whose_answer_was_lost_may_have_been_in_the_rebalance_that_the_next_one_tells_of() -> None:
    stage = MemberRig().poll().find()
    stage.cut("JoinGroup")
    stage.pass_time(2_000).find().pass_time(500)
    assert stage.sent_kinds[-1] == "JoinGroup"
    assert stage.join().member.lease_from_ms == 1_000


@pytest.mark.parametrize("code", [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.REBALANCE_IN_PROGRESS])
def test_a_refusal_does_not_say_that_the_join_before_it_was_in_no_rebalance(code: ErrorCode) -> None:
    """A node that crashed between a rebalance and its answers begins all sessions when it has loaded; and of two joins
    of a member the one that comes later, maybe the older one, has the first one refused."""
    stage = MemberRig().poll().find()
    stage.cut("JoinGroup")
    stage.pass_time(2_000).find().answer(JoinGroupReply(code)).pass_time(2_000)
    assert stage.join().member.lease_from_ms == 1_000


def test_a_join_of_a_member_that_was_unknown_was_in_no_rebalance() -> None:
    stage = MemberRig().poll().find()
    stage.answer(JoinGroupReply(ErrorCode.MEMBER_ID_REQUIRED, member_id="me")).pass_time(2_000)
    stage.answer(JoinGroupReply(ErrorCode.UNKNOWN_MEMBER_ID)).pass_time(2_000)
    sent_ms = stage.now_ms - 2_000
    assert stage.join().member.lease_from_ms == sent_ms


def test_a_join_into_the_same_generation_begins_no_lease() -> None:
    stage = _steady().pass_time(3_000)
    assert stage.beat(ErrorCode.REBALANCE_IN_PROGRESS).member.lease_from_ms == 4_000
    stage.pass_time(1_000).poll().released()
    assert stage.sent_kinds[-1] == "JoinGroup"
    assert stage.join(1).member.lease_from_ms == 4_000
    stage.sync(P0)
    assert stage.member.lease_from_ms == 4_000


@pytest.mark.parametrize("code", [ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS])
def test_a_claim_follows_its_coordinator(code: ErrorCode) -> None:
    stage = _steady().feed(CLAIM)
    stage.answer(ClaimPartitionsReply(code))
    if code == ErrorCode.NOT_COORDINATOR:
        stage.find("there", 2)
    stage.pass_time(200)
    claims = [(node, message) for node, message in stage.called if isinstance(message, ClaimPartitions)]
    where = "there" if code == ErrorCode.NOT_COORDINATOR else "here"
    assert [(node and node.host, message) for node, message in claims] == [("here", ASKED), (where, ASKED)]
    assert _done(stage.answer(GRANTED)).error_code == ErrorCode.NONE
