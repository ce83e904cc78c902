"""Handlers of messages, and replies to requests about the node, its topics and several groups at once."""

from typing import Any, cast

import pytest

from coordinator.facts.views import describe_group, list_group
from coordinator.groups.classic.group_states import GroupSettings, GroupState
from coordinator.groups.classic.state import ClassicGroup
from coordinator.handlers import find_coordinator, offset_commit
from coordinator.handlers.table import HANDLERS
from coordinator.runtime.group import Group
from protocol.errors import ErrorCode
from protocol.messages.groups import (
    OPERATIONS_NOT_REQUESTED,
    DeleteGroups,
    DescribeGroups,
    ListGroups,
    ListNotes,
)
from protocol.messages.node import FindCoordinator
from protocol.messages.offsets import (
    ListOffsets,
    ListOffsetsPartition,
    ListOffsetsTopic,
    OffsetCommit,
    OffsetCommitPartition,
    OffsetCommitTopic,
    OffsetDelete,
    OffsetDeleteTopic,
)
from protocol.messages.topics import Metadata, MetadataTopic
from protocol.native.session import METHODS
from tests.node.node_rig import NodeRig


def ask(rig: NodeRig, message: Any) -> Any:
    """The reply; typed loosely, since each test knows which it is."""
    return rig.ask_inside(message)


@pytest.fixture
def rig() -> NodeRig:
    rig = NodeRig()
    rig.make_topic("orders", 4)
    rig.connect(1)
    return rig


def commit(group_id: str, *partitions: tuple[str, int]) -> OffsetCommit:
    topics = tuple(OffsetCommitTopic(name, (OffsetCommitPartition(index, 7),)) for name, index in partitions)
    return OffsetCommit(group_id, topics)


def test_every_message_that_is_served_has_a_method_of_the_native_protocol() -> None:
    assert {message.__name__ for message in HANDLERS} <= set(METHODS)
    assert HANDLERS[FindCoordinator] is find_coordinator.find_coordinator
    assert HANDLERS[OffsetCommit] is offset_commit.offset_commit


def test_the_coordinator_of_every_group_is_this_node_at_the_address_of_the_asking_dialect(rig: NodeRig) -> None:
    (reply,) = rig.ask(1, FindCoordinator(("a", "b", "")))
    found = reply.coordinators  # type: ignore[attr-defined]
    assert [(one.key, one.node_id, one.host, one.port) for one in found] == [
        ("a", 1, "node", 9),
        ("b", 1, "node", 9),
        ("", 1, "node", 9),
    ]


def test_coordinators_of_other_things_than_groups_are_refused(rig: NodeRig) -> None:
    (transactions,) = ask(rig, FindCoordinator(("t",), key_type=1)).coordinators
    assert transactions.error_code is ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert "transactions are not served" in (transactions.error_message or "")
    (found,) = ask(rig, FindCoordinator(("t",), key_type=2)).coordinators
    assert found.error_code is ErrorCode.INVALID_REQUEST
    assert (found.node_id, found.port) == (transactions.node_id, transactions.port) == (-1, -1)


def test_metadata_names_the_node_as_leader_of_what_exists_and_refuses_what_does_not(rig: NodeRig) -> None:
    reply = ask(rig, Metadata((MetadataTopic("orders"), MetadataTopic("nothing"))))
    assert [(broker.node_id, broker.host) for broker in reply.brokers] == [(1, "node")]
    orders, nothing = reply.topics
    assert [partition.leader_id for partition in orders.partitions] == [1, 1, 1, 1]
    assert nothing.error_code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_commit_keeps_the_order_of_the_request_when_part_of_it_is_refused(rig: NodeRig) -> None:
    reply = ask(rig, commit("g", ("nothing", 0), ("orders", 1), ("orders", 9)))
    codes = [(topic.name, part.partition_index, part.error_code) for topic in reply.topics for part in topic.partitions]
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert codes == [("nothing", 0, unknown), ("orders", 1, ErrorCode.NONE), ("orders", 9, unknown)]


def test_offsets_of_a_group_without_members_can_be_deleted_one_by_one(rig: NodeRig) -> None:
    ask(rig, commit("g", ("orders", 0), ("orders", 1)))
    reply = ask(rig, OffsetDelete("g", (OffsetDeleteTopic("orders", (0, 3)), OffsetDeleteTopic("nothing", (0,)))))
    assert reply.error_code is ErrorCode.NONE
    codes = [part.error_code for topic in reply.topics for part in topic.partitions]
    assert codes == [ErrorCode.NONE, ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert list(rig.node.core.shard_of("g").offsets.partitions("g")) == [("orders", 1)]


def test_groups_are_deleted_each_by_itself_and_once(rig: NodeRig) -> None:
    ask(rig, commit("one", ("orders", 0)))
    results = ask(rig, DeleteGroups(("one", "two", "one"))).results
    assert [(line.group_id, line.error_code) for line in results] == [
        ("one", ErrorCode.NONE),
        ("two", ErrorCode.GROUP_ID_NOT_FOUND),
    ]
    assert ask(rig, ListGroups()).groups == ()
    assert [note.cause for note in ask(rig, ListNotes("one")).notes] == ["group deleted"]


def test_a_group_that_is_not_there_is_dead_and_newer_clients_are_told_so_by_an_error(rig: NodeRig) -> None:
    (newer,) = ask(rig, DescribeGroups(("g",))).groups
    (older,) = ask(rig, DescribeGroups(("g",), absent_is_error=False)).groups
    assert (newer.group_state, newer.error_code) == ("Dead", ErrorCode.GROUP_ID_NOT_FOUND)
    assert (older.group_state, older.error_code) == ("Dead", ErrorCode.NONE)


def test_operations_on_a_group_are_told_to_who_asks_for_them_unless_it_is_refused(rig: NodeRig) -> None:
    ask(rig, commit("one", ("orders", 0)))
    both = ("one", "absent")
    asked = ask(rig, DescribeGroups(both, include_authorized_operations=True, absent_is_error=False)).groups
    assert [line.authorized_operations for line in asked] == [3400, 3400]
    newer = ask(rig, DescribeGroups(both, include_authorized_operations=True)).groups
    assert [line.authorized_operations for line in newer] == [3400, OPERATIONS_NOT_REQUESTED]
    assert ask(rig, DescribeGroups(("one",))).groups[0].authorized_operations == OPERATIONS_NOT_REQUESTED


def test_lists_of_groups_are_filtered_by_state_and_type_whatever_their_case(rig: NodeRig) -> None:
    ask(rig, commit("g", ("orders", 0)))
    listed = [
        len(ask(rig, ListGroups(states_filter=states, types_filter=types)).groups)
        for states, types in ((("empty",), ()), ((" EMPTY ",), ("Classic",)), (("Stable",), ()), ((), ("share",)))
    ]
    assert listed == [1, 1, 0, 0]


def test_ends_of_a_new_topic_are_its_beginning(rig: NodeRig) -> None:
    wanted = ListOffsetsTopic("orders", (ListOffsetsPartition(0, -1), ListOffsetsPartition(0, -2)))
    (topic,) = ask(rig, ListOffsets((wanted,))).topics
    assert [part.offset for part in topic.partitions] == [0, 0]


def test_views_show_an_empty_group_as_it_is() -> None:
    classic = ClassicGroup("g", GroupSettings(), protocol_type="consumer", generation_id=3)
    group = Group("g", cast(Any, None), classic)
    shown = describe_group("g", group, 7, absent_is_error=True)
    assert (shown.group_state, shown.generation_id, shown.members) == ("Empty", 3, ())
    assert list_group(group).protocol_type == "consumer"
    classic.state = GroupState.DEAD
    assert describe_group("g", group, 7, absent_is_error=True).group_state == "Dead"
