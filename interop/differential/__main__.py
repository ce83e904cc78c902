"""`python -m interop.differential [classic|consumer] --rounds N`: random histories to Apache Kafka 4.3.1 and musterd.

Both are started here. Exits 1 for a difference that no rule of `allowed` explains, or where a history had no time.
"""

import argparse
import asyncio
import sys
import uuid
from pathlib import Path

from bench.builds import NotHere
from bench.processes import scratch
from interop.differential import servers
from interop.differential.generator import unspoken
from interop.differential.report import text
from interop.differential.rounds import Result, Rounds
from interop.differential.suites import SUITES


def main() -> int:
    given = _options()
    try:
        with scratch(in_memory=True) as folder:
            result = _run(given, folder)
    except NotHere as reason:
        print(f"cannot be run here: {reason}", file=sys.stderr)
        return 2
    command = f"python -m interop.differential {given.suite} --rounds {given.rounds} --seed {given.seed}"
    report = text(result, command, SUITES[given.suite].rules)
    print(report, end="")
    if given.write is not None:
        given.write.write_text(report)
    return 1 if result.unexplained or result.late else 0


def _run(given: argparse.Namespace, folder: Path) -> Result:
    suite = SUITES[given.suite]
    with servers.running(folder, suite) as pair:
        for name, server in zip(("Kafka", "musterd"), pair, strict=True):
            if missing := unspoken(asyncio.run(servers.spoken(server)), suite.asks):
                raise NotHere(f"{name} does not speak what is asked: {', '.join(missing)}")
        rounds = Rounds(pair, given.at_once, f"d-{uuid.uuid4().hex[:6]}-", suite.rules)
        drawn = [suite.draw(seed) for seed in range(given.seed, given.seed + given.rounds)]
        return asyncio.run(rounds.all(drawn, shrinks=not given.whole))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m interop.differential", description="Two servers, asked the same.")
    parser.add_argument("suite", nargs="?", default="classic", choices=SUITES, help="which requests there are")
    parser.add_argument("--rounds", type=int, default=100, metavar="N", help="histories; 100 if not given")
    parser.add_argument("--seed", type=int, default=0, help="of the first history; the others follow it")
    parser.add_argument("--at-once", type=int, default=80, metavar="N", help="histories that run at a time")
    parser.add_argument("--whole", action="store_true", help="show histories as they were drawn: quicker, and longer")
    parser.add_argument("--write", type=Path, help="a file for the report, besides the screen")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
