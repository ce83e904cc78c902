from dataclasses import dataclass

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from purgatory.wheel import Entry, TimingWheel
from tests.enumerations import share_of

# Near, at the borders of buckets and levels, far, and passed.
DISTANCES_MS = st.one_of(
    st.integers(-50, 50),
    st.sampled_from([border + off for border in (20, 400, 8_000, 160_000) for off in (-1, 0, 1)]),
    st.integers(-10_000, 10_000_000),
)
GAPS_MS = st.one_of(st.integers(0, 30), st.integers(0, 10_000), st.integers(0, 20_000_000))


class Alarm(Entry):
    __slots__ = ()


@dataclass
class Waiting:
    deadline_ms: int
    added: int
    poppable: bool = False


class WheelAgainstASortedList(RuleBasedStateMachine):
    @initialize(
        start_ms=st.one_of(st.integers(-500, 500), st.integers(-(2**40), 2**40)),
        tick_ms=st.sampled_from([1, 1, 1, 7]),
        wheel_size=st.sampled_from([20, 20, 2, 3]),
    )
    def begin(self, start_ms: int, tick_ms: int, wheel_size: int) -> None:
        self.wheel = TimingWheel(start_ms, tick_ms, wheel_size)
        self.tick_ms = tick_ms
        self.now_ms = self.start_ms = start_ms
        self.waiting: dict[Alarm, Waiting] = {}
        self.gone: list[Alarm] = []
        self.added = 0

    def rounded_up(self, deadline_ms: int) -> int:
        ticks = -((self.start_ms - deadline_ms) // self.tick_ms)
        return self.start_ms + ticks * self.tick_ms

    def add_at(self, alarm: Alarm, deadline_ms: int) -> None:
        self.added += 1
        self.wheel.add(alarm, deadline_ms)
        self.waiting[alarm] = Waiting(deadline_ms, self.added)

    def advance_to(self, now_ms: int) -> None:
        self.wheel.advance(now_ms)
        self.now_ms = max(self.now_ms, now_ms)
        for waiting in self.waiting.values():
            if self.rounded_up(waiting.deadline_ms) <= self.now_ms:
                waiting.poppable = True

    def pop_and_compare(self) -> bool:
        poppable = [
            (waiting.deadline_ms, waiting.added, alarm) for alarm, waiting in self.waiting.items() if waiting.poppable
        ]
        expected = min(poppable, key=lambda each: each[:2])[2] if poppable else None
        assert self.wheel.pop_due() is expected
        if expected is None:
            return False
        assert self.waiting.pop(expected).deadline_ms <= self.now_ms
        self.gone.append(expected)
        return True

    @rule(distance_ms=DISTANCES_MS)
    def add(self, distance_ms: int) -> None:
        self.add_at(Alarm(), self.now_ms + distance_ms)

    @rule(data=st.data())
    def add_some_with_equal_deadlines(self, data: st.DataObject) -> None:
        if self.waiting:
            alike = data.draw(st.sampled_from([waiting.deadline_ms for waiting in self.waiting.values()]))
            self.add_at(Alarm(), alike)

    @precondition(lambda self: self.waiting)
    @rule(data=st.data(), distance_ms=DISTANCES_MS)
    def move(self, data: st.DataObject, distance_ms: int) -> None:
        self.add_at(data.draw(st.sampled_from(list(self.waiting))), self.now_ms + distance_ms)

    @precondition(lambda self: self.gone)
    @rule(data=st.data(), distance_ms=DISTANCES_MS)
    def add_again_what_had_gone(self, data: st.DataObject, distance_ms: int) -> None:
        alarm = data.draw(st.sampled_from(self.gone))
        self.gone.remove(alarm)
        self.add_at(alarm, self.now_ms + distance_ms)

    @precondition(lambda self: self.waiting)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        alarm = data.draw(st.sampled_from(list(self.waiting)))
        assert self.wheel.cancel(alarm)
        del self.waiting[alarm]
        self.gone.append(alarm)

    @precondition(lambda self: self.gone)
    @rule(data=st.data())
    def cancel_what_had_gone(self, data: st.DataObject) -> None:
        assert not self.wheel.cancel(data.draw(st.sampled_from(self.gone)))

    @rule(gap_ms=GAPS_MS)
    def advance(self, gap_ms: int) -> None:
        self.advance_to(self.now_ms + gap_ms)

    @rule(back_ms=st.integers(0, 1_000))
    def clock_goes_back(self, back_ms: int) -> None:
        self.advance_to(self.now_ms - back_ms)

    @rule()
    def pop(self) -> None:
        self.pop_and_compare()

    @rule(turns=st.integers(1, 12))
    def advance_to_what_it_asks_for_and_pop_all(self, turns: int) -> None:
        for _ in range(turns):
            asked_ms = self.wheel.next_deadline_ms
            if asked_ms is None:
                assert not self.waiting
                return
            self.advance_to(asked_ms)
            got_some = False
            while self.pop_and_compare():
                got_some = True
            following_ms = self.wheel.next_deadline_ms
            assert got_some or (following_ms is not None and following_ms > asked_ms)

    @invariant()
    def counts_what_waits(self) -> None:
        assert len(self.wheel) == len(self.waiting)

    @invariant()
    def asks_for_no_time_later_than_the_first_deadline(self) -> None:
        asked_ms = self.wheel.next_deadline_ms
        if not self.waiting:
            assert asked_ms is None
        else:
            assert asked_ms is not None
            assert asked_ms <= min(self.rounded_up(waiting.deadline_ms) for waiting in self.waiting.values())

    @invariant()
    def masks_show_exactly_the_buckets_that_are_not_empty(self) -> None:
        for level in self.wheel._levels:
            not_empty = sum(1 << i for i, bucket in enumerate(level.buckets) if not bucket.is_empty)
            assert level.filled == not_empty


TestWheelAgainstASortedList = WheelAgainstASortedList.TestCase
TestWheelAgainstASortedList.settings = settings(deadline=None, max_examples=share_of(200), stateful_step_count=60)
