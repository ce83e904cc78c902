"""ListGroupOffsets: what counts for the lag of groups, at a node with groups of each kind."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from coordinator.accounts.acls import Acl
from coordinator.accounts.records import AclRecord
from coordinator.config.accounts import AuthorizerClass, Principals
from coordinator.http.lag.totals import GroupTotal, group_totals
from coordinator.http.queries import Queries
from coordinator.node.events import Call
from coordinator.runtime.offset_and_metadata import OffsetAndMetadata
from coordinator.runtime.offset_pieces import offsets_in_order, offsets_in_pieces
from coordinator.runtime.slices import SLICE_US
from coordinator.topics.embedded import EmbeddedTopics
from protocol.consumer_protocol import Assignment, TopicPartitions, encode_assignment
from protocol.messages import Message
from protocol.messages.acls import AclOperation, AclPatternType, AclPermission, AclResourceType
from protocol.messages.balanced import StartMember
from protocol.messages.consumer_groups import ConsumerGroupHeartbeat
from protocol.messages.data import Produce, ProducePartition, ProduceTopic
from protocol.messages.groups import JoinGroup, JoinGroupReply, JoinProtocol, SyncGroup, SyncGroupAssignment
from protocol.messages.offsets import (
    ListGroupOffsets,
    ListGroupOffsetsReply,
    OffsetCommit,
    OffsetCommitPartition,
    OffsetCommitTopic,
)
from protocol.record_batch import encode_batch
from tests.node.node_rig import WALL_MS, NodeRig

RECORDS = 5


async def no_rest() -> None:
    """Serve nothing else meanwhile."""


class GroupOffsetsRig(NodeRig):
    """A node with the topics orders and returns, of four partitions; the first of orders has records."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(group_consumer_assignment_interval_ms=0, **settings)
        self.make_topic("orders", 4)
        self.make_topic("returns", 4)
        batch = encode_batch([(None, b"record")] * RECORDS, timestamp_ms=WALL_MS)
        data = (ProduceTopic("orders", (ProducePartition(0, batch),)),)
        self.ask_inside(Produce(data, acks=-1, timeout_ms=1_000), call=2)
        self._calls = 1_000

    def answer(self, message: Message, principal: str = "") -> Message:
        self._calls += 1
        self.step(Call(self._calls, message, principal, "10.0.0.1"))
        while self._calls not in self.replied:
            self.wait(1)
        return self.replied.pop(self._calls)

    def commit(self, group_id: str, topic: str, *offsets: int) -> None:
        parts = tuple(OffsetCommitPartition(index, offset) for index, offset in enumerate(offsets))
        self.answer(OffsetCommit(group_id, (OffsetCommitTopic(topic, parts),)))

    def offsets(self, *group_ids: str, principal: str = "") -> dict[str, dict[str, dict[int, int]]]:
        reply = self.answer(ListGroupOffsets(group_ids), principal)
        assert isinstance(reply, ListGroupOffsetsReply)
        in_order = {
            one.group_id: {topic: dict(enumerate(offsets)) for topic, offsets in one.in_order.items()}
            for one in reply.groups
        }
        return {one.group_id: one.topics | in_order[one.group_id] for one in reply.groups}

    async def ask_for_page(self, message: Message) -> Message:
        return self.answer(message)


def classic(rig: GroupOffsetsRig, assignment: bytes) -> None:
    joined = rig.answer(JoinGroup("g", 10_000, "", "consumer", (JoinProtocol("range", b""),), 10_000, "i"))
    assert isinstance(joined, JoinGroupReply)
    shared = (SyncGroupAssignment(joined.member_id, assignment),)
    rig.answer(SyncGroup("g", joined.generation_id, joined.member_id, "i", assignments=shared))


def of_orders(rig: GroupOffsetsRig) -> None:
    classic(rig, encode_assignment(Assignment((TopicPartitions("orders", (0, 3)),))))


def server_driven(rig: GroupOffsetsRig) -> None:
    beat = ConsumerGroupHeartbeat(
        "g", "m", 0, topic_partitions=(), rebalance_timeout_ms=60_000, subscribed_topic_names=("orders",)
    )
    rig.answer(beat)


def client_balanced(rig: GroupOffsetsRig) -> None:
    rig.connect(1)
    rig.ask(1, StartMember("g", "c", ("orders",), consume_position="first", session_timeout_ms=10_000))


MEMBERS: list[Callable[[GroupOffsetsRig], None]] = [of_orders, server_driven, client_balanced]


@pytest.mark.parametrize("member", MEMBERS)
def test_topics_of_members_count_without_a_commit(member: Callable[[GroupOffsetsRig], None]) -> None:
    rig = GroupOffsetsRig()
    member(rig)
    assert rig.offsets("g", "absent") == {"g": {"orders": {}}}


@pytest.mark.parametrize("member", MEMBERS)
def test_sums_are_those_of_the_lines_that_a_group_page_shows(member: Callable[[GroupOffsetsRig], None]) -> None:
    rig = GroupOffsetsRig()
    rig.commit("g", "returns", 0, 0)
    member(rig)
    queries = Queries(rig.ask_for_page)

    async def both() -> tuple[dict[str, GroupTotal], int]:
        group = await queries.group("g")
        totals = await group_totals(queries, ["absent", "g"], no_rest)
        return totals, sum(one.lag or 0 for one in await queries.lags(group))

    totals, lag = asyncio.run(both())
    assert totals == {"g": GroupTotal(members=1, partitions=8, lag=RECORDS)}
    assert lag == RECORDS


def test_sums_of_many_groups_let_others_be_served_in_between(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coordinator.http.lag.totals._OFFSETS_A_GO", 40)
    rig = GroupOffsetsRig()
    groups = [f"g{number}" for number in range(45)]
    for number, group_id in enumerate(groups):
        if number % 9:
            rig.commit(group_id, "orders", number % 3, 0, 0, 0)
        else:
            rig.commit(group_id, "orders", 7)  # beyond the end; three partitions without a commit
    pauses = 0

    async def rest() -> None:
        nonlocal pauses
        pauses += 1

    totals = asyncio.run(group_totals(Queries(rig.ask_for_page), groups, rest))
    wanted = {
        group_id: GroupTotal(0, 4, RECORDS - number % 3 if number % 9 else 0) for number, group_id in enumerate(groups)
    }
    assert totals == wanted
    assert pauses == 45 * 4 // 40


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (3, 1, 0, 2)])
def test_sums_do_not_depend_on_the_order_of_the_commits(order: tuple[int, ...]) -> None:
    rig = GroupOffsetsRig()
    for group_id in ("g", "h"):
        for index in order:
            parts = (OffsetCommitPartition(index, 3 if index == 0 else 7),)
            rig.answer(OffsetCommit(group_id, (OffsetCommitTopic("orders", parts),)))
    totals = asyncio.run(group_totals(Queries(rig.ask_for_page), ["g", "h"], no_rest))
    assert totals == dict.fromkeys(("g", "h"), GroupTotal(0, 4, RECORDS - 3))


def test_committed_offsets_are_told_by_topic_and_partition() -> None:
    rig = GroupOffsetsRig()
    rig.commit("g", "orders", 3, 4)
    rig.commit("g", "orders", 5)
    rig.commit("h", "returns", 0)
    assert rig.offsets("g", "h") == {"g": {"orders": {0: 5, 1: 4}}, "h": {"returns": {0: 0}}}


def test_no_group_is_an_empty_answer() -> None:
    assert GroupOffsetsRig().offsets() == {}


def test_an_assignment_that_cannot_be_read_counts_for_nothing() -> None:
    rig = GroupOffsetsRig()
    classic(rig, b"whatever a leader writes")
    assert rig.offsets("g") == {"g": {}}


def test_only_groups_and_topics_that_the_caller_may_describe_are_told() -> None:
    rig = GroupOffsetsRig(
        authorizer_class_name=AuthorizerClass.STANDARD, super_users=Principals.parse("User:root;User:ANONYMOUS")
    )
    offsets = {"orders": {0: 1}, "returns": {0: 1, 1: 2}}
    for group_id in ("g", "h"):
        for topic, wanted in offsets.items():
            parts = tuple(OffsetCommitPartition(*one) for one in wanted.items())
            rig.answer(OffsetCommit(group_id, (OffsetCommitTopic(topic, parts),)), "User:root")
    for kind, name in ((AclResourceType.GROUP, "g"), (AclResourceType.TOPIC, "orders")):
        acl = Acl(kind, name, AclPatternType.LITERAL, "User:alice", "*", AclOperation.DESCRIBE, AclPermission.ALLOW)
        assert not rig.node.core.accounts.write([AclRecord(acl, is_there=True)], rig._moment())

    assert rig.offsets("g", "h", principal="User:root") == {"g": offsets, "h": offsets}
    assert rig.offsets("g", "h", principal="User:alice") == {"g": {"orders": {0: 1}}}
    assert rig.offsets("g", "h", principal="User:bob") == {}


def test_a_large_group_is_read_in_slices() -> None:
    rig = GroupOffsetsRig(offsets_topic_num_partitions=1)
    topics = {f"wide-{number}" for number in range(60)}
    parts = tuple(OffsetCommitPartition(index, index) for index in range(900))
    for topic in topics:
        rig.make_topic(topic, len(parts))
        rig.answer(OffsetCommit("g", (OffsetCommitTopic(topic, parts),)))

    rig.ask_inside(ListGroupOffsets(("g",)), call=7)
    assert 7 not in rig.replied, "it is not read in one step"
    rig.wait(1)
    reply = rig.replied[7]
    assert isinstance(reply, ListGroupOffsetsReply)
    assert reply.groups[0].in_order == dict.fromkeys(topics, tuple(range(900)))


def test_the_assignments_of_many_members_are_read_in_slices() -> None:
    rig = GroupOffsetsRig()
    members = SLICE_US + 1
    classic(rig, b"")
    group = rig.node.core.directory.get("g")
    assert group is not None
    (one,) = group.classic.members.values()
    group.classic.members |= dict.fromkeys(map(str, range(members)), one)

    rig.ask_inside(ListGroupOffsets(("g",)), call=7)
    assert 7 not in rig.replied, "they are not read in one step"
    rig.wait(1)
    assert 7 in rig.replied


def test_offsets_come_in_pieces_without_those_of_an_earlier_topic_of_the_name() -> None:
    class Cluster(EmbeddedTopics):
        def may_own(self, name: str, topic_id: bytes) -> bool:
            return topic_id == b"new"

    kept = {
        index: OffsetAndMetadata(10 * index, -1, "", 0, -1, topic_id)
        for index, topic_id in enumerate((None, b"old", b"new", b"new", b"old"))
    }
    topics = Cluster.__new__(Cluster)
    assert list(offsets_in_pieces(topics, "orders", kept, 2)) == [{0: 0}, {2: 20, 3: 30}, {}]
    assert offsets_in_order(topics, "orders", kept, 5) is None
    of_new = dict.fromkeys(range(3), kept[2])
    assert offsets_in_order(topics, "orders", of_new, 3) == (20, 20, 20)
    assert offsets_in_order(topics, "orders", of_new, 2) is None, "that many are read in pieces"
    assert offsets_in_order(topics, "orders", {0: kept[2], 2: kept[2]}, 5) is None, "1 has no commit"
