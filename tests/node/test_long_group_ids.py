"""A group id that fits no record is refused by name, in every API about groups and in both dialects; the connection
stays open."""

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from coordinator.handlers.table import HANDLERS
from protocol.apis import BY_MESSAGE
from protocol.errors import ErrorCode
from protocol.messages import LONGEST_GROUP_ID, Message
from protocol.messages.balanced import (
    ConfirmConsumed,
    ConsumeFromMax,
    DescribeBalanced,
    FetchRegistered,
    LeaveMember,
    MemberHeartbeat,
    PartitionMeta,
    RegisterItem,
    RegisterPartitions,
    StartMember,
    UnregisterPartitions,
)
from protocol.messages.consumer_groups import ConsumerGroupDescribe, ConsumerGroupHeartbeat
from protocol.messages.data import Fetch
from protocol.messages.groups import (
    ApplyOffsets,
    DeleteGroups,
    DescribeGroups,
    Heartbeat,
    HoldGroup,
    JoinGroup,
    JoinProtocol,
    LeaveGroup,
    LeavingMember,
    ListNotes,
    ListRefusals,
    OffsetChange,
    SyncGroup,
)
from protocol.messages.node import FindCoordinator
from protocol.messages.offsets import (
    DescribeExpiry,
    ListGroupOffsets,
    OffsetCommit,
    OffsetCommitPartition,
    OffsetCommitTopic,
    OffsetDelete,
    OffsetDeleteTopic,
    OffsetFetch,
    OffsetFetchGroup,
    OffsetFetchTopic,
)
from protocol.messages.ownership import ClaimItem, ClaimPartitions, DescribeOwnership, ReleasePartitions
from protocol.messages.reports import DrainMembers, ReportMember
from tests.node.node_rig import NodeRig
from tests.node.test_kafka import KafkaNodeRig, Peer

LONG = "g" * (LONGEST_GROUP_ID + 1)
VERY_LONG = "g" * 40_000
"""Longer than old versions can say."""

COMMITTED = (OffsetCommitTopic("orders", (OffsetCommitPartition(0, 1),)),)
REFUSE_NO_ID = {Fetch, ListGroupOffsets, ListRefusals}
"""A Fetch names the group of a grant, and lists tell of those of the named groups that are here."""


def requests(group_id: str) -> Iterator[Message]:
    yield FindCoordinator((group_id,))
    yield JoinGroup(group_id, 10_000, "", "consumer", (JoinProtocol("range", b""),), 10_000)
    yield SyncGroup(group_id, 1, "m", None, "consumer", "range")
    yield Heartbeat(group_id, 1, "m")
    yield LeaveGroup(group_id, (LeavingMember("m"),))
    yield DescribeGroups((group_id,))
    yield DeleteGroups((group_id,))
    yield OffsetCommit(group_id, COMMITTED)
    yield OffsetFetch((OffsetFetchGroup(group_id, (OffsetFetchTopic("orders", (0,)),)),))
    yield OffsetDelete(group_id, (OffsetDeleteTopic("orders", (0,)),))
    yield ConsumerGroupHeartbeat(
        group_id, "m", rebalance_timeout_ms=10_000, subscribed_topic_names=("orders",), topic_partitions=()
    )
    yield ConsumerGroupDescribe((group_id,))


def native_requests(group_id: str) -> Iterator[Message]:
    yield from requests(group_id)
    yield ListNotes(group_id)
    yield DescribeExpiry(group_id)
    yield ClaimPartitions(group_id, "m", 1, (ClaimItem("orders", 0, 0),))
    yield ReleasePartitions(group_id, "m")
    yield DescribeOwnership(group_id)
    yield StartMember(group_id, "c", ("orders",), consume_position="first", session_timeout_ms=10_000)
    yield MemberHeartbeat(group_id, "c", 1)
    yield PartitionMeta(group_id, "c", 1)
    yield RegisterPartitions(group_id, "c", 1, (RegisterItem("1:orders:0"),))
    yield UnregisterPartitions(group_id, "c", 1, ())
    yield FetchRegistered(group_id, "c", 1, ())
    yield ConfirmConsumed(group_id, "c", 1, ())
    yield LeaveMember(group_id, "c", 1)
    yield DescribeBalanced((group_id,))
    yield ConsumeFromMax((group_id,))
    yield ApplyOffsets(group_id, (OffsetChange("orders", 0, -1, 5),))
    yield HoldGroup(group_id, 1_000)
    yield ReportMember(group_id, "m")
    yield DrainMembers(group_id, ("m",))


def codes(value: Any) -> set[ErrorCode]:
    """All that are told, but NONE."""
    if isinstance(value, ErrorCode):
        return {value} - {ErrorCode.NONE}
    if isinstance(value, tuple):
        return set().union(*map(codes, value))
    if isinstance(value, msgspec.Struct):
        return set().union(*(codes(getattr(value, one.name)) for one in msgspec.structs.fields(value)))
    return set()


def named(message: Message) -> str:
    return type(message).__name__


def is_ever_flexible(message: Message) -> bool:
    request = BY_MESSAGE[type(message)].request
    return request.flexible <= request.newest


def test_every_request_with_a_group_id_is_sent_here() -> None:
    names = {"group_id", "group_ids", "groups", "groups_names", "coordinator_keys"}
    asked = {message for message in HANDLERS if names & set(message.__struct_fields__)}
    assert asked - REFUSE_NO_ID == {type(message) for message in native_requests("g")}


@pytest.mark.parametrize("message", [*native_requests(LONG), *native_requests(VERY_LONG)], ids=named)
def test_natively(message: Message) -> None:
    rig = NodeRig()
    rig.make_topic("orders")
    rig.connect(1)
    (reply,) = rig.ask(1, message)
    # A client-balanced group has a rule of its own for names (docs/spec/client-balanced-groups.md#6.1), and a code for
    # it.
    assert codes(reply) == {ErrorCode.BAD_REQUEST if named(message) == "StartMember" else ErrorCode.INVALID_GROUP_ID}
    assert not rig.closed and not rig.node.core.directory


@pytest.mark.parametrize("message", list(requests(LONG)), ids=named)
def test_in_every_version_of_kafkas_protocol(message: Message) -> None:
    rig = KafkaNodeRig()
    rig.make_topic("orders")
    request = BY_MESSAGE[type(message)].request
    for version in range(request.oldest, request.newest + 1):
        if isinstance(message, OffsetCommit | OffsetFetch) and version >= 10:
            continue  # these name topics by id
        (reply,) = Peer(rig, version + 1).ask((message, version))
        assert codes(reply) == {ErrorCode.INVALID_GROUP_ID}, version
    assert not rig.closed and not rig.node.core.directory


@pytest.mark.parametrize("message", [one for one in requests(VERY_LONG) if is_ever_flexible(one)], ids=named)
def test_in_a_flexible_version_of_any_length(message: Message) -> None:
    rig = KafkaNodeRig()
    rig.make_topic("orders")
    (reply,) = Peer(rig, 1).ask((message, min(BY_MESSAGE[type(message)].request.newest, 9)))
    assert codes(reply) == {ErrorCode.INVALID_GROUP_ID}
    assert not rig.closed and not rig.node.core.directory


def test_the_longest_that_fits_is_served() -> None:
    rig = NodeRig()
    rig.connect(1)
    group_id = "\N{GRINNING FACE}" * LONGEST_GROUP_ID
    (reply,) = rig.ask(1, JoinGroup(group_id, 10_000, "", "consumer", (JoinProtocol("range", b""),), 10_000, "i"))
    assert not codes(reply)
    rig.disk.crash()
    again = NodeRig(rig.disk)
    assert list(again.node.core.directory) == [group_id]
