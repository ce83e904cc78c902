"""Progress of a node with the logs of its shards, as `/readyz` tells it."""

from coordinator.gateway.cluster.readiness import Readiness
from tests.cluster_gateway.nodes_group_rig import BEAT_MS, SESSION_MS, SHARDS, NodesGroupRig

MINUTE_MS = 60_000
NOTHING: frozenset[int] = frozenset()


def test_a_node_is_settled_once_it_has_read_its_share_and_what_it_follows() -> None:
    readiness = Readiness()
    readiness.assigned((), (0, 1), frozenset({0, 1, 2}), 0, is_whole=True)
    for shard in (2, 0):
        readiness.caught_up(shard, 0)
        assert not readiness.judge(0)
    readiness.caught_up(1, 0)
    assert readiness.judge(0) and readiness.is_ready and not readiness.judge(0)
    readiness.assigned((), (), NOTHING, 0, is_whole=False)  # its share is revoked from the others
    assert not readiness.judge(0) and readiness.due_ms is None
    readiness.assigned((0, 1), (), frozenset({3}), 0, is_whole=True)
    assert readiness.unread == 3, "what it has read as a follower is read to its end once more"
    for shard in (0, 1, 3):
        assert readiness.unread
        readiness.caught_up(shard, 0)
        assert not readiness.judge(0), "it became ready before"
    assert readiness.unread == 0 and readiness.due_ms is None
    readiness.assigned((0, 1, 4), (), frozenset({5}), 0, is_whole=True)
    assert readiness.unread == 0, "shards that move later are no reason not to be ready"


def test_logs_that_cannot_be_read_hold_a_node_up_for_a_minute_after_the_last_one() -> None:
    readiness = Readiness()
    readiness.assigned((), (0, 1), frozenset({0, 1}), 0, is_whole=True)
    readiness.caught_up(0, MINUTE_MS - 1)
    assert readiness.due_ms == 2 * MINUTE_MS - 1
    assert not readiness.judge(2 * MINUTE_MS - 2) and readiness.judge(2 * MINUTE_MS - 1)
    readiness.assigned((0,), (), frozenset({5}), 2 * MINUTE_MS, is_whole=True)
    readiness.assigned((0,), (), frozenset({5}), 2 * MINUTE_MS + 5_000, is_whole=True)
    for at_ms in (2 * MINUTE_MS + 6_000, 2 * MINUTE_MS + 7_000):
        readiness.caught_up(7, at_ms)  # neither one that it does not need nor another table gives it more time
    assert not readiness.judge(3 * MINUTE_MS - 1) and readiness.unread == 2
    assert not readiness.judge(3 * MINUTE_MS) and readiness.unread == 0


def test_shards_whose_state_was_dropped_are_read_again() -> None:
    readiness = Readiness()
    readiness.assigned((0, 1), (), NOTHING, 0, is_whole=True)
    for shard in (0, 1):
        readiness.caught_up(shard, 0)
    readiness.revoked((0,))
    readiness.assigned((1,), (), frozenset({0}), 0, is_whole=True)
    assert readiness.unread == 1
    readiness.assigned((1,), (), NOTHING, 0, is_whole=True)
    readiness.assigned((1,), (), frozenset({0}), 0, is_whole=True)
    readiness.lost()
    readiness.assigned((), (0, 1), frozenset({0, 1}), 0, is_whole=True)
    assert readiness.unread == 2


def test_the_number_is_told_to_the_node_until_it_is_settled() -> None:
    rig = NodesGroupRig()
    rig.node(1)
    rig.run(100)
    two = rig.node(2, reads_slowly=True)
    rig.run(2 * BEAT_MS)
    share = set(range(SHARDS // 2, SHARDS))
    assert two.to_read == [1, len(share)], "before it knows its share, one"
    two.catch_up(*share)
    rig.run(4 * BEAT_MS)
    assert two.owned == share
    assert two.to_read[-1] == SHARDS, "its own to their ends, and the others, which it follows"
    assert 0 not in two.to_read, "it is not ready before it serves its share"
    two.catch_up(*range(SHARDS))
    rig.run(BEAT_MS)
    assert two.to_read[-1] == 0
    rig.cut(two)
    rig.run(2 * SESSION_MS)
    rig.mend(two)
    rig.run(4_000)
    assert two.to_read[-1] == len(share), "it was evicted: what it followed it still follows"


def test_nodes_that_start_when_nobody_serves_are_settled_once_they_serve() -> None:
    rig = NodesGroupRig()
    nodes = [rig.node(number) for number in (1, 2, 3)]
    for node in nodes:
        node.reads_slowly = True
    rig.run(4 * BEAT_MS)
    for node in nodes:
        assert node.to_read[-1] == SHARDS // 3
        node.catch_up(*node.owned)
    rig.run(4 * BEAT_MS)
    assert [node.to_read[-1] for node in nodes] == [0, 0, 0] and all(node.unread for node in nodes)
