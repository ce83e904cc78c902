"""Notes of groups of every kind."""

from coordinator.clock import Moment
from coordinator.groups.classic.group_states import GroupSettings, GroupState
from coordinator.groups.classic.notes import Cause
from coordinator.groups.classic.state import ClassicGroup
from coordinator.groups.notes import append_note
from coordinator.groups.outcome import Outcome
from coordinator.records.records import Note
from tests.groups.checks import CountingIds


def test_a_note_has_the_state_that_the_group_is_in_and_the_wall_time_of_the_event() -> None:
    group = ClassicGroup("g", GroupSettings(), state=GroupState.STABLE, generation_id=3)
    out = Outcome(Moment(1_000, 1_700_000_000_000), CountingIds())

    append_note(group, out, "rebalance", Cause.MEMBER_LEFT, "m", "shutting down", 4, 2, idle_ms=7)

    expected = Note("g", "rebalance", "member left", "m", "shutting down", 4, 2, "Stable", 1_700_000_000_000, idle_ms=7)
    assert out.notes == [expected]
