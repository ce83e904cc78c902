"""Cooperative rebalances of a member: what moves is let go of, the rest stays (KIP-429,
docs/spec/consumer-client.md#A7)."""

import pytest

from membership.consumer_protocol import decode_subscription
from membership.events import (
    Assigned,
    Closing,
    CommitAsked,
    LostPartitions,
    OffsetToCommit,
    RejoinAsked,
    Revoked,
    Subscribed,
)
from membership.member import MemberSettings, State
from membership.topic_partition import TopicPartition
from protocol.errors import ErrorCode
from protocol.messages.groups import JoinGroup, JoinGroupReply, SyncGroupReply
from protocol.messages.offsets import OffsetCommit
from tests.client.member_rig import P0, P1, P2, MemberRig

U0 = P0._replace(topic="u")


def cooperative(*topics: str) -> MemberRig:
    return MemberRig(topics=topics or ("t",), assignors=("cooperative-sticky",))


def steady(*partitions: TopicPartition, generation: int = 1) -> MemberRig:
    return cooperative().steady(*partitions, generation=generation)


def joined(rig: MemberRig) -> JoinGroup:
    """The subscription of its newest JoinGroup."""
    return next(one for one in reversed(rig.sent) if isinstance(one, JoinGroup))


def test_it_joins_with_what_it_holds_and_goes_on_holding_it() -> None:
    rig = steady(P0, P1, generation=3).beat(ErrorCode.REBALANCE_IN_PROGRESS).poll()
    assert rig.told == []
    said = decode_subscription(joined(rig).protocols[0].metadata)
    assert (said.owned, said.generation_id) == ((P0, P1), 3)
    assert list(rig.member.held) == [P0, P1]


def test_what_the_assignment_lacks_is_let_go_of_and_another_rebalance_follows() -> None:
    rig = steady(P0, P1).beat(ErrorCode.REBALANCE_IN_PROGRESS).poll().join(2).sync(P0)
    assert rig.told == [Revoked((P1,)), Assigned((P0,), 2, ())]
    assert list(rig.member.held) == [P0, P1]  # its last commit is yet to come
    assert rig.sent_kinds.count("JoinGroup") == 1
    assert rig.poll().sent_kinds.count("JoinGroup") == 0, "not before the application has let go"
    rig.released()
    assert list(rig.member.held) == [P0]
    said = decode_subscription(joined(rig.poll()).protocols[0].metadata)
    assert list(said.owned) == [P0]


def test_the_newcomer_is_given_what_is_free_in_the_round_after() -> None:
    rig = steady().beat(ErrorCode.REBALANCE_IN_PROGRESS).poll().join(2).sync(P1, P2)
    assert rig.told == [Assigned((P1, P2), 2, (P1, P2))]


def test_h23_a_cooperative_rebalance_that_moves_nothing_revokes_nothing_and_assigns_nothing() -> None:
    rig = steady(P0, P1).beat(ErrorCode.REBALANCE_IN_PROGRESS).poll().join(2).sync(P0, P1)
    assert rig.told == [Assigned((P0, P1), 2, ())]
    assert rig.poll().sent_kinds.count("JoinGroup") == 1


def test_h24_partitions_of_a_dropped_topic_are_revoked_before_the_join() -> None:
    rig = cooperative("t", "u").steady(P0, U0)
    rig.feed(Subscribed(("t",))).poll()
    assert rig.told == [Revoked((U0,))]
    assert "JoinGroup" not in rig.sent_kinds
    said = decode_subscription(joined(rig.released()).protocols[0].metadata)
    assert (said.topics, said.owned) == (("t",), (P0,))


def test_h25_an_assignment_for_a_topic_dropped_meanwhile_is_never_seen() -> None:
    rig = cooperative("t", "u").steady(P0).beat(ErrorCode.REBALANCE_IN_PROGRESS).poll().join(2)
    rig.feed(Subscribed(("t",))).sync(P0, U0)
    assert rig.told == []
    assert rig.member.needs_poll
    assert list(rig.member.held) == [P0]


@pytest.mark.parametrize("code", [ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION])
def test_a_generation_lost_in_the_sync_loses_what_was_kept(code: ErrorCode) -> None:
    rig = steady(P0).beat(ErrorCode.REBALANCE_IN_PROGRESS).poll().join(2).answer(SyncGroupReply(error_code=code))
    (lost,) = rig.told
    assert isinstance(lost, LostPartitions)
    assert lost.partitions == (P0,)
    assert "JoinGroup" not in rig.sent_kinds[2:]
    rig.released()
    said = decode_subscription(joined(rig).protocols[0].metadata)
    assert said.owned == ()


def test_an_id_that_is_unknown_in_the_join_loses_what_was_kept() -> None:
    rig = steady(P0).beat(ErrorCode.REBALANCE_IN_PROGRESS).poll()
    rig.answer(JoinGroupReply(error_code=ErrorCode.UNKNOWN_MEMBER_ID))
    assert [type(one) for one in rig.told] == [LostPartitions]
    assert joined(rig.released()).member_id == ""


@pytest.mark.parametrize("has_joined", [False, True])
def test_closing_in_the_middle_of_a_rebalance_loses_what_was_kept_which_may_be_committed_before(
    *, has_joined: bool
) -> None:
    rig = steady(P0, generation=4).beat(ErrorCode.REBALANCE_IN_PROGRESS).poll()
    generation = 4
    if has_joined:
        rig.join(5)
        generation = 5
    rig.feed(Closing())
    (lost,) = rig.told
    assert isinstance(lost, LostPartitions)
    assert (lost.partitions, lost.still_counts) == ((P0,), True)
    assert rig.sent_kinds[-1] != "LeaveGroup"
    (commit,) = rig.feed(CommitAsked(1, {P0: OffsetToCommit(7)}, rig.now_ms + 1_000)).sent
    assert isinstance(commit, OffsetCommit)
    assert (commit.generation_id, commit.member_id) == (generation, "me")
    assert rig.released().sent_kinds == ["LeaveGroup"]


def test_closing_with_the_generation_gone_leaves_nothing_to_commit() -> None:
    rig = steady(P0).beat(ErrorCode.ILLEGAL_GENERATION).feed(Closing())
    (lost,) = rig.told
    assert isinstance(lost, LostPartitions)
    assert not lost.still_counts


def test_closing_while_a_part_is_let_go_of_revokes_the_rest_too() -> None:
    rig = steady(P0, P1).beat(ErrorCode.REBALANCE_IN_PROGRESS).poll().join(2).sync(P0)
    assert rig.told[0] == Revoked((P1,))
    rig.feed(Closing())
    assert rig.released().told == [Revoked((P0,))]
    assert rig.released().sent_kinds[-1] == "LeaveGroup"


def test_one_eager_assignor_makes_it_eager() -> None:
    assert MemberSettings(group_id="g", assignors=("cooperative-sticky",)).is_cooperative
    rig = MemberRig(assignors=("range", "cooperative-sticky")).steady(P0).beat(ErrorCode.REBALANCE_IN_PROGRESS).poll()
    assert rig.told == [Revoked((P0,))]


def test_an_application_may_ask_for_a_rebalance() -> None:
    rig = steady(P0).feed(RejoinAsked("more memory")).poll()
    assert joined(rig).reason == "more memory"
    assert rig.member.state is State.JOINING


def test_with_nobody_left_to_read_for_it_lets_go_and_leaves() -> None:
    rig = steady(P0).feed(Subscribed(())).poll()
    assert rig.told == [Revoked((P0,))]
    assert rig.released().sent_kinds[-1] == "LeaveGroup"
