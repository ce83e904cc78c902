"""Shrinks a failing seed to the shortest list of decisions that still fails in the same way, and tells its story.

Delta debugging removes, from coarse to fine: decisions after the failure, kinds of faults, members, halves and quarters
of the rest, single decisions. Every try is a whole run; the remaining decisions happen exactly as before.
"""

import re
from collections.abc import Callable, Iterable
from typing import NamedTuple

from tests.simulation.errors import Broken
from tests.simulation.plan import Decision, Plan
from tests.simulation.world import World

Run = Callable[[Plan], str | None]
"""Function from a plan to its failure, or None."""
MOST_RUNS = 400


def what_breaks(plan: Plan) -> str | None:
    """Run the plan, and return the failure, if any."""
    try:
        World(plan.seed, plan).run()
    except Broken as broken:
        return str(broken)
    return None


def signature(sentence: str) -> str:
    """Return the words of a failure without seed, times, numbers and names: equal ones are the same failure."""
    words = re.sub(r"^seed .*?: ", "", sentence)
    return re.sub(r"[^a-z ]+", "", re.sub(r"\w*\d\w*|'[^']*'", "", words))[:60]


class Shrunk(NamedTuple):
    plan: Plan
    broken: str
    runs: int

    def story(self) -> str:
        """Return the decisions, the failure, and the command that repeats it."""
        numbers = ",".join(str(decision.number) for decision in self.plan.decisions)
        pace = " --slow" if self.plan.pace.is_slow else ""
        command = f"python -m tests.simulation --seed {self.plan.seed}{pace} --only {numbers}"
        return f"{self.plan.story()}\nthen: {self.broken}\nreplay: {command}"


def shrink(plan: Plan, run: Run = what_breaks, most_runs: int = MOST_RUNS) -> Shrunk | None:
    """Shrink the plan; return None if it does not fail."""
    broken = run(plan)
    if broken is None:
        return None
    return Shrinking(plan, broken, run, most_runs).run()


class Shrinking:
    """The shortest plan so far."""

    def __init__(self, plan: Plan, broken: str, run: Run, most_runs: int) -> None:
        self._plan, self._broken, self._run = plan, broken, run
        self._signature = signature(broken)
        self._left = most_runs
        self._runs = 1

    def run(self) -> Shrunk:
        self._drop_what_came_after()
        self._drop_by(lambda decision: decision.kind)
        self._drop_by(lambda decision: decision.who)
        self._drop_pieces()
        return Shrunk(self._plan, self._broken, self._runs)

    def _still_breaks(self, decisions: Iterable[Decision]) -> bool:
        """Return true if these decisions still fail; then they become the plan."""
        if self._left <= 0:
            return False
        self._left -= 1
        self._runs += 1
        plan = self._plan.with_decisions(decisions)
        broken = self._run(plan)
        if broken is None or signature(broken) != self._signature:
            return False
        self._plan, self._broken = plan, broken
        return True

    def _drop_what_came_after(self) -> None:
        found = re.search(r"^seed \d+, (\d+) ms", self._broken)
        if found is not None:
            at_ms = int(found[1])
            self._still_breaks(decision for decision in self._plan.decisions if decision.at_ms <= at_ms)

    def _drop_by(self, word: Callable[[Decision], str]) -> None:
        for dropped in dict.fromkeys(map(word, self._plan.decisions)):
            if dropped:
                self._still_breaks(decision for decision in self._plan.decisions if word(decision) != dropped)

    def _drop_pieces(self) -> None:
        size = len(self._plan.decisions) // 2
        while size:
            at = 0
            while at < len(self._plan.decisions):
                decisions = self._plan.decisions
                if not self._still_breaks((*decisions[:at], *decisions[at + size :])):
                    at += size
            size //= 2
