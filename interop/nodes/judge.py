"""Judgement of what clerks said of their groups. Pure."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any


class Clerk:
    """A group that commits all the time, as its member tells of it."""

    def __init__(self, group: str) -> None:
        self.group = group
        self.acknowledged_s: list[float] = []
        """Times at which commits were acknowledged, by the wall clock."""
        self.faults: list[str] = []
        self.refused: Counter[str] = Counter()
        self.moves = 0
        """Number of times that it was given its partitions or lost them."""
        self._last = 0
        self._generation = -1

    def hear(self, event: Mapping[str, Any]) -> None:
        """Take a line of its program."""
        match event["event"]:
            case "ack":
                self.acknowledged_s.append(event["at"])
                self._last = event["number"]
                self._of_generation(event.get("generation", -1))
            case "read" if event["number"] < event["least"]:
                self._fault(f"{event['number']} was read, {event['least']} had been acknowledged")
            case "refused":
                self.refused[event["why"]] += 1
            case "moved":
                self.moves += 1

    def found(self, number: int) -> None:
        """Take what somebody else reads of the group in the end."""
        if number < self._last:
            self._fault(f"{number} is there in the end, {self._last} had been acknowledged")

    def _of_generation(self, generation: int) -> None:
        if 0 <= generation < self._generation:
            self._fault(f"generation {generation} follows {self._generation}")
        self._generation = max(generation, self._generation)

    def _fault(self, what: str) -> None:
        self.faults.append(f"group {self.group}: {what}")


def quantile(values: Sequence[float], share: float) -> float:
    """Return the smallest value that at least this share of them do not exceed; 0 of none."""
    return sorted(values)[max(math.ceil(share * len(values)), 1) - 1] if values else 0.0
