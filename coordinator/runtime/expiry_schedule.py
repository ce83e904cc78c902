"""Groups or logs sorted by the earliest time at which one of their entries may expire. A pass visits the ones due.

The time of a group is a lower bound. A visit finds the exact one; anything that may bring it forward (another state,
another subscription, the end of a transaction) makes the group due at the next pass.
"""

from sortedcontainers import SortedList

NEXT_PASS_MS = -(2**63)
"""Time of entries that are due at the next pass: before all others, whatever the wall clock shows."""


class ExpirySchedule:
    """A group without a time never expires in its present state."""

    __slots__ = ("_changed", "_due_ms", "_sorted")

    def __init__(self) -> None:
        self._changed: dict[str, None] = {}  # due at the next pass
        self._due_ms: dict[str, int] = {}
        self._sorted: SortedList[tuple[int, str]] = SortedList()

    def get(self, group_id: str) -> int | None:
        """Return the wall time from which on the group is due; None: never in its present state."""
        return NEXT_PASS_MS if group_id in self._changed else self._due_ms.get(group_id)

    def note_change(self, group_id: str) -> None:
        """Make the group due at the next pass."""
        if group_id not in self._changed:
            self.remove(group_id)
            self._changed[group_id] = None

    def bring_forward(self, group_id: str, due_ms: int) -> None:
        """Make the group due at that wall time, unless it is due earlier."""
        if group_id in self._changed:
            return
        known = self._due_ms.get(group_id)
        if known is None or due_ms < known:
            self.remove(group_id)
            self._due_ms[group_id] = due_ms
            self._sorted.add((due_ms, group_id))

    def remove(self, group_id: str) -> None:
        """Remove the group: it is deleted, or is being visited."""
        self._changed.pop(group_id, None)
        known = self._due_ms.pop(group_id, None)
        if known is not None:
            self._sorted.remove((known, group_id))

    def due(self, wall_ms: int) -> list[str]:
        """Return the groups that are due, in time proportional to their number."""
        past = self._sorted.irange(maximum=(wall_ms + 1, ""), inclusive=(True, False))
        return [*self._changed, *(group_id for _due_ms, group_id in past)]
