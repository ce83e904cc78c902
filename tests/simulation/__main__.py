"""Many seeds, or one: `python -m tests.simulation --seeds 10000 --first 0`, `python -m tests.simulation --seed
4711`."""

import argparse
import sys
import time
from multiprocessing import Pool

from tests.simulation.checkers import Broken
from tests.simulation.faults import Seen
from tests.simulation.world import run_one


def attempt(seed: int) -> tuple[int, Seen | None, str]:
    """What one seed saw, or what broke."""
    try:
        seen, _trace, _world = run_one(seed)
    except Broken as broken:
        return seed, None, str(broken)
    return seed, seen, ""


def main() -> int:
    parser = argparse.ArgumentParser(description="Simulated worlds, each checked after every step.")
    parser.add_argument("--seeds", type=int, default=300, help="how many")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--seed", type=int, help="this one alone, with its trace")
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    if options.seed is not None:
        seen, trace, _world = run_one(options.seed)
        print(trace, dict(sorted(seen.counts.items())))
        return 0
    return sweep(range(options.first, options.first + options.seeds), options.workers)


def sweep(seeds: range, workers: int) -> int:
    """Run them all; print what they saw; 1 if one broke or a fault never happened."""
    total, broken, began = Seen(), [], time.monotonic()
    with Pool(workers) as pool:
        for seed, seen, what in pool.imap_unordered(attempt, seeds, chunksize=8):
            if seen is None:
                broken.append(seed)
                print(f"BROKEN {what}\n  replay: python -m tests.simulation --seed {seed}", file=sys.stderr)
            else:
                total.counts.update(seen.counts)
    for what, count in sorted(total.counts.items()):
        print(f"{count:>10,}  {what}")
    took = time.monotonic() - began
    print(
        f"{len(seeds):,} seeds in {took:.0f} s ({took / max(len(seeds), 1) * workers:.2f} s each): {len(broken)} broken"
    )
    missing = total.missing()
    if missing:
        print(f"never happened: {', '.join(missing)}", file=sys.stderr)
    return 1 if broken or missing else 0


if __name__ == "__main__":
    sys.exit(main())
