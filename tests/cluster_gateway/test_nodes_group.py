"""Nodes as members of their group: who gets which shard, and what each of them hears."""

from coordinator.gateway.cluster.nodes_group import FollowedShards
from membership.consumer_protocol import ConsumerSubscription, encode_subscription
from tests.cluster_gateway.nodes_group_rig import BEAT_MS, SESSION_MS, SHARDS, TOPIC, NodesGroupRig

ALL = set(range(SHARDS))


def test_one_node_owns_every_shard_and_everybody_learns_it() -> None:
    rig = NodesGroupRig()
    one = rig.node(1)
    rig.run(100)
    assert one.owned == ALL
    assert one.found is not None and one.found.owners == (1,) * SHARDS
    assert [view.addresses["kafka"] for view in one.found.nodes] == [("node-1", 9092)]


def test_shards_move_to_a_new_node_only_after_they_were_handed_over() -> None:
    rig = NodesGroupRig()
    one = rig.node(1)
    rig.run(100)
    one.drains = True
    two = rig.node(2)
    rig.run(2 * BEAT_MS)
    assert len(one.draining) == SHARDS // 2 and not two.owned
    assert one.found is not None and two.found is not None
    assert (one.found.nodes, one.found.owners) == (two.found.nodes, two.found.owners)
    assert one.found.unsettled_boot_ms > two.found.unsettled_boot_ms == -1, "who has just come noticed nothing"
    assert {shard for shard, owner in enumerate(two.found.owners) if owner == -1} == one.draining
    first, *rest = sorted(one.draining)
    for shard in rest:
        one.hand_over(shard)
    rig.run(2 * BEAT_MS)
    assert not two.owned  # the group moves on once everything is handed over
    one.hand_over(first)
    rig.run(2 * BEAT_MS)
    assert one.owned | two.owned == ALL and not one.owned & two.owned
    assert (one.found.nodes, one.found.owners) == (two.found.nodes, two.found.owners)
    assert {shard for shard, owner in enumerate(two.found.owners) if owner == 2} == two.owned


def test_shards_of_a_killed_node_are_its_heirs_a_session_later_and_nobody_elses_move() -> None:
    rig = NodesGroupRig()
    nodes = [rig.node(number) for number in (1, 2, 3)]
    rig.run(3 * BEAT_MS)
    before = {node.node_id: set(node.owned) for node in nodes}
    inherited = {node.node_id: node.followed & nodes[0].owned for node in nodes}
    nodes[0].kill()
    killed_ms = rig.now_ms
    rig.run(SESSION_MS + 2 * BEAT_MS)
    for node in nodes[1:]:
        assert node.owned == before[node.node_id] | inherited[node.node_id]
        assert node.found is not None
        assert killed_ms + SESSION_MS - BEAT_MS <= node.found.unsettled_boot_ms <= killed_ms + SESSION_MS + 2 * BEAT_MS
    assert nodes[1].owned | nodes[2].owned == ALL


def test_a_node_that_leaves_is_followed_at_the_others_next_heartbeat() -> None:
    rig = NodesGroupRig()
    one, two = rig.node(1), rig.node(2)
    rig.run(3 * BEAT_MS)
    one.leave()
    rig.run(BEAT_MS + 10)
    assert one.group.is_closed and not one.owned and not one.leases
    assert two.owned == ALL


def test_a_node_that_was_cut_off_for_longer_than_a_session_hears_that_it_lost_its_shards_and_gets_others() -> None:
    rig = NodesGroupRig()
    one, two = rig.node(1), rig.node(2)
    rig.run(3 * BEAT_MS)
    rig.cut(one)
    rig.run(SESSION_MS + 2 * BEAT_MS)
    assert two.owned == ALL
    rig.mend(one)
    lost_at_ms = rig.now_ms
    rig.run(2_000 + 3 * BEAT_MS)  # requests that nobody answered are given up
    assert one.owned | two.owned == ALL and not one.owned & two.owned and one.owned
    assert min(one.leases) >= lost_at_ms


def test_the_lease_runs_from_when_a_request_was_sent() -> None:
    rig = NodesGroupRig()
    one = rig.node(1)
    rig.run(BEAT_MS)
    rig.cut(one)
    cut_at_ms = rig.now_ms
    rig.run(SESSION_MS)
    assert max(one.leases) <= cut_at_ms


def test_a_node_follows_what_it_is_told_to() -> None:
    rig = NodesGroupRig()
    inherited, every, none = (rig.node(number, follows=how) for number, how in enumerate(FollowedShards, 1))
    rig.run(4 * BEAT_MS)
    assert every.followed == ALL - every.owned
    assert not none.followed
    assert inherited.followed and not inherited.followed & inherited.owned
    assert inherited.followed < ALL - inherited.owned


def test_a_second_node_of_the_same_id_gets_nothing_and_is_told_who_has_it() -> None:
    rig = NodesGroupRig()
    one = rig.node(1, "a")
    rig.run(100)
    again = rig.node(1, "0")  # its clock is behind: the incarnation looks older
    rig.run(SESSION_MS)
    assert not again.group.is_id_taken
    rig.run(3 * BEAT_MS)
    assert again.group.problem == "node.id 1 is that of a musterd which lives (node-1:9092): give this one another"
    assert not again.owned
    assert one.owned == ALL and not one.group.problem


def test_a_node_that_was_killed_and_comes_back_has_its_id_again() -> None:
    rig = NodesGroupRig()
    one = rig.node(1)
    rig.run(100)
    one.kill()
    again = rig.node(1)
    rig.run(SESSION_MS + BEAT_MS)
    assert again.owned == ALL and not again.group.problem


def test_a_node_that_was_killed_while_it_joined_and_comes_back_has_its_id_again() -> None:
    rig = NodesGroupRig()
    other = rig.node(2)
    rig.run(100)
    rig.cut(other)  # it does not join again, so that all others wait for it
    killed = rig.node(1)
    rig.run(500)
    killed.kill()
    again = rig.node(1)
    rig.run(500)
    rig.mend(other)
    rig.run(4_000)
    assert other.found is not None and [view.node_id for view in other.found.nodes] == [1, 2]
    assert not again.owned
    rig.run(2 * SESSION_MS)
    assert again.owned and again.owned | other.owned == ALL
    assert not again.group.is_id_taken and not again.group.problem


def test_a_consumer_that_strays_into_the_group_gets_no_shard() -> None:
    rig = NodesGroupRig()
    one = rig.node(1)
    rig.run(100)
    stray = rig.node(2, says=encode_subscription(ConsumerSubscription((TOPIC,))))
    rig.run(4 * BEAT_MS)
    assert one.owned == ALL and not stray.owned
