"""Joining, and its refusals (docs/spec/client-balanced-groups.md#6, #12): raw requests against a node."""

from typing import Any

import pytest

from coordinator.groups.client_balanced.members import HEARTBEAT_MS
from coordinator.handlers.client_balanced import admit_client_balanced
from protocol.errors import ErrorCode
from protocol.messages.balanced import StartMember, StartMemberReply
from protocol.messages.groups import (
    DeleteGroups,
    DeleteGroupsReply,
    DescribeGroups,
    DescribeGroupsReply,
    JoinGroup,
    JoinGroupReply,
    JoinProtocol,
    ListGroups,
    ListGroupsReply,
    RebalanceStarted,
)
from protocol.messages.node import DescribeNode, DescribeNodeReply
from protocol.messages.offsets import (
    OffsetCommit,
    OffsetCommitPartition,
    OffsetCommitReply,
    OffsetCommitTopic,
    OffsetDelete,
    OffsetDeleteReply,
    OffsetDeleteTopic,
)
from tests.groups.balanced.group_rig import SESSION_MS, GroupRig

NONE = ErrorCode.NONE


def code(rig: GroupRig, consumer_id: str, **fields: Any) -> ErrorCode:
    return rig.member(consumer_id, **fields).start().error_code


def join(group_id: str = "g", member_id: str = "") -> JoinGroup:
    return JoinGroup(
        group_id,
        SESSION_MS,
        member_id=member_id,
        protocol_type="consumer",
        protocols=(JoinProtocol("range", b"\0\0\0\0\0\0"),),
        wants_member_id_first=False,
    )


def test_a_member_is_told_its_epoch_its_session_and_when_to_be_heard_of() -> None:
    rig = GroupRig()
    reply = rig.member("a").start()
    assert reply == StartMemberReply(NONE, "", 1, SESSION_MS, HEARTBEAT_MS, meta_version=1)
    assert rig.member("b", session_timeout_ms=6_000).start().heartbeat_ms == 2_000
    assert [one.key for one in rig.member("a").rig.view().partitions] == [f"1:demo:{n}" for n in range(4)]


@pytest.mark.parametrize("node_id", [3, -1])
def test_cb5_a_node_id_outside_the_source_count_is_refused_by_the_server_too(node_id: int) -> None:
    rig = GroupRig()
    reply = rig.member("a", source_count=3, node_id=node_id).start()
    assert reply.error_code is ErrorCode.BAD_REQUEST
    assert rig.view().error_code is ErrorCode.GROUP_ID_NOT_FOUND


def test_a_source_count_of_zero_is_refused() -> None:
    assert code(GroupRig(), "a", source_count=0) is ErrorCode.BAD_REQUEST


@pytest.mark.parametrize(
    "fields",
    [
        {"topics": ()},
        {"topics": ("",)},
        {"topics": ("t" * 65,)},
        {"topics": tuple(f"t{n}" for n in range(1_025))},
        {"filters": {"demo": tuple(f"f{n}" for n in range(501))}},
        {"filters": {"demo": ("f" * 257,)}},
        {"filters": {"demo": (" ",)}},
        {"filters": {"other": ("f",)}},
        {"group_id": ""},
        {"group_id": "9g"},
        {"group_id": "g" * 1_025},
        {"instance_id": " "},
        {"session_timeout_ms": 1},
        {"consume_position": "middle"},
    ],
)
def test_what_is_malformed_is_refused_by_the_server_too(fields: dict[str, Any]) -> None:
    rig = GroupRig()
    reply = rig.member("a", **fields).start()
    assert reply.error_code is ErrorCode.BAD_REQUEST
    assert admit_client_balanced(rig.node_rig.node.core, "") is ErrorCode.BAD_REQUEST


def test_a_consumer_id_that_is_blank_is_refused() -> None:
    assert code(GroupRig(), " ") is ErrorCode.BAD_REQUEST


def test_cb8_another_source_count_is_refused_and_the_required_one_named() -> None:
    rig = GroupRig()
    rig.started("a", source_count=3, node_id=0)
    rig.started("b", source_count=3, node_id=1)
    reply = rig.member("c", source_count=2, node_id=1).start()
    assert reply.error_code is ErrorCode.INCONSISTENT_SOURCE_COUNT


@pytest.mark.parametrize(("first", "second"), [(3, -1), (-1, 3)])
def test_cb9_counting_and_not_counting_do_not_go_together(first: int, second: int) -> None:
    rig = GroupRig()
    rig.started("a", source_count=first, node_id=0)
    assert code(rig, "b", source_count=second, node_id=1) is ErrorCode.INCONSISTENT_SOURCE_COUNT


def test_cb10_two_members_of_one_number_the_second_hears_who_holds_it() -> None:
    rig = GroupRig()
    rig.started("a", source_count=3, node_id=1)
    client = rig.member("b", source_count=3, node_id=1)
    request = StartMember("g", "b", ("demo",), source_count=3, node_id=1)
    reply = rig.node_rig.ask_inside(request)
    assert isinstance(reply, StartMemberReply)
    assert reply.error_code is ErrorCode.DUPLICATE_NODE_ID and "held by a at" in reply.error_message
    assert client.start().error_code is ErrorCode.DUPLICATE_NODE_ID
    assert [one.consumer_id for one in rig.view().members] == ["a"]


def test_a_fourth_of_three_cannot_be() -> None:
    rig = GroupRig()
    for number in range(3):
        rig.started(f"m{number}", source_count=3, node_id=number)
    refused = {code(rig, f"n{number}", source_count=3, node_id=number) for number in range(3)}
    assert refused == {ErrorCode.DUPLICATE_NODE_ID}


def test_cb11_a_node_that_crashed_is_let_in_again_when_its_session_is_over() -> None:
    rig = GroupRig()
    rig.started("a", source_count=3, node_id=1)
    again = rig.member("a2", source_count=3, node_id=1)
    rig.node_rig.wait(SESSION_MS - 1)
    assert again.start().error_code is ErrorCode.DUPLICATE_NODE_ID
    rig.node_rig.wait(1)
    assert again.start().error_code is NONE
    assert [one.consumer_id for one in rig.view().members] == ["a2"]


def test_cb12_with_an_instance_id_the_restarted_one_is_let_in_at_once_and_the_old_object_is_fenced() -> None:
    rig = GroupRig()
    old = rig.started("a", source_count=3, node_id=1, instance_id="i")
    rig.produce(0, 3)
    assert old.register(0, 0).error_code is NONE
    assert old.read(0) == [0, 1, 2]
    new = rig.started("a2", source_count=3, node_id=1, instance_id="i")
    assert new.epoch > old.epoch
    assert new.register(0).reg_epoch == 2
    assert old.beat().error_code is ErrorCode.REPLACED_MEMBER
    assert old.meta().error_code is ErrorCode.REPLACED_MEMBER
    assert old.register(1).error_code is ErrorCode.REPLACED_MEMBER
    assert old.fetch(0).error_code is ErrorCode.DUPLICATE_PARTITION
    assert old.confirm(0, 3).error_code is ErrorCode.NOT_OWNER_COMMIT
    assert old.start().error_code is ErrorCode.REPLACED_MEMBER
    assert rig.committed(0) == 0  # what it named when it registered
    rig.restart()
    assert rig.member("a", source_count=3, node_id=1, instance_id="i").start().error_code is ErrorCode.REPLACED_MEMBER


def test_what_a_replaced_object_is_told_of_its_keys_even_while_nobody_has_them() -> None:
    rig = GroupRig()
    old = rig.started("a", instance_id="i")
    old.register(0)
    rig.started("a2", instance_id="i")
    assert old.fetch(0).error_code is ErrorCode.DUPLICATE_PARTITION
    assert old.unregister(0).error_code is ErrorCode.DUPLICATE_PARTITION


def test_an_instance_id_of_another_number_replaces_nobody() -> None:
    rig = GroupRig()
    rig.started("a", source_count=3, node_id=1, instance_id="i")
    rig.started("b", source_count=3, node_id=2, instance_id="i")
    assert [one.consumer_id for one in rig.view().members] == ["a", "b"]


def test_cb13_the_same_object_may_come_again_with_another_number() -> None:
    rig = GroupRig()
    client = rig.started("a", source_count=3, node_id=1)
    first = client.epoch
    assert client.start(node_id=2).error_code is NONE
    assert client.epoch > first
    (member,) = rig.view().members
    assert (member.consumer_id, member.node_id) == ("a", 2)


def test_cb14_when_the_last_member_has_left_anything_may_be_agreed_on_anew() -> None:
    rig = GroupRig()
    rig.node_rig.make_topic("other", 2)
    assert rig.started("a", source_count=3, node_id=0).leave().error_code is NONE
    rig.started("b", source_count=4, node_id=3, topics=("other",), filters={"other": ("f",)})
    view = rig.view()
    assert (view.topics, view.source_count, view.filters) == (("other",), 4, {"other": ("f",)})


def test_while_one_lives_the_group_is_not_resized() -> None:
    rig = GroupRig()
    rig.started("a", source_count=3, node_id=0)
    rig.started("b", source_count=3, node_id=1).leave()
    assert code(rig, "c", source_count=4, node_id=0) is ErrorCode.INCONSISTENT_SOURCE_COUNT


def test_cb15_where_nobody_counts_numbers_may_be_equal() -> None:
    rig = GroupRig()
    rig.started("a", node_id=1)
    rig.started("b", node_id=1)
    assert [one.node_id for one in rig.view().members] == [None, None]


def test_cb16_one_mode_a_group_whoever_comes_first() -> None:
    rig = GroupRig(group_initial_rebalance_delay_ms=0)
    classic = rig.connection()
    (joined,) = rig.node_rig.ask(classic, join())
    assert isinstance(joined, JoinGroupReply) and joined.error_code is NONE
    assert code(rig, "a") is ErrorCode.INCONSISTENT_MODE
    rig.started("b", group_id="other")
    (refused,) = rig.node_rig.ask(classic, join("other"))
    assert isinstance(refused, JoinGroupReply)
    assert refused.error_code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_cb17_the_mode_is_checked_before_the_topics() -> None:
    rig = GroupRig()
    rig.node_rig.make_topic("other", 1)
    rig.node_rig.ask(rig.connection(), join())
    assert code(rig, "a", topics=("other",), source_count=2, node_id=0) is ErrorCode.INCONSISTENT_MODE


@pytest.mark.parametrize("topics", [("demo",), ("demo", "more", "most"), ("demo", "most")])
def test_cb18_the_set_of_topics_is_the_same_or_it_is_refused(topics: tuple[str, ...]) -> None:
    rig = GroupRig()
    rig.node_rig.make_topic("more", 1)
    rig.node_rig.make_topic("most", 1)
    rig.started("a", topics=("demo", "more"))
    assert code(rig, "b", topics=topics) is ErrorCode.INCONSISTENT_TOPICS
    assert code(rig, "c", topics=("more", "demo", "demo")) is NONE


def test_cb19_the_filters_are_the_same_or_it_is_refused() -> None:
    rig = GroupRig()
    rig.started("a", filters={"demo": ("x", "y")})
    assert code(rig, "b", filters={"demo": ("x",)}) is ErrorCode.INCONSISTENT_FILTERS
    assert code(rig, "c") is ErrorCode.INCONSISTENT_FILTERS
    assert code(rig, "d", filters={"demo": (" y", "x", "x")}) is NONE


def test_cb20_a_topic_that_is_not_there_is_refused() -> None:
    rig = GroupRig()
    assert code(rig, "a", topics=("demo", "nowhere")) is ErrorCode.TOPIC_NOT_DEPLOYED
    assert rig.view().error_code is ErrorCode.GROUP_ID_NOT_FOUND


def test_cb21_the_server_assigns_nothing_to_groups_that_balance_themselves() -> None:
    period_ms = 9_000
    rig = GroupRig(
        group_initial_rebalance_delay_ms=0, offsets_topic_num_partitions=3, server_balance_interval_ms=period_ms
    )
    server = rig.started("s", group_id="s", mode="server")
    clients = [rig.started(f"m{number}", group_id=f"g{number}") for number in range(200)]
    classic = rig.connection()
    rig.node_rig.ask(classic, join("classic"))
    for _ in range(3):
        rig.node_rig.wait(period_ms)
        assert server.beat().assignment == tuple(f"1:demo:{number}" for number in range(4)), "a pass has run"
        for client in clients:
            reply = client.beat()
            assert (reply.error_code, reply.assignment, reply.assignment_id) == (NONE, None, 0)
    told = [said for client in clients for said in client.told()]
    assert not [said for said in told if isinstance(said, RebalanceStarted)] and not told
    assert {owner for number in range(200) for owner in rig.owners(f"g{number}").values()} == {None}


# --- the group beside it ---


def commit(member_id: str = "", generation_id: int = -1) -> OffsetCommit:
    topics = (OffsetCommitTopic("demo", (OffsetCommitPartition(0, 7),)),)
    return OffsetCommit("g", topics, member_id=member_id, generation_id=generation_id)


def test_while_members_live_nobody_else_commits_deletes_offsets_or_the_group() -> None:
    rig = GroupRig()
    client = rig.started("a")
    for message in (commit(), commit("a", 1)):
        refused = rig.node_rig.ask_inside(message)
        assert isinstance(refused, OffsetCommitReply)
        assert refused.topics[0].partitions[0].error_code is ErrorCode.UNKNOWN_MEMBER_ID
    deleted = rig.node_rig.ask_inside(OffsetDelete("g", (OffsetDeleteTopic("demo", (0,)),)))
    assert isinstance(deleted, OffsetDeleteReply) and deleted.error_code is ErrorCode.NON_EMPTY_GROUP
    gone = rig.node_rig.ask_inside(DeleteGroups(("g",)))
    assert isinstance(gone, DeleteGroupsReply) and gone.results[0].error_code is ErrorCode.NON_EMPTY_GROUP
    client.leave()
    committed = rig.node_rig.ask_inside(commit())
    assert isinstance(committed, OffsetCommitReply) and not committed.topics[0].partitions[0].error_code
    gone = rig.node_rig.ask_inside(DeleteGroups(("g",)))
    assert isinstance(gone, DeleteGroupsReply) and gone.results[0].error_code is NONE
    assert rig.view().error_code is ErrorCode.GROUP_ID_NOT_FOUND
    assert not any(shard.groups for shard in rig.node_rig.node.core.shards)


def test_tools_see_the_group_as_one_of_a_type_of_its_own() -> None:
    rig = GroupRig()
    client = rig.started("a", instance_id="i")
    listed = rig.node_rig.ask_inside(ListGroups(types_filter=("client-balanced",)))
    assert isinstance(listed, ListGroupsReply)
    assert [(one.group_id, one.group_state) for one in listed.groups] == [("g", "Stable")]
    described = rig.node_rig.ask_inside(DescribeGroups(("g",)))
    assert isinstance(described, DescribeGroupsReply)
    (group,) = described.groups
    assert (group.group_state, group.protocol_type) == ("Stable", "client-balanced")
    assert [(one.member_id, one.group_instance_id) for one in group.members] == [("a", "i")]
    node = rig.node_rig.ask_inside(DescribeNode())
    assert isinstance(node, DescribeNodeReply)
    assert (node.group_states["Stable"], node.group_states["Empty"], node.gauges["members"]) == (1, 0, 1)
    assert (node.gauges["client_balanced_groups"], node.gauges["client_balanced_members"]) == (1, 1)
    client.leave()
    listed = rig.node_rig.ask_inside(ListGroups())
    assert isinstance(listed, ListGroupsReply)
    assert [(one.group_id, one.group_state, one.group_type) for one in listed.groups] == [("g", "Empty", "classic")]


def test_what_was_committed_survives_a_change_of_mode() -> None:
    rig = GroupRig(group_initial_rebalance_delay_ms=0)
    rig.node_rig.ask_inside(commit())
    rig.produce(0, 9)
    client = rig.started("a")
    assert client.register(0).position == 7
    client.leave()
    (joined,) = rig.node_rig.ask(rig.connection(), join())
    assert isinstance(joined, JoinGroupReply) and joined.error_code is NONE
    assert rig.committed(0) == 7


def test_a_full_group_takes_nobody_else() -> None:
    rig = GroupRig(group_max_size=2)
    rig.started("a")
    rig.started("b")
    assert code(rig, "c") is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert code(rig, "a") is NONE


def test_a_member_of_a_group_of_which_nothing_else_is_on_record_is_one_after_a_crash() -> None:
    rig = GroupRig(2)
    commit = OffsetCommit("g", (OffsetCommitTopic("demo", (OffsetCommitPartition(0, 1),)),))
    rig.node_rig.ask_inside(commit)  # a simple group, of which there are offsets alone; and then none
    rig.node_rig.ask_inside(OffsetDelete("g", (OffsetDeleteTopic("demo", (0,)),)))
    rig.started("a", source_count=2, node_id=0)
    for again in (rig.restart, rig.stop):
        again()
        assert [one.consumer_id for one in rig.view().members] == ["a"]
    assert rig.member("b", source_count=2, node_id=0).start().error_code is ErrorCode.DUPLICATE_NODE_ID
