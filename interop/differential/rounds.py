"""Many histories at once over one pair of servers, and of each kind of difference the shortest that shows it."""

import asyncio
import itertools
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple

from interop.differential.allowed import RULES, Rule
from interop.differential.comparing import Seen
from interop.differential.exchanges import Server
from interop.differential.player import Outcome, play
from interop.differential.shrinking import shrunk
from interop.differential.steps import History
from interop.differential.views import TICK_MS

_TRIES = 8
_TRIED = 3
"""Histories of which one is shrunk: the first that shows its difference again."""
_TELLS_EVERY = 100
_CHANCES = 2
"""A difference that depends on an id's hash does not show each time."""
_PHASES = 17
"""Runs begin at so many points of a tick: else all would ask at once."""


class Example(NamedTuple):
    """A history that shows a kind of difference, and the lines of its run."""

    seen: Seen
    history: History
    lines: tuple[str, ...]


class Result(NamedTuple):
    """`counts`: in how many histories each kind was seen. `unstable`: differences that did not come again."""

    histories: int
    asked: Mapping[str, int]
    counts: Mapping[str, int]
    examples: dict[str, Example]
    whole: int
    late: list[int]
    unstable: list[str]

    @property
    def unexplained(self) -> list[Example]:
        return [example for example in self.examples.values() if example.seen.rule is None]


class Rounds:
    """Runs histories against these servers, `at_once` of them."""

    def __init__(
        self, servers: tuple[Server, Server], at_once: int, prefix: str, rules: tuple[Rule, ...] = RULES
    ) -> None:
        self._servers = servers
        self._rules = rules
        self._gate = asyncio.Semaphore(at_once)
        self._prefix = prefix
        self._runs = itertools.count()
        self._done = 0

    async def run(self, history: History) -> Outcome:
        """Again while it is late, a few times."""
        outcome = Outcome({}, (), is_late=True)
        for _ in range(_TRIES):
            async with self._gate:
                number = next(self._runs)
                await asyncio.sleep(number % _PHASES / _PHASES * TICK_MS / 1_000)
                outcome = await play(history, self._servers, f"{self._prefix}{number}-", self._rules)
            if not outcome.is_late:
                break
        return outcome

    async def _first(self, history: History) -> Outcome:
        outcome = await self.run(history)
        self._done += 1
        if self._done % _TELLS_EVERY == 0:
            print(f"{self._done} histories", file=sys.stderr, flush=True)
        return outcome

    async def all(self, histories: Iterable[History], *, shrinks: bool = True) -> Result:
        """Each once; then, of each kind of difference, the one that shows it first is shrunk, or put again as it is."""
        drawn = list(histories)
        outcomes = await asyncio.gather(*[self._first(history) for history in drawn])
        counts: Counter[str] = Counter()
        shown: dict[str, list[tuple[int, History]]] = {}
        asked: Counter[str] = Counter()
        for history, outcome in zip(drawn, outcomes, strict=True):
            asked.update(outcome.asked)
            first = {one.kind: one.step for one in reversed(_told(outcome))}
            for kind, at in first.items():
                counts[kind] += 1
                shown.setdefault(kind, []).append((at, history))
        for kind, places in shown.items():
            print(f"seen {counts[kind]} times, e.g. with seed {places[0][1].seed}: {kind}", file=sys.stderr, flush=True)
        found = await asyncio.gather(*[self._example(kind, places, shrinks=shrinks) for kind, places in shown.items()])
        examples = dict(zip(shown, found, strict=True))
        return Result(
            histories=len(drawn),
            asked=asked,
            counts=counts,
            examples={kind: example for kind, example in examples.items() if example is not None},
            whole=sum(outcome.ended is None and not outcome.is_late for outcome in outcomes),
            late=[history.seed for history, outcome in zip(drawn, outcomes, strict=True) if outcome.is_late],
            unstable=[
                f"{kind} (seed {shown[kind][0][1].seed})" for kind, example in examples.items() if example is None
            ],
        )

    async def _example(self, kind: str, places: list[tuple[int, History]], *, shrinks: bool) -> Example | None:
        """The histories that show it, each with the step at which it does: the earliest are shrunk."""

        async def shows(history: History) -> int | None:
            outcomes = await asyncio.gather(*[self.run(history) for _ in range(_CHANCES)])
            told = [one for outcome in outcomes for one in _told(outcome)]
            return min([one.step for one in told if one.kind == kind], default=None)

        for at, history in sorted(places, key=lambda place: place[0])[:_TRIED]:
            shortest = await shrunk(history, shows) if shrinks else replace(history, steps=history.steps[: at + 1])
            if shortest is None:
                continue
            for outcome in await asyncio.gather(*[self.run(shortest) for _ in range(_TRIES)]):
                seen = next((one for one in _told(outcome) if one.kind == kind), None)
                if seen is not None:
                    return Example(seen, shortest, outcome.lines)
        return None


def _told(outcome: Outcome) -> list[Seen]:
    """The differences of a run: of an exchange that nothing explains, the first alone."""
    unexplained = outcome.unexplained
    return [one for one in outcome.seen if one.rule is not None] + ([unexplained] if unexplained is not None else [])
