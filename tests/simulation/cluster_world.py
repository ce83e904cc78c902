"""Worlds of nodes whose shards are in the cluster's log: `tests/simulation/cluster/world.py`.

python -m tests.simulation.cluster_world --seeds 1000 --first 0
"""

import sys
from collections import Counter

from tests.simulation.cluster.world import ClusterWorld
from tests.simulation.errors import Broken
from tests.simulation.seeds import run_seeds, seeds_parser


def attempt(seed: int) -> str:
    """Run a seed; return what broke, if something did."""
    try:
        ClusterWorld(seed).run()
    except Broken as broken:
        return str(broken)
    return ""


def main() -> int:
    parser = seeds_parser("Worlds of nodes over a cluster's log.")
    parser.add_argument("--marks", action="store_true", help="one after the other, and what they met")
    given = parser.parse_args()
    if given.marks:
        total: Counter[str] = Counter()
        for seed in range(given.first, given.first + given.seeds):
            total += ClusterWorld(seed).run()
        print("\n".join(f"{number:>10,}  {what}" for what, number in sorted(total.items())))
        return 0
    return run_seeds(given, "worlds over the cluster's log", attempt)


if __name__ == "__main__":
    sys.exit(main())
