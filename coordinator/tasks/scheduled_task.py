"""Scheduled tasks of a node: each is a delayed operation that only expires, and is then scheduled again."""

import msgspec

from coordinator.keys import TaskKey
from purgatory.purgatory import DelayedOperation


class TaskDue(msgspec.Struct, frozen=True, gc=False):
    """The task's next slice is due."""

    name: str


class ScheduledTask(DelayedOperation[TaskDue]):
    """A delayed operation that only expires, at its deadline."""

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
