"""Joining, validation and epochs (docs/spec/consumer-group-protocol.md#19.1, #19.2). Each test names its scenarios."""

import pytest

from protocol.errors import ErrorCode
from protocol.messages.consumer_groups import ConsumerGroupHeartbeat
from tests.groups.consumer.rig import Rig

FENCED, UNKNOWN, INVALID, FULL = 110, 25, 42, 81


def test_scenario_1_the_first_member_gets_everything_at_epoch_2() -> None:
    rig = Rig()
    reply = rig.join("A", "T")
    assert (reply.error_code, reply.error_message, reply.member_id) == (ErrorCode.NONE, None, "A")
    assert (reply.member_epoch, reply.heartbeat_interval_ms, rig.told(reply)) == (2, 5_000, "T0,1,2,3")


def test_scenario_2_a_member_without_topics_moves_no_epoch() -> None:
    rig = Rig()
    assert rig.joined("A") == (0, 1, "")
    assert rig.described == "Stable 1/1"
    assert rig.joined("B") == (0, 1, "")
    assert rig.written() == "k5 k8 | k5 k8"


def test_scenario_3_a_first_subscription_is_answered_at_once() -> None:
    rig = Rig()
    rig.join("A")
    rig.join("B")
    assert rig.seen("A", 1, subscribed_topic_names=("T",)) == (0, 2, "T0,1,2,3")


JOIN = {"rebalance_timeout_ms": 1_000, "subscribed_topic_names": ("T",), "owned": ""}


@pytest.mark.parametrize(
    "fields",
    [
        {"subscribed_topic_names": None},
        {"rebalance_timeout_ms": -1},
        {"owned": None},
        {"owned": "T"},
        {"instance_id": ""},
        {"rack_id": ""},
    ],
)
def test_scenario_4_a_join_must_be_whole(fields: dict[str, object]) -> None:
    rig = Rig()
    assert rig.seen("A", 0, **{**JOIN, **fields}) == (INVALID, 0, None)  # type: ignore[arg-type]
    assert not rig.batches


def test_scenario_4_epochs_and_blank_ids_are_refused() -> None:
    rig = Rig()
    assert rig.seen("A", -3) == (INVALID, 0, None)
    assert rig.ask(ConsumerGroupHeartbeat(" ", "A", 1)).error_code is ErrorCode.INVALID_REQUEST
    assert rig.seen("A", 5, rack_id=" ")[0] == INVALID


def test_scenario_5_only_version_0_may_leave_out_the_member_id() -> None:
    rig = Rig()
    assert rig.ask(ConsumerGroupHeartbeat("g", "", 0)).error_code is ErrorCode.INVALID_REQUEST
    assert rig.ask(ConsumerGroupHeartbeat("", "", 0)).error_code is ErrorCode.INVALID_REQUEST
    later = ConsumerGroupHeartbeat("g", "", 3, may_lack_member_id=True)
    assert rig.ask(later).error_code is ErrorCode.INVALID_REQUEST


def test_scenario_6_any_text_is_a_member_id() -> None:
    rig = Rig()
    assert rig.joined("not a uuid !", "T") == (0, 2, "T0,1,2,3")


@pytest.mark.parametrize(("name", "epoch"), [("nope", 0), ("", 0), ("nope", 5), ("nope", -1)])
def test_scenario_7_an_unknown_assignor_is_refused_at_any_epoch(name: str, epoch: int) -> None:
    rig = Rig()
    fields = JOIN if epoch == 0 else {}
    assert rig.seen("A", epoch, server_assignor=name, **fields)[0] == ErrorCode.UNSUPPORTED_ASSIGNOR  # type: ignore[arg-type]


def test_scenario_8_unknown_members_and_instances() -> None:
    rig = Rig()
    rig.join("A", "T")
    assert rig.seen("Z", 5)[0] == UNKNOWN
    assert rig.seen("Z", -1)[0] == UNKNOWN
    assert rig.seen("A", -2)[0] == INVALID
    assert rig.seen("A", -2, instance_id="i")[0] == UNKNOWN


def test_scenario_9_an_error_says_nothing_but_its_message() -> None:
    reply = Rig().heartbeat("A", 5)
    assert reply.error_code is ErrorCode.UNKNOWN_MEMBER_ID and reply.error_message
    assert (reply.member_id, reply.member_epoch, reply.heartbeat_interval_ms, reply.assignment) == (None, 0, 0, None)


def test_scenario_10_the_assignment_is_repeated_to_a_full_request_alone() -> None:
    rig = Rig()
    rig.join("A", "T")
    assert rig.seen("A", 2) == (0, 2, None)
    full = {"rebalance_timeout_ms": 60_000, "subscribed_topic_names": ("T",)}
    assert rig.seen("A", 2, "T0,1,2,3", **full) == (0, 2, "T0,1,2,3")
    assert rig.seen("A", 2, "T0,1,2,3", subscribed_topic_names=("T",)) == (0, 2, None)


def test_scenario_11_joining_again_keeps_everything_and_writes_nothing() -> None:
    rig = Rig()
    rig.join("A", "T")
    written = len(rig.batches)
    assert rig.joined("A", "T") == (0, 2, "T0,1,2,3")
    assert (len(rig.batches), rig.described) == (written, "Stable 2/2")


def test_scenario_12_a_topic_may_be_made_after_its_subscription() -> None:
    rig = Rig({"T": 4})
    assert rig.joined("A", "X") == (0, 2, "")
    rig.topics.create("X", 2)
    assert rig.seen("A", 2) == (0, 3, "X0,1")


def test_scenario_13_names_are_a_set() -> None:
    rig = Rig()
    rig.join("A", "T")
    written = len(rig.batches)
    assert rig.seen("A", 2, subscribed_topic_names=("T", "T")) == (0, 2, None)
    assert len(rig.batches) == written


@pytest.mark.parametrize(
    "fields", [{"rack_id": "r"}, {"rebalance_timeout_ms": 7}, {"server_assignor": "range"}, {"client": "other"}]
)
def test_scenario_14_properties_are_written_and_move_no_epoch(fields: dict[str, object]) -> None:
    rig = Rig()
    rig.join("A", "T")
    rig.client = str(fields.pop("client", rig.client))
    written = len(rig.batches)
    assert rig.seen("A", 2, **fields) == (0, 2, None)  # type: ignore[arg-type]
    assert (rig.written(written), rig.described) == ("k5", "Stable 2/2")


def test_scenario_15_a_name_that_does_not_exist_moves_the_epoch() -> None:
    rig = Rig()
    rig.join("A", "T")
    assert rig.seen("A", 2, subscribed_topic_names=("T", "X")) == (0, 3, None)


def test_scenario_16_a_full_group() -> None:
    rig = Rig(max_size=2)
    rig.join("A", "T")
    rig.join("B", "T")
    assert rig.joined("C", "T")[0] == FULL
    assert rig.seen("C", 5)[0] == FULL
    assert rig.seen("C", -1)[0] == UNKNOWN
    assert rig.joined("A", "T")[0] == 0
    assert rig.seen("B", 3)[0] == 0


def test_scenario_17_a_static_member_comes_back_to_a_full_group() -> None:
    rig = Rig(max_size=2)
    rig.join("A", "T", instance_id="i")
    rig.join("B", "T")
    rig.heartbeat("A", -2, instance_id="i")
    assert rig.joined("A2", "T", instance_id="i")[0] == 0, "recommended; Kafka answers 81"
    rig.heartbeat("A2", -2, instance_id="i")
    assert rig.joined("A2", "T", instance_id="i")[0] == 0


def test_scenario_18_wrong_epochs() -> None:
    rig = Rig()
    rig.join("A", "T")
    rig.topics.grow("T", 5)
    assert rig.seen("A", 2)[1] == 3
    rig.topics.grow("T", 6)
    assert rig.seen("A", 3)[1] == 4
    assert rig.seen("A", 5)[0] == FENCED
    assert rig.seen("A", 2, "T0")[0] == FENCED


def test_scenario_19_the_epoch_before_is_accepted_if_the_reply_was_lost() -> None:
    rig = Rig()
    rig.join("A", "T")
    rig.join("B", "T")
    rig.heartbeat("A", 2)
    assert rig.seen("A", 2, "T0,1") == (0, 3, None)
    assert rig.seen("A", 2)[0] == FENCED
    assert rig.seen("A", 2, "T0,1") == (0, 3, None)
    assert rig.seen("A", 2, "T0,1,2")[0] == FENCED
    assert rig.seen("A", 2, "") == (0, 3, None)
    assert rig.seen("A", 2, "U")[0] == FENCED, "a topic of which it has nothing"


def test_scenario_20_claims_are_ignored_at_the_current_epoch() -> None:
    rig = Rig()
    rig.join("A", "T")
    rig.join("B", "T")
    assert rig.seen("B", 3, "T0,1,2,3 U0") == (0, 3, None)


def test_scenario_21_heartbeats_of_a_wrong_epoch_keep_nobody_alive() -> None:
    rig = Rig(session_timeout_ms=1_000)
    rig.join("A", "T")
    for _ in range(4):
        rig.wait(200)
        assert rig.seen("A", 9)[0] == FENCED
    rig.wait(200)
    assert rig.seen("A", 9)[0] == UNKNOWN
    assert rig.described == "Empty 3/2"


def test_scenario_22_a_fenced_member_joins_again_under_its_id() -> None:
    rig = Rig(session_timeout_ms=1_000)
    rig.join("A", "T")
    rig.wait(999)
    assert rig.seen("A", 2)[0] == 0
    rig.wait(1_000)
    assert rig.seen("A", 2)[0] == UNKNOWN
    assert rig.joined("A", "T") == (0, 4, "T0,1,2,3")
