"""A node whose shards are in the cluster's log: what clients of its groups are told while shards come and go."""

from typing import Any

import pytest

from coordinator.cluster_log.events import OwnershipGiven, OwnershipLost, OwnershipRevoked
from coordinator.cluster_node.events import LeaseEnded, LeaseRenewed, NodesFound, ShardChanged
from coordinator.cluster_node.nodes import NodeView
from coordinator.runtime.shard import ShardState
from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.messages.groups import (
    DescribeGroups,
    DescribeGroupsReply,
    Heartbeat,
    HeartbeatReply,
    JoinGroup,
    JoinGroupReply,
    JoinProtocol,
    ListGroups,
    ListGroupsReply,
    ListNotes,
    ListNotesReply,
    SyncGroup,
    SyncGroupAssignment,
    SyncGroupReply,
)
from protocol.messages.node import FindCoordinator, FindCoordinatorReply
from protocol.messages.offsets import (
    OffsetCommit,
    OffsetCommitPartition,
    OffsetCommitReply,
    OffsetCommitTopic,
    OffsetFetch,
    OffsetFetchGroup,
    OffsetFetchReply,
    OffsetFetchTopic,
)
from tests.cluster_node.rig import SETTINGS, SHARDS, Cluster, LogNode

NONE, MOVED = ErrorCode.NONE, ErrorCode.NOT_COORDINATOR
GROUPS = ("a", "b", "c", "d", "e")


def committing(group_id: str, offset: int, **member: Any) -> OffsetCommit:
    return OffsetCommit(group_id, (OffsetCommitTopic("t", (OffsetCommitPartition(0, offset),)),), **member)


def error_of(reply: Message | None) -> ErrorCode:
    assert isinstance(reply, OffsetCommitReply)
    return reply.topics[0].partitions[0].error_code


def fetching(*group_ids: str) -> OffsetFetch:
    return OffsetFetch(tuple(OffsetFetchGroup(group_id, (OffsetFetchTopic("t", (0,)),)) for group_id in group_ids))


def fetched(reply: Message | None) -> list[int | ErrorCode]:
    assert isinstance(reply, OffsetFetchReply)
    return [one.error_code or one.topics[0].partitions[0].committed_offset for one in reply.groups]


def owner() -> tuple[Cluster, LogNode]:
    cluster = Cluster()
    node = cluster.start(1)
    cluster.give_all(node)
    return cluster, node


def joined(node: LogNode, group_id: str) -> tuple[str, int]:
    """Make a Stable group of one member; return its id and generation."""
    protocols = (JoinProtocol("range"),)
    asked = JoinGroup(group_id, 30_000, "", "consumer", protocols, 30_000, wants_member_id_first=False)
    reply = node.ask(asked)
    assert isinstance(reply, JoinGroupReply) and not reply.error_code
    member = reply.member_id
    share = (SyncGroupAssignment(member, b"share"),)
    synced = node.ask(SyncGroup(group_id, reply.generation_id, member, assignments=share))
    assert isinstance(synced, SyncGroupReply) and synced.assignment == b"share"
    return member, reply.generation_id


def test_a_node_that_was_given_nothing_serves_nobody() -> None:
    node = Cluster().start(1)
    assert node.states == {ShardState.UNLOADED}
    assert error_of(node.ask(committing("a", 1))) is MOVED
    assert fetched(node.ask(fetching("a"))) == [MOVED]
    call = node.send(FindCoordinator(("a",)))
    assert call not in node.replied, "it is about to learn who has been"
    node.pass_ms(2_500)
    assert looked_up(node.replied[call]) == [(-1, ErrorCode.COORDINATOR_NOT_AVAILABLE)]


def test_every_node_names_the_owner_of_a_shard() -> None:
    cluster = Cluster()
    first, second = cluster.start(1), cluster.start(2)
    cluster.give_all(second)
    for node in (first, second):
        found = node.ask(FindCoordinator(("a",)))
        assert isinstance(found, FindCoordinatorReply)
        assert [(one.node_id, one.host, one.error_code) for one in found.coordinators] == [(2, "n2", NONE)]


def looked_up(reply: Message | None) -> list[tuple[int, ErrorCode]]:
    """Return the node of each group in the reply."""
    assert isinstance(reply, FindCoordinatorReply)
    return [(one.node_id, one.error_code) for one in reply.coordinators]


def test_a_lookup_waits_at_every_node_until_the_next_owner_serves() -> None:
    cluster = Cluster()
    nodes = first, second, third = cluster.start(1), cluster.start(2), cluster.start(3)
    cluster.give_all(first)
    for shard in range(SHARDS):
        first.step(ShardChanged(shard, OwnershipRevoked()))
    first.rest()
    calls = [node.send(FindCoordinator(GROUPS)) for node in nodes]
    assert not any(call in node.replied for node, call in zip(nodes, calls, strict=True))
    # The first has left the group, and learns nothing more from it.
    views = tuple(NodeView(one.node_id, {"native": (f"n{one.node_id}", 9)}) for one in (second, third))
    for node in (second, third):
        node.step(NodesFound(views, (2,) * SHARDS))
    cluster.holds = True
    for shard in range(SHARDS):
        second.step(ShardChanged(shard, OwnershipGiven()))
    second.rest()
    assert not any(call in node.replied for node, call in zip(nodes, calls, strict=True))
    cluster.answer_writes()
    second.rest()
    for node, call in zip(nodes, calls, strict=True):
        node.rest()
        assert looked_up(node.replied[call]) == [(2, NONE)] * len(GROUPS)


def test_a_lookup_waits_no_longer_for_an_owner_that_does_not_serve() -> None:
    _, node = owner()
    for shard in range(SHARDS):
        node.step(ShardChanged(shard, OwnershipRevoked()))
    node.rest()
    call = node.send(FindCoordinator(GROUPS))
    node.pass_ms(1_500)
    assert call not in node.replied
    node.pass_ms(1_000)
    assert looked_up(node.replied[call]) == [(-1, ErrorCode.COORDINATOR_NOT_AVAILABLE)] * len(GROUPS)
    assert looked_up(node.ask(FindCoordinator(GROUPS)))[0][1] is ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_a_commit_is_answered_when_its_own_shard_has_it() -> None:
    cluster, node = owner()
    cluster.holds = True
    calls = [node.send(committing(group_id, 7)) for group_id in GROUPS]
    assert not set(calls) & set(node.replied)
    assert {shard for _, shard, _ in cluster.held} == set(range(SHARDS))
    before, shard, event = cluster.held.pop()
    before.step(ShardChanged(shard, event))
    answered = [group_id for group_id, call in zip(GROUPS, calls, strict=True) if call in node.replied]
    assert answered == [one for one in GROUPS if node.node.core.placement.shard_of(one) == shard]
    cluster.answer_writes()
    assert [error_of(node.replied[call]) for call in calls] == [NONE] * len(GROUPS)
    assert fetched(node.ask(fetching(*GROUPS))) == [7] * len(GROUPS)


def test_an_answer_about_several_groups_waits_for_the_shard_of_each() -> None:
    cluster, node = owner()
    cluster.holds = True
    for group_id in GROUPS:
        node.send(committing(group_id, 7))
    call = node.send(fetching(*GROUPS))
    while cluster.held:
        assert call not in node.replied
        before, shard, event = cluster.held.popleft()
        before.step(ShardChanged(shard, event))
    assert fetched(node.replied[call]) == [7] * len(GROUPS)


def test_another_node_goes_on_with_groups_members_and_offsets_without_a_rebalance() -> None:
    cluster, first = owner()
    second = cluster.start(2)
    member, generation = joined(first, "a")
    assert error_of(first.ask(committing("a", 5, generation_id=generation, member_id=member))) is NONE
    cluster.give_all(second)  # the first is dead
    assert second.states == {ShardState.ACTIVE}
    second.pass_ms(25_000)
    beat = Heartbeat("a", generation, member)
    assert second.ask(beat) == HeartbeatReply()
    second.pass_ms(25_000)
    assert second.ask(beat) == HeartbeatReply()
    assert fetched(second.ask(fetching("a"))) == [5]
    assert error_of(second.ask(committing("a", 6, generation_id=generation, member_id=member))) is NONE
    described = second.ask(DescribeGroups(("a",)))
    assert isinstance(described, DescribeGroupsReply)
    assert (described.groups[0].group_state, described.groups[0].members[0].member_assignment) == ("Stable", b"share")
    second.pass_ms(40_000)
    assert second.ask(beat) == HeartbeatReply(ErrorCode.UNKNOWN_MEMBER_ID)


def test_who_has_lost_a_shard_without_knowing_acknowledges_nothing_and_reads_nothing_old() -> None:
    cluster, first = owner()
    second = cluster.start(2)
    assert error_of(first.ask(committing("a", 5))) is NONE
    cluster.give_all(second)
    assert error_of(second.ask(committing("a", 6))) is NONE
    assert error_of(first.ask(committing("a", 7))) is MOVED
    assert fetched(second.ask(fetching("a"))) == [6]
    first.step(LeaseEnded())
    assert fetched(first.ask(fetching("b"))) == [MOVED]


def test_reads_without_a_lease_wait_for_a_write() -> None:
    cluster, node = owner()
    assert error_of(node.ask(committing("a", 5))) is NONE
    cluster.now_ms += SETTINGS.session_ms - SETTINGS.lease_margin_ms
    before = cluster.partitions[node.node.core.placement.shard_of("a")].end
    assert fetched(node.ask(fetching("a"))) == [5]
    assert cluster.partitions[node.node.core.placement.shard_of("a")].end == before + 1
    node.beat()
    assert fetched(node.ask(fetching("a"))) == [5]
    assert cluster.partitions[node.node.core.placement.shard_of("a")].end == before + 1


@pytest.mark.parametrize("lost", [OwnershipLost(), OwnershipRevoked()], ids=["lost", "revoked"])
def test_who_waits_in_a_group_of_a_shard_that_goes_is_told_at_once(lost: Any) -> None:
    _, node = owner()
    member, generation = joined(node, "a")
    other = JoinGroup("a", 30_000, "", "consumer", (JoinProtocol("range"),), 30_000, wants_member_id_first=False)
    call = node.send(other)
    assert call not in node.replied
    for shard in range(SHARDS):
        node.step(ShardChanged(shard, lost))
    parked = node.replied[call]
    assert isinstance(parked, JoinGroupReply) and parked.error_code is MOVED
    node.rest()
    assert node.ask(Heartbeat("a", generation, member)) == HeartbeatReply(MOVED)
    listed = node.ask(ListGroups())
    assert isinstance(listed, ListGroupsReply) and not listed.groups
    assert node.node.core.purgatory.by_kind["heartbeat"] == node.node.core.purgatory.by_kind["rebalance"] == 0


def test_a_commit_under_way_is_refused_when_the_shard_is_lost_and_stays_if_it_was_taken() -> None:
    cluster, first = owner()
    second = cluster.start(2)
    cluster.holds = True
    call = first.send(committing("a", 5))
    for shard in range(SHARDS):
        first.step(ShardChanged(shard, OwnershipLost()))
    first.rest()
    assert error_of(first.replied[call]) is MOVED
    cluster.held.clear()
    cluster.holds = False
    cluster.give_all(second)
    assert fetched(second.ask(fetching("a"))) == [5]


def test_a_node_without_the_nodes_coordinator_for_three_sessions_serves_nobody_and_goes_on_when_it_is_back() -> None:
    cluster, node = owner()
    node.ask(committing("a", 5))
    member, generation = joined(node, "a")
    cluster.loses = True
    call = node.send(committing("a", 6, generation_id=generation, member_id=member))
    pass_unheard(cluster, node, 3 * SETTINGS.session_ms - 500)
    assert node.states == {ShardState.ACTIVE}
    assert node.ask(Heartbeat("a", generation, member)) == HeartbeatReply(NONE)
    assert call not in node.replied
    pass_unheard(cluster, node, 500 + SETTINGS.session_ms // 3)
    assert node.states == {ShardState.UNLOADED}
    assert error_of(node.replied[call]) is MOVED
    assert node.ask(Heartbeat("a", generation, member)) == HeartbeatReply(MOVED)
    found = node.ask(FindCoordinator(("a",)))
    assert isinstance(found, FindCoordinatorReply)
    assert found.coordinators[0].error_code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    cluster.loses = False
    node.pass_ms(2_000)
    assert node.states == {ShardState.ACTIVE}
    assert fetched(node.ask(fetching("a"))) == [5]
    assert node.ask(Heartbeat("a", generation, member)) == HeartbeatReply(NONE)


def test_a_join_that_waits_for_long_is_heard_when_it_is_answered() -> None:
    cluster, node = owner()
    node.ask(committing("a", 5))
    for _ in range(3):
        pass_unheard(cluster, node, 2 * SETTINGS.session_ms)
        node.step(LeaseRenewed(cluster.now_ms - 2 * SETTINGS.session_ms))
        node.rest()
        assert node.states == {ShardState.ACTIVE}
    pass_unheard(cluster, node, 2 * SETTINGS.session_ms)
    assert node.states == {ShardState.ACTIVE}
    assert fetched(node.ask(fetching("a"))) == [5]


def pass_unheard(cluster: Cluster, node: LogNode, ms: int) -> None:
    """Let time pass without heartbeats of the node."""
    for _ in range(ms // 500):
        cluster.now_ms += 500
        node.rest()


def test_a_member_that_went_back_is_not_noted_again_by_the_node_that_reads_of_it() -> None:
    cluster, first = owner()
    second = cluster.start(2)
    member_id, generation_id = joined(first, "a")
    for offset in (9, 5):
        first.ask(committing("a", offset, generation_id=generation_id, member_id=member_id))
    first.step_down()
    cluster.give_all(second)
    second.ask(committing("a", 6, generation_id=generation_id, member_id=member_id))
    assert fetched(second.ask(fetching("a"))) == [6]
    notes = second.ask(ListNotes("a"))
    assert isinstance(notes, ListNotesReply)
    assert [one.kind for one in notes.notes].count("rewound") == 1


def test_a_commit_that_never_came_to_the_brokers_is_gone_with_the_shard() -> None:
    cluster, node = owner()
    cluster.loses = True
    call = node.send(committing("a", 6))
    for shard in range(SHARDS):
        node.step(ShardChanged(shard, OwnershipLost()))
    node.rest()
    assert error_of(node.replied[call]) is MOVED
    cluster.loses = False
    cluster.give_all(node)
    assert fetched(node.ask(fetching("a"))) == [-1]


def test_a_planned_hand_over_answers_what_is_under_way_and_says_when_it_is_done() -> None:
    cluster, node = owner()
    cluster.holds = True
    call = node.send(committing("a", 5))
    for shard in range(SHARDS):
        node.step(ShardChanged(shard, OwnershipRevoked()))
    mine = node.node.core.placement.shard_of("a")
    assert sorted(node.handed_over) == [shard for shard in range(SHARDS) if shard != mine]
    assert error_of(node.ask(committing("a", 6))) is MOVED
    cluster.answer_writes()
    node.rest()
    assert error_of(node.replied[call]) is NONE
    assert sorted(node.handed_over) == list(range(SHARDS))


def test_a_node_that_gets_a_shard_back_has_what_others_wrote_meanwhile() -> None:
    cluster, first = owner()
    second = cluster.start(2)
    assert error_of(first.ask(committing("a", 5))) is NONE
    for shard in range(SHARDS):
        first.step(ShardChanged(shard, OwnershipRevoked()))
    cluster.give_all(second)
    assert error_of(second.ask(committing("a", 9))) is NONE
    for shard in range(SHARDS):
        second.step(ShardChanged(shard, OwnershipRevoked()))
    cluster.give_all(first)
    assert fetched(first.ask(fetching("a"))) == [9]


def test_too_much_that_is_not_written_refuses_more_and_a_batch_of_too_many_bytes_is_refused() -> None:
    cluster, node = owner()
    cluster.holds = True
    text = "x" * 4_000
    errors = set()
    for offset in range(400):
        part = OffsetCommitPartition(0, offset, committed_metadata=text)
        call = node.send(OffsetCommit("a", (OffsetCommitTopic("t", (part,)),)))
        if call in node.replied:
            errors.add(error_of(node.replied[call]))
    assert errors == {ErrorCode.COORDINATOR_NOT_AVAILABLE}
    cluster.answer_writes()
    node.rest()
    assert error_of(node.ask(committing("a", 1_000))) is NONE


def test_why_a_shard_is_not_served_is_logged_once() -> None:
    cluster, node = owner()
    shard = node.node.core.placement.shard_of("a")
    cluster.start(2)
    other = cluster.nodes[-1]
    other.step(ShardChanged(shard, OwnershipGiven()))
    other.rest()
    node.ask(committing("a", 5))
    node.pass_ms(2_000)
    lost = [one for one in node.logged if f"shard {shard} is not served here" in one]
    assert len(lost) == 1 and "INVALID_PRODUCER_EPOCH" in lost[0], node.logged
