"""What rows of the state table are made of. All cells of a row are required and typed by its event: a forgotten one, or
a guard or an action that does not take the event, is a type error at its line."""

from collections.abc import Callable
from typing import Any, Generic, NamedTuple, TypeVar

from coordinator.groups.client_balanced.events import Answerable, Refusal
from coordinator.groups.client_balanced.state import BalancedGroup
from coordinator.groups.outcome import Outcome
from protocol.errors import ErrorCode

E = TypeVar("E")
Action = Callable[[BalancedGroup, E, Outcome], None]
QuietAction = Callable[[BalancedGroup, E, int], ErrorCode]
Guard = Callable[[BalancedGroup, E], Refusal | None]


class Row(NamedTuple):
    """What an event does."""

    event: type
    guards: tuple[Guard[Any], ...]
    cells: tuple[Action[Any], ...]


class QuietRow(NamedTuple):
    """What a quiet message does."""

    event: type
    guards: tuple[Guard[Any], ...]
    cells: tuple[QuietAction[Any], ...]


class on(Generic[E]):  # noqa: N801 - reads as a row's first word
    """`on(Event)(guards=..., empty=..., ...)` is a row. Binding the event's type first lets the checker see the
    rest."""

    def __init__(self, event: type[E]) -> None:
        self._event = event

    def __call__(
        self, *, guards: tuple[Guard[E], ...] = (), empty: Action[E], online: Action[E], dead: Action[E]
    ) -> Row:
        return Row(self._event, guards, (empty, online, dead))


class quietly_on(Generic[E]):  # noqa: N801 - as above
    """The same for a message that changes nothing that lasts."""

    def __init__(self, event: type[E]) -> None:
        self._event = event

    def __call__(
        self, *, guards: tuple[Guard[E], ...] = (), empty: QuietAction[E], online: QuietAction[E], dead: QuietAction[E]
    ) -> QuietRow:
        return QuietRow(self._event, guards, (empty, online, dead))


class refuse:  # noqa: N801 - reads as a cell
    """The cell that answers with an error and does nothing else."""

    def __init__(self, error_code: ErrorCode, text: str = "") -> None:
        self.error_code = error_code
        self._refusal = Refusal(error_code, text)

    def __call__(self, group: BalancedGroup, event: Answerable, out: Outcome) -> None:
        out.reply_at_once(event.ref, event.refused(self._refusal))


class say:  # noqa: N801 - reads as a cell
    """The quiet cell that only answers."""

    def __init__(self, error_code: ErrorCode) -> None:
        self.error_code = error_code

    def __call__(self, group: BalancedGroup, message: object, now_ms: int) -> ErrorCode:
        return self.error_code


def ignore(group: BalancedGroup, event: object, out: Outcome) -> None:
    """It does not matter any more."""
