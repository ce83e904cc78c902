"""What a node does from time to time without being asked: each a delayed operation that is never satisfied, and
watched again."""

import msgspec

from coordinator.keys import ChoreKey
from purgatory.purgatory import DelayedOperation


class ChoreDue(msgspec.Struct, frozen=True, gc=False):
    """It is time for the chore again."""

    name: str


class Chore(DelayedOperation[ChoreDue]):
    """Due once, at its deadline."""

    __slots__ = ("deadline_ms", "key", "name")
    kind = "task"

    def __init__(self, name: str, deadline_ms: int) -> None:
        self.name = name
        self.key = ChoreKey(name)
        self.deadline_ms = deadline_ms

    def is_satisfied(self) -> bool:
        return False

    def completed(self) -> ChoreDue | None:
        return ChoreDue(self.name)
