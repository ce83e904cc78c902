import gc
import weakref

import pytest

from purgatory.wheel import Entry, TimingWheel


class Alarm(Entry):
    __slots__ = ("__weakref__", "name")

    def __init__(self, name: str = "") -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"Alarm({self.name})"


def pop_all(wheel: TimingWheel) -> list[Entry]:
    popped = []
    while (entry := wheel.pop_due()) is not None:
        popped.append(entry)
    return popped


def drive(wheel: TimingWheel) -> list[tuple[int, Entry]]:
    """Everything that comes when the wheel is advanced to exactly what it asks for, and when."""
    came: list[tuple[int, Entry]] = []
    while (now_ms := wheel.next_deadline_ms) is not None:
        wheel.advance(now_ms)
        popped = pop_all(wheel)
        came += [(now_ms, entry) for entry in popped]
        following = wheel.next_deadline_ms
        assert popped or following is None or following > now_ms, "the wheel asked for a time that led nowhere"
    return came


def test_an_entry_comes_at_its_deadline_and_not_a_millisecond_before() -> None:
    wheel, alarm = TimingWheel(1_000), Alarm()
    wheel.add(alarm, 11_000)
    wheel.advance(10_999)
    assert wheel.pop_due() is None
    wheel.advance(11_000)
    assert wheel.pop_due() is alarm
    assert wheel.pop_due() is None
    assert len(wheel) == 0
    assert wheel.next_deadline_ms is None


@pytest.mark.parametrize("start_ms", [0, 1, 19, 20, 399, -1, -20, -8_001, 2**62])
@pytest.mark.parametrize("border", [1, 19, 20, 21, 399, 400, 401, 7_999, 8_000, 8_001, 160_000, 3_200_000])
def test_a_deadline_at_the_border_of_a_bucket_or_a_level_is_met_exactly(start_ms: int, border: int) -> None:
    wheel, before, at, after = TimingWheel(start_ms), Alarm("before"), Alarm("at"), Alarm("after")
    deadline_ms = start_ms + 1 + border
    wheel.add(after, deadline_ms + 1)
    wheel.add(at, deadline_ms)
    wheel.add(before, deadline_ms - 1)
    assert drive(wheel) == [(deadline_ms - 1, before), (deadline_ms, at), (deadline_ms + 1, after)]


def test_a_gap_of_years_brings_everything_in_order_at_once() -> None:
    wheel = TimingWheel(0)
    alarms = [Alarm(str(i)) for i in range(40)]
    deadlines = [(i * 7_919_777_777) % 1_000_000_007 for i in range(40)]
    for alarm, deadline_ms in zip(alarms, deadlines, strict=True):
        wheel.add(alarm, deadline_ms)
    wheel.advance(10**12)
    by_deadline = sorted(zip(deadlines, alarms, strict=True), key=lambda pair: pair[0])
    assert pop_all(wheel) == [alarm for _, alarm in by_deadline]


def test_a_gap_leaves_what_lies_beyond_it_for_its_own_time() -> None:
    wheel, far, farther = TimingWheel(5), Alarm("far"), Alarm("farther")
    wheel.add(farther, 3_200_017)
    wheel.add(far, 3_200_013)
    wheel.advance(3_200_012)
    assert wheel.pop_due() is None
    assert drive(wheel) == [(3_200_013, far), (3_200_017, farther)]


def test_equal_deadlines_come_in_the_order_added_whichever_levels_they_took() -> None:
    wheel, early, late, last = TimingWheel(0), Alarm("added far ahead"), Alarm("added near"), Alarm("added at the end")
    wheel.add(early, 8_005)
    wheel.advance(7_999)
    wheel.add(late, 8_005)
    wheel.advance(8_004)
    wheel.add(last, 8_005)
    wheel.advance(8_005)
    assert pop_all(wheel) == [early, late, last]


def test_adding_a_waiting_entry_moves_it_to_the_end_of_its_new_deadline() -> None:
    wheel, moved, other = TimingWheel(0), Alarm("moved"), Alarm("other")
    wheel.add(moved, 10)
    wheel.add(other, 50)
    wheel.add(moved, 50)
    assert len(wheel) == 2
    assert drive(wheel) == [(50, other), (50, moved)]


def test_a_passed_deadline_is_due_at_the_next_advance_even_if_the_clock_stands_still() -> None:
    wheel, alarm, now = TimingWheel(100), Alarm("passed"), Alarm("now")
    wheel.add(now, 100)
    wheel.add(alarm, 30)
    assert wheel.pop_due() is None
    assert wheel.next_deadline_ms == 30
    wheel.advance(100)
    assert pop_all(wheel) == [alarm, now]


def test_passed_deadlines_come_before_later_ones_that_are_due_already() -> None:
    wheel, due, passed = TimingWheel(0), Alarm("due"), Alarm("passed")
    wheel.add(due, 10)
    wheel.advance(20)
    wheel.add(passed, 5)
    wheel.advance(20)
    assert pop_all(wheel) == [passed, due]


def test_a_clock_that_goes_back_is_taken_as_standing_still() -> None:
    wheel, alarm = TimingWheel(0), Alarm()
    wheel.advance(1_000)
    wheel.add(alarm, 1_001)
    wheel.advance(10)
    assert wheel.pop_due() is None
    assert wheel.next_deadline_ms == 1_001
    wheel.advance(1_001)
    assert wheel.pop_due() is alarm


def test_cancelling_tells_whether_it_was_waiting() -> None:
    wheel, alarm = TimingWheel(0), Alarm()
    assert not wheel.cancel(alarm)
    wheel.add(alarm, 10)
    assert wheel.cancel(alarm)
    assert not wheel.cancel(alarm)
    assert wheel.next_deadline_ms is None
    wheel.advance(10)
    assert wheel.pop_due() is None


def test_an_entry_cancelled_or_moved_after_it_became_due_does_not_come_out() -> None:
    wheel = TimingWheel(0)
    first, cancelled, moved, last = (Alarm(name) for name in ("first", "cancelled", "moved", "last"))
    for alarm in (first, cancelled, moved, last):
        wheel.add(alarm, 10)
    wheel.advance(15)
    assert wheel.pop_due() is first
    assert wheel.cancel(cancelled)
    wheel.add(moved, 20)
    assert pop_all(wheel) == [last]
    assert drive(wheel) == [(20, moved)]


def test_an_entry_added_again_while_popping_waits_for_the_next_advance() -> None:
    wheel, chore = TimingWheel(0), Alarm("chore")
    wheel.add(chore, 10)
    wheel.advance(10)
    assert wheel.pop_due() is chore
    wheel.add(chore, 10)
    assert wheel.pop_due() is None
    wheel.advance(10)
    assert wheel.pop_due() is chore


def test_a_far_deadline_makes_the_levels_it_takes_and_is_still_met_exactly() -> None:
    wheel, alarm = TimingWheel(-7), Alarm()
    wheel.add(alarm, 2**62)
    assert drive(wheel) == [(2**62, alarm)]


def test_wider_ticks_are_late_by_less_than_a_tick_and_keep_the_order() -> None:
    wheel, second, first = TimingWheel(0, tick_ms=10, wheel_size=4), Alarm("second"), Alarm("first")
    wheel.add(second, 18)
    wheel.add(first, 13)
    assert wheel.next_deadline_ms == 20
    wheel.advance(19)
    assert wheel.pop_due() is None
    assert drive(wheel) == [(20, first), (20, second)]


@pytest.mark.parametrize(("tick_ms", "wheel_size"), [(0, 20), (-1, 20), (1, 1)])
def test_a_wheel_that_could_not_turn_is_refused(tick_ms: int, wheel_size: int) -> None:
    with pytest.raises(ValueError, match="tick_ms must be at least 1 and wheel_size at least 2"):
        TimingWheel(0, tick_ms=tick_ms, wheel_size=wheel_size)


def test_what_has_come_or_was_cancelled_is_freed_without_the_garbage_collector() -> None:
    wheel, popped, cancelled, stays = TimingWheel(0), Alarm(), Alarm(), Alarm()
    for alarm in (stays, popped, cancelled):
        wheel.add(alarm, 10)
    wheel.add(stays, 20)
    wheel.advance(10)
    assert wheel.pop_due() is popped
    assert wheel.cancel(cancelled)
    held = [weakref.ref(popped), weakref.ref(cancelled)]
    gc.disable()
    try:
        del popped, cancelled, alarm
        assert [ref() for ref in held] == [None, None]
    finally:
        gc.enable()


def test_moving_an_entry_many_times_leaves_nothing_behind() -> None:
    wheel, alarm = TimingWheel(0), Alarm()
    for now_ms in range(20_000):
        wheel.advance(now_ms)
        wheel.add(alarm, now_ms + 10_000)
    filled = [bucket for level in wheel._levels for bucket in level.buckets if not bucket.is_empty]
    assert len(filled) == len(wheel) == 1
    assert sum(level.filled.bit_count() for level in wheel._levels) == 1
    assert not wheel._due
    assert not wheel._due_order
