"""Runs work that yields between its pieces."""

from collections.abc import Generator
from typing import TypeVar

T = TypeVar("T")


def finish(work: Generator[int, object, T]) -> T:
    """Run to the end, and return the result."""
    return pieces_of(work)[1]


def pieces_of(work: Generator[int, object, T]) -> tuple[list[int], T]:
    """Run to the end. Return the cost of each piece, and the result."""
    costs: list[int] = []
    while True:
        try:
            costs.append(next(work))
        except StopIteration as done:
            return costs, done.value
