"""The node beyond single groups: limits, slices, holding, stopping, scheduled tasks."""

import errno

from coordinator.clock import Moment
from coordinator.config.config import Config
from coordinator.handlers.heartbeat import HEARTBEAT_OK
from coordinator.node.build import make_core
from coordinator.node.events import Lost, Received, Stopping
from coordinator.runtime.shard import ShardState
from coordinator.tasks.scheduled_task import ScheduledTask, TaskDue
from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.messages.data import Fetch, FetchPartition, FetchTopic, Produce, ProducePartition, ProduceTopic
from protocol.messages.groups import (
    DescribeGroups,
    Heartbeat,
    JoinGroup,
    JoinGroupReply,
    JoinProtocol,
    ListGroups,
    SyncGroup,
    SyncGroupAssignment,
    SyncGroupReply,
)
from protocol.messages.node import DescribeNode, DescribeNodeReply, ErrorReply
from protocol.messages.offsets import (
    OffsetCommit,
    OffsetCommitPartition,
    OffsetCommitReply,
    OffsetCommitTopic,
    OffsetFetch,
    OffsetFetchGroup,
)
from protocol.record_batch import encode_batch
from tests.groups.checks import CountingIds
from tests.node.node_rig import NodeRig
from tests.partition_log.faulty_disk import FaultyDisk
from tests.simulation.disk import SimDisk

RANGE = (JoinProtocol("range", b""),)


def join(member_id: str = "", group_id: str = "g", **fields: object) -> JoinGroup:
    return JoinGroup(group_id, 10_000, member_id, "consumer", RANGE, **fields)  # type: ignore[arg-type]


def commit(offset: int, group_id: str = "simple") -> OffsetCommit:
    return OffsetCommit(group_id, (OffsetCommitTopic("orders", (OffsetCommitPartition(0, offset),)),))


def alone(rig: NodeRig, connection: int) -> str:
    """A group of one, Stable; its member id."""
    (told,) = rig.ask(connection, join())
    assert isinstance(told, JoinGroupReply)
    (answer,) = rig.ask(connection, join(told.member_id)) or late(rig, connection)
    assert isinstance(answer, JoinGroupReply)
    assert answer.error_code is ErrorCode.NONE
    (synced,) = rig.ask(
        connection, SyncGroup("g", 1, told.member_id, assignments=(SyncGroupAssignment(told.member_id, b"all"),))
    )
    assert isinstance(synced, SyncGroupReply)
    assert synced.assignment == b"all"
    return told.member_id


def late(rig: NodeRig, connection: int) -> list[Message]:
    rig.wait(0)
    return rig.heard(connection)


def test_a_heartbeat_is_answered_in_the_step_that_brought_it_while_the_disk_is_busy() -> None:
    rig = NodeRig()
    rig.make_topic()
    member_id = alone(rig, rig.connect(1))
    rig.holds_disk = True
    assert rig.ask(1, commit(5, "other")) == []
    assert rig.ask(1, Heartbeat("g", 1, member_id)) == [HEARTBEAT_OK]


def test_a_commit_and_a_read_of_it_wait_for_the_disk_and_then_leave_in_order() -> None:
    rig = NodeRig()
    rig.make_topic()
    rig.connect(1)
    rig.holds_disk = True
    read = OffsetFetch((OffsetFetchGroup("simple"),))
    assert rig.ask(1, commit(5), read) == []
    rig.flush()
    kinds = [type(message).__name__ for message in rig.heard(1)]
    assert kinds == ["OffsetCommitReply", "OffsetFetchReply"]


def test_a_read_of_another_group_does_not_wait_for_a_write_it_does_not_tell_of() -> None:
    rig = NodeRig()
    rig.make_topic()
    rig.connect(1)
    rig.holds_disk = True
    assert rig.ask(1, commit(5)) == []
    assert len(rig.ask(1, OffsetFetch((OffsetFetchGroup("another"),)))) == 1


def test_one_flush_at_a_time_and_what_comes_meanwhile_shares_the_next() -> None:
    rig = NodeRig()
    rig.make_topic()
    rig.connect(1)
    rig.holds_disk = True
    rig.ask(1, commit(1))
    rig.ask(1, commit(2))
    rig.ask(1, commit(3))
    assert len(rig.flushes) == 1
    rig.flush()
    assert len(rig.heard(1)) == 1
    assert len(rig.flushes) == 1
    rig.flush()
    assert len(rig.heard(1)) == 2
    assert rig.flushes == []


def test_a_thousand_answers_leave_in_slices_of_256_a_step() -> None:
    rig = NodeRig(max_requests_per_connection=10_000)
    rig.connect(1)
    first = rig.ask(1, *[DescribeGroups(("g",))] * 1_000)
    assert len(first) == 256
    assert rig.node.next_deadline_ms is not None
    assert rig.node.next_deadline_ms <= rig.now_ms
    rig.wake_until_idle()
    assert len(rig.heard(1)) == 744


def test_parked_requests_beyond_the_limit_of_a_connection_are_refused_and_the_others_wait_on() -> None:
    rig = NodeRig(max_requests_per_connection=3)
    rig.make_topic()
    rig.connect(1)
    poll = Fetch((FetchTopic("orders", (FetchPartition(0, 0),)),), max_wait_ms=500)
    (refused,) = rig.ask(1, *[poll] * 4)
    assert getattr(refused, "error_code", None) is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    rig.wait(500)
    assert len(rig.heard(1)) == 3


def test_a_connection_too_many_is_closed_with_the_limit_named() -> None:
    rig = NodeRig(max_connections=2)
    rig.connect(1)
    rig.connect(2)
    rig.connect(3)
    assert rig.closed == {3: "more than 2 connections"}
    assert len(rig.ask(1, ListGroups())) == 1


def test_bytes_that_no_client_sends_close_that_connection_alone() -> None:
    rig = NodeRig()
    rig.connect(1)
    rig.connect(2)
    rig.step(Received(1, b"\xc1garbage"))
    assert list(rig.closed) == [1]
    assert len(rig.ask(2, ListGroups())) == 1


def test_a_reply_to_a_lost_connection_goes_nowhere_and_the_member_lives_on() -> None:
    rig = NodeRig(group_initial_rebalance_delay_ms=3_000)
    rig.connect(1)
    (told,) = rig.ask(1, join())
    assert isinstance(told, JoinGroupReply)
    rig.ask(1, join(told.member_id))
    rig.step(Lost(1))
    rig.wait(3_000)
    described = rig.ask_inside(DescribeGroups(("g",)))
    assert described is not None
    assert described.groups[0].group_state == "CompletingRebalance"  # type: ignore[attr-defined]
    assert described.groups[0].shard == rig.node.core.placement.shard_of("g")  # type: ignore[attr-defined]


def test_a_question_from_inside_goes_through_the_same_gates() -> None:
    rig = NodeRig()
    refused = rig.ask_inside(JoinGroup("", 10_000))
    assert isinstance(refused, JoinGroupReply)
    assert refused.error_code is ErrorCode.INVALID_GROUP_ID


def test_a_question_nobody_answers_is_refused() -> None:
    refused = NodeRig().ask_inside(HEARTBEAT_OK)
    assert isinstance(refused, ErrorReply)
    assert refused.error_code is ErrorCode.UNSUPPORTED_VERSION


def test_stopping_leaves_nobody_waiting_for_a_group() -> None:
    rig = NodeRig(group_initial_rebalance_delay_ms=3_000)
    rig.connect(1)
    (told,) = rig.ask(1, join())
    assert isinstance(told, JoinGroupReply)
    assert rig.ask(1, join(told.member_id)) == []
    rig.step(Stopping())
    codes = [message.error_code for message in rig.heard(1) if isinstance(message, JoinGroupReply)]
    assert codes == [ErrorCode.NOT_COORDINATOR]
    (after,) = rig.ask(1, join(group_id="late"))
    assert isinstance(after, JoinGroupReply)
    assert after.error_code is ErrorCode.NOT_COORDINATOR


def test_a_full_disk_refuses_writes_serves_reads_and_heals_when_there_is_room() -> None:
    rig = NodeRig()
    rig.make_topic()
    member_id = alone(rig, rig.connect(1))
    rig.store.disk_full = True
    (refused,) = rig.ask(1, commit(7))
    assert isinstance(refused, OffsetCommitReply)
    assert refused.topics[0].partitions[0].error_code is ErrorCode.NOT_COORDINATOR
    assert rig.ask(1, Heartbeat("g", 1, member_id)) == [HEARTBEAT_OK]
    assert len(rig.ask(1, OffsetFetch((OffsetFetchGroup("simple"),)))) == 1
    rig.wait(1_000)
    (stored,) = rig.ask(1, commit(7))
    assert isinstance(stored, OffsetCommitReply)
    assert stored.topics[0].partitions[0].error_code is ErrorCode.NONE


def test_that_the_disk_is_full_is_told_once_and_so_is_that_it_has_room() -> None:
    disk = FaultyDisk()
    rig = NodeRig(disk)
    rig.make_topic()
    disk.spoil("write_at", errno.ENOSPC, "checkpoint")
    for _ in range(40):
        rig.wait(1_000)
        if not rig.store.disk_full:
            part = ProducePartition(0, encode_batch([(None, bytes(9_000))], timestamp_ms=1))
            rig.ask_inside(Produce((ProduceTopic("orders", (part,)),)))
    assert rig.complaints == ["the disk is full: ./muster-data is served, writes are refused until there is room"]
    disk.mend()
    rig.wait(1_000)
    assert rig.complaints[1:] == ["the disk has room again: ./muster-data takes writes"]
    rig.wait(60_000)
    assert len(rig.complaints) == 2


def test_a_chore_is_due_once_and_never_before() -> None:
    chore = ScheduledTask("sweep", 1_000)
    assert not chore.is_satisfied()
    assert chore.completed() == TaskDue("sweep")


def test_the_node_counts_itself() -> None:
    rig = NodeRig()
    rig.make_topic()
    alone(rig, rig.connect(1))
    rig.ask(1, commit(7))
    reply = rig.ask_inside(DescribeNode())
    assert isinstance(reply, DescribeNodeReply)
    assert reply.group_states["Stable"] == 1
    assert reply.gauges["members"] == 1
    assert reply.gauges["committed_offsets"] == 1
    assert reply.gauges["topics"] == 1
    assert (reply.waiting["heartbeat"], reply.waiting["rebalance"]) == (1, 0)
    assert sum(reply.waiting.values()) == reply.gauges["watched_operations"]
    assert reply.rebalances_by_cause == {"member joined": 1}
    assert (reply.shards_loaded, reply.shards_total) == (3, 3)


def test_a_second_life_on_the_same_disk_knows_groups_offsets_topics_and_why_they_rebalanced() -> None:
    rig = NodeRig()
    rig.make_topic()
    member_id = alone(rig, rig.connect(1))
    rig.ask(1, commit(7))
    rig.disk.crash()
    again = NodeRig(rig.disk)
    again.connect(1)
    assert again.ask(1, Heartbeat("g", 1, member_id)) == [HEARTBEAT_OK]
    (fetched,) = again.ask(1, OffsetFetch((OffsetFetchGroup("simple"),)))
    assert fetched.groups[0].topics[0].partitions[0].committed_offset == 7  # type: ignore[attr-defined]
    assert again.node.core.topics.partition_count("orders") == 4
    assert [note.kind for note in again.node.core.journal.notes()] == ["rebalance", "completed"]


def test_a_damaged_shard_is_not_served_and_all_others_are() -> None:
    rig = NodeRig()
    rig.make_topic()
    rig.connect(1)
    rig.ask(1, commit(7, "a"), commit(7, "b"), commit(7, "c"))
    hurt = rig.node.core.shard_of("a").index
    rig.store.close()
    rig.disk.damage(f"data/__consumer_offsets-{hurt}/{0:020d}.log", 70, b"\xff\xff")
    again = NodeRig(rig.disk)
    assert [shard.index for shard in again.node.core.shards if shard.failure] == [hurt]
    reply = again.ask_inside(DescribeNode())
    assert isinstance(reply, DescribeNodeReply)
    assert (reply.shards_loaded, reply.gauges["failed_shards"]) == (2, 1)
    fetched = again.ask_inside(OffsetFetch(tuple(OffsetFetchGroup(group_id) for group_id in "abc")), call=2)
    for group in fetched.groups:  # type: ignore[union-attr]
        on_hurt = again.node.core.shard_of(group.group_id).index == hurt
        assert group.error_code is (ErrorCode.NOT_COORDINATOR if on_hurt else ErrorCode.NONE)


def test_the_parts_of_a_node_are_there_before_any_group_is_loaded() -> None:
    rig = NodeRig(SimDisk(1))
    rig.make_topic()
    core = make_core(Config(), rig.store, CountingIds(), {"native": ("node", 9)}, Moment(0, 0))
    assert core.topics.topic_count == 1
    assert {shard.state for shard in core.shards} == {ShardState.LOADING}
