"""Typed builders of the rows of a classic group. All cells of a row are required and typed by its event: a missing
cell, or a guard or an action that does not take the event, is a type error at its line."""

from typing import Generic, TypeVar

from coordinator.groups import table
from coordinator.groups.classic.state import ClassicGroup
from coordinator.groups.table import Path, Row, make_row

E = TypeVar("E")
Action = table.Action[ClassicGroup, E]
ReadAction = table.ReadAction[ClassicGroup, E]
AppendAction = table.AppendAction[ClassicGroup, E]
Guard = table.Guard[ClassicGroup, E]
GuardedAction = table.GuardedAction[ClassicGroup, E]


class on(Generic[E]):  # noqa: N801 - reads as a row's first word
    """Builder of a row of the full path: `on(Event)(guards=..., empty=..., ...)`. Binding the event's type first lets
    the checker see the rest."""

    def __init__(self, event: type[E]) -> None:
        self._event = event

    def __call__(
        self,
        *,
        guards: tuple[Guard[E] | GuardedAction[E], ...] = (),
        empty: Action[E],
        preparing: Action[E],
        completing: Action[E],
        stable: Action[E],
        dead: Action[E],
    ) -> Row:
        return make_row(self._event, Path.FULL, guards, empty, preparing, completing, stable, dead)


class read_only_on(Generic[E]):  # noqa: N801 - as above
    """Builder of a row of the read-only path."""

    def __init__(self, event: type[E]) -> None:
        self._event = event

    def __call__(
        self,
        *,
        guards: tuple[Guard[E], ...] = (),
        empty: ReadAction[E],
        preparing: ReadAction[E],
        completing: ReadAction[E],
        stable: ReadAction[E],
        dead: ReadAction[E],
    ) -> Row:
        return make_row(self._event, Path.READ_ONLY, guards, empty, preparing, completing, stable, dead)


class append_only_on(Generic[E]):  # noqa: N801 - as above
    """Builder of a row of the append-only path."""

    def __init__(self, event: type[E]) -> None:
        self._event = event

    def __call__(
        self,
        *,
        guards: tuple[Guard[E], ...] = (),
        empty: AppendAction[E],
        preparing: AppendAction[E],
        completing: AppendAction[E],
        stable: AppendAction[E],
        dead: AppendAction[E],
    ) -> Row:
        return make_row(self._event, Path.APPEND_ONLY, guards, empty, preparing, completing, stable, dead)
