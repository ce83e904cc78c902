"""Claims and releases as a member makes them: on a rig, where the test answers as the coordinator."""

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
    rig = MemberRig()
    rig.steady(P0, P1)
    return rig


def _done(rig: MemberRig) -> ClaimDone:
    (done,) = (one for one in rig.heard if isinstance(one, ClaimDone))
    return done


def test_what_is_granted_comes_with_its_epoch_and_the_offset_of_that_moment() -> None:
    rig = _steady().feed(CLAIM)
    assert rig.sent == [ASKED]
    done = _done(rig.answer(GRANTED))
    assert done == ClaimDone(7, ErrorCode.NONE, {P0: Grant(3, 5), P1: Grant(1, None)}, {}, "me", 1)


def test_a_claim_whose_answer_is_lost_is_made_again() -> None:
    rig = _steady().feed(CLAIM)
    assert rig.sent == [ASKED]
    rig.cut("ClaimPartitions")
    rig.find().pass_time(200)
    assert [one for one in rig.sent if isinstance(one, ClaimPartitions)] == [ASKED]
    assert _done(rig.answer(GRANTED)).error_code == ErrorCode.NONE


def test_one_partition_that_is_somebody_elses_ends_the_claim_and_says_whose() -> None:
    rig = _steady().feed(CLAIM)
    refused = (ClaimedPartition("t", 0), ClaimedPartition("t", 1, ErrorCode.OWNED, owner="other"))
    done = _done(rig.answer(ClaimPartitionsReply(items=refused)))
    assert (done.error_code, done.grants, done.owners) == (ErrorCode.OWNED, {}, {P1: "other"})


def test_a_claim_that_meets_a_rebalance_ends_and_the_member_joins_again() -> None:
    rig = _steady().feed(CLAIM)
    done = _done(rig.answer(ClaimPartitionsReply(ErrorCode.REBALANCE_IN_PROGRESS)))
    assert done.error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert rig.member.needs_poll


def test_a_claim_of_who_is_no_member_any_more_ends_its_stay() -> None:
    rig = _steady().feed(CLAIM)
    done = _done(rig.answer(ClaimPartitionsReply(ErrorCode.UNKNOWN_MEMBER_ID)))
    assert done.error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert rig.member.member_id == ""


def test_a_claim_of_a_generation_gone_is_not_sent() -> None:
    rig = _steady().feed(ClaimAsked(7, {P0: 0}, generation_id=0, deadline_ms=60_000))
    assert rig.sent == []
    assert _done(rig).error_code == ErrorCode.ILLEGAL_GENERATION


def test_a_claim_that_is_not_answered_ends_in_its_time() -> None:
    rig = _steady().feed(ClaimAsked(7, {P0: 0}, generation_id=1, deadline_ms=3_000))
    rig.pass_time(3_000)
    assert _done(rig).error_code == ErrorCode.REQUEST_TIMED_OUT


def test_a_release_names_who_was_granted_it_and_is_sent_once() -> None:
    rig = _steady().feed(ReleaseAsked(8, {P1: 1, P0: 3}, "old", 0, deadline_ms=60_000))
    assert rig.sent == [ReleasePartitions(GROUP, "old", 0, (ReleaseItem("t", 0, 3), ReleaseItem("t", 1, 1)))]
    assert rig.answer(ReleasePartitionsReply()).heard == [ReleaseDone(8, ErrorCode.NONE)]


def test_a_release_that_is_lost_is_let_be() -> None:
    rig = _steady().feed(ReleaseAsked(8, {P0: 3}, "me", 1, deadline_ms=60_000))
    assert len(rig.sent) == 1
    rig.cut("ReleasePartitions")
    assert ReleaseDone(8, ErrorCode.NETWORK_EXCEPTION) in rig.heard
    rig.find().pass_time(1_000)
    assert "ReleasePartitions" not in rig.sent_kinds


def test_the_lease_runs_from_the_sending_of_what_was_answered() -> None:
    rig = _steady()
    assert rig.member.lease_from_ms == 1_000
    rig.pass_time(3_000)  # a heartbeat is sent
    rig.pass_time(500)
    assert rig.member.lease_from_ms == 1_000
    rig.beat()
    assert rig.member.lease_from_ms == 4_000
    rig.pass_time(3_000).beat(ErrorCode.UNKNOWN_MEMBER_ID)
    assert rig.member.lease_from_ms == 4_000


def test_the_lease_of_a_join_runs_from_its_sending_whatever_comes_after() -> None:
    rig = MemberRig().poll().find().pass_time(2_000)
    rig.join().pass_time(500).sync(P0)
    assert rig.member.lease_from_ms == 1_000, "a SyncGroup in Stable begins no session"


def test_a_join_whose_answer_was_lost_may_have_been_in_the_rebalance_that_the_next_one_tells_of() -> None:
    rig = MemberRig().poll().find()
    rig.cut("JoinGroup")
    rig.pass_time(2_000).find().pass_time(500)
    assert rig.sent_kinds[-1] == "JoinGroup"
    assert rig.join().member.lease_from_ms == 1_000


@pytest.mark.parametrize("code", [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.REBALANCE_IN_PROGRESS])
def test_a_refusal_does_not_say_that_the_join_before_it_was_in_no_rebalance(code: ErrorCode) -> None:
    """A node that crashed between a rebalance and its answers begins all sessions when it has loaded; and of two joins
    of a member the one that comes later, maybe the older one, has the first one refused."""
    rig = MemberRig().poll().find()
    rig.cut("JoinGroup")
    rig.pass_time(2_000).find().answer(JoinGroupReply(code)).pass_time(2_000)
    assert rig.join().member.lease_from_ms == 1_000


def test_a_join_of_a_member_that_was_unknown_was_in_no_rebalance() -> None:
    rig = MemberRig().poll().find()
    rig.answer(JoinGroupReply(ErrorCode.MEMBER_ID_REQUIRED, member_id="me")).pass_time(2_000)
    rig.answer(JoinGroupReply(ErrorCode.UNKNOWN_MEMBER_ID)).pass_time(2_000)
    sent_ms = rig.now_ms - 2_000
    assert rig.join().member.lease_from_ms == sent_ms


def test_a_join_into_the_same_generation_begins_no_lease() -> None:
    rig = _steady().pass_time(3_000)
    assert rig.beat(ErrorCode.REBALANCE_IN_PROGRESS).member.lease_from_ms == 4_000
    rig.pass_time(1_000).poll().released()
    assert rig.sent_kinds[-1] == "JoinGroup"
    assert rig.join(1).member.lease_from_ms == 4_000
    rig.sync(P0)
    assert rig.member.lease_from_ms == 4_000


@pytest.mark.parametrize("code", [ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS])
def test_a_claim_follows_its_coordinator(code: ErrorCode) -> None:
    rig = _steady().feed(CLAIM)
    rig.answer(ClaimPartitionsReply(code))
    if code == ErrorCode.NOT_COORDINATOR:
        rig.find("there", 2)
    rig.pass_time(200)
    claims = [(node, message) for node, message in rig.called if isinstance(message, ClaimPartitions)]
    where = "there" if code == ErrorCode.NOT_COORDINATOR else "here"
    assert [(node and node.host, message) for node, message in claims] == [("here", ASKED), (where, ASKED)]
    assert _done(rig.answer(GRANTED)).error_code == ErrorCode.NONE
