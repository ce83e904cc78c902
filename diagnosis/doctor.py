"""All rules, in the order in which an operator should read their findings."""

from collections.abc import Callable, Iterator
from typing import Final

from diagnosis import consumption, loops, phases
from diagnosis.problem import Evidence, GroupProblem

Rule = Callable[[Evidence], Iterator[GroupProblem]]

RULES: Final[tuple[Rule, ...]] = (
    phases.held_up,
    phases.silent,
    loops.fights,
    loops.loops,
    loops.refused,
    consumption.stopped,
    consumption.stalled,
    consumption.rewound,
    consumption.out_of_range,
    consumption.unowned,
    consumption.expires,
    consumption.idle,
)


def diagnose(evidence: Evidence) -> list[GroupProblem]:
    """Return the open problems of a group."""
    return [problem for rule in RULES for problem in rule(evidence)]
