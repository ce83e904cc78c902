"""Timers re-armed a second: the purgatory and its wheel, a lazy heap, a sorted list.

The work of sessions: each timer runs out 10 s after it was last heard, and is heard every 3 s, so all are re-armed and
none runs out. Time is played through; what comes due is looked at each millisecond, or after some thirty re-armed.
"""

import gc
import heapq
import random
import time
from collections.abc import Callable, Sequence

from sortedcontainers import SortedList

from bench.report import Options, Sheet, Value, median
from purgatory.purgatory import DelayedOperation, DelayedOperationPurgatory
from purgatory.wheel import Entry, TimingWheel

OUTSTANDING = (1_000, 100_000, 1_000_000)
SESSION_MS = 10_000
INTERVAL_MS = 3_000
TOGETHER = 32
"""So many are heard, at least, before what comes due is looked at: a busy node's receives."""

Advance = Callable[[int, Sequence[int]], None]
"""At this millisecond these timers are heard."""


class Session(DelayedOperation[None]):
    __slots__ = ("deadline_ms", "key")

    def __init__(self, key: int, deadline_ms: int) -> None:
        self.key = key
        self.deadline_ms = deadline_ms

    def is_satisfied(self) -> bool:
        return False

    def completed(self) -> None:
        raise AssertionError("a session ran out")


class WheelEntry(Entry):
    __slots__ = ()


def purgatory(heard_ms: Sequence[int]) -> Advance:
    """Move deadlines as the service does it: the wheel notices a later deadline when it reaches the old one."""
    watched: DelayedOperationPurgatory[None] = DelayedOperationPurgatory(0)
    sessions = [Session(number, at + SESSION_MS) for number, at in enumerate(heard_ms)]
    for session in sessions:
        watched.try_complete_else_watch(session)

    def advance(now_ms: int, heard: Sequence[int]) -> None:
        deadline_ms = now_ms + SESSION_MS
        for number in heard:
            sessions[number].deadline_ms = deadline_ms
        assert watched.pop_overdue(now_ms) is None

    return advance


def wheel(heard_ms: Sequence[int]) -> Advance:
    """Each is taken out and filed anew: what the wheel alone can do."""
    filed = TimingWheel(0)
    entries = [WheelEntry() for _ in heard_ms]
    for entry, at in zip(entries, heard_ms, strict=True):
        filed.add(entry, at + SESSION_MS)

    def advance(now_ms: int, heard: Sequence[int]) -> None:
        add, deadline_ms = filed.add, now_ms + SESSION_MS
        for number in heard:
            add(entries[number], deadline_ms)
        filed.advance(now_ms)
        assert filed.pop_due() is None

    return advance


def lazy_heap(heard_ms: Sequence[int]) -> Advance:
    """Each is pushed again and the older entry left to be skipped: some three dead ones for each that lives."""
    deadlines = [at + SESSION_MS for at in heard_ms]
    heap = [
        (deadline_ms - age, number)
        for number, deadline_ms in enumerate(deadlines)
        for age in range(0, deadline_ms, INTERVAL_MS)
    ]
    heapq.heapify(heap)

    def advance(now_ms: int, heard: Sequence[int]) -> None:
        push, pop, deadline_ms = heapq.heappush, heapq.heappop, now_ms + SESSION_MS
        for number in heard:
            deadlines[number] = deadline_ms
            push(heap, (deadline_ms, number))
        while heap[0][0] <= now_ms:
            filed_ms, number = pop(heap)
            assert deadlines[number] > filed_ms

    return advance


def sorted_list(heard_ms: Sequence[int]) -> Advance:
    """Each is removed from a list kept in order, and added again."""
    deadlines = [at + SESSION_MS for at in heard_ms]
    order = SortedList([(deadline_ms, number) for number, deadline_ms in enumerate(deadlines)])

    def advance(now_ms: int, heard: Sequence[int]) -> None:
        deadline_ms = now_ms + SESSION_MS
        for number in heard:
            order.remove((deadlines[number], number))
            deadlines[number] = deadline_ms
            order.add((deadline_ms, number))
        assert order[0][0] > now_ms

    return advance


KINDS: dict[str, Callable[[Sequence[int]], Advance]] = {
    "purgatory, deadline moved": purgatory,
    "purgatory's wheel, filed anew": wheel,
    "heapq, lazy": lazy_heap,
    "sortedcontainers": sorted_list,
}


def measure(options: Options) -> list[Sheet]:
    rows: list[tuple[Value, ...]] = []
    for outstanding in OUTSTANDING[: 2 if options.quick else 3]:
        rates = {kind: _rate(make, outstanding, options) for kind, make in KINDS.items()}
        rows += [(kind, outstanding, rate, rate / rates["heapq, lazy"]) for kind, rate in rates.items()]
    return [
        Sheet(
            "Timers re-armed a second",
            ("kind", "outstanding", "re-armed a second", "/ heapq"),
            rows,
            (
                "In this process; sessions of 10 s heard every 3 s. What comes due is looked at each millisecond,",
                f"or as soon as {TOGETHER} have been re-armed. Seconds are of this process's processor time.",
            ),
        )
    ]


def _rate(make: Callable[[Sequence[int]], Advance], outstanding: int, options: Options) -> float:
    chance = random.Random(outstanding)
    heard_ms = [-chance.randrange(INTERVAL_MS) for _ in range(outstanding)]
    width_ms = max(1, TOGETHER * INTERVAL_MS // outstanding)
    turns: list[list[int]] = [[] for _ in range(INTERVAL_MS // width_ms)]
    for number, at in enumerate(heard_ms):
        turns[at // width_ms % len(turns)].append(number)
    advance = make(heard_ms)
    gc.collect()
    gc.freeze()  # what stands is not what is measured
    try:
        now_ms, rates = 0, []
        for _ in range(options.rounds):
            count, began = 0, time.process_time()
            while (took := time.process_time() - began) < options.seconds:
                now_ms += width_ms
                heard = turns[now_ms // width_ms % len(turns)]
                advance(now_ms, heard)
                count += len(heard)
            rates.append(count / took)
        return median(rates)
    finally:
        gc.unfreeze()
