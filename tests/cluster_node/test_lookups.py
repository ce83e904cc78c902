"""Lookups of groups whose shard moves from node to node: when they wait, and for whom."""

from coordinator.cluster_log.events import OwnershipGiven, OwnershipRevoked
from coordinator.cluster_node.events import NewsReceived, NodeEnded, NodesFound, ShardChanged
from coordinator.cluster_node.nodes import LetGo, NodeView, Taken
from coordinator.cluster_node.placement import NodesPlacement
from coordinator.placement import Placement
from protocol.errors import ErrorCode
from protocol.messages import LONGEST_GROUP_ID
from protocol.messages.node import FindCoordinator
from tests.cluster_node.rig import SETTINGS, SHARDS, Cluster, LogNode
from tests.cluster_node.test_parts import node_view, placed
from tests.cluster_node.test_service import committing, error_of, looked_up

GROUP = "a"


def two_nodes() -> tuple[Cluster, LogNode, LogNode, int]:
    """A node that owns all shards, another one, and the shard of the group."""
    cluster = Cluster()
    first, second = cluster.start(1), cluster.start(2)
    cluster.give_all(first)
    return cluster, first, second, first.node.core.placement.shard_of(GROUP)


def revoke_during_a_write(cluster: Cluster, node: LogNode, shard: int) -> None:
    cluster.holds = True
    node.send(committing(GROUP, 5))
    node.step(ShardChanged(shard, OwnershipRevoked()))
    node.rest()


def views(*node_ids: int) -> tuple[NodeView, ...]:
    return tuple(NodeView(node_id, {"native": (f"n{node_id}", 9)}) for node_id in node_ids)


def test_a_lookup_waits_from_the_revocation_on_and_not_from_the_last_write_on() -> None:
    cluster, first, _, shard = two_nodes()
    revoke_during_a_write(cluster, first, shard)
    assert error_of(first.ask(committing(GROUP, 6))) is ErrorCode.NOT_COORDINATOR  # clients look for the next owner now
    assert first.ask(FindCoordinator((GROUP,))) is None


def test_a_hand_over_that_was_given_up_is_published_and_its_next_owner_named() -> None:
    cluster, first, second, shard = two_nodes()
    cluster.told.clear()
    revoke_during_a_write(cluster, first, shard)
    first.pass_ms(SETTINGS.session_ms + 500)
    assert first.handed_over == [shard]
    assert [news.shard for news in cluster.told if isinstance(news, LetGo)] == [shard]
    cluster.holds = False
    cluster.held.clear()
    second.step(NodesFound(views(1, 2), (2,) * SHARDS))
    second.beat()
    second.step(ShardChanged(shard, OwnershipGiven()))
    second.rest()
    # The first has left the group, and hears of the next owner by its news alone.
    assert looked_up(first.ask(FindCoordinator((GROUP,)))) == [(2, ErrorCode.NONE)]


def test_a_lookup_of_two_groups_waits_only_for_the_shard_that_still_moves() -> None:
    cluster = Cluster()
    node = cluster.start(1)
    node.step(NodesFound(views(1, 2), (2,) * SHARDS))
    node.pass_ms(3_000)  # node 2 is of an earlier version, which publishes nothing
    groups = {node.node.core.placement.shard_of(group_id): group_id for group_id in "abcdefghij"}
    (_, settled), (shard, moving) = sorted(groups.items())[:2]
    node.step(NewsReceived((Taken(shard, 5, 2), LetGo(shard, 5, 0))))
    call = node.send(FindCoordinator((settled, moving)))
    assert call not in node.replied
    node.step(NewsReceived((Taken(shard, 6, 2),)))
    node.rest()
    assert looked_up(node.replied[call]) == [(2, ErrorCode.NONE)] * 2


def test_late_news_of_an_earlier_owner_settle_nothing() -> None:
    placement = placed(node_view(1, 0), node_view(2, 0), node_view(3, 0), owners=(1, 1, 1))
    placement.taken(Taken(0, 12, 1))
    placement.let_go(LetGo(0, 12, 0), 5_000)
    assert not placement.taken(Taken(0, 11, 2))
    assert placement.is_moving(0)
    assert placement.taken(Taken(0, 13, 3))
    assert placement.owner_of(0) == 3


def test_a_group_id_that_is_too_long_waits_for_no_shard() -> None:
    _, first, _, _ = two_nodes()
    first.step(NewsReceived(tuple(LetGo(shard, 9_999, 0) for shard in range(SHARDS))))
    assert first.ask(FindCoordinator((GROUP,))) is None
    assert first.ask(FindCoordinator(("x" * (LONGEST_GROUP_ID + 1),))) is not None


def test_a_lookup_waits_for_the_session_of_a_node_that_has_ended_and_for_its_successor() -> None:
    _, _, second, shard = two_nodes()
    second.pass_ms(3_000)
    assert looked_up(second.ask(FindCoordinator((GROUP,)))) == [(1, ErrorCode.NONE)]
    second.step(NodeEnded(1))
    call = second.send(FindCoordinator((GROUP,)))
    second.step(NodesFound(views(1, 2, 3), (1,) * SHARDS))
    second.pass_ms(SETTINGS.session_ms)
    assert call not in second.replied, "a node that joins is no reason to name the ended one"
    second.step(NodesFound(views(2, 3), (2,) * SHARDS))
    assert call not in second.replied, "the next owner does not serve yet"
    second.step(ShardChanged(shard, OwnershipGiven()))
    second.rest()
    assert looked_up(second.replied[call]) == [(2, ErrorCode.NONE)]


def test_a_node_that_seemed_to_end_is_named_again_after_its_session() -> None:
    _, _, second, _ = two_nodes()
    second.step(NodeEnded(1))
    call = second.send(FindCoordinator((GROUP,)))
    second.pass_ms(SETTINGS.session_ms + 1_500)
    assert call not in second.replied
    second.pass_ms(1_000)
    assert looked_up(second.replied[call]) == [(1, ErrorCode.NONE)]
    second.step(NodesFound(views(1, 2, 3), (1,) * SHARDS))
    assert looked_up(second.ask(FindCoordinator((GROUP,)))) == [(1, ErrorCode.NONE)]


def test_a_node_that_serves_a_shard_anew_has_not_ended() -> None:
    _, _, second, shard = two_nodes()
    other = (shard + 1) % SHARDS
    second.step(NewsReceived((Taken(other, 10_000, 1),)))
    second.step(NodeEnded(1))
    call = second.send(FindCoordinator((GROUP,)))
    own = second.node.core.placement
    read_once_more = Taken(other, 10_000, 1)
    second.step(NewsReceived((read_once_more,)))
    second.step(NodesFound(views(1, 2), (1,) * SHARDS))
    assert call not in second.replied and own.is_moving(other)
    second.step(NewsReceived((Taken(other, 10_001, 1),)))
    second.step(NodesFound(views(1, 2), (1,) * SHARDS))
    second.rest()
    assert looked_up(second.replied[call]) == [(1, ErrorCode.NONE)]


def test_the_wait_for_an_ended_node_is_shorter_than_the_timeouts_of_clients() -> None:
    own = Placement(1, SHARDS, {"native": ("own", 9)})
    placement = NodesPlacement(own, lambda shard: True, session_ms=30_000)
    placement.found(NodesFound(views(1, 2), (2,) * SHARDS), 0)
    placement.ended(2, 1_000)
    assert placement.settles_by_ms(0, 1_000) == 9_000


def test_a_lookup_at_a_node_that_starts_waits_for_the_table_of_owners() -> None:
    cluster = Cluster()
    node = cluster.start(1)
    call = node.send(FindCoordinator((GROUP,)))
    assert call not in node.replied
    node.step(NewsReceived((Taken(node.node.core.placement.shard_of(GROUP), 5, 2),)))
    assert call not in node.replied
    node.step(NodesFound(views(1, 2), (2,) * SHARDS))
    node.rest()
    assert looked_up(node.replied[call]) == [(2, ErrorCode.NONE)]
    assert looked_up(node.ask(FindCoordinator(("x" * (LONGEST_GROUP_ID + 1),)))) == [(-1, ErrorCode.INVALID_GROUP_ID)]
