"""The same worlds over the cluster's log with a whole node in each process, whose numbers are committed offsets."""

from collections import Counter
from collections.abc import Sequence

import pytest

from coordinator.cluster_log.cluster_shard import ClusterShard
from coordinator.cluster_node import cluster_shards
from coordinator.cluster_node.shard_log import ClusterLog
from partition_log.errors import AppendError
from partition_log.store.limits import Appended
from tests.enumerations import share_of
from tests.simulation.cluster.served import ServedWorld
from tests.simulation.cluster.without import RULES, WithoutLease
from tests.simulation.errors import Broken

SEEDS = share_of(6)
MARKS = ("shards owned", "writes acknowledged", "writes refused by the fence", "requests lost")
TRIES = 4
LEASE_SEED, LEASE_FAULTS = RULES[WithoutLease]
APPEND = ClusterLog.append


def test_nodes_serve_groups_from_the_cluster_s_log() -> None:
    total = Counter[str]()
    for seed in range(SEEDS):
        total.update(ServedWorld(seed).run())
    assert [mark for mark in MARKS if not total[mark]] == []


def _durable_at_once(self: ClusterLog, batch: bytes, *, must_fit: bool = True) -> Appended | AppendError:
    appended = APPEND(self, batch, must_fit=must_fit)
    return Appended(-1, -1, 0) if isinstance(appended, Appended) else appended


@pytest.mark.parametrize(
    ("where", "name", "without", "first", "faults"),
    [
        (ClusterLog, "append", _durable_at_once, 0, ()),
        (cluster_shards, "refusal_of", lambda reply: reply, 0, ()),
        (ClusterLog, "barrier", lambda self: 0, LEASE_SEED, LEASE_FAULTS),
    ],
    ids=["replies wait for the log", "replies are refused when it is lost", "reads need a lease"],
)
def test_each_rule_of_the_node_that_is_taken_out_is_missed(
    where: object, name: str, without: object, first: int, faults: Sequence[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(where, name, without)
        for seed in range(first, first + TRIES):
            try:
                ServedWorld(seed, ClusterShard, faults).run()
            except (Broken, AssertionError):
                return
    raise AssertionError("nothing broke")
