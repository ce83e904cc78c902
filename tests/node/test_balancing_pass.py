"""The balancing pass over server-balanced groups, in slices."""

from coordinator.clock import Moment
from coordinator.tasks.balancing import BalancingPass
from tests.groups.balanced.group_rig import GroupRig

PERIOD_MS = 20_000


def at(now_ms: int) -> Moment:
    return Moment(now_ms, now_ms)


def test_a_pass_takes_as_many_slices_as_its_partitions_need() -> None:
    rig = GroupRig(900, server_balance_interval_ms=1_000_000)
    for number in range(5):
        rig.started("a", group_id=f"s{number}", mode="server", session_timeout_ms=1_000_000)
    rig.started("b", group_id="client")
    balancing, shards = BalancingPass(), rig.node_rig.node.core.shards
    slices = []
    for now_ms in (0, 10):
        slices.append([group.group_id for group in balancing.next_groups(shards, at(now_ms))])
        slices.append([str(balancing.delay_ms(PERIOD_MS, at(now_ms)))])
    (first, soon, second, rest) = slices
    assert (len(first), len(second), soon) == (3, 2, ["10"])
    assert sorted(first + second) == [f"s{number}" for number in range(5)], "each once, and no client-balanced one"
    assert rest == [str(PERIOD_MS - 10)], "a pass begins a period after the last one began"


def test_without_such_groups_a_pass_does_nothing() -> None:
    rig = GroupRig()
    rig.started("a")
    balancing = BalancingPass()
    assert list(balancing.next_groups(rig.node_rig.node.core.shards, at(5))) == []
    assert balancing.delay_ms(PERIOD_MS, at(5)) == PERIOD_MS
