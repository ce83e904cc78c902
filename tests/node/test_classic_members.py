"""Classic members inside a consumer group (docs/spec/consumer-group-protocol.md#12, #19.9). Tests name the
specification's scenarios."""

from typing import Any

import pytest

from coordinator.config.keys import MigrationPolicy
from coordinator.node.events import Lost
from protocol.errors import ErrorCode
from protocol.messages.consumer_groups import ConsumerGroupHeartbeat
from protocol.messages.groups import (
    DescribeGroups,
    Heartbeat,
    HeartbeatReply,
    JoinGroupReply,
    JoinProtocol,
    LeavingMember,
    ListAudit,
    RebalanceStarted,
)
from protocol.messages.topics import CreatePartitions, GrowingTopic
from tests.node.consumer_rig import Rig, decoded, told
from tests.node.node_rig import NO_ROOM

UNKNOWN, ILLEGAL, INCONSISTENT, REJOIN, FENCED_INSTANCE = 25, 22, 23, 27, 82


def mixed(**settings: Any) -> Rig:
    """A with T0,1 and the classic member c with T2,3, both at epoch 3."""
    rig = Rig(**settings)
    rig.join("A", "T")
    rig.classic_join("c")
    rig.beat("A", 2)
    rig.beat("A", 2, {"T": (0, 1)})
    rig.classic_join("c")
    assert rig.sync("c", 3) == (0, {"T": (2, 3)})
    return rig


def must_sync_now(rig: Rig, member_id: str, epoch: int) -> None:
    """Check that the member, with a rebalance timeout of 2 s, is removed after it."""
    rig.node_rig.wait(1_999)
    assert rig.heartbeat(member_id, epoch) == 0
    rig.node_rig.wait(1)
    assert rig.heartbeat(member_id, epoch) == UNKNOWN
    assert "member never synced" in rig.causes


def test_scenario_67_a_classic_member_gets_what_the_other_gives_up() -> None:
    rig = Rig()
    rig.join("A", "T")
    asked = rig.classic_join(wants_member_id_first=True)
    assert (asked.error_code, len(rig.describe().members)) == (ErrorCode.MEMBER_ID_REQUIRED, 1)
    joined = rig.classic_join(asked.member_id, wants_member_id_first=True)
    assert (joined.error_code, joined.generation_id, joined.leader, joined.members) == (ErrorCode.NONE, 3, "", ())
    assert (joined.protocol_type, joined.protocol_name) == ("consumer", "range")
    c = joined.member_id
    assert c == asked.member_id
    assert rig.sync(c, 3) == (0, {})
    assert rig.heartbeat(c, 3) == 0
    rig.beat("A", 2)
    assert rig.heartbeat(c, 3) == 0, "A still reads all of T"
    assert rig.beat("A", 2, {"T": (0, 1)}).member_epoch == 3
    assert rig.heartbeat(c, 3) == REJOIN
    assert rig.classic_join(c).generation_id == 3
    assert rig.sync(c, 3) == (0, {"T": (2, 3)})
    assert (rig.heartbeat(c, 3), rig.epochs) == (0, "Stable 3/3")
    assert [one.member_type for one in rig.describe().members] == [1, 0]
    assert rig.commit("T", c, 3) is ErrorCode.NONE
    assert rig.commit("T", c, 4) is ErrorCode.ILLEGAL_GENERATION


def test_scenario_68_a_classic_member_gives_up_partitions_in_two_steps() -> None:
    rig = Rig()
    rig.join("A")
    assert rig.classic_join("c").generation_id == 2
    assert rig.sync("c", 2) == (0, {"T": (0, 1, 2, 3)})
    rig.join("B", "T")
    assert (rig.sync("c", 2)[0], rig.heartbeat("c", 2)) == (REJOIN, REJOIN)
    assert rig.classic_join("c", owned={"T": (0, 1, 2, 3)}).generation_id == 2
    assert rig.sync("c", 2) == (0, {"T": (0, 1)})
    assert rig.heartbeat("c", 2) == REJOIN
    assert rig.beat("B", 3).assignment is None, "c has not given up its part yet"
    assert rig.classic_join("c", owned={"T": (0, 1)}).generation_id == 3
    assert (rig.sync("c", 3), rig.heartbeat("c", 3)) == ((0, {"T": (0, 1)}), 0)
    assert rig.beat("B", 3).assignment is not None


@pytest.mark.parametrize("owned", [None, {"T": (0, 1)}])
def test_a_classic_member_that_joins_again_late_is_noted(owned: dict[str, tuple[int, ...]] | None) -> None:
    rig = Rig()
    rig.join("A")
    rig.classic_join("c", rebalance_timeout_ms=60_000)
    rig.sync("c", 2)
    rig.join("B", "T")
    assert rig.heartbeat("c", 2) == REJOIN
    rig.node_rig.wait(9_000)
    rig.classic_join("c", owned=owned, rebalance_timeout_ms=60_000)
    rig.classic_join("c", owned=owned, rebalance_timeout_ms=60_000)
    (note,) = [one for one in rig.node_rig.node.core.journal.notes() if one.kind == "revoked"]
    assert note.detail.startswith("2 partitions (T-2, T-3) revoked after 9000 ms: ")


def test_scenario_69_a_sync_names_the_generation_the_protocol_and_a_classic_member() -> None:
    rig = mixed()
    assert rig.sync("c", 2)[0] == ILLEGAL
    assert rig.sync("c", 3, protocol_name="roundrobin")[0] == INCONSISTENT
    assert rig.sync("c", 3, protocol_type="connect")[0] == INCONSISTENT
    assert rig.sync("c", 3, protocol_type="consumer", protocol_name="range")[0] == 0
    assert (rig.sync("A", 3)[0], rig.sync("nobody", 3)[0]) == (UNKNOWN, UNKNOWN)
    assert (rig.heartbeat("A", 3), rig.heartbeat("c", 2)) == (UNKNOWN, ILLEGAL)
    assert rig.heartbeat("c", 3, group_instance_id="i") == UNKNOWN


def test_scenario_70_a_classic_member_must_sync_join_again_and_be_heard() -> None:
    rig = Rig()
    rig.join("A", "T")
    rig.classic_join("c", rebalance_timeout_ms=2_000)
    must_sync_now(rig, "c", 3)

    rig.classic_join("c", rebalance_timeout_ms=2_000)
    epoch = rig.group.as_consumer().epoch
    assert rig.sync("c", epoch)[0] == 0
    rig.join("B", "T")
    assert rig.heartbeat("c", epoch) == REJOIN
    rig.node_rig.wait(1_500)
    assert rig.heartbeat("c", epoch) == REJOIN, "the time is not restarted"
    rig.node_rig.wait(500)
    assert rig.heartbeat("c", epoch) == UNKNOWN, "it never joined again"

    joined = rig.classic_join("c")
    rig.sync("c", joined.generation_id)
    for _ in range(2):
        rig.node_rig.wait(9_999)
        assert rig.heartbeat("c", joined.generation_id) in (0, REJOIN)
        rig.sync("c", joined.generation_id)
        rig.classic_join("c")
        rig.sync("c", joined.generation_id)
    rig.node_rig.wait(10_000)
    assert rig.heartbeat("c", joined.generation_id) == UNKNOWN, "it was silent for its session"
    assert {"member never synced", "member did not rejoin in time", "session expired"} <= set(rig.causes)


def test_a_join_group_that_comes_late_does_not_remove_the_member_that_has_synced() -> None:
    rig = mixed()
    rig.classic_join("c", rebalance_timeout_ms=2_000)
    for _ in range(3):
        rig.node_rig.wait(1_000)
        assert (rig.heartbeat("c", 3), rig.epochs) == (0, "Stable 3/3")
    assert "member never synced" not in rig.causes


def test_a_join_group_that_comes_late_while_others_hold_its_partitions_does_not_remove_the_member() -> None:
    rig = Rig()
    rig.join("A", "T", server_assignor="range")
    c: Any = {"topics": ("T", "U"), "rebalance_timeout_ms": 2_000}
    assert rig.classic_join("c", **c).generation_id == 3
    assert rig.sync("c", 3) == (0, {"U": (0, 1, 2)}), "A has yet to give up its half of T"
    rig.classic_join("c", **c)
    for _ in range(3):
        rig.node_rig.wait(1_000)
        assert rig.heartbeat("c", 3) == 0
    assert "member never synced" not in rig.causes


def test_what_a_late_join_group_does_not_own_is_not_given_up() -> None:
    rig = Rig()
    old, new = rig.node_rig.connect(10), rig.node_rig.connect(11)

    def join(connection: int, owned: dict[str, tuple[int, ...]]) -> int:
        (*_pushes, reply) = rig.node_rig.ask(connection, rig.join_group("c", owned=owned))
        assert isinstance(reply, JoinGroupReply)
        return reply.generation_id

    rig.join("A", "U")
    assert join(new, {}) == 3
    assert rig.sync("c", 3) == (0, {"T": (0, 1, 2, 3)})
    rig.join("B", "T")
    assert join(new, {"T": (0, 1, 2, 3)}) == 3
    assert rig.sync("c", 3) == (0, {"T": (0, 1)}), "it is asked to give up the others"
    assert join(old, {}) == 3, "sent before it owned a partition, and read only now"
    assert told(rig, rig.beat("B", 4)) is None, "c still reads them"
    assert join(new, {"T": (0, 1)}) == 4
    assert told(rig, rig.beat("B", 4)) == {rig.id_of("T"): (2, 3)}


def test_limits_of_metadata_count_what_a_join_group_adds() -> None:
    rig = Rig(group_max_metadata_bytes=1_000)
    topics = ("T", "z" * 400)
    generation = rig.form_classic({"c1": {"T": (0, 1)}, "#i": {"T": (2, 3)}}, topics=topics)
    assert rig.join("A", "T").error_code is ErrorCode.NONE, "it brings little, and the names of the others count now"
    for name in ("c1", "#i"):
        assert rig.heartbeat(rig.ids[name], generation) == REJOIN
        assert rig.classic_join(rig.ids[name], topics).error_code is ErrorCode.NONE
    assert rig.classic_join(topics=topics, group_instance_id="i").error_code is ErrorCode.NONE, "in its own place"
    assert rig.classic_join(topics=topics).error_code is ErrorCode.MESSAGE_TOO_LARGE


def test_a_member_that_adds_more_than_the_node_has_room_for_is_not_fenced() -> None:
    rig = mixed(max_metadata_bytes=200)
    for _ in range(3):
        rig.node_rig.wait(9_000)
        assert rig.classic_join("c", ("T", "z" * 400)).error_code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert rig.heartbeat("c", 3) == 0


def test_a_member_whose_join_the_node_has_no_room_for_is_not_fenced() -> None:
    rig = mixed(max_held_replies=2)
    rig.stall_disk()
    rig.node_rig.wait(9_000)
    assert rig.classic_join("c").error_code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    rig.node_rig.wait(9_000)
    rig.free_disk()
    assert rig.heartbeat("c", 3) == 0


def test_a_member_that_joins_again_for_another_assignment_must_sync() -> None:
    rig = mixed()
    rig.beat("A", -1)
    assert rig.heartbeat("c", 3) == REJOIN
    assert rig.classic_join("c", rebalance_timeout_ms=2_000).generation_id == 4
    must_sync_now(rig, "c", 4)


def test_a_member_that_becomes_classic_must_sync() -> None:
    rig = Rig()
    rig.join("A", "T")
    rig.join("B", "T")
    rig.beat("A", 2)
    rig.beat("A", 2, {"T": (0, 1)})
    assert rig.classic_join("A", owned={"T": (0, 1)}, rebalance_timeout_ms=2_000).generation_id == 3
    must_sync_now(rig, "A", 3)


def test_a_member_that_joins_again_before_it_has_synced_gets_the_whole_time_again() -> None:
    rig = Rig()
    rig.join("A", "T")
    rig.classic_join("c", rebalance_timeout_ms=2_000)
    rig.node_rig.wait(1_999)
    assert rig.heartbeat("c", 3) == 0
    rig.classic_join("c", rebalance_timeout_ms=2_000)
    must_sync_now(rig, "c", 3)


def test_a_replacement_that_does_not_revoke_is_fenced() -> None:
    rig = Rig()
    rig.join("A", "T")
    c = rig.classic_join(group_instance_id="i").member_id
    rig.beat("A", 2)
    rig.beat("A", 2, {"T": (0, 1)})
    owned = {"T": (2, 3)}
    assert rig.classic_join(c, group_instance_id="i").generation_id == 3
    assert rig.sync(c, 3, group_instance_id="i") == (0, owned)
    rig.join("B", "T")
    rig.join("D", "T")
    rig.classic_join(c, owned=owned, group_instance_id="i")
    rig.node_rig.wait(5_000)
    c2 = rig.classic_join(owned=owned, group_instance_id="i")
    assert (c2.error_code, c2.generation_id) == (ErrorCode.NONE, 0), "it says that it reads what it must give up"
    for _ in range(4):
        assert rig.classic_join(c2.member_id, owned=owned).error_code is ErrorCode.NONE
        assert rig.sync(c2.member_id, 0)[0] == 0
        rig.node_rig.wait(5_000)
    assert rig.sync(c2.member_id, 0)[0] == UNKNOWN, "the rebalance timeout counts from the replacement"
    assert rig.describe().group_epoch == 6


def test_scenario_71_classic_members_share_an_assignor() -> None:
    rig = mixed()
    assert rig.classic_join("d", protocol_type="connect").error_code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    refused = rig.classic_join("d", names=("sticky",))
    assert (refused.error_code, refused.member_id) == (ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "")
    for protocols in ((), (JoinProtocol("range", b"\0"),), (JoinProtocol("range"),) * 2):
        assert rig.classic_join("d", protocols=protocols).error_code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert rig.classic_join("d", names=("sticky", "range")).protocol_name == "sticky"
    assert rig.epochs == "Reconciling 4/4"


def test_scenario_72_members_of_either_protocol_are_removed() -> None:
    rig = mixed()
    rig.join("B", "T", instance_id="i")
    epoch = rig.group.as_consumer().epoch
    entries = [
        LeavingMember("B", "i"),
        LeavingMember("zz"),
        LeavingMember("", "i"),
        LeavingMember("", "nope"),
        LeavingMember("A", "i"),
    ]
    assert rig.leave(*entries) == [0, UNKNOWN, 0, UNKNOWN, FENCED_INSTANCE]
    assert rig.group.as_consumer().epoch == epoch + 1
    assert rig.leave(LeavingMember("c"), LeavingMember("A")) == [0, 0]
    assert rig.epochs == f"Empty {epoch + 2}/{epoch}"
    assert rig.leave(LeavingMember("c")) == [UNKNOWN]


def test_an_operator_evicts_members_of_either_protocol_and_the_audit_says_so() -> None:
    rig = mixed()
    rig.join("B", "T")
    rig.node_rig.connect_from(7, "10.0.0.7")
    assert rig.leave(LeavingMember("c", None, "too slow")) == [0]
    rig.node_rig.step(Lost(7))
    causes = {
        note.initiator: note.act for note in rig.node_rig.node.core.journal.notes() if note.cause == "member left"
    }
    assert causes == {"c": ""}, "the same client: it left by itself"


def test_evictions_by_another_client_are_in_the_audit() -> None:
    rig = Rig()
    for number, name in ((1, "A"), (2, "B")):
        rig.node_rig.connect_from(number, f"10.0.0.{number}")
        rig.node_rig.ask(number, ConsumerGroupHeartbeat("g", name, 0, None, None, 60_000, ("T",), topic_partitions=()))
    assert rig.leave(LeavingMember("A", None, "too slow")) == [0]
    (one,) = rig.ask(ListAudit()).notes
    assert (one.note.act, one.note.initiator, "too slow" in one.note.detail) == ("evict", "A", True)
    assert rig.beat("A", 2).error_code is ErrorCode.UNKNOWN_MEMBER_ID


def test_scenario_37_a_classic_member_asks_for_the_target_that_is_due() -> None:
    rig = Rig(group_consumer_assignment_interval_ms=3_000)
    rig.join("A", "T")
    assert rig.classic_join("c").generation_id == 2
    assert rig.sync("c", 2) == (0, {})
    rig.node_rig.wait(2_999)
    assert (rig.heartbeat("c", 2), rig.epochs) == (0, "Assigning 3/2")
    rig.node_rig.wait(1)
    assert rig.heartbeat("c", 2) == REJOIN, "recommended; Kafka waits for somebody else's heartbeat"
    assert rig.epochs == "Reconciling 3/3"


def test_scenario_78_classic_members_alone_are_told_to_rejoin() -> None:
    rig = mixed(group_consumer_migration_policy=MigrationPolicy.UPGRADE)
    rig.beat("A", -1)
    assert rig.epochs == "Assigning 4/3"
    assert rig.heartbeat("c", 3) == REJOIN, "recommended; Kafka answers 0 for ever"
    assert rig.classic_join("c", owned={"T": (2, 3)}).generation_id == 4
    assert rig.sync("c", 4) == (0, {"T": (0, 1, 2, 3)})
    rig.node_rig.make_topic("V", 1)
    assert rig.heartbeat("c", 4) == 0


def test_scenario_79_no_classic_member_joins_where_the_policy_forbids_it() -> None:
    rig = Rig(group_consumer_migration_policy=MigrationPolicy.DISABLED)
    rig.join("A", "T")
    assert rig.classic_join("c").error_code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_scenario_80_a_member_that_cannot_say_what_it_owns_has_given_it_up() -> None:
    rig = Rig()
    rig.join("A")
    rig.classic_join("c", version=0)
    rig.sync("c", 2)
    rig.join("B", "T")
    assert rig.heartbeat("c", 2) == REJOIN
    assert rig.classic_join("c", owned={"T": (0, 1, 2, 3)}, version=0).generation_id == 3
    assert rig.sync("c", 3) == (0, {"T": (0, 1)})


def test_a_member_that_was_removed_joins_only_without_what_it_owned() -> None:
    rig = Rig()
    rig.join("A", "T")
    assert rig.classic_join("c", owned={"T": (2, 3)}).error_code is ErrorCode.UNKNOWN_MEMBER_ID
    assert rig.classic_join("c").error_code is ErrorCode.NONE


def test_scenario_82_a_member_changes_its_protocol_under_its_id() -> None:
    rig = Rig()
    rig.join("A", "T", server_assignor="range", rack_id="r")
    joined = rig.classic_join("A", topics=("U",))
    assert (joined.error_code, joined.generation_id) == (ErrorCode.NONE, 3)
    (line,) = [one.subscription for one in rig.group.as_consumer().members.values()]
    assert (line.server_assignor, line.subscribed_topic_regex, line.rack_id) == ("range", "", "r")
    assert rig.beat("A", 2).error_code is ErrorCode.FENCED_MEMBER_EPOCH
    assert rig.join("A", "U").member_epoch == 3
    assert rig.heartbeat("A", 3) == UNKNOWN
    rig.node_rig.wait(30_000)
    assert rig.beat("A", 3).error_code is ErrorCode.NONE, "neither its sync nor its short session is waited for"


def test_scenario_16_a_full_group_takes_no_classic_member_but_in_the_place_of_another() -> None:
    rig = Rig(group_consumer_max_size=2)
    rig.join("A", "T", instance_id="i")
    rig.join("B", "T")
    for protocol_type in ("consumer", "connect"):
        refused = rig.classic_join("c", protocol_type=protocol_type)
        assert refused.error_code is ErrorCode.GROUP_MAX_SIZE_REACHED
    joined = rig.classic_join(group_instance_id="i")
    assert (joined.error_code, joined.generation_id) == (ErrorCode.NONE, 3)
    assert rig.classic_join(joined.member_id, group_instance_id="i").error_code is ErrorCode.NONE
    assert rig.classic_join("zz", group_instance_id="i").error_code is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert rig.beat("A", -1, instance_id="i").error_code is ErrorCode.FENCED_INSTANCE_ID


def test_instances_of_classic_members_are_their_own() -> None:
    rig = mixed()
    assert rig.classic_join("c", group_instance_id="i").error_code is ErrorCode.UNKNOWN_MEMBER_ID
    first = rig.classic_join(group_instance_id="i")
    assert rig.classic_join("c", group_instance_id="i").error_code is ErrorCode.FENCED_INSTANCE_ID
    assert rig.heartbeat("c", 3, group_instance_id="i") == FENCED_INSTANCE
    assert rig.join("B", "T", instance_id="i").error_code is ErrorCode.NONE, "a consumer takes a classic one's place"
    assert rig.sync(first.member_id, 4)[0] == UNKNOWN


@pytest.mark.parametrize("is_clean", [False, True], ids=["crash", "snapshot"])
def test_classic_members_outlive_a_restart(is_clean: bool) -> None:
    rig = mixed()
    before = rig.describe()
    rig.restart(is_clean=is_clean)
    assert rig.describe() == before
    assert (rig.heartbeat("c", 3), rig.sync("c", 3)) == (0, (0, {"T": (2, 3)}))
    rig.node_rig.wait(9_999)
    assert rig.heartbeat("c", 3) == 0
    rig.node_rig.wait(10_000)
    assert rig.heartbeat("c", 3) == UNKNOWN


def test_the_classic_member_that_everybody_waits_for_is_named() -> None:
    rig = Rig()
    rig.join("A")
    rig.classic_join("c")
    rig.sync("c", 2)
    rig.join("B", "T")

    def shown() -> Any:
        return rig.ask(DescribeGroups(("g",), with_facts=True)).groups[0]

    rig.node_rig.wait(1_000)
    assert (shown().phase, shown().waiting_for, shown().limited_by) == ("revoke", ("c",), ""), "it was not told yet"
    assert rig.heartbeat("c", 2) == REJOIN
    rig.node_rig.wait(3_000)
    described = shown()
    assert (described.phase_ms, described.phase_left_ms, described.limited_by) == (3_000, 17_000, "c")
    member = next(one for one in described.members if one.member_id == "c")
    assert (member.protocols, member.revoking_ms) == (("range",), 3_000)
    assert {one.member_id: one.group_protocol for one in described.members} == {
        "A": "consumer",
        "B": "consumer",
        "c": "classic",
    }
    assert decoded(member.pending_revocation) == {"T": (2, 3)}
    rig.classic_join("c")
    assert (shown().phase, shown().waiting_for) == ("assign", ("A", "B")), "they were not heard since"


def test_a_heartbeat_that_moves_nothing_writes_nothing_and_news_are_pushed() -> None:
    rig = mixed()
    rig.node_rig.connect(1)
    position = rig.node_rig.store.position
    assert rig.node_rig.ask(1, Heartbeat("g", 3, "c")) == [HeartbeatReply()]
    assert rig.node_rig.ask(1, Heartbeat("g", 2, "c")) == [HeartbeatReply(ErrorCode.ILLEGAL_GENERATION)]
    assert rig.node_rig.store.position == position
    member = rig.group.as_consumer().members["c"]
    member.connection = 1
    rig.join("B", "T")
    (news,) = rig.node_rig.heard(1)
    assert isinstance(news, RebalanceStarted) and news.generation_id == 3


def test_a_member_that_cannot_be_removed_is_removed_later(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig()
    rig.join("A", "T")
    rig.classic_join("c", rebalance_timeout_ms=2_000)
    with monkeypatch.context() as patched:
        patched.setattr(rig.node_rig.store, "_wal_append", lambda _name, _batch: NO_ROOM)
        rig.node_rig.wait(2_000)
        rig.node_rig.wait(900)
        assert rig.classic_join("d").error_code is ErrorCode.NOT_COORDINATOR
        assert "c" in rig.group.as_consumer().members
    rig.node_rig.wait(100)
    assert rig.heartbeat("c", 3) == UNKNOWN


def test_a_subscription_that_names_too_much_is_not_read() -> None:
    rig = mixed(max_entries_per_request=1_000)
    for many in ({"topics": ("T",) * 1_001}, {"owned": {"T": tuple(range(1_000))}}):
        assert rig.classic_join("d", **many).error_code is ErrorCode.INVALID_REQUEST
    assert rig.classic_join("d", ("T",) * 1_000).error_code is ErrorCode.NONE


def test_a_member_cannot_take_the_place_of_another_too() -> None:
    """Its own partitions would be in nobody's target, of a group that calls itself Stable."""
    for is_classic in (False, True):
        rig = mixed()
        if is_classic:
            rig.leave(LeavingMember("c"))
            rig.classic_join("", group_instance_id="i")
        else:
            rig.join("f", "T", instance_id="i")
            rig.beat("f", -2, instance_id="i")
        refused = rig.join("A", "T", instance_id="i")
        assert (refused.error_code, "A" in (refused.error_message or "")) == (ErrorCode.UNRELEASED_INSTANCE_ID, True)
        assert rig.join("B", "T", instance_id="i").error_code is ErrorCode.NONE


def test_a_member_is_timed_whatever_the_log_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig()
    rig.join("A", "T")
    rig.classic_join("c", rebalance_timeout_ms=2_000)
    with monkeypatch.context() as patched:
        patched.setattr(rig.node_rig.store, "_wal_append", lambda _name, _batch: NO_ROOM)
        assert rig.beat("A", -1).error_code is ErrorCode.NOT_COORDINATOR  # it would have downgraded the group
    rig.node_rig.wait(2_000)
    assert rig.heartbeat("c", 3) == UNKNOWN, "it did not sync"

    rig = Rig()
    rig.join("A", "T")
    rig.classic_join("c", rebalance_timeout_ms=2_000)
    rig.beat("A", 2)
    rig.beat("A", 2, {"T": (0, 1)})
    rig.classic_join("c", rebalance_timeout_ms=2_000)
    assert rig.sync("c", 3) == (0, {"T": (2, 3)})
    rig.ask(CreatePartitions((GrowingTopic("T", 6),)))
    with monkeypatch.context() as patched:
        patched.setattr(rig.node_rig.store, "_wal_append", lambda _name, _batch: NO_ROOM)
        assert rig.heartbeat("c", 3) == ErrorCode.NOT_COORDINATOR
        rig.node_rig.wait(2_000)
        assert "c" in rig.group.as_consumer().members, "nobody told it to join again"
    assert rig.heartbeat("c", 3) == REJOIN
    rig.node_rig.wait(2_000)
    assert rig.heartbeat("c", 3) == UNKNOWN, "it did not join again"
