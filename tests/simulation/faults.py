"""Counts of a run's events, to be printed and added up."""

from collections import Counter
from dataclasses import dataclass, field


@dataclass(slots=True)
class Seen:
    """Counts of events. Their names are the marks of `marks.py`, and some that are only interesting."""

    counts: Counter[str] = field(default_factory=Counter)

    def add(self, what: str, by: int = 1) -> None:
        self.counts[what] += by
