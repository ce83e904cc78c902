"""Counts by group since the process started, for metrics; groups without an event have none."""

from typing import Final

from coordinator.groups.classic.group_states import GroupState
from coordinator.records.records import Note

_TAKEOVER: Final = "static member replaced"
_BEHIND: Final = "Assigning"
"""State of a server-driven group whose rebalance has begun already: its next target includes the changes meanwhile."""
MOST_GROUPS: Final = 100_000
"""Largest number of groups counted; beyond it the group that was counted first is dropped."""


class Tally:
    """Counts of one group. `phase_ms`: time in each `GroupState`, as far as it has ended."""

    __slots__ = ("fenced_commits", "phase_ms", "rebalances", "refusals", "takeovers")

    def __init__(self) -> None:
        self.rebalances = self.takeovers = self.refusals = self.fenced_commits = 0
        self.phase_ms = [0] * len(GroupState)


class GroupTallies:
    """Counts by group id."""

    __slots__ = ("groups",)

    def __init__(self) -> None:
        self.groups: dict[str, Tally] = {}

    def of(self, group_id: str) -> Tally:
        """Return the counts of the group, to be changed."""
        tally = self.groups.get(group_id)
        if tally is None:
            if len(self.groups) >= MOST_GROUPS:
                del self.groups[next(iter(self.groups))]
            tally = self.groups[group_id] = Tally()
        return tally

    def noted(self, note: Note) -> bool:
        """Count the event of the note. Return true if the note begins a rebalance: each rebalance has exactly one such
        note; for a server-driven group it is the first that moves the group's epoch beyond that of its target."""
        begins = note.kind == "rebalance" or (note.kind == "epoch" and note.group_state != _BEHIND)
        if begins:
            self.of(note.group_id).rebalances += 1
        if note.cause == _TAKEOVER:
            self.of(note.group_id).takeovers += 1
        return begins

    def lasted(self, group_id: str, state: GroupState, ms: int) -> None:
        """Add the time for which the group was in the state."""
        self.of(group_id).phase_ms[state] += max(0, ms)
