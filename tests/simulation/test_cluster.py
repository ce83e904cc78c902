"""Worlds over the cluster's log. Repeat one with `python -m tests.simulation.cluster_world --seeds 1 --first N`."""

from collections import Counter

import pytest

from coordinator.cluster_log.cluster_shard import ClusterShard
from tests.enumerations import share_of, some
from tests.simulation.cluster.coordinators import NodesGroup
from tests.simulation.cluster.without import RULES
from tests.simulation.cluster.world import SHARDS as WORLD_SHARDS
from tests.simulation.cluster.world import ClusterWorld
from tests.simulation.errors import Broken

SEEDS, SHARES = share_of(15), share_of(3)
MARKS = (
    *("shards owned", "writes acknowledged", "writes refused by the fence", "reads within the lease"),
    *("nodes killed", "nodes frozen", "leaders moved", "requests lost", "members evicted", "records cleaned away"),
    "looks at nodes that were unheard for long",
)
"""Marks that a share of the worlds must have reached."""
RELEASING = (1, "lost: the node does not hear of the nodes' group")
"""A seed with a node that is cut off for long, and its mark: few worlds have one."""
TRIES = 8
"""Seeds among which each rule that is taken out is found."""


@pytest.mark.parametrize("share", range(SHARES))
def test_there_is_one_writer_a_shard_and_no_acknowledged_write_is_lost(share: int) -> None:
    total = Counter[str]()
    for seed in range(share, SEEDS, SHARES):
        total.update(ClusterWorld(seed).run())
    assert [mark for mark in MARKS if not total[mark]] == []


def test_a_node_that_hears_of_nobody_lets_go() -> None:
    seed, mark = RELEASING
    assert ClusterWorld(seed).run()[mark]


def test_a_node_releases_a_shard_after_its_last_write() -> None:
    """In this world a node hears of a revocation again while it waits for the answer to a write."""
    assert ClusterWorld(61_369).run()["shards owned"]


@pytest.mark.parametrize("core", some(RULES), ids=lambda core: core.__name__)
def test_each_rule_that_is_taken_out_is_missed(core: type[ClusterShard]) -> None:
    first, faults = RULES[core]
    for seed in range(first, first + TRIES):
        try:
            ClusterWorld(seed, core, faults).run()
        except Broken:
            # By the same faults the whole protocol holds.
            ClusterWorld(seed, ClusterShard, faults).run()
            return
    raise AssertionError(f"{core.__name__}: nothing broke")


def test_the_id_of_a_member_that_is_gone_does_not_come_back() -> None:
    group = NodesGroup(WORLD_SHARDS, session_ms=6_000)
    assert group.heartbeat("one-1", 0, joins=True) == ({0, 1}, {})
    assert group.heartbeat("two-1", 6_001, joins=True) == ({0, 1}, {})
    assert group.heartbeat("one-1", 6_002, joins=True) is None
    group.leave("three-1")
    assert group.heartbeat("three-1", 6_003, joins=True) is None, "it was removed before its JoinGroup arrived"
    assert group.heartbeat("one-2", 6_004, joins=True) is not None


def test_one_seed_is_one_story() -> None:
    first, again, other = (ClusterWorld(seed).run() for seed in (3, 3, 4))
    assert first == again != other
