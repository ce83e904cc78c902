"""`python -m interop.nodes`: three musterd with `offsets.log=cluster` in front of three Apache Kafka brokers, killed,
stopped, asleep and cut off, while groups of five clients commit (docs/cluster.md).

Each group has a member, which commits one offset after another and reads it back. What was acknowledged must be read
by everybody later, no generation may go back, and nobody may be rebalanced because a node went. After SIGTERM no
further fault is drawn, and what was seen is judged.
"""

import argparse
import signal
import sys
import threading
from pathlib import Path

from interop.nodes.faults import KINDS
from interop.nodes.office import LIBRARIES
from interop.nodes.story import Plan, run
from interop.verdict import add_keep, judged


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m interop.nodes", description="Three musterd over one Kafka cluster."
    )
    parser.add_argument("--faults", type=int, default=20, help="drawn at random; 20 if not given")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="after which no further one is drawn")
    parser.add_argument("--only", action="append", choices=KINDS, help="kind of faults; may be given again")
    parser.add_argument("--clients", action="append", choices=LIBRARIES, help="may be given again; all without any")
    parser.add_argument("--groups", type=int, default=4, help="of each client; 4 if not given")
    parser.add_argument("--pause-ms", type=int, default=200, help="between two commits of a group")
    parser.add_argument("--offsets", type=int, default=0, help="of other groups, in each shard, before all else")
    parser.add_argument("--ease", type=float, default=3.0, help="seconds between one fault and the next")
    parser.add_argument("--ready", action="store_true", help="wait before each fault until all nodes are ready")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--within", type=float, help="seconds in which a killed node's groups must commit again, p99")
    parser.add_argument("--stopped-within", type=float, help="the same, of a node that is stopped as planned")
    add_keep(parser)
    given = parser.parse_args()
    plan = Plan(
        tuple(given.clients or LIBRARIES),
        given.groups,
        given.pause_ms,
        given.faults,
        tuple(given.only or KINDS),
        given.seed,
        given.minutes,
        given.offsets,
        given.ease,
        given.within,
        given.stopped_within,
        given.ready,
    )

    is_ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda number, frame: is_ended.set())

    def play(work: Path) -> list[str]:
        return run(work, plan, is_ended)

    return judged(given.keep, play)


if __name__ == "__main__":
    sys.exit(main())
