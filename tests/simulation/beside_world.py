"""Worlds beside brokers (`beside/world.py`), many or one:

python -m tests.simulation.beside_world --seeds 1000 --first 0
python -m tests.simulation.beside_world --seed 17 [--only 0,3,9] [--shrink] [--story]
"""

import argparse
import sys
import time
from collections import Counter
from collections.abc import Mapping
from multiprocessing import Pool

from tests.simulation.beside.plan import draw_beside
from tests.simulation.beside.world import BesideWorld
from tests.simulation.errors import Broken
from tests.simulation.plan import Plan
from tests.simulation.shrink import shrink
from tests.simulation.sweep import PROGRESS_S, Result, Total

MARKS = (
    *("records read", "records written", "commits by id", "beats answered", "rebalances", "upstreams lost"),
    *("upstream connections cut", "upstream connections half open", "upstream delays", "upstream answers broken off"),
    *("brokers away", "brokers silent", "upstream away", "clients not read", "floods"),
    *("silent upstreams given up", "answers let pass", "closed: the broker's side of the connection is g"),
    *("brokers: power failures", "brokers: daemons killed", "brokers: clean stops", "brokers: slow syncs"),
    *("power failures", "daemons killed", "deaths with something unsynced", "daemons that stood still"),
    *("topics made anew", "topics that grew", "notes: offsets adopted", "notes: members elsewhere"),
    *("driven: partitions assigned", "driven: partitions found by a pattern", "driven: heartbeat NONE"),
    "driven: heartbeat COORDINATOR_LOAD_IN_PROGRESS",
    *("refused for members at the brokers", "members at the brokers killed", "commits believed", "permissions asked"),
)
"""Marks that many worlds together must have reached: at 0 a fault is no longer injected, or code never reached."""


def missing(counts: Mapping[str, int]) -> list[str]:
    """Return the marks without a count."""
    return [mark for mark in MARKS if not counts.get(mark)]


def what_breaks(plan: Plan) -> str | None:
    """Run the plan and return the failure, if any."""
    try:
        BesideWorld(plan.seed, plan).run()
    except Broken as broken:
        return str(broken)
    return None


def attempt(seed: int) -> Result:
    """Run one seed."""
    world, broken = BesideWorld(seed), ""
    try:
        world.run()
    except Broken as error:
        broken = str(error)
    return Result(seed, Counter(world.seen.counts), world.steps, world.now_ms, broken)


def sweep(first: int, seeds: int, workers: int) -> Total:
    """Run so many seeds; print each failure at once."""
    total, told_s = Total(), time.monotonic()
    with Pool(workers, maxtasksperchild=50) as pool:
        for result in pool.imap_unordered(attempt, range(first, first + seeds)):
            total.add(result)
            if result.broken:
                command = f"python -m tests.simulation.beside_world --seed {result.seed} [--shrink]"
                print(f"BROKEN {result.broken}\n  replay: {command}", file=sys.stderr, flush=True)
            if time.monotonic() - told_s > PROGRESS_S:
                told_s = time.monotonic()
                print(total.line(), file=sys.stderr, flush=True)
    return total


def one(plan: Plan, options: argparse.Namespace) -> int:
    """Run one seed, whole or in part."""
    if options.story:
        print(plan.story())
        return 0
    if not options.shrink:
        world = BesideWorld(plan.seed, plan)
        seen = world.run()
        print(world.trace(), dict(sorted(seen.counts.items())))
        return 0
    shrunk = shrink(plan, what_breaks)
    if shrunk is None:
        print("it holds")
        return 0
    numbers = ",".join(str(decision.number) for decision in shrunk.plan.decisions)
    command = f"python -m tests.simulation.beside_world --seed {plan.seed} --only {numbers}"
    print(f"{shrunk.plan.story()}\nthen: {shrunk.broken}\nreplay: {command}")
    return 1


def main() -> int:
    """Run so many seeds; print which of them failed, and how."""
    parser = argparse.ArgumentParser(description="Worlds of a node beside brokers, each checked after every step.")
    parser.add_argument("--seeds", type=int, default=100, help="how many")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seed", type=int, help="this one alone, with its trace")
    parser.add_argument("--only", help="of its decisions these alone, by number: 0,3,9")
    parser.add_argument("--shrink", action="store_true", help="the shortest story that breaks as this seed does")
    parser.add_argument("--story", action="store_true", help="what the seed decides, in words")
    options = parser.parse_args()
    if options.seed is not None:
        plan = draw_beside(options.seed)
        if options.only is not None:
            plan = plan.only(int(number) for number in options.only.split(",") if number)
        return one(plan, options)
    total = sweep(options.first, options.seeds, options.workers)
    print(total.summary())
    for mark in (never := missing(total.counts)):
        print(f"never happened: {mark}", file=sys.stderr)
    return 1 if total.broken or never else 0


if __name__ == "__main__":
    sys.exit(main())
