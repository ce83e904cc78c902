"""Runs many seeds on several processes: counts of events, failures, and times."""

import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count, islice
from multiprocessing import Pool

from tests.simulation.errors import Broken
from tests.simulation.plan import HOUR_MS, Pace, draw
from tests.simulation.world import World

PROGRESS_S = 60


@dataclass(slots=True)
class Result:
    """Result of one seed."""

    seed: int
    counts: Counter[str]
    events: int
    simulated_ms: int
    broken: str = ""


def attempt(task: tuple[int, Pace]) -> Result:
    """Run one seed."""
    seed, pace = task
    world, broken = World(seed, draw(seed, pace)), ""
    try:
        world.run()
    except Broken as error:
        broken = str(error)
    return Result(seed, world.seen.counts, world.steps, world.now_ms, broken)


@dataclass(slots=True)
class Total:
    """Results of all seeds so far."""

    seeds: int = 0
    events: int = 0
    simulated_ms: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    broken: list[int] = field(default_factory=list)
    began_s: float = field(default_factory=time.monotonic)

    def add(self, result: Result) -> None:
        self.seeds += 1
        self.events += result.events
        self.simulated_ms += result.simulated_ms
        self.counts.update(result.counts)
        if result.broken:
            self.broken.append(result.seed)

    def line(self) -> str:
        """Return the line of progress."""
        took_s = max(time.monotonic() - self.began_s, 0.001)
        hours = self.simulated_ms / HOUR_MS
        return (
            f"{self.seeds:,} seeds, {self.events:,} events, {self.counts['rebalances']:,} rebalances, "
            f"{hours:,.0f} hours simulated ({hours / took_s * 60:,.0f} a minute), {took_s:,.0f} s, "
            f"{len(self.broken)} broken"
        )

    def summary(self) -> str:
        """Return all counts, the most important last."""
        lines = [f"{number:>12,}  {what}" for what, number in sorted(self.counts.items())]
        return "\n".join([*lines, self.line()])


def sweep(first: int, pace: Pace, *, seeds: int | None, events: int | None, workers: int, stops: bool) -> Total:
    """Run so many seeds, or as many as it takes for so many events. Failures are printed at once, and end the run if it
    `stops`."""
    total = Total()
    numbers: Iterator[int] = count(first) if seeds is None else iter(range(first, first + seeds))
    told_s = time.monotonic()
    with Pool(workers, maxtasksperchild=50) as pool:
        while batch := list(islice(numbers, 16 * workers)):
            for result in pool.imap_unordered(attempt, [(seed, pace) for seed in batch]):
                total.add(result)
                if result.broken:
                    _tell(result, pace)
            if time.monotonic() - told_s > PROGRESS_S:
                told_s = time.monotonic()
                print(f"{total.line()}; next seed {batch[-1] + 1}", file=sys.stderr, flush=True)
            if (events is not None and total.events >= events) or (stops and total.broken):
                break
    return total


def _tell(result: Result, pace: Pace) -> None:
    slow = " --slow" if pace.is_slow else ""
    print(
        f"BROKEN {result.broken}\n  replay: python -m tests.simulation --seed {result.seed}{slow} [--shrink]",
        file=sys.stderr,
        flush=True,
    )
