"""Server-driven consumer groups on a node: kinds of groups, offsets, administration, restarts
(docs/spec/consumer-group-protocol.md#10, #11, #13.4). Tests name the specification's scenarios."""

from typing import Any

import pytest

from coordinator.config.config import Config
from coordinator.config.keys import RebalanceProtocols
from coordinator.groups.classic.events import Client
from coordinator.groups.consumer import target
from coordinator.groups.consumer.applying import apply
from coordinator.handlers.table import COSTS
from coordinator.node.dialects import make_dialects
from coordinator.node.events import Lost
from coordinator.records.consumer_records import (
    AssignmentRecord,
    ConsumerKey,
    ConsumerMemberRecord,
    ConsumerTombstone,
    ConsumerTopicsRecord,
)
from coordinator.records.records import CommittedOffset
from coordinator.runtime.group import GroupKind
from coordinator.runtime.topic_image import EmbeddedTopicImage
from protocol.consumer_protocol import decode_assignment, decode_subscription
from protocol.errors import ErrorCode
from protocol.kafka.session import KafkaDialect
from protocol.messages.configs import (
    AlterableConfig,
    AlterConfigsResource,
    ConfigOperation,
    IncrementalAlterConfigs,
    ResourceType,
)
from protocol.messages.consumer_groups import (
    ConsumerGroupHeartbeat,
    ConsumerGroupHeartbeatReply,
    TopicIdPartitions,
)
from protocol.messages.groups import (
    ApplyOffsets,
    DeleteGroups,
    DeleteGroupsReply,
    DescribeGroups,
    ListAudit,
    OffsetChange,
)
from protocol.messages.node import FinalizedFeature, SupportedFeature
from protocol.messages.offsets import (
    DescribeExpiry,
    OffsetDelete,
    OffsetDeleteReply,
    OffsetDeleteTopic,
    OffsetFetchTopic,
)
from protocol.messages.topics import CreatableTopic, CreateTopics, DeletableTopic, DeleteTopics
from tests.node.consumer_rig import Batches, Rig, told
from tests.node.node_rig import NO_ROOM, NodeRig


def test_the_api_is_refused_unless_the_configuration_has_it() -> None:
    node_rig = NodeRig(group_coordinator_rebalance_protocols=RebalanceProtocols(("classic",)))
    reply = node_rig.ask_inside(ConsumerGroupHeartbeat("g", "A", 5))
    assert isinstance(reply, ConsumerGroupHeartbeatReply) and reply.error_code is ErrorCode.UNSUPPORTED_VERSION


def test_scenario_8_an_absent_group_is_joined_and_nothing_else() -> None:
    rig = Rig()
    for epoch in (5, -1):
        assert rig.beat("A", epoch).error_code is ErrorCode.GROUP_ID_NOT_FOUND
    assert not rig.node_rig.node.core.directory
    assert rig.join("A", "T").member_epoch == 2


def test_scenario_5_version_0_gets_a_member_id() -> None:
    rig = Rig()
    reply = rig.join("", "T", may_lack_member_id=True)
    assert (reply.error_code, reply.member_epoch) == (ErrorCode.NONE, 2)
    assert reply.member_id in rig.node_rig.node.core.directory["g"].consumer.members  # type: ignore[union-attr]


def test_scenarios_23_and_32_two_members_share_a_topic() -> None:
    rig = Rig()
    rig.join("A", "T")
    assert rig.join("B", "T").member_epoch == 3
    assert told(rig, rig.beat("A", 2)) == {rig.id_of("T"): (0, 1)}
    described = rig.describe()
    assert (described.group_state, described.group_epoch, described.assignment_epoch) == ("Reconciling", 3, 3)
    assert described.assignor_name == "uniform"
    (a, b) = described.members
    assert [one.partitions for one in a.assignment.topic_partitions] == [(0, 1, 2, 3)]
    assert [(one.topic_name, one.partitions) for one in a.target_assignment.topic_partitions] == [("T", (0, 1))]
    assert (a.member_type, a.client_host, b.assignment.topic_partitions) == (1, "/", ())
    assert rig.beat("A", 2, {"T": (0, 1)}).member_epoch == 3
    assert told(rig, rig.beat("B", 3)) == {rig.id_of("T"): (2, 3)}


@pytest.mark.parametrize("is_clean", [False, True], ids=["crash", "snapshot"])
def test_scenario_84_a_restart_changes_nothing(is_clean: bool) -> None:
    rig = Rig()
    rig.join("A", "T", instance_id="i")
    rig.join("B", subscribed_topic_names=None, subscribed_topic_regex="T|U")
    rig.beat("A", 2)
    rig.beat("B", 2)
    rig.commit("T", "A", 2)
    before = rig.describe()
    rig.restart(is_clean=is_clean)
    assert rig.describe() == before
    assert rig.committed() == {"error": 0, "T": 7}
    assert rig.beat("A", before.members[0].member_epoch).error_code is ErrorCode.NONE
    rig.node_rig.wait(45_000)
    assert rig.describe().group_state == "Empty"


def test_scenario_22_a_silent_member_is_fenced() -> None:
    rig = Rig()
    rig.join("A", "T")
    rig.node_rig.wait(44_999)
    assert rig.beat("A", 2).error_code is ErrorCode.NONE
    rig.node_rig.wait(45_000)
    assert rig.beat("A", 2).error_code is ErrorCode.UNKNOWN_MEMBER_ID
    causes = [note.cause for note in rig.node_rig.node.core.journal.notes()]
    assert causes == ["member joined", "target assignment computed", "session expired"]


def test_members_whose_heartbeats_the_node_has_no_room_for_are_not_fenced() -> None:
    rig = Rig(max_held_replies=2)
    for member_id in "ABC":
        rig.join(member_id, "T")
    rig.stall_disk()
    rig.node_rig.wait(40_000)
    refused = [rig.beat("A", 2), rig.beat("B", 4), rig.beat("C", 4, instance_id="of-nobody"), rig.beat("D", 4)]
    assert {one.error_code for one in refused} == {ErrorCode.COORDINATOR_NOT_AVAILABLE}
    rig.node_rig.wait(40_000)
    rig.free_disk()
    assert [one.member_id for one in rig.describe().members] == ["A"], "the others have another epoch, or instance"


def test_what_a_late_heartbeat_was_told_is_told_again_on_the_members_present_connection() -> None:
    rig = Rig()
    old, new = rig.node_rig.connect(10), rig.node_rig.connect(11)

    def beat(connection: int, epoch: int, **fields: Any) -> Any:
        (*_pushes, reply) = rig.node_rig.ask(connection, ConsumerGroupHeartbeat("g", "A", epoch, **fields))
        return [] if (held := told(rig, reply)) is None else [*held.values()]  # type: ignore[arg-type]

    whole: Any = {"rebalance_timeout_ms": 60_000, "subscribed_topic_names": ("T",), "topic_partitions": ()}
    assert beat(old, 0, **whole) == [(0, 1, 2, 3)]
    assert beat(new, 2) == [(0, 1, 2, 3)], "it has connected again"
    assert beat(new, 2) == []
    rig.join("B", "T")
    assert beat(old, 2) == [(0, 1)], "sent before the connection was given up, and read only now"
    assert [beat(new, 2), beat(new, 2)] == [[(0, 1)], []]


@pytest.mark.parametrize("epoch", [0, 2], ids=["its join", "a full heartbeat"])
def test_what_a_late_heartbeat_does_not_own_is_not_given_up(epoch: int) -> None:
    rig = Rig()
    old, new = rig.node_rig.connect(10), rig.node_rig.connect(11)
    whole: Any = {"rebalance_timeout_ms": 60_000, "subscribed_topic_names": ("T",), "topic_partitions": ()}

    def beat(connection: int, epoch: int, **fields: Any) -> tuple[int, list[tuple[int, ...]]]:
        (*_pushes, reply) = rig.node_rig.ask(connection, ConsumerGroupHeartbeat("g", "A", epoch, **fields))
        assert isinstance(reply, ConsumerGroupHeartbeatReply)
        return int(reply.error_code), [*(told(rig, reply) or {}).values()]

    assert beat(new, 0, **whole) == (0, [(0, 1, 2, 3)])
    rig.join("B", "T")
    assert beat(new, 2) == (0, [(0, 1)]), "it is asked to revoke the others"
    assert beat(old, epoch, **whole) == (0, [(0, 1)]), "sent before it owned a partition, and read only now"
    assert told(rig, rig.beat("B", 3)) is None, "A still reads them"
    kept = (TopicIdPartitions(rig.id_of("T"), (0, 1)),)
    assert beat(new, 2, topic_partitions=kept) == (0, [(0, 1)])
    assert told(rig, rig.beat("B", 3)) == {rig.id_of("T"): (2, 3)}


def test_after_a_restart_a_member_is_told_nothing_that_it_knows() -> None:
    rig = Rig()
    rig.join("A", "T")
    rig.restart()
    (*_pushes, reply) = rig.node_rig.ask(rig.node_rig.connect(10), ConsumerGroupHeartbeat("g", "A", 2))
    assert isinstance(reply, ConsumerGroupHeartbeatReply)
    assert (reply.error_code, reply.assignment) == (ErrorCode.NONE, None)


def test_scenarios_58_to_62_offsets_need_the_member_epoch() -> None:
    rig = Rig()
    rig.join("A", "T")
    assert rig.commit("T", "A", 2) is ErrorCode.NONE
    assert rig.commit("T", "A", 3) is ErrorCode.STALE_MEMBER_EPOCH
    assert rig.commit("T", "A", 2, knows_member_epochs=False) is ErrorCode.UNSUPPORTED_VERSION
    assert rig.commit("T") is ErrorCode.UNKNOWN_MEMBER_ID
    assert rig.committed(member_id="A", member_epoch=2) == {"error": 0, "T": 7}
    assert rig.committed(member_id="A", member_epoch=1) == {"error": ErrorCode.STALE_MEMBER_EPOCH}
    assert rig.committed(member_id="zz", member_epoch=2) == {"error": ErrorCode.UNKNOWN_MEMBER_ID}
    assert rig.committed() == {"error": 0, "T": 7}
    rig.beat("A", -1)
    assert rig.commit("U") is ErrorCode.NONE
    assert rig.committed() == {"error": 0, "T": 7, "U": 7}


def test_scenario_64_offsets_of_subscribed_topics_stay() -> None:
    rig = Rig(offsets_retention_minutes=1, offsets_retention_check_interval_ms=1_000)
    rig.join("A", "T")
    rig.commit("T", "A", 2)
    rig.commit("U", "A", 2)
    for _ in range(3):
        rig.node_rig.wait(30_000)
        assert rig.beat("A", 2).error_code is ErrorCode.NONE
    assert rig.committed() == {"error": 0, "T": 7}
    rig.beat("A", -1)
    rig.node_rig.wait(2_000)
    assert rig.describe().error_code is ErrorCode.GROUP_ID_NOT_FOUND, "its offset is older than the retention"
    rig.restart()
    assert not rig.node_rig.node.core.directory


def test_scenario_65_a_group_without_offsets_goes_with_the_next_run() -> None:
    rig = Rig(offsets_retention_check_interval_ms=1_000)
    rig.join("A", "T")
    rig.beat("A", -1)
    assert rig.describe().group_state == "Empty"
    rig.node_rig.wait(2_000)
    assert not rig.node_rig.node.core.directory


def test_scenario_66_offsets_of_a_matched_topic_are_not_deleted() -> None:
    rig = Rig()
    rig.join("A", subscribed_topic_names=None, subscribed_topic_regex="T")
    rig.beat("A", 1)
    rig.commit("T", "A", 2)
    rig.commit("U", "A", 2)
    reply = rig.ask(OffsetDelete("g", (OffsetDeleteTopic("T", (0,)), OffsetDeleteTopic("U", (0,)))))
    assert isinstance(reply, OffsetDeleteReply)
    errors = [topic.partitions[0].error_code for topic in reply.topics]
    assert errors == [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, ErrorCode.NONE]
    assert rig.committed() == {"error": 0, "T": 7}


def test_lists_and_classic_descriptions() -> None:
    rig = Rig()
    rig.join("A", "T")
    assert rig.listed() == [("consumer", "Stable", "consumer")]
    assert rig.listed(types_filter=("Consumer",)) == rig.listed(states_filter=("stable",)) == rig.listed()
    assert rig.listed(types_filter=("classic",)) == []
    (dead,) = rig.ask(DescribeGroups(("g",), hides_consumer_groups=True)).groups
    assert (dead.group_state, dead.error_code) == ("Dead", ErrorCode.GROUP_ID_NOT_FOUND), "as on Kafka's wire"
    (shown,) = rig.ask(DescribeGroups(("g",))).groups
    assert (shown.group_state, shown.protocol_type, shown.generation_id) == ("Stable", "consumer", 2)
    (member,) = shown.members
    assert decode_assignment(member.member_assignment).partitions == (("T", (0, 1, 2, 3)),)
    assert decode_subscription(member.member_metadata).topics == ("T",)


def test_facts_of_members_are_told() -> None:
    rig = Rig()
    rig.node_rig.connect(1)
    rig.node_rig.ask(1, ConsumerGroupHeartbeat("g", "A", 0, None, None, 60_000, ("T",), topic_partitions=()))
    rig.node_rig.wait(4_000)
    (shown,) = rig.ask(DescribeGroups(("g",), with_facts=True)).groups
    (member,) = shown.members
    assert (member.topics, member.rebalance_timeout_ms, shown.phase) == (("T",), 60_000, "")
    assert (member.session_timeout_ms, member.session_left_ms, member.heard_ago_ms) == (45_000, 41_000, 4_000)
    assert member.is_connected
    assert member.committed_ago_ms == -1
    assert rig.commit("T", "A", 2) is ErrorCode.NONE
    rig.node_rig.wait(500)
    assert rig.commit("T", "A", 1) is ErrorCode.STALE_MEMBER_EPOCH
    (shown,) = rig.ask(DescribeGroups(("g",), with_facts=True)).groups
    assert shown.members[0].committed_ago_ms == 500, "a commit that is refused is none"


def test_a_reset_leaves_a_note() -> None:
    rig = Rig()
    rig.join("A", "T")
    rig.beat("A", -1)
    assert rig.commit("T") is ErrorCode.NONE
    (one,) = rig.ask(ListAudit()).notes
    assert (one.note.act, one.note.changes) == ("reset", (OffsetChange("T", 0, -1, 7),))


def test_a_group_with_members_is_not_shown_as_empty() -> None:
    rig = Rig()
    rig.join("A", "T")
    assert rig.ask(DescribeExpiry("g")).group_state == "Stable"


def test_offsets_are_not_applied_beside_members() -> None:
    rig = Rig()
    rig.join("A", "T")
    reply = rig.ask(ApplyOffsets("g", (OffsetChange("T", 0, -1, 7),), "reset"))
    assert reply.members == (str(Client("", "/")),)


def test_scenario_89_a_simple_group_becomes_a_consumer_group() -> None:
    rig = Rig()
    assert rig.commit("T") is ErrorCode.NONE
    assert rig.join("A", subscribed_topic_names=None, subscribed_topic_regex="(").error_code == 128
    assert rig.node_rig.node.core.directory["g"].kind is GroupKind.CLASSIC
    assert rig.join("A", "T").member_epoch == 2
    assert rig.committed() == {"error": 0, "T": 7}


def test_scenario_62_an_absent_group_has_no_offsets() -> None:
    rig = Rig()
    wanted = OffsetFetchTopic("T", (0,))
    for member_id, epoch in (("A", 5), (None, -1)):
        assert rig.committed(topics=(wanted,), member_id=member_id, member_epoch=epoch) == {"error": 0, "T": -1}
    assert rig.describe().error_code is ErrorCode.GROUP_ID_NOT_FOUND


@pytest.mark.parametrize("names_topics", [False, True], ids=["by now", "by Kafka before 4.1"])
def test_scenario_90_an_empty_group_is_deleted(monkeypatch: pytest.MonkeyPatch, names_topics: bool) -> None:
    """Its tombstones have one order. There is one of key 4 only if the group has a record of it."""
    rig = Rig()
    rig.join("A", "T")
    batches = Batches(rig, monkeypatch)
    rig.commit("T", "A", 2)

    def delete() -> ErrorCode:
        reply = rig.ask(DeleteGroups(("g",)))
        assert isinstance(reply, DeleteGroupsReply)
        return reply.results[0].error_code

    assert delete() is ErrorCode.NON_EMPTY_GROUP
    rig.beat("A", -1)
    if names_topics:
        assert rig.group.consumer is not None
        apply(rig.group.consumer, ConsumerTopicsRecord("g"))
    batches.take()
    assert delete() is ErrorCode.NONE
    assert batches.take() == ["-k1 -k6 -k4 -k3" if names_topics else "-k1 -k6 -k3"]
    assert rig.describe().error_code is ErrorCode.GROUP_ID_NOT_FOUND
    rig.restart()
    assert not rig.node_rig.node.core.directory


def test_scenarios_12_and_91_topics_come_and_go() -> None:
    rig = Rig()
    assert told(rig, rig.join("A", "T", "X")) == {rig.id_of("T"): (0, 1, 2, 3)}
    rig.node_rig.ask_inside(CreateTopics((CreatableTopic("X", 2),)))
    reply = rig.beat("A", 2)
    assert (reply.member_epoch, told(rig, reply)) == (3, {rig.id_of("T"): (0, 1, 2, 3), rig.id_of("X"): (0, 1)})
    rig.node_rig.ask_inside(DeleteTopics((DeletableTopic("X"),)))
    reply = rig.beat("A", 3)
    assert (reply.member_epoch, told(rig, reply)) == (3, {rig.id_of("T"): (0, 1, 2, 3)})
    assert rig.beat("A", 3, {"T": (0, 1, 2, 3)}).member_epoch == 4


def test_patterns_see_the_offsets_topic() -> None:
    rig = Rig()
    image = EmbeddedTopicImage(rig.node_rig.node.core.embedded)
    assert {"T", "U", "__consumer_offsets"} == set(image.names())
    found = image.find("T")
    assert found is not None and (found.partitions, image.name_of(found.topic_id)) == (4, "T")
    version = image.version
    rig.node_rig.make_topic("X", 1)
    assert image.version > version and image.find("Y") is None


@pytest.mark.parametrize(
    ("limit", "refused"),
    [
        ("group_max_metadata_bytes", ErrorCode.MESSAGE_TOO_LARGE),
        ("max_metadata_bytes", ErrorCode.COORDINATOR_NOT_AVAILABLE),
    ],
)
def test_limits_of_metadata_count_what_a_request_adds(limit: str, refused: ErrorCode) -> None:
    settings: Any = {limit: 2_048}
    rig = Rig(**settings)
    topics = ("T", "x" * 890)
    whole: Any = {"rebalance_timeout_ms": 60_000, "subscribed_topic_names": topics}
    rig.join("A", *topics)
    rig.join("B", *topics, instance_id="b")
    longer = {**whole, "subscribed_topic_names": (*topics, "y" * 300)}
    assert rig.beat("A", 2, {}, **longer).error_code is refused
    assert rig.beat("D", 2, {}, **longer).error_code is ErrorCode.UNKNOWN_MEMBER_ID
    assert rig.beat("A", 2, {}, **whole).error_code is ErrorCode.NONE, "it repeats itself"
    twice = {**whole, "subscribed_topic_names": (*topics, *topics)}
    assert rig.beat("A", 2, {}, **twice).error_code is ErrorCode.NONE, "a set"
    assert rig.join("A", *topics).error_code is ErrorCode.NONE
    assert rig.join("D", *topics).error_code is refused
    rig.beat("B", -2, instance_id="b")
    assert rig.join("E", *topics, instance_id="b").error_code is ErrorCode.NONE, "in the place of B"


def test_settings_of_a_group_hold_from_its_next_heartbeat() -> None:
    rig = Rig(group_consumer_min_heartbeat_interval_ms=1, group_consumer_min_session_timeout_ms=1)

    def alter(name: str, value: str) -> ErrorCode:
        change = AlterableConfig(name, ConfigOperation.SET, value)
        resource = AlterConfigsResource(ResourceType.GROUP, "g", (change,))
        reply = rig.ask(IncrementalAlterConfigs((resource,)))
        return ErrorCode(reply.responses[0].error_code)

    rig.join("A", "T")
    assert alter("consumer.heartbeat.interval.ms", "45000") is ErrorCode.INVALID_CONFIG
    assert alter("consumer.nonsense", "1") is ErrorCode.INVALID_CONFIG
    assert alter("consumer.heartbeat.interval.ms", "700") is ErrorCode.NONE
    assert alter("consumer.session.timeout.ms", "1000") is ErrorCode.NONE
    assert rig.beat("A", 2).heartbeat_interval_ms == 700
    rig.node_rig.wait(999)
    assert rig.describe().group_state == "Stable"
    rig.node_rig.wait(1)
    assert rig.describe().group_state == "Empty", "the shorter session counts from the last heartbeat"
    rig.restart()
    assert rig.join("A", "T").heartbeat_interval_ms == 700


def test_scenario_87_offsets_come_before_members_and_tombstones_of_nothing_are_ignored() -> None:
    rig = Rig()
    rig.checks = False  # members of records that nobody sent have no sessions
    shard = rig.node_rig.node.core.shard_of("g")
    shard.apply(CommittedOffset("g", "T", 0, 7, -1, "", 1))
    group = shard.groups["g"]
    shard.apply(ConsumerTombstone("g", ConsumerKey.MEMBER, "A"))
    assert not shard.of_kind[GroupKind.CONSUMER], "a simple group, which a tombstone does not change"
    shard.apply(ConsumerMemberRecord("g", "A", subscribed_topic_names=("T",)))
    shard.apply(AssignmentRecord("g", "A", 1, 0))
    assert shard.groups["g"] is group and group.consumer is not None
    assert shard.of_kind[GroupKind.CONSUMER] == {"g": group}
    assert rig.committed() == {"error": 0, "T": 7}
    for key in ConsumerKey:
        shard.apply(ConsumerTombstone("absent", key, "A"))
    assert "absent" not in shard.groups


def test_a_target_in_slices_outlives_connections_and_ends_with_the_group(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(target, "AT_ONCE_US", 0)
    rig = Rig()
    slices = rig.node_rig.node.core.slices
    joining: Any = {"rebalance_timeout_ms": 60_000, "subscribed_topic_names": ("T",), "topic_partitions": ()}
    rig.node_rig.connect(5)
    rig.node_rig.ask(5, ConsumerGroupHeartbeat("g", "A", 0, **joining))
    assert slices.waiting == 1
    rig.node_rig.step(Lost(5))
    assert slices.waiting == 1
    rig.node_rig.wake_until_idle()
    assert (rig.describe().group_state, rig.describe().assignment_epoch) == ("Reconciling", 2)

    rig.node_rig.ask_inside(ConsumerGroupHeartbeat("g", "B", 0, **joining))
    assert slices.waiting == 1
    for member_id in ("A", "B"):
        rig.node_rig.ask_inside(ConsumerGroupHeartbeat("g", member_id, -1))
    assert rig.node_rig.ask_inside(DeleteGroups(("g",))) is not None
    rig.node_rig.wake_until_idle()
    assert (slices.waiting, rig.listed()) == (0, [])


def test_a_target_in_slices_is_begun_again_after_the_disk_was_full(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(target, "AT_ONCE_US", 0)
    rig = Rig()
    joining: Any = {"rebalance_timeout_ms": 60_000, "subscribed_topic_names": ("T",), "topic_partitions": ()}
    rig.node_rig.ask_inside(ConsumerGroupHeartbeat("g", "A", 0, **joining))
    group = rig.node_rig.node.core.directory["g"]
    with monkeypatch.context() as patch:
        patch.setattr(rig.node_rig.store, "_wal_append", lambda _name, _batch: NO_ROOM)
        rig.node_rig.wake_until_idle()
    assert group.consumer is not None
    assert (group.consumer.computing, group.consumer.targets, group.consumer.target_epoch) == (None, {}, 1)
    rig.beat("A", 1)
    assert rig.describe().assignment_epoch == 2


def test_a_heartbeat_costs_what_its_member_has_to_look_at() -> None:
    rig = Rig()
    names = tuple(f"n{number:02}" for number in range(40))
    topics = tuple(CreatableTopic(name, 16) for name in names)
    rig.node_rig.ask_inside(CreateTopics(topics), 99)
    rig.join("A", *names)
    rig.join("B", *names)
    epochs = {one.member_id: one.member_epoch for one in rig.describe().members}
    cost = {one: cost_of(rig, one, epoch) for one, epoch in epochs.items()}
    assert cost == {"A": 1 + 40 + 40, "B": 1 + 20 + 40}, "A has 40 topics, each is assigned 20 of 16 partitions"
    assert cost_of(rig, "C", 2) == cost_of(rig, "A", 0, group_id="absent") == 1
    assert cost_of(rig, "A", -1) == 1 + 40 // 8
    rig.beat("B", -1)
    rig.beat("A", epochs["A"])
    assert cost_of(rig, "A", rig.describe().group_epoch) == 1


def cost_of(rig: Rig, member_id: str, epoch: int, group_id: str = "g") -> int:
    return COSTS[ConsumerGroupHeartbeat].of(rig.node_rig.node.core, ConsumerGroupHeartbeat(group_id, member_id, epoch))


def test_the_feature_of_such_groups_is_offered_with_them() -> None:
    offer = make_dialects(Config())["kafka"]
    without = make_dialects(Config(group_coordinator_rebalance_protocols=RebalanceProtocols(("classic",))))["kafka"]
    assert isinstance(offer, KafkaDialect)
    assert isinstance(without, KafkaDialect)
    assert offer.offer.finalized_features == (FinalizedFeature("group.version", 1, 1),)
    assert offer.offer.supported_features == (SupportedFeature("group.version", 1, 1),)
    assert offer.offer.finalized_features_epoch == 0
    assert (without.offer.finalized_features, without.offer.finalized_features_epoch) == ((), -1)
