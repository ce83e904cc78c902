"""Parts of a node whose shards are in the cluster's log: values to repair, refusals, placement."""

import pytest

from coordinator.cluster_log.effects import KeysToRepair, LogReplayed
from coordinator.cluster_log.events import FollowingWanted
from coordinator.cluster_node.events import LeftNodes, LogProblems, NodesFound, ShardChanged, ShardsToRead
from coordinator.cluster_node.nodes import COORDINATOR_IDS, LetGo, NodeView, Taken
from coordinator.cluster_node.placement import NodesPlacement
from coordinator.cluster_node.refusal import refusal_of
from coordinator.cluster_node.repair import present_values
from coordinator.gateway.deleted_topics import AbsentTopic
from coordinator.gateway.offset_cleanup import OffsetCleanup
from coordinator.placement import Placement
from coordinator.runtime.shard import ShardState
from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.messages.balanced import DescribeBalanced, DescribeBalancedReply
from protocol.messages.groups import DeletedGroup, DeleteGroupsReply, JoinGroupReply, ListedGroup, ListGroupsReply
from protocol.messages.node import DescribeNode, DescribeNodeReply, ErrorReply
from protocol.messages.offsets import (
    OffsetCommitPartitionReply,
    OffsetCommitReply,
    OffsetCommitTopicReply,
    OffsetFetchGroupReply,
    OffsetFetchPartitionReply,
    OffsetFetchReply,
    OffsetFetchTopicReply,
)
from tests.cluster_log.rig import pairs_in
from tests.cluster_node.rig import SESSION_MS, SHARDS
from tests.cluster_node.test_service import committing, joined, owner

MOVED = ErrorCode.NOT_COORDINATOR


def test_values_to_repair_are_those_that_the_log_has_for_their_keys() -> None:
    cluster, node = owner()
    for group_id in ("a", "b", "c"):
        member, generation = joined(node, group_id)
        for offset in (1, 2):
            node.ask(committing(group_id, offset, generation_id=generation, member_id=member))
    checked = 0
    for partition, service in zip(cluster.partitions, node.side.services, strict=True):
        found = pairs_in(partition.fetch(0, 10**6)[1])
        written = {key: value for key, value in found.items() if not key.startswith(b"noop")}
        assert dict(present_values(service.shard, written)) == written
        checked += len(written)
    assert checked == 6
    never = b"\x00\x01\x00\x01a\x00\x01t\x00\x00\x00\x07"
    assert list(present_values(node.side.services[0].shard, [never])) == [(never, None)]


def test_repaired_keys_are_written_behind_what_does_not_count() -> None:
    cluster, node = owner()
    node.ask(committing("a", 5))
    index = node.node.core.placement.shard_of("a")
    service, partition = node.side.services[index], cluster.partitions[index]
    before = pairs_in(partition.fetch(0, 10**6)[1])
    end = partition.end
    service.take(KeysToRepair(index, tuple(before)), node.moment)
    node.rest()
    node.pass_ms(2_000)
    assert partition.end == end + len(before)
    assert pairs_in(partition.fetch(0, 10**6)[1]) == before


def test_a_record_that_does_not_parse_fails_its_shard_alone() -> None:
    cluster, node = owner()
    service = node.side.services[0]
    service.take(LogReplayed(0, ((b"\x00\x02\x00\x01a", b"\x00\x03junk"),)), node.moment)
    node.rest()
    assert "__muster_offsets-0" in service.shard.failure and service.shard.state is ShardState.FAILED
    assert [one.shard.state for one in node.side.services[1:]] == [ShardState.ACTIVE] * (SHARDS - 1)
    other = cluster.start(2)
    cluster.give_all(other)
    assert other.states == {ShardState.ACTIVE}


def test_a_log_counts_as_read_once_all_its_records_are_applied() -> None:
    cluster, node = owner()
    for number in range(900):
        node.ask(committing(f"group-{number}", number))
    written = [shard.loaded_records for shard in node.node.core.shards]
    assert [shard for shard, _ in node.caught_up] == list(range(SHARDS)), "those that it serves count too"
    other = cluster.start(2)
    other.step_at_once(*(ShardChanged(shard, FollowingWanted(is_wanted=True)) for shard in range(SHARDS)))
    assert len(other.caught_up) < SHARDS
    other.rest()  # no clock moves: each log wakes the next
    records = [len(service.shard.groups) for service in other.side.services]
    assert sorted(other.caught_up) == list(enumerate(records)) and sum(records) == 900 and not any(written)


def test_how_many_logs_are_left_to_be_read_is_told_of_the_node() -> None:
    _, node = owner()
    for count in (3, 0):
        node.step(ShardsToRead(count))
        told = node.ask(DescribeNode())
        assert isinstance(told, DescribeNodeReply) and told.gauges["shards_to_read"] == count


def test_what_is_unsafe_about_the_log_is_told_of_the_node() -> None:
    _, node = owner()
    node.step(LogProblems(("one broker",)))
    told = node.ask(DescribeNode())
    assert isinstance(told, DescribeNodeReply)
    assert (told.log_problems, told.gauges["log_problems"]) == (("one broker",), 1)
    assert told.shards_loaded == told.shards_total == SHARDS
    node.step(NodesFound((), (7, 1, 7)))
    told = node.ask(DescribeNode())
    assert isinstance(told, DescribeNodeReply) and told.shards_total == 1


def test_a_node_that_reads_along_lists_no_groups_before_it_serves_them() -> None:
    cluster, first = owner()
    second = cluster.start(2)
    for shard in range(SHARDS):
        second.step(ShardChanged(shard, FollowingWanted(is_wanted=True)))
    first.ask(committing("a", 5))
    second.pass_ms(3_000)
    index = second.node.core.placement.shard_of("a")
    assert "a" in second.side.services[index].shard.groups
    assert not second.node.core.directory
    cluster.give_all(second)
    assert list(second.node.core.directory) == ["a"]


COMMITTED = OffsetCommitReply((OffsetCommitTopicReply("t", (OffsetCommitPartitionReply(3),)),))
LISTED = ListedGroup("g", "consumer", "Stable")
FETCHED = OffsetFetchReply(
    (OffsetFetchGroupReply("g", (OffsetFetchTopicReply("t", (OffsetFetchPartitionReply(3, 7),)),)),)
)


@pytest.mark.parametrize(
    ("reply", "refused"),
    [
        (JoinGroupReply(generation_id=4), JoinGroupReply(generation_id=4, error_code=MOVED)),
        (COMMITTED, OffsetCommitReply((OffsetCommitTopicReply("t", (OffsetCommitPartitionReply(3, MOVED),)),))),
        (
            DeleteGroupsReply((DeletedGroup("a", ErrorCode.NONE), DeletedGroup("b", ErrorCode.NONE))),
            DeleteGroupsReply((DeletedGroup("a", MOVED), DeletedGroup("b", MOVED))),
        ),
        (ListGroupsReply(groups=(LISTED,)), ListGroupsReply(MOVED, (LISTED,))),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_refusal_has_the_error_wherever_the_reply_has_one(reply: Message, refused: Message) -> None:
    assert refusal_of(reply) == refused


def test_a_refused_fetch_has_the_error_for_old_clients_too() -> None:
    reply = refusal_of(FETCHED)
    assert isinstance(reply, OffsetFetchReply)
    assert reply.groups[0].error_code is MOVED
    assert reply.groups[0].topics[0].partitions[0].error_code is MOVED


def test_a_reply_without_an_error_is_refused_as_a_whole() -> None:
    reply = refusal_of(ErrorReplyless())
    assert isinstance(reply, ErrorReply) and reply.error_code is MOVED


class ErrorReplyless(Message):
    text: str = ""


def placed(*nodes: NodeView, owners: tuple[int, ...] = ()) -> NodesPlacement:
    placement = NodesPlacement(Placement(1, SHARDS, {"native": ("own", 9)}), lambda shard: shard != 1, SESSION_MS)
    placement.found(NodesFound(nodes, owners), 1_000)
    return placement


def node_view(node_id: int, brokers: int) -> NodeView:
    listeners = {broker: (f"n{node_id}", 9_100 + broker) for broker in range(brokers)}
    return NodeView(node_id, {"kafka": (f"n{node_id}", 9_092), "native": (f"n{node_id}", 9)}, listeners)


def test_kafka_s_clients_know_coordinators_by_ids_that_no_broker_has() -> None:
    placement = placed(node_view(1, 3), node_view(2, 3), owners=(2, 1, -1))
    assert placement.coordinators() == {COORDINATOR_IDS + 1: ("n1", 9_092), COORDINATOR_IDS + 2: ("n2", 9_092)}
    found = placement.coordinator_of(0, "kafka")
    assert found is not None and (found.node_id, found.host) == (COORDINATOR_IDS + 2, "n2")
    native = placement.coordinator_of(0, "native")
    assert native is not None and (native.node_id, native.port) == (2, 9)
    assert placement.coordinator_of(2, "kafka") is None
    assert placement.coordinator_of(1, "kafka") is None, "this node has been given it, and does not serve it yet"
    assert [placement.is_mine(shard) for shard in range(SHARDS)] == [False, True, False]
    assert [placement.is_listed_by(shard, 0) for shard in range(SHARDS)] == [False, True, False]
    assert [node.node_id for node in placement.nodes("native")] == [1, 2]
    assert placement.unowned_shards == 1


def test_a_node_that_has_left_sends_its_clients_to_the_others() -> None:
    placement = placed(node_view(1, 30), node_view(2, 30), owners=(2, 1, 2))
    assert {host for host, _ in placement.listeners().values()} == {"n1", "n2"}
    placement.left()
    assert {host for host, _ in placement.listeners().values()} == {"n2"}
    assert placement.coordinators() == {COORDINATOR_IDS + 2: ("n2", 9_092)}


def test_clients_of_a_node_that_leaves_are_given_the_addresses_of_the_others() -> None:
    _, node = owner()
    node.step(NodesFound((node_view(1, 1), node_view(2, 1)), (2,) * SHARDS))
    assert set(node.shared[-1][1]) == {COORDINATOR_IDS + 1, COORDINATOR_IDS + 2}
    node.step(LeftNodes())
    assert node.shared[-1] == ({0: ("n2", 9_100)}, {COORDINATOR_IDS + 2: ("n2", 9_092)})


def test_a_node_that_has_left_nobody_behind_names_itself() -> None:
    placement = placed(node_view(1, 3), owners=(1, 1, 1))
    placement.left()
    assert list(placement.coordinators()) == [COORDINATOR_IDS + 1]


def test_a_broker_has_one_address_at_all_nodes_which_few_brokers_change_when_a_node_comes() -> None:
    views = [node_view(node_id, 30) for node_id in (1, 2, 3)]
    two, three = placed(*views[:2]).listeners(), placed(*views).listeners()
    assert placed(*reversed(views)).listeners() == three
    moved = [broker for broker in range(30) if two[broker] != three[broker]]
    assert all(three[broker][0] == "n3" for broker in moved)
    assert 3 < len(moved) < 20
    assert {host for host, _ in three.values()} == {"n1", "n2", "n3"}


def test_nobody_is_placed_before_the_nodes_are_known() -> None:
    placement = placed()
    assert placement.coordinator_of(0, "native") is None and placement.is_mine(0)
    assert placement.node_ids == (1,)
    assert [node.host for node in placement.nodes("native")] == ["own"]


def test_a_shard_that_moves_settles_when_its_next_owner_serves_or_after_a_while() -> None:
    views = node_view(1, 0), node_view(2, 0), node_view(3, 0)
    placement = placed(*views, owners=(2, 2, 2))
    for shard in range(SHARDS):
        assert placement.settles_by_ms(shard, 1_000) == 3_000, "nobody has told that it serves"
        assert placement.taken(Taken(shard, 10, 2))
        assert not placement.is_moving(shard)
    placement.let_go(LetGo(0, 10, 0), 5_000)
    assert placement.found(NodesFound(views, (-1, 2, 2)), 5_100) == []
    assert placement.found(NodesFound(views, (3, 2, 2)), 5_200) == []
    assert [placement.settles_by_ms(shard, 5_200) for shard in range(SHARDS)] == [7_200, 0, 0]
    assert placement.taken(Taken(0, 20, 3)) and not placement.is_moving(0)
    assert placement.found(NodesFound(views, (3, 3, 2)), 9_000) == [], "that of a node that was killed"
    assert placement.settles_by_ms(1, 9_000) == 11_000


def test_late_news_of_a_shard_move_nothing() -> None:
    views = node_view(1, 0), node_view(2, 0), node_view(3, 0)
    placement = placed(*views, owners=(2, 2, 3))
    assert placement.taken(Taken(0, 20, 2))
    placement.let_go(LetGo(0, 10, 0), 5_000)
    assert not placement.taken(Taken(0, 10, 3))
    assert not placement.is_moving(0) and placement.owner_of(0) == 2
    assert not placement.taken(Taken(0, 30, 3)) and placement.owner_of(0) == 2, "the nodes' group decides"
    assert placement.found(NodesFound(views, (3, 2, 3)), 6_000) == [] and not placement.is_moving(0)


def test_a_node_that_has_left_learns_the_next_owners_from_their_news() -> None:
    views = node_view(1, 0), node_view(2, 0)
    placement = placed(*views, owners=(1, 1, 1))
    placement.taken(Taken(0, 10, 1))
    placement.let_go(LetGo(0, 10, 0), 5_000)
    assert placement.taken(Taken(0, 12, 2))
    found = placement.coordinator_of(0, "native")
    assert found is not None and found.node_id == 2


def test_the_table_that_comes_after_the_news_settles_the_shard_too() -> None:
    views = node_view(1, 0), node_view(2, 0)
    placement = placed(*views, owners=(1, 1, -1))
    assert not placement.taken(Taken(7, 3, 2)), "news of a cluster with more shards"
    placement.taken(Taken(2, 12, 2))
    placement.let_go(LetGo(2, 12, 0), 5_000)
    assert placement.settles_by_ms(2, 5_000) == 7_000
    placement.taken(Taken(2, 14, 2))
    assert placement.owner_of(2) == 2 and placement.found(NodesFound(views, (1, 1, 2)), 5_100) == []
    assert not placement.is_moving(2)


def test_offsets_of_deleted_topics_in_shards_of_other_nodes_hold_up_no_cleanup() -> None:
    cluster, first = owner()
    second = cluster.start(2)
    first.ask(committing("a", 5))
    for shard in range(SHARDS):
        second.step(ShardChanged(shard, FollowingWanted(is_wanted=True)))
    second.pass_ms(3_000)
    cleanup = OffsetCleanup()
    cleanup.add([AbsentTopic("t", b"t" * 16, 0)])
    assert cleanup.run(second.node.core.shards, second.moment) is None
    assert second.ask(DescribeBalanced(None)) == DescribeBalancedReply(())
