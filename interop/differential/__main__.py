"""`python -m interop.differential [classic] --rounds N`: random histories to an Apache Kafka 4.3.1 and a musterd.

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
from interop.differential.generator import SUITES, unspoken
from interop.differential.report import text
from interop.differential.rounds import Result, Rounds


def main() -> int:
    given = _options()
    try:
        with scratch(in_memory=True) as folder:
            result = _run(given, folder)
    except NotHere as reason:
        print(f"cannot be run here: {reason}", file=sys.stderr)
        return 2
    command = f"python -m interop.differential {given.suite} --rounds {given.rounds} --seed {given.seed}"
    report = text(result, command)
    print(report, end="")
    if given.write is not None:
        given.write.write_text(report)
    return 1 if result.unexplained or result.late else 0


def _run(given: argparse.Namespace, folder: Path) -> Result:
    draw = SUITES[given.suite]
    with servers.running(folder) as pair:
        for name, server in zip(("Kafka", "musterd"), pair, strict=True):
            if missing := unspoken(asyncio.run(servers.spoken(server))):
                raise NotHere(f"{name} does not speak what is asked: {', '.join(missing)}")
        rounds = Rounds(pair, given.at_once, f"d-{uuid.uuid4().hex[:6]}-")
        return asyncio.run(rounds.all(draw(seed) for seed in range(given.seed, given.seed + given.rounds)))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m interop.differential", description="Two servers, asked the same.")
    parser.add_argument("suite", nargs="?", default="classic", choices=SUITES, help="which requests there are")
    parser.add_argument("--rounds", type=int, default=100, metavar="N", help="histories; 100 if not given")
    parser.add_argument("--seed", type=int, default=0, help="of the first history; the others follow it")
    parser.add_argument("--at-once", type=int, default=80, metavar="N", help="histories that run at a time")
    parser.add_argument("--write", type=Path, help="a file for the report, besides the screen")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
