"""Joining, staying and leaving (docs/spec/consumer-group-protocol.md#17)."""

import pytest

from membership.events import Assigned, Closed, Closing, Fatal, LostPartitions, Revoked, Subscribed
from membership.member import State
from membership.topic_partition import TopicPartition
from protocol.errors import ErrorCode
from protocol.messages.consumer_groups import AssignmentChanged, ConsumerGroupHeartbeat, TopicIdPartitions
from protocol.messages.groups import CoordinatorMoved, MemberRemoved
from protocol.messages.topics import Metadata, MetadataTopic
from tests.client.server_driven.rig import GROUP, IDS, T0, T1, ServerDrivenRig, accepted, refused

U1 = TopicPartition("u", 1)
T_OWNED = (TopicIdPartitions(IDS["t"], (0, 1)),)


def test_a_member_joins_with_everything_it_has_to_say() -> None:
    rig = ServerDrivenRig(topics=("u", "t"), rack_id="r", server_assignor="range", group_protocol="consumer")
    assert rig.sent == []
    assert rig.member.needs_poll
    rig.poll()
    assert rig.sent_kinds == ["FindCoordinator"]
    rig.find()
    beat = rig.last_beat
    assert len(beat.member_id) == 22
    assert beat == ConsumerGroupHeartbeat(
        GROUP,
        beat.member_id,
        0,
        rack_id="r",
        rebalance_timeout_ms=60_000,
        subscribed_topic_names=("t", "u"),
        server_assignor="range",
        topic_partitions=(),
    )
    assert not rig.member.is_steady


def test_an_assignment_is_taken_once_its_topics_have_names_and_reported_at_once() -> None:
    rig = ServerDrivenRig()
    rig.poll().find()
    _ = rig.sent
    rig.hear(2, T0, T1)
    assert rig.told == []
    assert rig.sent == [Metadata((MetadataTopic(None, IDS["t"]),))]
    rig.name_topics()
    assert rig.told == [Assigned((T0, T1), 2, (T0, T1))]
    assert rig.last_beat == ConsumerGroupHeartbeat(GROUP, rig.member.member_id, 2, topic_partitions=T_OWNED)
    assert rig.member.is_steady
    assert rig.member.generation_id == 2


def test_a_heartbeat_that_says_nothing_new_comes_at_the_interval_that_the_coordinator_gave() -> None:
    rig = ServerDrivenRig().holding(T0, T1)
    rig.pass_time(4_999)
    assert rig.sent == []
    rig.pass_time(1)
    assert rig.last_beat == ConsumerGroupHeartbeat(GROUP, rig.member.member_id, 2)
    rig.answer(accepted(2, unchanged=True, interval_ms=100))
    rig.pass_time(100)
    assert rig.last_beat.topic_partitions is None
    assert rig.told == []


def test_a_topic_without_a_name_is_waited_for_and_the_others_are_taken() -> None:
    rig = ServerDrivenRig(topics=("t", "u")).holding(T0)
    rig.pass_time(5_000)
    rig.answer(accepted(3, T0, U1))
    assert rig.told == []
    assert not rig.member.is_steady
    rig.name_topics("t")
    _ = rig.sent
    rig.pass_time(1_000)
    assert rig.sent_kinds == ["Metadata"]
    rig.name_topics("u")
    assert rig.told == [Assigned((T0, U1), 3, (U1,))]


# --- errors ---


@pytest.mark.parametrize("code", [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.REQUEST_TIMED_OUT])
def test_after_an_error_that_passes_everything_is_said_again_with_the_present_epoch(code: ErrorCode) -> None:
    rig = ServerDrivenRig().holding(T0, T1)
    rig.pass_time(5_000)
    rig.answer(refused(code))
    _ = rig.sent
    rig.pass_time(1_000)
    beat = rig.last_beat
    assert (beat.member_epoch, beat.rebalance_timeout_ms, beat.subscribed_topic_names) == (2, 60_000, ("t",))
    assert beat.topic_partitions == T_OWNED
    rig.hear(2, T0, T1)
    assert rig.told == []
    assert rig.member.is_steady


@pytest.mark.parametrize("code", [ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE])
def test_another_coordinator_is_looked_for_and_told_everything(code: ErrorCode) -> None:
    rig = ServerDrivenRig().holding(T0, T1)
    rig.pass_time(5_000)
    rig.answer(refused(code))
    rig.pass_time(500)
    rig.find("there")
    rig.pass_time(1_000)
    (beat,) = rig.beats[-1:]
    assert (beat.member_epoch, beat.topic_partitions) == (2, T_OWNED)


def test_a_connection_that_is_cut_costs_nothing_but_a_full_heartbeat() -> None:
    rig = ServerDrivenRig().holding(T0, T1)
    rig.pass_time(5_000)
    rig.cut("ConsumerGroupHeartbeat")
    rig.pass_time(500)
    rig.find()
    rig.pass_time(1_000)
    assert rig.beats[-1].topic_partitions == T_OWNED
    assert rig.told == []


def test_a_coordinator_that_moves_is_told_everything() -> None:
    rig = ServerDrivenRig().holding(T0, T1)
    rig.push(CoordinatorMoved(GROUP, 1, "there", 2))
    rig.find("there")
    rig.pass_time(5_000)
    assert rig.beats[-1].topic_partitions == T_OWNED


@pytest.mark.parametrize("code", [ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID])
def test_a_fenced_member_loses_its_partitions_and_joins_again_under_its_id(code: ErrorCode) -> None:
    rig = ServerDrivenRig().holding(T0, T1)
    member_id = rig.member.member_id
    rig.pass_time(5_000)
    rig.answer(refused(code))
    assert rig.member.needs_poll
    rig.poll()
    (lost,) = rig.told
    assert isinstance(lost, LostPartitions)
    assert lost.partitions == (T0, T1)
    _ = rig.sent
    rig.let_go()
    beat = rig.last_beat
    assert (beat.member_id, beat.member_epoch, beat.topic_partitions) == (member_id, 0, ())
    assert beat.rebalance_timeout_ms == 60_000


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.GROUP_ID_NOT_FOUND,
        ErrorCode.GROUP_MAX_SIZE_REACHED,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.UNRELEASED_INSTANCE_ID,
        ErrorCode.UNSUPPORTED_ASSIGNOR,
        ErrorCode.INVALID_REGULAR_EXPRESSION,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.INVALID_REQUEST,
    ],
)
def test_other_errors_are_for_the_application(code: ErrorCode) -> None:
    rig = ServerDrivenRig(group_instance_id="i")
    rig.poll().find()
    rig.answer(refused(code))
    (fatal,) = rig.told
    assert isinstance(fatal, Fatal)
    assert (fatal.error_code, "(why)" in fatal.reason, GROUP in fatal.reason) == (code, True, True)
    assert rig.member.state is State.UNJOINED
    _ = rig.sent
    rig.pass_time(120_000)
    assert rig.beats == []
    rig.poll()
    assert len(rig.beats) == (code is not ErrorCode.FENCED_INSTANCE_ID), "the next poll tries again"


def test_a_coordinator_that_balances_no_groups_is_named_with_its_setting_and_the_other_protocol() -> None:
    rig = ServerDrivenRig()
    rig.poll().find()
    rig.answer(refused(ErrorCode.UNSUPPORTED_VERSION))
    (fatal,) = rig.told
    assert isinstance(fatal, Fatal)
    assert fatal.error_code is ErrorCode.UNSUPPORTED_VERSION
    assert fatal.reason == (
        f"the coordinator balances no groups, so no member of group {GROUP} can leave that to it: set "
        "group.coordinator.rebalance.protocols=classic,consumer there, or take the group protocol classic here "
        '(group_protocol="classic", or muster consume --group-protocol classic)'
    )


def test_a_static_member_whose_join_was_not_answered_leaves_before_it_joins_again() -> None:
    """Scenario 53: its instance would be refused, even under its own member id."""
    rig = ServerDrivenRig(group_instance_id="i")
    rig.poll().find()
    member_id = rig.last_beat.member_id
    rig.cut("ConsumerGroupHeartbeat")
    rig.pass_time(500)
    rig.find()
    rig.pass_time(1_000)
    assert rig.last_beat == ConsumerGroupHeartbeat(GROUP, member_id, -2, instance_id="i")
    rig.cut("ConsumerGroupHeartbeat")
    rig.pass_time(500)
    rig.find()
    rig.pass_time(1_000)
    assert rig.last_beat.member_epoch == -2, "until it is answered"
    rig.answer(refused(ErrorCode.UNKNOWN_MEMBER_ID))
    beat = rig.last_beat
    assert (beat.member_id, beat.member_epoch) == (member_id, 0)


def test_a_static_member_that_was_fenced_leaves_before_it_joins_again() -> None:
    rig = ServerDrivenRig(group_instance_id="i").holding(T0)
    rig.pass_time(5_000)
    rig.answer(refused(ErrorCode.FENCED_MEMBER_EPOCH))
    rig.poll()
    _ = rig.sent
    rig.let_go()
    assert rig.last_beat.member_epoch == -2
    rig.hear(-2, unchanged=True)
    assert rig.last_beat.member_epoch == 0


# --- the application's wishes ---


def test_a_changed_subscription_is_sent_at_once_and_alone() -> None:
    rig = ServerDrivenRig().holding(T0, T1)
    rig.feed(Subscribed(("t", "u")))
    assert rig.last_beat == ConsumerGroupHeartbeat(GROUP, rig.member.member_id, 2, subscribed_topic_names=("t", "u"))
    rig.feed(Subscribed(("u",)))
    assert rig.beats == [], "one at a time"
    rig.hear(3, unchanged=True)
    assert rig.last_beat.subscribed_topic_names == ("u",)


def test_a_member_that_subscribes_to_nothing_lets_go_and_leaves() -> None:
    rig = ServerDrivenRig().holding(T0, T1)
    rig.feed(Subscribed(()))
    assert rig.beats == []
    assert rig.member.needs_poll
    rig.poll()
    assert rig.told == [Revoked((T0, T1))]
    rig.let_go()
    assert rig.last_beat.member_epoch == -1
    assert rig.member.state is State.UNJOINED
    rig.feed(Subscribed(("t",))).poll()
    assert rig.beats == [], "the coordinator hears of the leave first"
    rig.hear(-1, unchanged=True)
    assert rig.last_beat.member_epoch == 0


@pytest.mark.parametrize(("instance_id", "epoch"), [(None, -1), ("i", -2)])
def test_a_closed_member_lets_go_and_leaves(instance_id: str | None, epoch: int) -> None:
    rig = ServerDrivenRig(group_instance_id=instance_id).holding(T0, T1)
    rig.feed(Closing())
    assert rig.told == [Revoked((T0, T1))]
    assert rig.beats == []
    rig.let_go()
    assert rig.last_beat == ConsumerGroupHeartbeat(GROUP, rig.member.member_id, epoch, instance_id=instance_id)
    rig.hear(epoch, unchanged=True)
    assert rig.heard == [Closed()]
    assert rig.member.is_closed


def test_a_close_without_an_answer_ends_all_the_same() -> None:
    rig = ServerDrivenRig().holding()
    rig.feed(Closing())
    assert rig.last_beat.member_epoch == -1
    rig.pass_time(5_000)
    assert rig.member.is_closed


def test_a_static_member_names_its_instance_in_every_heartbeat() -> None:
    rig = ServerDrivenRig(group_instance_id="i").holding(T0)
    rig.pass_time(5_000)
    assert rig.last_beat == ConsumerGroupHeartbeat(GROUP, rig.member.member_id, 2, instance_id="i")


@pytest.mark.parametrize(("instance_id", "epoch"), [(None, -1), ("i", -2)])
def test_a_member_that_is_not_polled_leaves_and_joins_again_with_the_next_poll(
    instance_id: str | None, epoch: int
) -> None:
    rig = ServerDrivenRig(group_instance_id=instance_id, max_poll_interval_ms=4_000).holding(T0)
    rig.pass_time(4_000)
    assert rig.last_beat.member_epoch == epoch
    rig.hear(epoch, unchanged=True)
    rig.poll()
    (lost,) = rig.told
    assert isinstance(lost, LostPartitions)
    assert "poll was not called for 4000 ms" in lost.reason
    rig.let_go()
    assert rig.last_beat.member_epoch == 0


# --- notifications ---


def test_a_new_assignment_that_was_announced_is_fetched_at_once() -> None:
    rig = ServerDrivenRig().holding(T0)
    rig.push(AssignmentChanged("another", 3))
    assert rig.beats == []
    rig.push(AssignmentChanged(GROUP, 3))
    assert rig.last_beat.member_epoch == 2
    rig.push(AssignmentChanged(GROUP, 4))
    assert rig.beats == [], "one at a time"
    rig.hear(3, unchanged=True)
    assert rig.last_beat.member_epoch == 3


def test_an_announcement_that_overtakes_the_answer_to_the_join_is_not_lost() -> None:
    rig = ServerDrivenRig()
    rig.poll().find()
    assert rig.last_beat.member_epoch == 0
    rig.push(AssignmentChanged(GROUP, 3))
    assert rig.beats == [], "one at a time"
    rig.hear(3)
    assert rig.last_beat.member_epoch == 3


def test_a_member_that_is_said_to_be_removed_asks() -> None:
    rig = ServerDrivenRig().holding(T0)
    rig.push(MemberRemoved(GROUP, rig.member.member_id, "why"))
    assert rig.last_beat.member_epoch == 2
