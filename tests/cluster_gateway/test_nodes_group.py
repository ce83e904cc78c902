"""Nodes as members of their group: who gets which shard, and what each of them hears."""

from random import Random

import pytest

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
    assert one.found.unsettled_boot_ms > 0
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
    assert one.group.is_closed and one.has_left and not one.owned and not one.leases
    assert two.owned == ALL and not two.has_left


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


def test_a_new_node_is_given_its_share_once_it_has_read_the_logs_and_they_are_served_until_then() -> None:
    rig = NodesGroupRig()
    one = rig.node(1)
    rig.run(100)
    two = rig.node(2, reads_slowly=True)
    rig.run(10 * BEAT_MS)
    assert one.owned == ALL and not two.owned
    assert two.found is not None and two.found.owners == (1,) * SHARDS, "it names the owners meanwhile"
    assert two.followed == ALL, "it is the only heir, besides"
    share = set(range(SHARDS // 2, SHARDS))
    two.catch_up(*(share - {SHARDS - 1}))
    rig.run(10 * BEAT_MS)
    assert one.owned == ALL
    assert two.found.unsettled_boot_ms == -1, "who has just come noticed nothing"
    two.catch_up(SHARDS - 1)
    rig.run(4 * BEAT_MS)
    assert two.owned == share and one.owned == ALL - share
    assert two.followed == one.owned


def test_a_node_that_has_read_all_while_the_group_rebalances_is_given_its_share_afterwards() -> None:
    rig = NodesGroupRig()
    one, _ = rig.node(1), rig.node(3)
    rig.run(8 * BEAT_MS)
    two = rig.node(2, reads_slowly=True)
    rig.run(8 * BEAT_MS)
    rig.cut(one)
    rig.node(4, reads_slowly=True)
    rig.run(1_000)  # the group waits for the one that is cut off
    two.reads_slowly = False
    two.catch_up(*ALL)
    rig.run(500)
    rig.mend(one)
    rig.run(30_000)
    assert two.group.is_ready and len(two.owned) == SHARDS // 3


@pytest.mark.parametrize("apart_ms", [0, BEAT_MS // 2, 3 * BEAT_MS])
@pytest.mark.parametrize("first", [[1], [1, 4]])
def test_nodes_that_start_together_read_what_they_are_given_in_the_end(first: list[int], apart_ms: int) -> None:
    rig = NodesGroupRig()
    rig.checks_reads = True
    for number in first:
        rig.node(number)
    rig.run(6 * BEAT_MS)
    new = []
    for number in (2, 3):
        new.append(rig.node(number))
        new[-1].reads_slowly = True
    rig.run(6 * BEAT_MS)
    for node in new:
        node.catch_up(*node.unread)
        rig.run(apart_ms)
    rig.run(6 * BEAT_MS)
    for node in new:
        node.catch_up(*node.unread)
    rig.run(6 * BEAT_MS)
    assert sorted(shard for node in rig.nodes for shard in node.owned) == sorted(ALL)
    assert {len(node.owned) for node in new} == {SHARDS // (len(first) + 2)}


def test_an_evicted_node_without_shards_reads_before_it_is_given_any() -> None:
    rig = NodesGroupRig()
    nodes = [rig.node(number) for number in range(SHARDS)]
    rig.run(8 * BEAT_MS)
    spare = rig.node(SHARDS)
    rig.run(8 * BEAT_MS)
    assert spare.group.is_ready and not spare.owned
    spare.reads_slowly = True
    rig.cut(spare)
    rig.run(3 * SESSION_MS)
    rig.mend(spare)
    states = []
    for _ in range(40):
        rig.run(100)
        states.append(spare.group.is_ready)
    assert False in states and spare.group.is_placed
    assert [len(node.owned) for node in nodes] == [1] * SHARDS


def test_a_node_that_reads_takes_nothing_over_while_one_that_has_read_lives() -> None:
    rig = NodesGroupRig()
    one, two, three = (rig.node(number) for number in (1, 2, 3))
    rig.run(4 * BEAT_MS)
    three.kill()
    rig.run(SESSION_MS + 4 * BEAT_MS)
    again = rig.node(3, reads_slowly=True)
    rig.run(4 * BEAT_MS)
    assert one.followed == two.owned and two.followed == one.owned, "they inherit from each other"
    assert len(again.followed) == SHARDS // 3, "it reads what it will be given"
    two.kill()
    rig.run(SESSION_MS + 4 * BEAT_MS)
    assert one.owned == ALL and not again.owned
    assert again.followed == ALL
    one.leave()
    rig.run(4 * BEAT_MS)
    assert again.owned == ALL, "nobody else is left"


def test_nodes_of_which_none_has_read_the_logs_share_them_at_once() -> None:
    rig = NodesGroupRig()
    nodes = [rig.node(1)]
    nodes[0].reads_slowly = True
    rig.run(4 * BEAT_MS)
    for number in (2, 3):
        nodes.append(rig.node(number))
        nodes[-1].reads_slowly = True
    rig.run(4 * BEAT_MS)
    assert [len(node.owned) for node in nodes] == [SHARDS // 3] * 3
    nodes[1].catch_up(*nodes[1].owned)
    before = {node.node_id: set(node.owned) for node in nodes}
    rig.run(4 * BEAT_MS)
    assert nodes[1].group.is_ready and not nodes[0].group.is_ready
    assert {node.node_id: node.owned for node in nodes} == before, "the first to be ready takes nothing from the others"


def test_a_node_that_gets_no_further_is_given_its_share_after_a_minute() -> None:
    rig = NodesGroupRig()
    one = rig.node(1)
    rig.run(100)
    two = rig.node(2, reads_slowly=True)
    rig.run(50_000)
    two.catch_up(SHARDS - 1)
    rig.run(59_000)
    assert not two.owned
    rig.run(2_000)
    assert len(two.owned) == len(one.owned) == SHARDS // 2


def test_a_node_that_lost_its_shards_reads_before_it_is_given_others() -> None:
    rig = NodesGroupRig()
    one, two = rig.node(1), rig.node(2)
    rig.run(4 * BEAT_MS)
    one.reads_slowly = True
    rig.cut(one)
    rig.run(SESSION_MS + 2 * BEAT_MS)
    rig.mend(one)
    rig.run(10_000)
    assert two.owned == ALL and not one.owned and not one.group.is_ready
    one.catch_up(*ALL)
    rig.run(4 * BEAT_MS)
    assert len(one.owned) == len(two.owned) == SHARDS // 2


def test_a_node_that_follows_nothing_is_given_its_share_at_once() -> None:
    rig = NodesGroupRig()
    rig.node(1, follows=FollowedShards.NONE)
    rig.run(100)
    two = rig.node(2, follows=FollowedShards.NONE)
    two.reads_slowly = True
    rig.run(4 * BEAT_MS)
    assert len(two.owned) == SHARDS // 2


@pytest.mark.parametrize("seed", range(30))
def test_whatever_happens_to_nodes_no_shard_goes_to_one_that_has_yet_to_read_it_and_all_end_with_equal_shares(
    seed: int,
) -> None:
    random = Random(seed)
    rig = NodesGroupRig()
    for number in (1, 2, 3, 4):
        rig.node(number)
    rig.run(4 * BEAT_MS)
    for _ in range(25):
        living = [node for node in rig.nodes if not node.is_gone and not node.group.is_closed]
        one = random.choice(living)
        match random.randrange(7):
            case 0 | 1 if len(living) > 1:
                one.kill()
                rig.node(one.node_id, reads_slowly=random.random() < 0.7)
            case 2 if len(living) > 1:
                one.leave()
                rig.run(random.choice((0, 3 * BEAT_MS)))
                rig.node(one.node_id, reads_slowly=random.random() < 0.7)
            case 3:
                rig.cut(one)
                rig.run(random.choice((BEAT_MS, 2 * SESSION_MS)))
                rig.mend(one)
            case _:
                one.catch_up(*random.sample(range(SHARDS), random.randrange(1, SHARDS + 1)))
        rig.run(random.choice((10, BEAT_MS, 3 * BEAT_MS, SESSION_MS)))
    living = [node for node in rig.nodes if not node.is_gone and not node.group.is_closed]
    for node in living:
        node.reads_slowly = False
        node.catch_up(*ALL)
    rig.run(6 * SESSION_MS)
    assert sorted(shard for node in living for shard in node.owned) == sorted(ALL)
    assert {len(node.owned) for node in living} == {SHARDS // 4}
    assert [
        (node.node_id, node.group.problem) for node in living if not node.group.is_ready or node.group.problem
    ] == []
