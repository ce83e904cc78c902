"""Worlds of a node beside brokers. Repeat one with `python -m tests.simulation.beside_world --seed N [--shrink]`."""

import os
import subprocess
import sys
from collections import Counter

import pytest

from tests.enumerations import share_of, worlds_of
from tests.simulation.beside.plan import draw_beside
from tests.simulation.beside.world import BesideWorld
from tests.simulation.beside_world import missing

SEEDS, SHARES = max(10, worlds_of(50)), share_of(3)
"""Ten worlds meet every mark together."""


@pytest.mark.parametrize("share", range(SHARES))
def test_nothing_is_lost_skipped_or_told_of_brokers_that_come_and_go(share: int) -> None:
    total = Counter[str]()
    for seed in range(share, SEEDS, SHARES):
        total.update(BesideWorld(seed).run().counts)
    assert missing(total) == []


def test_a_short_pause_does_not_end_a_longer_one() -> None:
    """In this world a heartbeat arrives after the end of a node's second pause, and before that of its first."""
    assert BesideWorld(60_445).run().counts["daemons that stood still"] > 1


def test_a_heartbeat_without_a_known_permission_is_refused_and_keeps_nobody() -> None:
    """In this world no broker answers when a member that stands still is back on a new connection: its heartbeat there
    is refused, and it reads this only after its session."""
    assert BesideWorld(63_229).run().counts["notes: session expired"] > 0


def test_one_seed_is_one_trace() -> None:
    worlds = [BesideWorld(seed) for seed in (8, 8, 16)]
    for world in worlds:
        world.run()
    traces = [world.trace() for world in worlds]
    assert traces[0] == traces[1] != traces[2]


def test_a_part_of_a_seed_happens_as_it_did_in_the_whole() -> None:
    plan = draw_beside(16)
    worlds = [BesideWorld(16), BesideWorld(16, plan.only(one.number for one in plan.decisions))]
    for world in worlds:
        world.run()
    assert worlds[0].trace() == worlds[1].trace()


@pytest.mark.long
def test_a_trace_does_not_depend_on_the_hash_seed() -> None:
    assert len({_trace_under(hash_seed) for hash_seed in ("1", "2")}) == 1


def _trace_under(hash_seed: str) -> str:
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    command = [sys.executable, "-m", "tests.simulation.beside_world", "--seed", "16"]
    return subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout.split("{")[0]
