"""`python -m bench [SCENARIO ...] [--rounds N] [--quick] [--huge] [--json FILE]`, and `python -m bench kafka
[--scenarios NAME ...]`."""

import argparse
import resource
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from rich.console import Console

from bench import (
    alone,
    assignors,
    cleaning,
    console,
    consumer_groups,
    first_message,
    footprint,
    front,
    idle,
    kafka,
    loading,
    logins,
    nodes,
    noticing,
    polling,
    reader_memory,
    rebalances,
    requests,
    restart,
    spark,
    steps,
    timers,
)
from bench.report import Options, Sheet, machine, show, write_json

SCENARIOS: Mapping[str, Callable[[Options], list[Sheet]]] = {
    "requests": requests.measure,
    "rebalances": rebalances.measure,
    "idle": idle.measure,
    "alone": alone.measure,
    "footprint": footprint.measure,
    "timers": timers.measure,
    "assignors": assignors.measure,
    "restart": restart.measure,
    "loading": loading.measure,
    "logins": logins.measure,
    "steps": steps.measure,
    "cleaning": cleaning.measure,
    "polling": polling.measure,
    "console": console.measure,
    "noticing": noticing.measure,
    "first_message": first_message.measure,
    "front": front.measure,
    "kafka": kafka.measure,
    "consumer_groups": consumer_groups.measure,
    "nodes": nodes.measure,
    "spark": spark.measure,
    "reader_memory": reader_memory.measure,
}

OF_OTHERS = frozenset({"consumer_groups", "front", "kafka", "nodes", "spark"})
"""Benchmarks that also measure other projects' servers."""


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser("python -m bench", description="What the service costs, next to bare servers.")
    parser.add_argument(
        "scenario", nargs="*", choices=[*SCENARIOS, []], help=f"of {', '.join(SCENARIOS)}; default: all"
    )
    parser.add_argument("--rounds", type=int, help="figures are medians of so many (3; beside Kafka 5)")
    parser.add_argument("--quick", action="store_true", help="one short round of everything: about two minutes")
    parser.add_argument("--huge", action="store_true", help="5,000 members, and ten million commits, too")
    parser.add_argument("--scenarios", nargs="+", choices=kafka.SCENARIOS, default=[], help="of the Kafka comparison")
    parser.add_argument(
        "--slow", action="store_true", help="front: clients that read one byte a second of 1 GiB instead"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there as well")
    given = parser.parse_args(arguments)
    options = Options(
        rounds=given.rounds or (1 if given.quick else 5 if given.scenario == ["kafka"] else 3),
        seconds=0.3 if given.quick else 1.0,
        quick=given.quick,
        huge=given.huge,
        slow=given.slow,
        only=tuple(given.scenarios),
        may_fetch=not OF_OTHERS.isdisjoint(given.scenario),
    )
    _allow_many_sockets()
    console = Console(width=None if sys.stdout.isatty() else 160)
    about = machine()
    console.print(", ".join(f"{name}: {value}" for name, value in about.items()), highlight=False)
    console.print(f"medians of {options.rounds}, {options.seconds} s each\n", highlight=False)
    sheets: dict[str, Sheet] = {}
    for name in given.scenario or SCENARIOS:
        began = time.monotonic()
        for number, sheet in enumerate(SCENARIOS[name](_for(name, options))):
            show(sheet, console)
            sheets[f"{name}-{number}" if number else name] = sheet
        print(f"({name}: {time.monotonic() - began:.0f} s)", file=sys.stderr)
    if given.json is not None:
        write_json(given.json, about, options, sheets)


def _for(name: str, options: Options) -> Options:
    """The comparison is short, and of what is here already, unless it is asked for by name."""
    if name in OF_OTHERS and not options.may_fetch:
        return options._replace(rounds=1, seconds=min(options.seconds, 0.5))
    return options


def _allow_many_sockets() -> None:
    """Children inherit it."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


if __name__ == "__main__":
    main(sys.argv[1:])
