"""Differences on purpose: each a predicate with its reason (docs/kafka-differences.md)."""

from collections.abc import Callable
from typing import Any, NamedTuple

from interop.differential.answers import Unlike
from interop.differential.steps import Ask, Join


class Case(NamedTuple):
    """One difference and what was asked; leaders are those of the asked group, at Kafka and at musterd."""

    ask: Ask
    unlike: Unlike
    kafka: Any
    muster: Any
    is_superseded: bool = False
    leaders_before: tuple[str | None, str | None] = (None, None)
    leaders: tuple[str | None, str | None] = (None, None)


class Rule(NamedTuple):
    """`ends`: what follows cannot be compared, as the two groups are in different states from there on."""

    name: str
    reason: str
    holds: Callable[[Case], bool]
    ends: bool = False


def first_that_holds(case: Case) -> Rule | None:
    """None for a difference that nobody has explained."""
    return next((rule for rule in RULES if rule.holds(case)), None)


def _leader_chosen_anew(case: Case) -> bool:
    """Kafka did not simply keep the leader that both had."""
    if not isinstance(case.ask, Join) or case.unlike.path not in {"leader", "members"}:
        return False
    kafka, muster = case.leaders
    kept = case.leaders_before[0] == case.leaders_before[1] == kafka
    return kafka != muster and not kept


RULES: tuple[Rule, ...] = (
    Rule(
        "another leader is chosen",
        "Kafka takes any member from a hash table of their random ids, musterd the one that has been in the group longest",
        _leader_chosen_anew,
    ),
)
