"""What a node does from time to time without being asked: each a delayed operation that is never satisfied, and
watched again."""

import msgspec

from coordinator.keys import TaskKey
from purgatory.purgatory import DelayedOperation


class TaskDue(msgspec.Struct, frozen=True, gc=False):
    """It is time for the chore again."""

    name: str


class ScheduledTask(DelayedOperation[TaskDue]):
    """Due once, at its deadline."""

    __slots__ = ("deadline_ms", "key", "name")
    kind = "task"

    def __init__(self, name: str, deadline_ms: int) -> None:
        self.name = name
        self.key = TaskKey(name)
        self.deadline_ms = deadline_ms

    def is_satisfied(self) -> bool:
        return False

    def completed(self) -> TaskDue | None:
        return TaskDue(self.name)
