"""Work in pieces: the amount of work between yields of a computation, and sorting that yields."""

from collections.abc import Callable, Generator, Iterable
from heapq import merge
from itertools import islice
from typing import Any, TypeVar

T = TypeVar("T")

PIECE_US = 1_000
"""Estimated work between two yields."""
CHUNK = 500
"""Items of a loop between two checks of the pace."""
_SORTED_US, _MERGED_US = 5.0, 2.0


class Pace:
    """Counts the estimated work of a computation in microseconds, and reports when a piece is done."""

    __slots__ = ("_done_us",)

    def __init__(self) -> None:
        self._done_us = 0.0

    def add(self, microseconds: float) -> bool:
        """Add work; true if it is time to yield `take()`."""
        self._done_us += microseconds
        return self._done_us >= PIECE_US

    def take(self) -> int:
        """Return the work since the last yield."""
        done_us, self._done_us = int(self._done_us), 0.0
        return done_us


def chunks(items: Iterable[T]) -> Iterable[list[T]]:
    """Cut into lists of `CHUNK` items."""
    left = iter(items)
    while chunk := list(islice(left, CHUNK)):
        yield chunk


def sort(items: Iterable[T], key: Callable[[T], Any], pace: Pace) -> Generator[int, object, list[T]]:
    """Sort by the key; items with equal keys keep their order. Sorted chunks are merged if there are many items."""
    runs: list[list[tuple[Any, int, T]]] = []
    count = 0
    for chunk in chunks(items):
        runs.append(sorted([(key(item), place, item) for place, item in enumerate(chunk, count)], key=_key_and_place))
        count += len(chunk)
        if pace.add(_SORTED_US * len(chunk)):
            yield pace.take()
    if len(runs) <= 1:
        return [item for run in runs for _, _, item in run]
    ordered: list[T] = []
    for merged in chunks(merge(*map(_drain, runs), key=_key_and_place)):
        ordered += [item for _, _, item in merged]
        if pace.add(_MERGED_US * len(merged)):
            yield pace.take()
    return ordered


def _drain(run: list[T]) -> Generator[T, None, None]:
    """Yield the items and free each one, since freeing all at the end would take as long as many steps."""
    run.reverse()
    while run:
        yield run.pop()


def _key_and_place(entry: tuple[Any, int, Any]) -> tuple[Any, int]:
    return entry[:2]
