from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from purgatory.purgatory import DelayedOperationPurgatory
from tests.enumerations import share_of
from tests.purgatory.operations import Steered

KEYS = st.sampled_from(["a", "b", "c", "d", "e", "f"])
NOTIFIED_BY = st.lists(st.sampled_from(["a", "b", "t-0", "t-1"]), max_size=3)  # some are operations' own keys
DISTANCES_MS = st.one_of(st.integers(-5, 45), st.sampled_from([399, 400, 401, 7_999, 8_000]), st.integers(0, 1_000_000))
GAPS_MS = st.one_of(st.integers(0, 30), st.integers(0, 1_000_000))


@dataclass
class Watched:
    op: Steered
    notified_by: list[str]
    number: int
    was_moved: bool = False


class PurgatoryAgainstASortedList(RuleBasedStateMachine):
    @initialize(start_ms=st.integers(-1_000, 10**9))
    def begin(self, start_ms: int) -> None:
        self.purgatory: DelayedOperationPurgatory[str] = DelayedOperationPurgatory(start_ms)
        self.now_ms = start_ms
        self.watched: dict[str, Watched] = {}
        self.made = 0
        self.endings: dict[Steered, int] = {}  # how often each should have ended

    def watch(self, op: Steered, notified_by: list[str]) -> None:
        events = self.purgatory.try_complete_else_watch(op, notified_by)
        self.watched.pop(str(op.key), None)
        if op.holds:
            assert events == [f"{op.name} completed"]
            self.endings[op] += 1
        else:
            assert events == []
            self.made += 1
            self.watched[str(op.key)] = Watched(op, notified_by, self.made)

    def end(self, watched: Iterable[Watched]) -> list[str]:
        ended = list(watched)
        for each in ended:
            del self.watched[str(each.op.key)]
            self.endings[each.op] += 1
        return [f"{each.op.name} completed" for each in ended]

    def pop_and_compare(self) -> bool:
        popped = self.purgatory.pop_overdue(self.now_ms)
        overdue = [each for each in self.watched.values() if each.op.deadline_ms <= self.now_ms]
        if popped is None:
            assert not overdue
            return False
        first = [each for each in overdue if each.op.deadline_ms == min(each.op.deadline_ms for each in overdue)]
        if not any(each.was_moved for each in first):
            first = [min(first, key=lambda each: each.number)]
        [got] = [each for each in first if popped[0] == f"{each.op.name} completed"]
        assert popped[1:] == ([] if got.op.holds else [f"{got.op.name} overdue"])
        self.end([got])
        return True

    @rule(key=KEYS, distance_ms=DISTANCES_MS, notified_by=NOTIFIED_BY, holds=st.integers(0, 9).map(lambda n: n == 0))
    def watch_a_new_one(self, key: str, distance_ms: int, notified_by: list[str], holds: bool) -> None:
        op = Steered(key, self.now_ms + distance_ms, name=f"{key}{len(self.endings)}", holds=holds)
        self.endings[op] = 0
        self.watch(op, notified_by)

    @rule(key=KEYS, distance_ms=DISTANCES_MS, notified_by=NOTIFIED_BY)
    def watch_the_same_anew_at_another_time(self, key: str, distance_ms: int, notified_by: list[str]) -> None:
        if key in self.watched:
            op = self.watched[key].op
            op.deadline_ms = self.now_ms + distance_ms
            self.watch(op, notified_by)

    @precondition(lambda self: self.endings)
    @rule(data=st.data(), distance_ms=DISTANCES_MS)
    def watch_one_that_ended_or_was_superseded(self, data: st.DataObject, distance_ms: int) -> None:
        waiting = [each.op for each in self.watched.values()]
        gone = [op for op in self.endings if op not in waiting]
        if gone:
            op = data.draw(st.sampled_from(gone))
            op.deadline_ms, op.holds = self.now_ms + distance_ms, False
            self.watch(op, [])

    @rule(key=KEYS, later_ms=DISTANCES_MS.map(abs))
    def move_a_deadline_later(self, key: str, later_ms: int) -> None:
        if key in self.watched:
            self.watched[key].op.deadline_ms += later_ms
            self.watched[key].was_moved = True

    @rule(key=KEYS, holds=st.booleans())
    def change_what_holds(self, key: str, holds: bool) -> None:
        if key in self.watched:
            self.watched[key].op.holds = holds

    @rule(key=st.sampled_from(["a", "b", "c", "d", "e", "f", "t-0", "t-1", "nobody"]))
    def check(self, key: str) -> None:
        events = self.purgatory.check_and_complete(key)
        asked = sorted(self.watched.values(), key=lambda each: each.number)
        satisfied = [each for each in asked if each.op.holds and (each.op.key == key or key in each.notified_by)]
        assert events == self.end(satisfied)

    @rule(key=KEYS)
    def cancel(self, key: str) -> None:
        watched = self.watched.pop(key, None)
        assert self.purgatory.cancel(key) is (None if watched is None else watched.op)

    @rule(gap_ms=GAPS_MS, most=st.integers(0, 4))
    def time_passes_and_some_overdue_are_popped(self, gap_ms: int, most: int) -> None:
        self.now_ms += gap_ms
        for _ in range(most):
            self.pop_and_compare()

    @rule()
    def drive_until_something_ends(self) -> None:
        before = len(self.watched)
        while self.watched and len(self.watched) == before:
            asked_ms = self.purgatory.next_deadline_ms
            assert asked_ms is not None
            first_ms = min(each.op.deadline_ms for each in self.watched.values())
            assert asked_ms <= first_ms
            self.now_ms = max(self.now_ms, asked_ms)
            popped = self.pop_and_compare()
            following_ms = self.purgatory.next_deadline_ms
            assert popped or (following_ms is not None and following_ms > asked_ms)

    @invariant()
    def watches_what_it_should(self) -> None:
        assert len(self.purgatory) == len(self.watched)
        for key, watched in self.watched.items():
            assert key in self.purgatory
            assert self.purgatory.get(key) is watched.op
        assert len(self.purgatory._wheel) == len(self.watched)
        kinds = Counter(watched.op.kind for watched in self.watched.values())
        assert {kind: count for kind, count in self.purgatory.by_kind.items() if count} == kinds

    @invariant()
    def each_ended_exactly_as_often_as_it_was_watched_to_its_end(self) -> None:
        assert {op: op.ended for op in self.endings} == self.endings

    @invariant()
    def keeps_no_key_of_what_ended(self) -> None:
        keys = set(self.watched) | {
            key_of_notice for watched in self.watched.values() for key_of_notice in watched.notified_by
        }
        assert set(self.purgatory._listening) <= keys


TestPurgatoryAgainstASortedList = PurgatoryAgainstASortedList.TestCase
TestPurgatoryAgainstASortedList.settings = settings(deadline=None, max_examples=share_of(200), stateful_step_count=60)
