"""`python -m interop.exactly_once`: Kafka's transactions through several musterd that are killed (docs/cluster.md).

A Java producer writes numbers in transactions, some of which it aborts. Programs of Java, librdkafka, franz-go and
Kafka Streams, two of each, carry every number on in transactions with the group's offsets, and so do two workers of
Kafka Connect and a job of Flink, while nodes and programs are killed. In the end each number is in each topic once, and
in each state of Streams once. franz-go's own TestTxnEtl comes after that.
"""

import argparse
import sys
from pathlib import Path

from interop.exactly_once.story import PROGRAMS, Plan, run
from interop.verdict import add_keep, judged


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m interop.exactly_once", description="Transactions through several musterd, with kills."
    )
    parser.add_argument("programs", nargs="*", help=f"of {', '.join(PROGRAMS)}; all without any")
    parser.add_argument("--brokers", type=int, default=3, help="of the cluster")
    parser.add_argument("--nodes", type=int, default=2, help="musterd in front of it")
    parser.add_argument("--kills", type=int, default=6, help="of nodes, in turn; each second one of a program, too")
    parser.add_argument("--etl-records", type=int, default=20_000, help="records of TestTxnEtl")
    parser.add_argument(
        "--compare", action="store_true", help="TestTxnEtl through the brokers themselves too, killed alike; not judged"
    )
    add_keep(parser)
    given = parser.parse_args()
    if unknown := set(given.programs) - set(PROGRAMS):
        parser.error(f"no such program: {', '.join(sorted(unknown))}")
    chosen = tuple(given.programs) or PROGRAMS
    plan = Plan(chosen, given.brokers, given.nodes, given.kills, given.etl_records, given.compare)

    def play(work: Path) -> list[str]:
        return run(work, plan)

    return judged(given.keep, play)


if __name__ == "__main__":
    sys.exit(main())
