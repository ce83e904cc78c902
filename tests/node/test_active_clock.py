"""The clock that leaves out stalls, and what a node makes of it."""

import pytest

from coordinator.active_clock import STALL_MS, ActiveClock


class Clock(ActiveClock):
    def __init__(self, now_ms: int = 1_000) -> None:
        self.stalls: list[int] = []
        super().__init__(now_ms, self.stalls.append)


def test_without_stalls_it_is_the_monotonic_clock() -> None:
    clock = Clock()
    readings = [(1_000, 1_500), (1_400, None), (1_500, 1_500), (9_000, 9_000), (9_000 + STALL_MS, 9_000)]
    assert [clock.read(now_ms, deadline_ms) for now_ms, deadline_ms in readings] == [now for now, _ in readings]
    assert clock.stalls == []


def test_a_wake_up_long_after_its_deadline_leaves_out_the_time_between_and_some_to_read_in() -> None:
    clock = Clock()
    assert clock.read(10_000, 2_000) == 2_000 - STALL_MS
    assert clock.stalls == [8_000 + STALL_MS]
    assert clock.lost_ms == 8_000 + STALL_MS


def test_a_stall_is_never_longer_than_the_time_since_the_clock_was_read() -> None:
    clock = Clock()
    assert clock.read(5_000, 1_000) == 1_000
    assert clock.read(9_000, -(2**62)) == 1_000, "a node that wanted a step at once was last seen at the last step"


def test_who_wanted_no_step_was_not_late() -> None:
    clock = Clock()
    assert clock.read(90_000, None) == 90_000


def test_deadlines_are_on_this_clock_so_one_stall_is_not_counted_twice() -> None:
    clock = Clock()
    clock.read(10_000, 2_000)
    assert clock.read(10_000 + STALL_MS, 2_000) == 2_000
    assert clock.read(11_000 + STALL_MS, 3_000) == 3_000
    assert len(clock.stalls) == 1


@pytest.mark.parametrize("stop_ms", range(1_000, 2_001, 50))
def test_wherever_a_stall_begins_a_session_that_was_alive_outlives_it(stop_ms: int) -> None:
    """Its deadline comes during the stall; the node is woken at least every second."""
    clock = Clock()
    awake_ms = range(1_000, stop_ms, 250)
    for at_ms in awake_ms:
        clock.read(at_ms, at_ms)
    session_ends_ms = next_wake_ms = (awake_ms[-1] if awake_ms else 1_000) + 250
    assert clock.read(stop_ms + 8_000, next_wake_ms) < session_ends_ms
