"""Requests that would delay all others are rejected before they are served."""

import msgspec
import pytest

from coordinator.handlers.table import APIS, INTERNAL_HANDLERS
from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.messages.data import Fetch, FetchPartition, FetchTopic, Produce, ProducePartition, ProduceTopic
from protocol.messages.groups import (
    DeleteGroups,
    DescribeGroups,
    DescribeGroupsReply,
    JoinGroup,
    JoinProtocol,
    LeaveGroup,
    LeavingMember,
    SyncGroup,
    SyncGroupAssignment,
)
from protocol.messages.node import ErrorReply, FindCoordinator, FindCoordinatorReply
from protocol.messages.offsets import (
    ListOffsets,
    ListOffsetsPartition,
    ListOffsetsTopic,
    OffsetCommit,
    OffsetCommitPartition,
    OffsetCommitReply,
    OffsetCommitTopic,
    OffsetDelete,
    OffsetDeleteTopic,
    OffsetFetch,
    OffsetFetchGroup,
    OffsetFetchReply,
    OffsetFetchTopic,
)
from protocol.messages.topics import CreatableTopic, CreateTopics, Metadata, MetadataTopic
from protocol.native.methods import METHODS
from tests.node.node_rig import NodeRig

_MANY = 1_001
_INDEXES = tuple(range(_MANY))
_NAMES = tuple(map(str, range(_MANY)))


@pytest.mark.parametrize(
    ("field", "message"),
    [
        ("topics", OffsetCommit("g", (OffsetCommitTopic("orders", (OffsetCommitPartition(0, 1),) * _MANY),))),
        ("groups", OffsetFetch((OffsetFetchGroup("g", (OffsetFetchTopic("orders", _INDEXES),)),))),
        ("topics", OffsetDelete("g", (OffsetDeleteTopic("orders", _INDEXES),))),
        ("topics", ListOffsets((ListOffsetsTopic("orders", (ListOffsetsPartition(0),) * _MANY),))),
        ("topics", Fetch((FetchTopic("orders", (FetchPartition(0, 0),) * _MANY),))),
        ("topic_data", Produce((ProduceTopic("orders", (ProducePartition(0, b""),) * _MANY),))),
        ("topics", Metadata((MetadataTopic("orders"),) * _MANY)),
        ("topics", CreateTopics((CreatableTopic("a", 10_000),), validate_only=True)),
        ("groups", DescribeGroups(_NAMES)),
        ("groups", DescribeGroups(("g" * 8_000,) * 5)),
        ("groups_names", DeleteGroups(_NAMES)),
        ("coordinator_keys", FindCoordinator(_NAMES)),
        ("members", LeaveGroup("g", (LeavingMember(),) * _MANY)),
        ("assignments", SyncGroup("g", 1, "m", assignments=(SyncGroupAssignment("m", b""),) * _MANY)),
        ("protocols", JoinGroup("g", 6_000, protocols=tuple(map(JoinProtocol, _NAMES)))),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Message) else value,
)
def test_a_request_that_names_too_much_is_refused_with_the_field(field: str, message: Message) -> None:
    rig = NodeRig(max_entries_per_request=1_000)
    rig.make_topic()
    refused = rig.ask_inside(message)
    assert isinstance(refused, ErrorReply)
    assert refused.error_code is ErrorCode.INVALID_REQUEST
    assert refused.error_message.startswith(f"{field}: ")
    assert "max.entries.per.request" in refused.error_message


def test_a_client_hears_of_it_on_the_wire() -> None:
    rig = NodeRig(max_entries_per_request=1_000)
    rig.connect(1)
    (refused,) = rig.ask(1, FindCoordinator(_NAMES))
    assert getattr(refused, "error_code", None) is ErrorCode.INVALID_REQUEST
    (found,) = rig.ask(1, FindCoordinator(_NAMES[:900]))
    assert isinstance(found, FindCoordinatorReply)


def _commit(group_id: str, count: int) -> OffsetCommit:
    return OffsetCommit(
        group_id, (OffsetCommitTopic("orders", tuple(OffsetCommitPartition(index, 5) for index in range(count))),)
    )


def test_a_commit_that_would_be_gigabytes_as_records_is_refused_before_they_are_made() -> None:
    rig = NodeRig()
    rig.make_topic(partitions=10_000)
    reply = rig.ask_inside(_commit("g" * 8_000, 10_000))
    assert isinstance(reply, OffsetCommitReply)
    assert {part.error_code for part in reply.topics[0].partitions} == {ErrorCode.UNKNOWN_SERVER_ERROR}
    assert rig.ask_inside(_commit("g", 1_000)) is not None


def test_an_answer_has_room_for_so_many_offsets_and_the_groups_beyond_are_to_be_asked_for_again() -> None:
    rig = NodeRig(max_entries_per_request=1_000)
    rig.make_topic(partitions=900)
    for group_id in ("a", "b", "c"):
        rig.ask_inside(_commit(group_id, 900))
    wanted = tuple(map(OffsetFetchGroup, ("a", "b", "c")))
    reply = rig.ask_inside(OffsetFetch(wanted))
    assert isinstance(reply, OffsetFetchReply)
    again = ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert [group.error_code for group in reply.groups] == [ErrorCode.NONE, ErrorCode.NONE, again]
    reply = rig.ask_inside(OffsetFetch(wanted[2:]))
    assert isinstance(reply, OffsetFetchReply)
    assert len(reply.groups[0].topics[0].partitions) == 900


def test_a_large_group_asked_for_many_times_is_described_until_there_is_no_more_room() -> None:
    rig = NodeRig(max_entries_per_request=1_000)
    for _ in range(4):
        rig.ask_inside(
            JoinGroup(
                "g",
                6_000,
                protocol_type="consumer",
                protocols=(JoinProtocol("range"),),
                wants_member_id_first=False,
            )
        )
    reply = rig.ask_inside(DescribeGroups(("g",) * 400))
    assert isinstance(reply, DescribeGroupsReply)
    described = [group for group in reply.groups if not group.error_code]
    assert len(described) == 250
    assert {group.error_code for group in reply.groups[250:]} == {ErrorCode.THROTTLING_QUOTA_EXCEEDED}


def test_every_request_that_holds_a_list_is_counted() -> None:
    served = {method.request for method in METHODS.values()} | INTERNAL_HANDLERS.keys()
    lists = {one for one in served if any("tuple" in str(field.type) for field in msgspec.structs.fields(one))}
    assert lists == {api.message for api in APIS if api.cost.field}
