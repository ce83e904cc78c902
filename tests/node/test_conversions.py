"""Groups that change their protocol while they have members, or while they have none
(docs/spec/consumer-group-protocol.md#13, #19.9). Tests name the specification's scenarios."""

from typing import Any

import pytest

from coordinator.clock import Moment
from coordinator.config.keys import MigrationPolicy
from coordinator.groups.classic.group_states import GroupState
from coordinator.records.consumer_records import ConsumerTombstone
from coordinator.records.records import GroupTombstone, OffsetTombstone, ShardRecord
from coordinator.runtime.group import GroupKind
from coordinator.runtime.kinds.commit_checks import as_simple
from coordinator.runtime.kinds.conversions import to_classic
from coordinator.runtime.kinds.kind_records import end_on_record
from protocol.consumer_protocol import Subscription, TopicPartitions, encode_subscription
from protocol.errors import ErrorCode
from protocol.messages.groups import (
    DescribeGroups,
    JoinGroupReply,
    JoinProtocol,
    LeavingMember,
    SyncGroup,
    SyncGroupAssignment,
    SyncGroupReply,
)
from protocol.messages.offsets import OffsetCommit, OffsetCommitPartition, OffsetCommitTopic
from tests.node.consumer_rig import Batches, Rig, decoded, encoded
from tests.node.node_rig import NO_ROOM

UNKNOWN, ILLEGAL, REJOIN = 25, 22, 27


def classic_pair(**settings: Any) -> Rig:
    """The classic members c1 with T0,1 and c2 with T2,3, and an offset of T0."""
    rig = Rig(**settings)
    generation_id = rig.form_classic({"c1": {"T": (0, 1)}, "c2": {"T": (2, 3)}})
    assert generation_id == 1
    assert rig.commit("T", rig.ids["c1"], 1) is ErrorCode.NONE
    return rig


def mixed(**settings: Any) -> Rig:
    """A with T0,1, and the classic member c with T2,3, both at epoch 3."""
    rig = Rig(**settings)
    rig.join("A", "T")
    rig.classic_join("c")
    rig.beat("A", 2)
    rig.beat("A", 2, {"T": (0, 1)})
    rig.commit("T", "A", 3)
    rig.classic_join("c")
    assert rig.sync("c", 3) == (0, {"T": (2, 3)})
    return rig


# --- upgrades ---


def joining_again(rig: Rig, owned: dict[str, tuple[dict[str, tuple[int, ...]], int]]) -> None:
    """Let the members join again with what they own, and the generation they had it in; no assignment follows. It is
    their second rebalance without one: the group has forgotten the assignments of the last generation that had some."""
    for name in owned:
        rig.ask_aside(rig.join_group(rig.ids[name]), len(rig.node_rig.replied) + 500)
    for call, (name, (held, generation_id)) in enumerate(owned.items(), 600):
        partitions = tuple(TopicPartitions(topic, numbers) for topic, numbers in held.items())
        said = Subscription(("T",), owned_partitions=partitions, generation_id=generation_id)
        protocols = (JoinProtocol("range", encode_subscription(said)),)
        rig.ask_aside(rig.join_group(rig.ids[name], protocols=protocols), call)


def assigned(rig: Rig) -> dict[str, tuple[int, ...]]:
    """Partitions of the classic members in the group that is described."""
    names = {member_id: name for name, member_id in rig.ids.items()}
    return {
        names[one.member_id]: tuple(number for topic in one.assignment.topic_partitions for number in topic.partitions)
        for one in rig.describe().members
        if one.member_id in names
    }


def test_partitions_that_members_own_in_the_middle_of_a_rebalance_stay_theirs() -> None:
    rig = classic_pair()
    joining_again(rig, {"c1": ({"T": (0, 1)}, 1), "c2": ({"T": (2,)}, 1)})
    assert rig.group.classic.state is GroupState.COMPLETING
    joined = rig.join("A", "T")
    assert joined.assignment is not None
    given = [number for topic in joined.assignment.topic_partitions for number in topic.partitions]
    assert assigned(rig) == {"c1": (0, 1), "c2": (2,)}
    assert set(given) <= {3}, "nobody owns it"


def test_of_two_members_that_say_they_own_a_partition_the_later_generation_knows() -> None:
    rig = classic_pair()
    joining_again(rig, {"c1": ({"T": (0, 1, 2), "gone": (0,)}, 0), "c2": ({"T": (2, 99)}, 1)})
    rig.join("A", "T")
    assert assigned(rig) == {"c1": (0, 1), "c2": (2,)}


def test_an_assignment_counts_for_more_than_what_a_member_owned_before() -> None:
    rig = classic_pair()
    joining_again(rig, {"c1": ({"T": (0, 1)}, 1), "c2": ({"T": (2, 3)}, 1)})
    given: dict[str, dict[str, tuple[int, ...]]] = {
        "c1": {"T": (0,)},
        "c2": {"T": (2, 3)},
    }  # 1 is nobody's until c1 has given it back
    assignments = tuple(SyncGroupAssignment(rig.ids[name], encoded(held)) for name, held in given.items())
    assert rig.sync(rig.ids["c1"], 3, assignments=assignments) == (0, {"T": (0,)})
    rig.join("A", "T")
    assert assigned(rig) == {"c1": (0, 1), "c2": (2, 3)}


def test_scenario_73_a_classic_group_goes_on_under_a_consumer(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = classic_pair()
    batches = Batches(rig, monkeypatch)
    joined = rig.join("A", "T")
    assert (joined.error_code, joined.member_epoch) == (ErrorCode.NONE, 2)
    assert joined.assignment is not None and joined.assignment.topic_partitions == ()
    assert batches.take() == ["-k2 k5 k5 k3 k7 k7 k6 k8 k8 k5 k3 k7 k7 k6 k8"]
    described = rig.describe()
    assert (described.group_epoch, described.assignment_epoch) == (2, 2)
    c1, c2 = described.members[0], described.members[1]
    assert [one.partitions for one in c1.assignment.topic_partitions] == [(0, 1)]
    assert (c2.member_type, c2.member_epoch, c2.subscribed_topic_names) == (0, 1, ("T",))
    (shown,) = rig.ask(DescribeGroups(("g",), hides_consumer_groups=True)).groups
    assert shown.group_state == "Dead"
    assert rig.commit("T", rig.ids["c2"], 1) is ErrorCode.NONE, "the old generation is good for commits"
    for name in ("c1", "c2"):
        assert rig.heartbeat(rig.ids[name], 1) == REJOIN
    assert rig.sync(rig.ids["c1"], 1)[0] == REJOIN
    assert rig.committed() == {"error": 0, "T": 7}
    assert "group upgraded" in rig.causes
    moved = [one for one in described.members[:2] if one.target_assignment != one.assignment]
    loser = moved[0]
    kept = {one.topic_name: one.partitions for one in loser.target_assignment.topic_partitions}
    everything = {one.topic_name: one.partitions for one in loser.assignment.topic_partitions}
    assert rig.classic_join(loser.member_id, owned=everything).generation_id == 1
    assert rig.sync(loser.member_id, 1) == (0, kept)
    assert rig.classic_join(loser.member_id, owned=kept).generation_id == 2
    assert rig.beat("A", 2).assignment is not None


@pytest.mark.parametrize("is_clean", [False, True], ids=["crash", "snapshot"])
def test_an_upgraded_group_outlives_a_restart(is_clean: bool) -> None:
    rig = classic_pair()
    rig.join("A", "T")
    before = rig.describe()
    rig.restart(is_clean=is_clean)
    assert rig.describe() == before
    assert (rig.heartbeat(rig.ids["c1"], 1), rig.committed()) == (REJOIN, {"error": 0, "T": 7})


def test_scenario_74_parked_requests_are_told_to_come_again() -> None:
    rig = classic_pair()
    rig.ask_aside(rig.join_group(), 300)
    assert 300 not in rig.node_rig.replied
    assert rig.join("A", "T").error_code is ErrorCode.NONE
    told = rig.node_rig.replied[300]
    assert isinstance(told, JoinGroupReply) and told.error_code is ErrorCode.REBALANCE_IN_PROGRESS
    line = {one.member_id: one for one in rig.describe().members}[told.member_id]
    assert line.assignment.topic_partitions == ()
    assert rig.classic_join(told.member_id).generation_id == 2
    rig.node_rig.wait(30_000)
    assert rig.heartbeat(rig.ids["c1"], 1) == UNKNOWN, "sessions are those of the members"


def test_a_parked_sync_is_told_to_join_again() -> None:
    rig = Rig()
    rig.ask_aside(rig.join_group(group_instance_id="i"), 300)
    rig.ask_aside(rig.join_group(), 301)
    while 301 not in rig.node_rig.replied:
        rig.node_rig.wait(10)
    follower = next(r for r in (rig.node_rig.replied[300], rig.node_rig.replied[301]) if not r.members)  # type: ignore[attr-defined]
    assert isinstance(follower, JoinGroupReply)
    rig.ask_aside(SyncGroup("g", 1, follower.member_id), 302)
    assert rig.join("A", "T", instance_id="i").error_code is ErrorCode.NONE
    assert rig.node_rig.replied[302] == SyncGroupReply(error_code=ErrorCode.REBALANCE_IN_PROGRESS)
    assert [one.member_type for one in rig.describe().members] == [0, 1], "A has the place of the instance"


def test_a_consumer_takes_the_place_of_its_classic_instance_without_a_new_epoch() -> None:
    rig = Rig()
    rig.form_classic({"#i": {"T": (0, 1, 2, 3)}})
    joined = rig.join("A", "T", instance_id="i")
    assert (joined.error_code, joined.member_epoch, rig.epochs) == (ErrorCode.NONE, 1, "Stable 1/1")
    assert joined.assignment is not None
    assert [one.partitions for one in joined.assignment.topic_partitions] == [(0, 1, 2, 3)]
    assert rig.sync(rig.ids["#i"], 1)[0] == UNKNOWN


@pytest.mark.parametrize(
    "given_to_c1",
    [None, {"T": (0, 1)}, {"T": (0, 1), "U": (0,)}],
    ids=["in a rebalance", "with a partition left over", "with a topic that nobody reads"],
)
def test_an_upgrade_by_a_member_ends_the_rebalance_of_the_classic_group(
    given_to_c1: dict[str, tuple[int, ...]] | None,
) -> None:
    rig = Rig()
    if given_to_c1 is not None:  # c2 has yet to give up T3
        rig.form_classic({"c1": given_to_c1, "c2": {"T": (2,)}})
    else:
        rig.form_classic({"c1": {"T": (0, 1)}, "c2": {"T": (2,)}, "c3": {"T": (3,)}})
        assert rig.leave(LeavingMember(rig.ids["c3"])) == [0]
    c1, c2 = rig.ids["c1"], rig.ids["c2"]
    joined = rig.join(c1, "T")
    assert (joined.error_code, joined.member_epoch, rig.epochs) == (ErrorCode.NONE, 2, "Reconciling 2/2")
    assert rig.classic_join(c2, owned={"T": (2,)}).generation_id == 2
    held = [rig.sync(c2, 2)[1]["T"], *(one.partitions for one in joined.assignment.topic_partitions)]  # type: ignore[union-attr]
    assert sorted(number for numbers in held for number in numbers) == [0, 1, 2, 3]
    assert "group upgraded" in rig.causes


def test_scenario_75_an_upgrade_is_refused_and_the_group_stays_as_it_is() -> None:
    rig = classic_pair(group_consumer_migration_policy=MigrationPolicy.DOWNGRADE)
    refused = rig.join("A", "T")
    assert (refused.error_code, "downgrade" in (refused.error_message or "")) == (ErrorCode.GROUP_ID_NOT_FOUND, True)
    assert rig.heartbeat(rig.ids["c1"], 1) == 0

    for settings, error in (({"group_consumer_max_size": 1}, 69), ({"group_consumer_max_size": 2}, 81)):
        rig = classic_pair(**settings)
        assert rig.join("A", "T").error_code == error
        assert rig.heartbeat(rig.ids["c1"], 1) == 0

    rig = Rig()
    rig.form_classic({"c1": {}}, protocol_type="connect")
    assert rig.join("A", "T").error_code is ErrorCode.GROUP_ID_NOT_FOUND
    rig = Rig()
    rig.form_classic({"c1": {}}, protocols=(JoinProtocol("range", b"\0"),))
    assert rig.join("A", "T").error_code is ErrorCode.GROUP_ID_NOT_FOUND

    rig = Rig()
    rig.form_classic({"c1": {}})
    rig.group.classic.members[rig.ids["c1"]].assignment = encoded({"T": (0,)}, b"")
    assert rig.join("A", "T").error_code is ErrorCode.NONE, "empty user data, as of librdkafka, is none"

    rig = Rig()
    rig.form_classic({"c1": {}}, protocols=(JoinProtocol("sticky", encode_subscription(Subscription(("T",), b"7"))),))
    rig.group.classic.members[rig.ids["c1"]].assignment = encoded({"T": (0,)}, b"7")
    assert rig.join("A", "T").error_code is ErrorCode.NONE, "librdkafka repeats the user data of Java's subscription"

    for assignment in (encoded({"T": (0,)}, b"data"), b"\0\0\0"):
        rig = Rig()
        rig.ask_aside(rig.join_group(), 300)
        rig.node_rig.wait(20)
        member_id = rig.node_rig.replied[300].member_id  # type: ignore[attr-defined]
        rig.ask(SyncGroup("g", 1, member_id, assignments=(SyncGroupAssignment(member_id, assignment),)))
        assert rig.join("A", "T").error_code is ErrorCode.GROUP_ID_NOT_FOUND
        assert rig.heartbeat(member_id, 1) == 0
        assert rig.group.kind is GroupKind.CLASSIC


@pytest.mark.parametrize("is_left", [False, True], ids=["waiting", "left"])
def test_a_rebalance_that_is_on_no_record_yet_ends_with_the_upgrade(is_left: bool) -> None:
    rig = Rig(group_initial_rebalance_delay_ms=1_000)
    assert rig.commit("T") is ErrorCode.NONE, "a group of offsets alone has no record"
    rig.ask_aside(rig.join_group(group_instance_id="i"), 300)
    if is_left:
        assert rig.leave(LeavingMember("", "i")) == [0]
    assert rig.join("A", "T").error_code is ErrorCode.NONE
    told = rig.node_rig.replied[300]
    assert isinstance(told, JoinGroupReply) and told.error_code == (UNKNOWN if is_left else REJOIN)
    rig.node_rig.wait(2_000)
    assert len(rig.describe().members) == (1 if is_left else 2)
    rig.restart()
    assert (rig.group.kind, rig.committed()) == (GroupKind.CONSUMER, {"error": 0, "T": 7})


def test_an_upgrade_takes_only_partitions_that_exist_and_that_one_member_has() -> None:
    rig = Rig()
    rig.form_classic({"c1": {"T": (0, 0, -5, -1, 4, 2**31 - 1)}})
    assert rig.join("A", "T").error_code is ErrorCode.NONE
    (held,) = rig.describe().members[0].assignment.topic_partitions
    assert held.partitions == (0,)

    rig = Rig()
    rig.form_classic({"c1": {"T": (0, 1)}, "c2": {"T": (1, 2)}})
    refused = rig.join("A", "T")
    assert (refused.error_code, "T-1" in (refused.error_message or "")) == (ErrorCode.GROUP_ID_NOT_FOUND, True)
    assert rig.heartbeat(rig.ids["c1"], 1) == 0


def test_a_group_too_large_for_one_batch_keeps_its_protocol() -> None:
    rig = Rig(offsets_topic_max_message_bytes=64 * 1024)
    rig.join("A", "T")
    for number in range(4):
        topics = ("T", *[f"{number}-{n}-{'x' * 50}" for n in range(200)])
        assert rig.classic_join(f"c{number}", topics).error_code is ErrorCode.NONE
    assert rig.beat("A", -1).error_code is ErrorCode.NONE
    assert (rig.group.kind, "A" in rig.group.as_consumer().members) == (GroupKind.CONSUMER, False)

    rig = Rig(offsets_topic_max_message_bytes=64 * 1024)
    for number in range(4):
        rig.ask_aside(rig.join_group(topics=tuple(f"{number}-{n}-{'x' * 80}" for n in range(250))), 300 + number)
    refused = rig.join("A", "T")
    assert (refused.error_code, "batch" in (refused.error_message or "")) == (ErrorCode.GROUP_ID_NOT_FOUND, True)


def test_an_upgrade_that_the_log_refuses_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = classic_pair()
    with monkeypatch.context() as patched:
        patched.setattr(rig.node_rig.store, "_wal_append", lambda _name, _batch: NO_ROOM)
        assert rig.join("A", "T").error_code is ErrorCode.NOT_COORDINATOR
    assert rig.heartbeat(rig.ids["c1"], 1) == 0
    assert rig.sync(rig.ids["c1"], 1) == (0, {"T": (0, 1)})
    assert rig.join("A", "T").error_code is ErrorCode.NONE


def test_a_pattern_that_does_not_compile_upgrades_nothing() -> None:
    rig = classic_pair()
    reply = rig.join("A", subscribed_topic_names=None, subscribed_topic_regex="(")
    assert reply.error_code is ErrorCode.INVALID_REGULAR_EXPRESSION
    assert rig.heartbeat(rig.ids["c1"], 1) == 0


# --- downgrades ---


def test_scenario_76_the_last_consumer_leaves_and_the_others_are_a_classic_group(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rig = mixed()
    batches = Batches(rig, monkeypatch)
    assert rig.beat("A", -1).error_code is ErrorCode.NONE
    assert batches.take() == ["-k8 -k8 -k7 -k7 -k6 -k5 -k5 -k3 k2"]
    classic = rig.group.classic
    assert (rig.group.kind, classic.state.title, classic.generation_id) == (GroupKind.CLASSIC, "PreparingRebalance", 3)
    assert decoded(classic.members["c"].assignment) == {"T": (2, 3)}
    assert (rig.heartbeat("c", 2), rig.heartbeat("c", 3)) == (ILLEGAL, REJOIN)
    joined = rig.classic_join("c")
    assert (joined.generation_id, joined.leader) == (4, "c")
    assert rig.committed() == {"error": 0, "T": 7}
    assert "group downgraded" in rig.causes


@pytest.mark.parametrize("is_clean", [False, True], ids=["crash", "snapshot"])
def test_members_of_a_downgraded_group_must_join_again_after_a_restart_too(is_clean: bool) -> None:
    rig = mixed()
    rig.beat("A", -1)
    rig.restart(is_clean=is_clean)
    assert decoded(rig.group.classic.members["c"].assignment) == {"T": (2, 3)}
    assert rig.heartbeat("c", 3) == REJOIN, "recommended; Kafka loads it as Stable, and c may wait for its share"
    assert rig.committed() == {"error": 0, "T": 7}
    assert rig.join("A", "T").member_epoch == 4, "and may be upgraded again"


@pytest.mark.parametrize("way", ["session", "leave group", "revocation"])
def test_whatever_removes_the_last_consumer_downgrades(way: str) -> None:
    rig = mixed()
    if way == "session":
        for _ in range(9):
            rig.node_rig.wait(5_000)
            rig.heartbeat("c", 3)
    elif way == "leave group":
        assert rig.leave(LeavingMember("A")) == [0]
    else:
        rig = Rig()
        rig.join("A", "T", rebalance_timeout_ms=1_000)
        rig.classic_join("c")
        rig.beat("A", 2)
        rig.node_rig.wait(1_000)
    assert rig.group.kind is GroupKind.CLASSIC
    assert rig.group.classic.state.title == "PreparingRebalance"


def test_scenario_77_an_instance_goes_back_to_the_classic_protocol() -> None:
    rig = Rig()
    rig.join("A", "T", instance_id="i")
    joined = rig.classic_join(group_instance_id="i")
    assert (joined.error_code, joined.generation_id, joined.leader, joined.members) == (ErrorCode.NONE, 2, "", ())
    assert (rig.group.kind, rig.group.classic.state.title) == (GroupKind.CLASSIC, "Stable")
    assert rig.sync(joined.member_id, 2) == (0, {"T": (0, 1, 2, 3)})
    assert rig.heartbeat(joined.member_id, 2) == 0
    rig.restart()
    assert rig.sync(joined.member_id, 2) == (0, {"T": (0, 1, 2, 3)})


def test_an_instance_that_reads_something_else_waits_for_a_rebalance() -> None:
    rig = Rig()
    rig.join("A", "T", instance_id="i")
    joined = rig.classic_join(topics=("U",), group_instance_id="i")
    assert joined.error_code is ErrorCode.NONE, "Kafka answers generation 0; recommended: the new one"
    assert (joined.generation_id, joined.leader) == (3, joined.member_id)
    assert rig.group.classic.state.title == "CompletingRebalance"


def test_an_instance_waits_while_others_still_hold_what_it_would_get() -> None:
    rig = Rig()
    rig.join("A", "T", instance_id="i")
    rig.classic_join("c")
    rig.sync("c", 3)
    rig.ask_aside(rig.join_group(group_instance_id="i"), 300)
    assert 300 not in rig.node_rig.replied, "c waits for partitions, and would not hear that it has them"
    assert rig.classic_join("c").generation_id == rig.node_rig.replied[300].generation_id  # type: ignore[attr-defined]
    rig = mixed()
    rig.join("B", "T", instance_id="i")
    rig.beat("A", -1)
    rig.ask_aside(rig.join_group(group_instance_id="i"), 300)
    assert 300 not in rig.node_rig.replied, "c may hold what the target gives to others"
    assert rig.classic_join("c").generation_id == rig.node_rig.replied[300].generation_id  # type: ignore[attr-defined]


def test_scenario_78_a_policy_without_downgrades_keeps_the_group() -> None:
    rig = mixed(group_consumer_migration_policy=MigrationPolicy.UPGRADE)
    rig.beat("A", -1)
    assert rig.group.kind is GroupKind.CONSUMER
    rig = mixed(group_max_size=1)
    rig.join("B", "T")
    rig.classic_join("d")
    rig.leave(LeavingMember("A"), LeavingMember("B"))
    assert rig.group.kind is GroupKind.CONSUMER, "a classic group may not be as large"


def test_scenario_81_a_downgrade_before_the_first_target(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig(group_consumer_assignment_interval_ms=15_000)
    rig.join("A", subscribed_topic_names=None, subscribed_topic_regex="T")
    rig.beat("A", 1)
    rig.classic_join("c")
    assert rig.sync("c", rig.describe().members[1].member_epoch) == (0, {})
    batches = Batches(rig, monkeypatch)
    rig.beat("A", -1)
    (written,) = batches.take()
    assert "-k16 -k3 k2" in written.replace("-k5 -k5 ", "")
    assert rig.group.classic.members["c"].assignment == encoded({})
    assert rig.group.classic.state.title == "PreparingRebalance"


def test_a_group_goes_over_again_once_nobody_holds_what_another_is_assigned() -> None:
    rig = Rig()
    generation_id = rig.form_classic({"a": {"T": (0, 1, 2, 3)}})
    a = rig.ids["a"]
    rig.join("C", "U")
    joined = rig.classic_join("", ("T",))
    x = joined.member_id
    assert rig.sync(x, joined.generation_id) == (0, {})
    rig.beat("C", -1)
    assert rig.group.kind is GroupKind.CLASSIC, "x is assigned T2,3, which a still holds"
    refused = rig.join("D", "U")
    assert refused.error_code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and "joined again" in str(refused.error_message)
    rig.restart()
    assert rig.join("D", "U").error_code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    for call, member_id in ((7, a), (8, x)):
        rig.ask_aside(rig.join_group(member_id, ("T",)), call)
    replies: list[Any] = [rig.node_rig.replied[call] for call in (7, 8)]
    shares = (SyncGroupAssignment(a, encoded({"T": (0, 1)})), SyncGroupAssignment(x, encoded({"T": (2, 3)})))
    for call, reply in zip((7, 8), replies, strict=True):
        rig.ask_aside(SyncGroup("g", reply.generation_id, reply.member_id, assignments=shares), call)
    assert rig.join("D", "U").error_code is ErrorCode.NONE
    assert replies[0].generation_id > generation_id


def refused_until_joined_again(rig: Rig) -> None:
    """A consumer is refused, after a restart too."""
    for _ in range(2):
        assert rig.group.kind is GroupKind.CLASSIC
        assert rig.join("B", "T").error_code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        rig.restart()


def test_what_was_to_go_to_the_leaver_stays_with_its_holder_until_that_has_joined_again() -> None:
    rig = Rig()
    rig.form_classic({"c": {"T": (0, 1, 2, 3)}})
    c = rig.ids["c"]
    rig.join("A", "T")
    rig.beat("A", -1)
    assert decoded(rig.group.classic.members[c].assignment) == {"T": (0, 1)}
    refused_until_joined_again(rig)
    joined = rig.classic_join(c)
    rig.sync(c, joined.generation_id, assignments=(SyncGroupAssignment(c, encoded({"T": (0, 1)})),))
    assert rig.join("B", "T").error_code is ErrorCode.NONE


def test_what_was_to_go_to_the_replaced_member_stays_with_its_holder_until_that_has_joined_again() -> None:
    rig = Rig()
    rig.form_classic({"c": {"T": (0, 1, 2, 3)}})
    rig.join("A", "T", instance_id="i")
    rig.ask_aside(rig.join_group(group_instance_id="i"), 300)
    refused_until_joined_again(rig)


def test_what_the_replaced_member_was_to_revoke_stays_with_its_instance_until_that_has_joined() -> None:
    rig = Rig()
    rig.join("A", "T", instance_id="i")
    rig.classic_join("c")
    rig.beat("A", 2)
    rig.ask_aside(rig.join_group(group_instance_id="i", owned={"T": (0, 1, 2, 3)}), 300)
    refused_until_joined_again(rig)


def test_there_and_back_under_commits() -> None:
    rig = classic_pair()
    for turn in range(3):
        joined = rig.join("A", "U")
        assert joined.error_code is ErrorCode.NONE
        topics = (OffsetCommitTopic("T", (OffsetCommitPartition(0, 8 + turn),)),)
        rig.ask(OffsetCommit("g", topics, joined.member_epoch, "A"))
        rig.beat("A", -1)
        assert rig.committed() == {"error": 0, "T": 8 + turn}
        assert rig.group.classic.generation_id > turn
    rig.restart()
    assert rig.committed() == {"error": 0, "T": 10}


# --- groups without members ---


def test_an_empty_group_that_the_log_refuses_to_convert_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig()
    rig.join("A", "T")
    rig.beat("A", -1)
    with monkeypatch.context() as patched:
        patched.setattr(rig.node_rig.store, "_wal_append", lambda _name, _batch: NO_ROOM)
        assert to_classic(rig.group.shard, rig.group, Moment(0, 0)) is ErrorCode.NOT_COORDINATOR
    assert rig.describe().group_state == "Empty"


def test_a_consumer_group_that_is_deleted_leaves_no_tombstone_of_a_classic_one() -> None:
    rig = Rig()
    rig.join("A", "T")
    rig.beat("A", -1)
    records: list[ShardRecord] = [OffsetTombstone("g", "T", 0), GroupTombstone("g")]
    end_on_record(rig.group, records)
    assert records[0] == OffsetTombstone("g", "T", 0) and len(records) > 1
    assert {type(one) for one in records[1:]} == {ConsumerTombstone}
    untouched: list[ShardRecord] = [OffsetTombstone("g", "T", 0)]
    end_on_record(rig.group, untouched)
    assert untouched == [OffsetTombstone("g", "T", 0)]


def test_a_checked_commit_is_stored_as_one_without_a_member() -> None:
    checked = as_simple(OffsetCommit("g", (), 3, "A", "i"))
    assert (checked.generation_id, checked.member_id, checked.group_instance_id) == (-1, "", None)


def test_scenario_79_empty_groups_change_their_kind_both_ways_in_one_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig(group_consumer_migration_policy=MigrationPolicy.DISABLED)
    rig.join("A", "T")
    rig.commit("T", "A", 2)
    rig.beat("A", -1)
    batches = Batches(rig, monkeypatch)
    assert rig.classic_join("unknown").error_code is ErrorCode.UNKNOWN_MEMBER_ID
    assert rig.classic_join(protocol_type="").error_code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert (batches.take(), rig.group.kind) == ([], GroupKind.CONSUMER)
    rig.ask_aside(rig.join_group(), 300)
    assert (batches.take()[0], rig.group.kind) == ("-k6 -k3 k2", GroupKind.CLASSIC)
    assert rig.join("A", "T").error_code is ErrorCode.GROUP_ID_NOT_FOUND
    rig.node_rig.wait(10)
    rig.node_rig.wait(60_000)
    batches.take()
    assert rig.join("A", "T").member_epoch == 2, "epochs begin anew"
    assert batches.take() == ["-k2 k5 k3 k7 k6 k8"]
    assert rig.committed() == {"error": 0, "T": 7}
    rig.restart()
    assert rig.describe().group_state == "Stable"
