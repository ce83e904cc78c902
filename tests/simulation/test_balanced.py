"""Worlds of client-balanced groups. Repeat one with `python -m tests.simulation.balanced_world --seeds 1 --first N`."""

from collections import Counter

import pytest

from protocol.messages.balanced import SERVER_MODE
from tests.enumerations import share_of, worlds_of
from tests.simulation.balanced_world import BalancedWorld

SEEDS, SHARES = worlds_of(50), share_of(3)
MARKS = (
    *("grants", "batches delivered", "batches confirmed", "balancers killed"),
    "requests that came again, late",
    *("leases that were over by the member's clock", "power failures", "daemons killed", "stops", "full disks"),
    *("balanced: register PARTITION_OCCUPIED", "balanced: MemberHeartbeat NO_NODE"),
    *("notes: lease over", "notes: member replaced", "notes: member left"),
)
"""Marks that a share of the worlds must have reached."""

SERVER_SEEDS, SERVER_SHARES = share_of(18), share_of(3)
SERVER_MARKS = (
    *("assignments", "grants", "batches delivered", "batches confirmed", "balancers killed", "notes: lease over"),
    *("pushes: PartitionsChanged", "notes: partitions assigned", "power failures", "daemons killed"),
)


@pytest.mark.parametrize("share", range(SHARES))
def test_no_partition_has_two_owners_and_all_is_read_when_faults_have_stopped(share: int) -> None:
    total = Counter[str]()
    for seed in range(share, SEEDS, SHARES):
        total.update(BalancedWorld(seed).run().counts)
    assert [mark for mark in MARKS if not total[mark]] == []


@pytest.mark.parametrize("share", range(SERVER_SHARES))
def test_the_same_holds_where_the_coordinator_assigns_the_partitions(share: int) -> None:
    total = Counter[str]()
    for seed in range(share, SERVER_SEEDS, SERVER_SHARES):
        total.update(BalancedWorld(seed, mode=SERVER_MODE).run().counts)
    assert [mark for mark in SERVER_MARKS if not total[mark]] == []


def test_a_member_is_told_which_partitions_it_lost() -> None:
    """Rare: in these two of the first sixty worlds."""
    assert all(BalancedWorld(seed).run().counts["pushes: PartitionsLost"] for seed in (17, 26))


def test_one_seed_is_one_trace() -> None:
    worlds = [BalancedWorld(seed) for seed in (3, 3, 4)]
    for world in worlds:
        world.run()
    traces = [world.trace() for world in worlds]
    assert traces[0] == traces[1] != traces[2]
