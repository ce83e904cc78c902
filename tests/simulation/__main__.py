"""Many seeds, or one, or events until there are enough of them:

python -m tests.simulation --seeds 10000 --first 0
python -m tests.simulation --seed 4711 [--only 0,3,9] [--shrink]
python -m tests.simulation --slow --events 50000000
"""

import argparse
import sys

from tests.simulation.marks import missing
from tests.simulation.plan import BRISK, SLOW, draw
from tests.simulation.shrink import shrink
from tests.simulation.sweep import PROGRESS_S, sweep
from tests.simulation.world import World


def main() -> int:
    parser = argparse.ArgumentParser(description="Simulated worlds, each checked after every step.")
    parser.add_argument("--seeds", type=int, default=300, help="how many")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--events", type=int, help="as many seeds as it takes for so many steps of the node")
    parser.add_argument("--slow", action="store_true", help="hours instead of a minute, heartbeats of 3 s to 10 min")
    parser.add_argument("--stop", action="store_true", help="end with the first seed that breaks")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seed", type=int, help="this one alone, with its trace")
    parser.add_argument("--only", help="of its decisions these alone, by number: 0,3,9")
    parser.add_argument("--shrink", action="store_true", help="the shortest story that breaks as this seed does")
    parser.add_argument("--story", action="store_true", help="what the seed decides, in words")
    options = parser.parse_args()
    if options.seed is not None:
        return one(options)
    print(_beginning(options), file=sys.stderr, flush=True)
    total = sweep(
        options.first,
        SLOW if options.slow else BRISK,
        seeds=None if options.events else options.seeds,
        events=options.events,
        workers=options.workers,
        stops=options.stop,
    )
    print(total.summary())
    for mark in (never := missing(total.counts)):
        print(f"never happened: {mark}", file=sys.stderr)
    return 1 if total.broken or never else 0


def _beginning(options: argparse.Namespace) -> str:
    """Return the first line of a run, which then prints nothing for a minute."""
    wanted = f"{options.seeds:,} seeds" if options.events is None else f"seeds for {options.events:,} events"
    pace = "slow worlds" if options.slow else "brisk worlds"
    workers = f"{options.workers} {'worker' if options.workers == 1 else 'workers'}"
    return f"{wanted} from {options.first} on, {pace}, {workers}; a line every {PROGRESS_S} s"


def one(options: argparse.Namespace) -> int:
    """Run one seed, whole or in part."""
    plan = draw(options.seed, SLOW if options.slow else BRISK)
    if options.only is not None:
        plan = plan.only(int(number) for number in options.only.split(",") if number)
    if options.story:
        print(plan.story())
        return 0
    if options.shrink:
        shrunk = shrink(plan)
        print("it holds" if shrunk is None else shrunk.story())
        return 0 if shrunk is None else 1
    world = World(options.seed, plan)
    seen = world.run()
    print(world.trace(), dict(sorted(seen.counts.items())))
    return 0


if __name__ == "__main__":
    sys.exit(main())
