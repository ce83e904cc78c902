"""Typed builders of the rows of a client-balanced group; see `coordinator.groups.classic.rows`."""

from typing import Generic, TypeVar

from coordinator.groups import table
from coordinator.groups.client_balanced.state import BalancedGroup
from coordinator.groups.table import Path, Row, make_row

E = TypeVar("E")
Action = table.Action[BalancedGroup, E]
ReadAction = table.ReadAction[BalancedGroup, E]
Guard = table.Guard[BalancedGroup, E]


class on(Generic[E]):  # noqa: N801 - reads as a row's first word
    """Builder of a row of the full path: `on(Event)(guards=..., empty=..., ...)`."""

    def __init__(self, event: type[E]) -> None:
        self._event = event

    def __call__(
        self, *, guards: tuple[Guard[E], ...] = (), empty: Action[E], online: Action[E], dead: Action[E]
    ) -> Row:
        return make_row(self._event, Path.FULL, guards, empty, online, dead)


class read_only_on(Generic[E]):  # noqa: N801 - as above
    """Builder of a row of the read-only path."""

    def __init__(self, event: type[E]) -> None:
        self._event = event

    def __call__(
        self, *, guards: tuple[Guard[E], ...] = (), empty: ReadAction[E], online: ReadAction[E], dead: ReadAction[E]
    ) -> Row:
        return make_row(self._event, Path.READ_ONLY, guards, empty, online, dead)
