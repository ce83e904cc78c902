"""A member joins, keeps its place, and loses it: what it was told, what it asked for
(docs/spec/consumer-client.md#A3 to #A7)."""

import itertools

import pytest

from membership.consumer_protocol import ConsumerSubscription, decode_assignment, decode_subscription
from membership.core import TABLE
from membership.events import Assigned, Closed, Closing, Fatal, HangUp, LostPartitions, NodeAddress, Revoked, Subscribed
from membership.member import MemberSettings, State
from protocol.errors import ErrorCode
from protocol.messages.groups import (
    CoordinatorMoved,
    Heartbeat,
    HeartbeatReply,
    JoinGroup,
    JoinGroupReply,
    LeaveGroup,
    LeaveGroupReply,
    LeavingMember,
    MemberRemoved,
    RebalanceStarted,
    SyncGroup,
    SyncGroupReply,
)
from protocol.messages.node import ErrorReply, FindCoordinator, FindCoordinatorReply, FoundCoordinator
from protocol.messages.topics import Metadata, MetadataReply, MetadataTopic
from tests.client.member_rig import GROUP, P0, P1, P2, MemberRig, metadata, roster

# --------------------------------------------------------------------------------------------------------- getting in


def test_nothing_is_sent_before_the_first_poll() -> None:
    rig = MemberRig()
    assert rig.pass_time(100_000).sent == []
    assert rig.member.next_deadline_ms is None


def test_a_follower_finds_its_coordinator_joins_syncs_and_is_given_its_share() -> None:
    rig = MemberRig().poll()
    assert rig.sent == [FindCoordinator((GROUP,))]
    (join,) = rig.find().sent
    assert isinstance(join, JoinGroup)
    assert (join.member_id, join.session_timeout_ms, join.rebalance_timeout_ms) == ("", 10_000, 60_000)
    assert [offer.name for offer in join.protocols] == ["range", "roundrobin"]
    assert decode_subscription(join.protocols[0].metadata) == ConsumerSubscription(("t",))
    assert rig.join(5).sent == [SyncGroup(GROUP, 5, "me", None, "consumer", "range", ())]
    assert rig.sync(P0, P1).told == [
        Assigned(
            (
                P0,
                P1,
            ),
            5,
            (
                P0,
                P1,
            ),
        )
    ]
    assert rig.member.state is State.STEADY
    assert not rig.member.needs_poll


def test_the_member_id_it_is_given_first_is_used_at_once() -> None:
    rig = MemberRig().poll().find()
    rig.answer(JoinGroupReply(ErrorCode.MEMBER_ID_REQUIRED, member_id="given"))
    first, second = (one for one in rig.sent if isinstance(one, JoinGroup))
    assert (first.member_id, second.member_id) == ("", "given")


def test_the_leader_learns_the_partitions_of_all_topics_and_shares_them_out() -> None:
    rig = MemberRig().poll().find()
    rig.answer(
        JoinGroupReply(
            generation_id=1,
            protocol_name="range",
            leader="me",
            member_id="me",
            members=roster("me") + roster("you", topics=("t", "u")),
        )
    )
    assert rig.sent[-1] == Metadata((MetadataTopic("t"), MetadataTopic("u")))
    (sync,) = rig.answer(metadata(t=3)).sent
    assert isinstance(sync, SyncGroup)
    assert {one.member_id: decode_assignment(one.assignment).partitions for one in sync.assignments} == {
        "me": (P0, P1),
        "you": (P2,),
    }


def test_a_member_whose_words_cannot_be_read_gets_nothing_and_disturbs_nobody() -> None:
    rig = MemberRig().poll().find()
    broken = roster("broken")[0].__class__("broken", None, b"\x00")
    reply = JoinGroupReply(
        generation_id=1, protocol_name="range", leader="me", member_id="me", members=(*roster("me"), broken)
    )
    (sync,) = (one for one in rig.answer(reply).answer(metadata(t=1)).sent if isinstance(one, SyncGroup))
    assert [decode_assignment(one.assignment).partitions for one in sync.assignments] == [(P0,), ()]


def test_a_leader_told_to_skip_the_assignment_syncs_without_one() -> None:
    rig = MemberRig(group_instance_id="one").poll().find()
    rig.answer(
        JoinGroupReply(
            generation_id=3,
            protocol_name="range",
            leader="me",
            member_id="me",
            members=roster("me", "you"),
            skip_assignment=True,
        )
    )
    sync = rig.sent[-1]
    assert isinstance(sync, SyncGroup)
    assert sync.assignments == ()


def test_lookups_that_fail_wait_longer_each_time() -> None:
    rig = MemberRig(jitter=0.5).poll()
    waits = []
    for _ in range(6):
        assert FindCoordinator((GROUP,)) in rig.sent
        asked_at = rig.now_ms
        rig.answer(FindCoordinatorReply((FoundCoordinator(GROUP, error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE),)))
        rig.answer(MetadataReply())
        due = rig.member.next_deadline_ms
        assert due is not None
        waits.append(due - asked_at)
        rig.pass_time(due - rig.now_ms)
    assert waits == [100, 200, 400, 800, 1_000, 1_000]


def test_h6_a_lookup_refused_for_good_is_fatal_once_and_tried_again_by_the_next_poll() -> None:
    rig = MemberRig().poll()
    rig.answer(FindCoordinatorReply((FoundCoordinator(GROUP, error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED),)))
    (fatal,) = rig.told
    assert isinstance(fatal, Fatal)
    assert fatal.error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
    assert rig.sent_kinds == ["FindCoordinator"]
    assert rig.pass_time(10_000).sent == []
    assert rig.poll().sent == [FindCoordinator((GROUP,))]


def test_h5_a_coordinator_that_cannot_be_reached_is_looked_for_again() -> None:
    rig = MemberRig().poll().find("gone", 9).cut("JoinGroup")
    assert rig.heard == [HangUp(NodeAddress("gone", 9, 0))]
    assert rig.sent[-1] == FindCoordinator((GROUP,))
    rig.find("there", 2).pass_time(200)
    assert isinstance(rig.sent[-1], JoinGroup)


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.INVALID_GROUP_ID,
        ErrorCode.GROUP_MAX_SIZE_REACHED,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.UNSUPPORTED_VERSION,
    ],
)
def test_a_join_refused_for_good_is_fatal(code: ErrorCode) -> None:
    rig = MemberRig().poll().find().answer(JoinGroupReply(code))
    assert [type(one) for one in rig.told] == [Fatal]
    assert rig.member.state is State.UNJOINED


@pytest.mark.parametrize(
    ("code", "sentence"),
    [
        (ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "offer no assignor of range"),
        (
            ErrorCode.INVALID_SESSION_TIMEOUT,
            f"session_timeout_ms is {MemberRig().settings.session_timeout_ms}, outside",
        ),
    ],
)
def test_a_join_refused_for_a_setting_names_it(code: ErrorCode, sentence: str) -> None:
    """Kafka's brokers send a number and no word."""
    for reply in (JoinGroupReply(code), ErrorReply(code, "not so")):
        rig = MemberRig().poll().find().answer(reply, "JoinGroup")
        (said,) = rig.told
        assert isinstance(said, Fatal)
        assert sentence in said.reason
        assert ("(not so)" in said.reason) == isinstance(reply, ErrorReply)
        assert rig.member.state is State.UNJOINED


def test_a_request_refused_as_a_whole_says_why() -> None:
    rig = MemberRig().poll().find().answer(ErrorReply(ErrorCode.INVALID_REQUEST, "group_id is too long"), "JoinGroup")
    assert rig.told == [
        Fatal(ErrorCode.INVALID_REQUEST, f"cannot join group {GROUP}: INVALID_REQUEST (group_id is too long)")
    ]


def test_loading_coordinators_are_asked_again_after_a_pause() -> None:
    rig = MemberRig().poll().find().answer(JoinGroupReply(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
    assert rig.sent_kinds == ["FindCoordinator", "JoinGroup"]
    assert rig.pass_time(99).sent == []
    assert rig.pass_time(1).sent_kinds == ["JoinGroup"]


def test_a_join_may_take_as_long_as_the_rebalance_and_then_counts_as_lost() -> None:
    rig = MemberRig().poll().find()
    assert rig.sent_kinds == ["FindCoordinator", "JoinGroup"]
    assert rig.pass_time(64_999).sent == []
    assert rig.pass_time(1).heard == [HangUp(NodeAddress("here", 1, 0))]


# ---------------------------------------------------------------------------------------------------------- rebalances


def test_a_rebalance_is_served_from_poll_and_from_nowhere_else() -> None:
    rig = MemberRig().steady(P0, P1).beat(ErrorCode.REBALANCE_IN_PROGRESS)
    assert rig.member.needs_poll
    rig.beat(ErrorCode.REBALANCE_IN_PROGRESS).beat(ErrorCode.REBALANCE_IN_PROGRESS)
    assert set(rig.sent_kinds) == {"Heartbeat"}
    assert rig.told == []
    assert rig.poll().told == [Revoked((P0, P1))]
    assert rig.sent == []
    (join,) = rig.released().sent
    assert isinstance(join, JoinGroup)
    assert (join.member_id, join.reason) == ("me", "the group is rebalancing")
    assert rig.join(2).sync(P0).told == [Assigned((P0,), 2, (P0,))]


def test_while_the_application_lets_go_heartbeats_go_on() -> None:
    rig = MemberRig().steady(P0).beat(ErrorCode.REBALANCE_IN_PROGRESS).poll()
    assert rig.member.state is State.RELEASING
    assert rig.sent_kinds == ["Heartbeat"]
    assert rig.beat().beat().sent_kinds == ["Heartbeat", "Heartbeat"]


def test_h21_with_nothing_held_letting_go_is_still_told() -> None:
    rig = MemberRig().steady().beat(ErrorCode.REBALANCE_IN_PROGRESS).poll()
    assert rig.told == [Revoked(())]
    assert rig.released().join(2).sync().told == [Assigned((), 2, ())]


def test_h9_a_sync_answered_with_rebalance_joins_again_under_the_same_id() -> None:
    rig = MemberRig().poll().find().join().answer(SyncGroupReply(ErrorCode.REBALANCE_IN_PROGRESS))
    join = rig.sent[-1]
    assert isinstance(join, JoinGroup)
    assert join.member_id == "me"
    assert rig.told == []


@pytest.mark.parametrize(
    ("code", "member_id"), [(ErrorCode.ILLEGAL_GENERATION, "me"), (ErrorCode.UNKNOWN_MEMBER_ID, "")]
)
def test_a_sync_that_came_too_late_joins_again(code: ErrorCode, member_id: str) -> None:
    rig = MemberRig().poll().find().join().answer(SyncGroupReply(code))
    join = rig.sent[-1]
    assert isinstance(join, JoinGroup)
    assert join.member_id == member_id
    assert rig.member.generation_id == -1


def test_a_sync_cut_off_looks_for_the_coordinator_and_joins_again() -> None:
    rig = MemberRig().poll().find().join().cut("SyncGroup")
    assert rig.sent[-1] == FindCoordinator((GROUP,))
    rig.find().pass_time(1_000)
    assert isinstance(rig.sent[-1], JoinGroup)


def test_syncs_refused_again_and_again_are_tried_at_growing_distances() -> None:
    rig = MemberRig().poll().find()
    pauses = []
    for _ in range(5):
        rig.join()
        refused_ms = rig.now_ms
        rig.answer(SyncGroupReply(ErrorCode.NOT_COORDINATOR)).find()
        while not any(isinstance(one, JoinGroup) for one in rig.waiting.values()):
            rig.pass_time(10)
        pauses.append(rig.now_ms - refused_ms)
    assert pauses == sorted(pauses)
    assert pauses[-1] > 4 * pauses[0]


def test_the_assignment_of_another_protocol_is_fatal() -> None:
    rig = MemberRig().poll().find().join().answer(SyncGroupReply(protocol_name="sticky"))
    (fatal,) = rig.told
    assert isinstance(fatal, Fatal)
    assert fatal.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_an_assignment_that_cannot_be_read_is_fatal() -> None:
    rig = MemberRig().poll().find().join().answer(SyncGroupReply(assignment=b"\x00\x03\x7f"))
    assert [type(one) for one in rig.told] == [Fatal]


def test_a_changed_subscription_makes_the_next_poll_rejoin() -> None:
    rig = MemberRig().steady(P0).feed(Subscribed(("u",)))
    assert rig.member.needs_poll
    rig.poll().released()
    (join,) = rig.sent
    assert isinstance(join, JoinGroup)
    assert decode_subscription(join.protocols[0].metadata).topics == ("u",)


def test_a_share_of_a_topic_no_longer_wanted_is_not_shown_and_the_member_rejoins() -> None:
    rig = MemberRig().poll().find().join().feed(Subscribed(("u",))).sync(P0)
    assert rig.told == []
    assert rig.member.needs_poll


def test_a_leader_rejoins_when_a_topic_grows() -> None:
    rig = MemberRig().poll().find().join(leader="me").answer(metadata(t=1)).sync(P0)
    assert rig.sent_kinds == ["FindCoordinator", "JoinGroup", "Metadata", "SyncGroup"]
    for _ in range(100):
        rig.poll().beat()
    assert rig.sent_kinds.count("Metadata") == 1
    rig.answer(metadata(t=2)).poll()
    assert rig.told == [Assigned((P0,), 1, (P0,)), Revoked((P0,))]


def test_a_leader_looks_again_soon_for_a_topic_that_is_not_there() -> None:
    rig = MemberRig().poll().find().join(leader="me").answer(MetadataReply()).sync()
    assert rig.pass_time(1_000).sent_kinds[-1] == "Metadata"
    rig.answer(metadata(t=3))
    assert rig.member.needs_poll


# ---------------------------------------------------------------------------------------------------------- heartbeats


def test_a_heartbeat_goes_out_every_interval() -> None:
    rig = MemberRig().steady(P0)
    assert rig.pass_time(2_999).sent == []
    assert rig.pass_time(1).sent == [Heartbeat(GROUP, 1, "me")]
    assert rig.answer(HeartbeatReply()).pass_time(3_000).sent == [Heartbeat(GROUP, 1, "me")]


def test_an_unanswered_heartbeat_is_not_followed_by_another() -> None:
    rig = MemberRig().steady(P0).pass_time(8_000)
    assert rig.sent_kinds == ["Heartbeat"]


def test_h11_a_member_the_coordinator_forgot_loses_its_share_at_the_next_poll_and_joins_as_new() -> None:
    rig = MemberRig().steady(P0).beat(ErrorCode.UNKNOWN_MEMBER_ID)
    assert rig.told == []
    assert (rig.member.member_id, rig.member.generation_id) == ("", -1)
    assert rig.poll().told == [LostPartitions((P0,), "the coordinator answered UNKNOWN_MEMBER_ID")]
    join = rig.released().sent[-1]
    assert isinstance(join, JoinGroup)
    assert join.member_id == ""
    assert rig.join(9, member_id="again").sync(P0).told == [Assigned((P0,), 9, (P0,))]


def test_a_generation_gone_keeps_the_member_id() -> None:
    rig = MemberRig().steady(P0).beat(ErrorCode.ILLEGAL_GENERATION).poll().released()
    join = rig.sent[-1]
    assert isinstance(join, JoinGroup)
    assert join.member_id == "me"


def test_h12_a_late_word_about_an_older_generation_is_ignored() -> None:
    rig = MemberRig().steady(P0).pass_time(3_000)  # a heartbeat of generation 1 is under way
    rig.push(RebalanceStarted(GROUP, 1, "member-joined", "other", 60_000)).poll().released().join(2).sync(P0)
    rig.answer(HeartbeatReply(ErrorCode.UNKNOWN_MEMBER_ID))
    assert rig.member.state is State.STEADY
    assert (rig.member.member_id, rig.member.generation_id) == ("me", 2)


def test_h14_a_coordinator_that_moved_is_found_again_and_the_generation_goes_on() -> None:
    rig = MemberRig().steady(P0).beat(ErrorCode.NOT_COORDINATOR)
    assert rig.heard == [HangUp(NodeAddress("here", 1, 0))]
    assert rig.sent_kinds == ["Heartbeat", "FindCoordinator"]
    rig.find("there", 2).pass_time(200)
    assert rig.sent == [Heartbeat(GROUP, 1, "me")]
    assert rig.poll().told == []


def test_silence_for_a_session_makes_it_doubt_the_coordinator_not_its_place() -> None:
    rig = MemberRig(request_timeout_ms=60_000).steady(P0).pass_time(10_000)
    assert HangUp(NodeAddress("here", 1, 0)) in rig.heard
    assert rig.sent_kinds == ["Heartbeat", "FindCoordinator"]
    assert rig.member.state is State.STEADY
    assert rig.member.generation_id == 1


def test_h16_fencing_is_told_by_every_poll_from_then_on_and_nothing_more_is_sent() -> None:
    rig = MemberRig(group_instance_id="one").steady(P0).beat(ErrorCode.FENCED_INSTANCE_ID)
    (fatal,) = rig.told
    assert isinstance(fatal, Fatal)
    assert "instance id 'one'" in fatal.reason
    assert rig.sent_kinds == ["Heartbeat"]
    assert [type(one) for one in rig.poll().poll().told] == [Fatal, Fatal]
    assert rig.pass_time(100_000).sent == []


# --------------------------------------------------------------------------------------------------------------- hints


def test_a_pushed_rebalance_spares_the_wait_for_the_heartbeat() -> None:
    rig = MemberRig().steady(P0).push(RebalanceStarted(GROUP, 1, "member-joined", "other", 60_000))
    assert rig.member.needs_poll
    assert rig.poll().told == [Revoked((P0,))]


def test_a_push_for_another_group_or_an_older_generation_says_nothing() -> None:
    rig = MemberRig().steady(P0, generation=4)
    rig.push(RebalanceStarted("else", 4, "x", "y", 1)).push(RebalanceStarted(GROUP, 3, "x", "y", 1))
    assert not rig.member.needs_poll


def test_a_pushed_removal_is_checked_with_a_heartbeat_at_once() -> None:
    rig = MemberRig().steady(P0).push(MemberRemoved(GROUP, "me", "session"))
    assert rig.sent == [Heartbeat(GROUP, 1, "me")]
    assert rig.push(MemberRemoved(GROUP, "other", "session")).sent == []


def test_a_pushed_move_looks_for_the_coordinator() -> None:
    rig = MemberRig().steady(P0).push(CoordinatorMoved(GROUP, 2, "there", 2))
    assert rig.sent == [FindCoordinator((GROUP,))]


# ------------------------------------------------------------------------------------------------- polls that stay out


def test_a_member_nobody_polls_leaves_and_is_told_so_later() -> None:
    rig = MemberRig(request_timeout_ms=200_000, session_timeout_ms=150_000).steady(P0).pass_time(60_000)
    leave = rig.sent[-1]
    assert leave == LeaveGroup(GROUP, (LeavingMember("me", reason="poll was not called for 60000 ms"),))
    assert rig.pass_time(100_000).sent == []
    assert rig.poll().told == [LostPartitions((P0,), "poll was not called for 60000 ms")]
    join = rig.released().sent[-1]
    assert isinstance(join, JoinGroup)
    assert join.member_id == ""


def test_a_static_member_nobody_polls_falls_silent_but_does_not_leave() -> None:
    rig = MemberRig(group_instance_id="one", request_timeout_ms=200_000, session_timeout_ms=150_000).steady(P0)
    rig.pass_time(60_000)
    assert set(rig.sent_kinds) == {"Heartbeat"}
    assert rig.member.state is State.UNJOINED


def test_an_application_that_takes_too_long_to_let_go_leaves_too() -> None:
    rig = MemberRig(request_timeout_ms=200_000, session_timeout_ms=150_000).steady(P0)
    rig.push(RebalanceStarted(GROUP, 1, "x", "y", 1)).poll().pass_time(60_000)
    assert rig.sent_kinds[-1] == "LeaveGroup"
    join = rig.released().sent[-1]
    assert isinstance(join, JoinGroup)
    assert join.member_id == ""


# ------------------------------------------------------------------------------------------------------------- leaving


def test_closing_lets_go_then_leaves_then_is_done() -> None:
    rig = MemberRig().steady(P0).feed(Closing())
    assert rig.told == [Revoked((P0,))]
    assert rig.sent == []
    assert rig.released().sent_kinds == ["LeaveGroup"]
    assert rig.answer(LeaveGroupReply()).heard == [Closed()]
    assert rig.member.is_closed
    assert rig.poll().sent == []
    assert rig.member.next_deadline_ms is None


def test_closing_does_not_wait_for_a_dead_coordinator() -> None:
    rig = MemberRig().steady(P0).feed(Closing()).released()
    assert rig.cut("LeaveGroup").heard[-1] == Closed()


def test_closing_gives_up_on_a_coordinator_that_does_not_answer() -> None:
    rig = MemberRig().steady(P0).feed(Closing()).released().pass_time(5_000)
    assert rig.heard[-1] == Closed()


def test_a_static_member_keeps_its_place_when_it_closes() -> None:
    rig = MemberRig(group_instance_id="one").steady(P0).feed(Closing()).released()
    assert rig.sent == []
    assert rig.heard == [Revoked((P0,)), Closed()]


def test_closing_while_joining_leaves_under_the_id_it_was_promised() -> None:
    rig = MemberRig().poll().find().answer(JoinGroupReply(ErrorCode.MEMBER_ID_REQUIRED, member_id="given"))
    assert rig.feed(Closing()).sent[-1] == LeaveGroup(
        GROUP, (LeavingMember("given", reason="joining for the first time"),)
    )


def test_closing_before_anything_happened_is_done_at_once() -> None:
    assert MemberRig().feed(Closing()).heard == [Closed()]


def test_closing_with_a_place_already_lost_says_so() -> None:
    rig = MemberRig().steady(P0).beat(ErrorCode.UNKNOWN_MEMBER_ID).feed(Closing())
    assert [type(one) for one in rig.told] == [LostPartitions]
    assert rig.released().heard == [Closed()]


def test_closing_while_letting_go_waits_for_that_once() -> None:
    rig = MemberRig().steady(P0).push(RebalanceStarted(GROUP, 1, "x", "y", 1)).poll().feed(Closing())
    assert rig.told == [Revoked((P0,))]
    assert rig.released().sent_kinds == ["LeaveGroup"]


# ------------------------------------------------------------------------------------------------------------ the table


def test_every_event_has_a_cell_for_every_state() -> None:
    assert all(set(cells) == set(State) for cells in TABLE.values())


def test_every_answer_in_every_state_leaves_a_member_that_can_go_on() -> None:
    """A poll or a deadline follows any answer to any request: no member is stuck."""
    replies = [SyncGroupReply, HeartbeatReply, JoinGroupReply]
    for reply, code, upto in itertools.product(replies, ErrorCode, range(4)):
        rig = MemberRig().poll()
        for step in (MemberRig.find, MemberRig.join, MemberRig.sync)[:upto]:
            step(rig)
        rig.pass_time(3_000)
        kind = reply.__name__.removesuffix("Reply")
        if not any(type(one).__name__ == kind for one in rig.waiting.values()):
            continue
        rig.answer(reply(code))
        alive = rig.member.next_deadline_ms is not None or rig.member.needs_poll
        assert alive, f"{code!r} to {kind} in {rig.member.state}"


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"group_id": ""}, "group_id is empty"),
        ({"group_id": 5}, "group_id is 5"),
        ({"heartbeat_interval_ms": 10_000, "session_timeout_ms": 10_000}, "below session_timeout_ms"),
        ({"max_poll_interval_ms": 0}, "max_poll_interval_ms is 0"),
        ({"assignors": ()}, "assignors is empty"),
        ({"assignors": ("rnage",)}, "no assignor named 'rnage'"),
    ],
)
def test_settings_that_cannot_work_are_refused_with_a_sentence(settings: dict[str, object], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        MemberSettings(**{"group_id": GROUP, **settings})  # type: ignore[arg-type]
