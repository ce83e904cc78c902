"""An operation a test can steer: `holds` is its condition, `ended` counts the calls that ask for its result."""

from collections.abc import Hashable

from purgatory.purgatory import DelayedOperation


class Steered(DelayedOperation[str]):
    __slots__ = ("deadline_ms", "ended", "holds", "key", "name", "turns_into", "turns_into_overdue")

    def __init__(self, key: Hashable, deadline_ms: int, *, name: str | None = None, holds: bool = False) -> None:
        self.key = key
        self.deadline_ms = deadline_ms
        self.holds = holds
        self.ended = 0
        self.name = str(key) if name is None else name
        self.turns_into: str | None = f"{self.name} completed"
        self.turns_into_overdue: str | None = f"{self.name} overdue"

    @property
    def kind(self) -> str:  # type: ignore[override]
        return f"kind of {self.name[:1]}"

    def is_satisfied(self) -> bool:
        return self.holds

    def completed(self) -> str | None:
        self.ended += 1
        return self.turns_into

    def overdue(self) -> str | None:
        return self.turns_into_overdue

    def __repr__(self) -> str:
        return f"Steered({self.name} at {self.deadline_ms})"
