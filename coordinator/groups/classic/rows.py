"""What rows of the state table are made of. All cells of a row are required and typed by its event: a forgotten one, or
a guard or an action that does not take the event, is a type error at its line."""

from collections.abc import Callable
from typing import Any, Generic, NamedTuple, TypeVar

from coordinator.clock import Moment
from coordinator.groups.classic.events import Answerable
from coordinator.groups.classic.state import Group
from coordinator.groups.outcome import Outcome
from coordinator.records.records import CommittedOffset
from protocol.errors import ErrorCode
from protocol.messages import Message

E = TypeVar("E")
Action = Callable[[Group, E, Outcome], None]
QuietAction = Callable[[Group, E, int], ErrorCode]
BriefAction = Callable[[Group, E, Moment, list[CommittedOffset]], Message | ErrorCode]
Guard = Callable[[Group, E], ErrorCode]


class Unless(NamedTuple, Generic[E]):
    """A guard whose refusal is an action of its own."""

    guard: Guard[E]
    action: Action[E]


def unless(guard: Guard[E], action: Action[E]) -> Unless[E]:
    """Let pass if the guard does, else do the action and nothing more."""
    return Unless(guard, action)


class Row(NamedTuple):
    """What an event does. `guards` are (guard, what happens if it refuses or None for a refusal with its code)."""

    event: type
    guards: tuple[tuple[Guard[Any], Action[Any] | None], ...]
    cells: tuple[Action[Any], ...]


class QuietRow(NamedTuple):
    """What a quiet message does."""

    event: type
    guards: tuple[Guard[Any], ...]
    cells: tuple[QuietAction[Any], ...]


class BriefRow(NamedTuple):
    """What a brief message does: records into the list, and the reply; or an error."""

    event: type
    guards: tuple[Guard[Any], ...]
    cells: tuple[BriefAction[Any], ...]


class on(Generic[E]):  # noqa: N801 - reads as a row's first word
    """`on(Event)(guards=..., empty=..., ...)` is a row. Binding the event's type first lets the checker see the
    rest."""

    def __init__(self, event: type[E]) -> None:
        self._event = event

    def __call__(
        self,
        *,
        guards: tuple[Guard[E] | Unless[E], ...] = (),
        empty: Action[E],
        preparing: Action[E],
        completing: Action[E],
        stable: Action[E],
        dead: Action[E],
    ) -> Row:
        pairs = tuple((g.guard, g.action) if isinstance(g, Unless) else (g, None) for g in guards)
        return Row(self._event, pairs, (empty, preparing, completing, stable, dead))


class quietly_on(Generic[E]):  # noqa: N801 - as above
    """The same for a message that changes nothing that lasts."""

    def __init__(self, event: type[E]) -> None:
        self._event = event

    def __call__(
        self,
        *,
        guards: tuple[Guard[E], ...] = (),
        empty: QuietAction[E],
        preparing: QuietAction[E],
        completing: QuietAction[E],
        stable: QuietAction[E],
        dead: QuietAction[E],
    ) -> QuietRow:
        return QuietRow(self._event, guards, (empty, preparing, completing, stable, dead))


class briefly_on(Generic[E]):  # noqa: N801 - as above
    """The same for a message whose outcome is records and a reply."""

    def __init__(self, event: type[E]) -> None:
        self._event = event

    def __call__(
        self,
        *,
        guards: tuple[Guard[E], ...] = (),
        empty: BriefAction[E],
        preparing: BriefAction[E],
        completing: BriefAction[E],
        stable: BriefAction[E],
        dead: BriefAction[E],
    ) -> BriefRow:
        return BriefRow(self._event, guards, (empty, preparing, completing, stable, dead))


class refuse:  # noqa: N801 - reads as a cell
    """The cell that answers with an error and does nothing else."""

    def __init__(self, error_code: ErrorCode) -> None:
        self.error_code = error_code

    def __call__(self, group: Group, event: Answerable, out: Outcome) -> None:
        out.reply_at_once(event.ref, event.refused(self.error_code))


class say:  # noqa: N801 - reads as a cell
    """The quiet cell that only answers."""

    def __init__(self, error_code: ErrorCode) -> None:
        self.error_code = error_code

    def __call__(self, group: Group, message: object, now_ms: int) -> ErrorCode:
        return self.error_code


class turn_down:  # noqa: N801 - reads as a cell
    """The brief cell that yields an error."""

    def __init__(self, error_code: ErrorCode) -> None:
        self.error_code = error_code

    def __call__(self, group: Group, message: object, moment: Moment, records: list[CommittedOffset]) -> ErrorCode:
        return self.error_code
