"""The state table of every kind of group: each event, and its action in each state. A kind writes its rows; this module
runs them.

A row is an event; a cell is the action in one state. Guards run first, in the order clients can observe; a Dead group
answers before them, as Kafka does. A row has one of three paths:

* full: the action fills an `Outcome`; its records are appended and applied, and the group is settled.
* append-only: records and a reply. Such an event completes no delayed operation and has no follow-up events.
* read-only: a reply alone. Deadlines of members may move; nothing that must survive a crash changes.
"""

import enum
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, Protocol, TypeVar, overload

from coordinator.clock import Moment
from coordinator.groups.outcome import Outcome
from coordinator.records.records import CommittedOffset
from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.session import RequestRef

G = TypeVar("G")
E = TypeVar("E")
S = TypeVar("S", bound=enum.IntEnum)


class Refusal(NamedTuple):
    """An error code with an error message for the client."""

    error_code: ErrorCode
    text: str = ""


Verdict = ErrorCode | Refusal | None
"""A guard's answer: `None` and `ErrorCode.NONE` let the event pass."""
Guard = Callable[[G, E], Verdict]
Action = Callable[[G, E, Outcome], None]
ReadAction = Callable[[G, E, int], ErrorCode]
AppendAction = Callable[[G, E, Moment, list[CommittedOffset]], Message | ErrorCode]


class RequestEvent(Protocol):
    """An event that came as a request."""

    @property
    def ref(self) -> RequestRef:
        """Request to answer."""

    def refused(self, error_code: ErrorCode, text: str = "") -> Message:
        """Return the typed reply that refuses the request."""


class Stateful(Protocol):
    """The part of a group that its table needs."""

    @property
    def state(self) -> int:
        """Index of the state's cell in a row."""


class Path(enum.Enum):
    """The parts of the write rule that a request or an event passes. No row of a state table is `SLICED`."""

    FULL = "full"
    """The state table of its group; records appended and applied; the group settled."""
    APPEND_ONLY = "append-only"
    """Records and a reply. They complete no delayed operation, and have no follow-up events."""
    READ_ONLY = "read-only"
    """A reply alone. Deadlines of members and delayed operations may change, nothing that must survive a crash."""
    SLICED = "sliced"
    """Several steps, since one would take too long; between two of them anything may happen."""


class GuardedAction(NamedTuple, Generic[G, E]):
    """A guard with an action to run in place of a plain error reply."""

    guard: Guard[G, E]
    action: Action[G, E]


def unless(guard: Guard[G, E], action: Action[G, E]) -> GuardedAction[G, E]:
    """Let the event pass if the guard passes; else run the action and nothing more."""
    return GuardedAction(guard, action)


@dataclass(slots=True)
class Row:
    """One event. `guards` are pairs: a guard, and the action to run if it refuses (None: reply with the error)."""

    event: type
    path: Path
    guards: tuple[tuple[Callable[..., Verdict], Callable[..., None] | None], ...]
    cells: tuple[Callable[..., Any], ...]


def make_row(event: type, path: Path, guards: Sequence[Any], *cells: Callable[..., Any]) -> Row:
    """Build a row from the cells given to a kind's typed builders."""
    pairs = tuple((one.guard, one.action) if isinstance(one, GuardedAction) else (one, None) for one in guards)
    return Row(event, path, pairs, cells)


class reject:  # noqa: N801 - reads as a cell
    """The cell that answers with an error and does nothing else, on any path."""

    def __init__(self, error_code: ErrorCode, text: str = "") -> None:
        self.error_code = error_code
        self._text = text

    @overload
    def __call__(self, group: object, event: RequestEvent, context: Outcome, /) -> None: ...
    @overload
    def __call__(self, group: object, event: object, context: int, /) -> ErrorCode: ...
    @overload
    def __call__(
        self, group: object, event: object, context: Moment, records: list[CommittedOffset], /
    ) -> ErrorCode: ...
    def __call__(self, group: object, event: Any, context: Any, /, *records: object) -> ErrorCode | None:
        if type(context) is not Outcome:
            return self.error_code
        context.reply_at_once(event.ref, event.refused(self.error_code, self._text))
        return None


def ignore(group: object, event: object, out: Outcome) -> None:
    """Do nothing: the event no longer matters."""


class StateTable(Generic[G]):
    """The rows of one kind of group. `states` are in the order of a row's cells; the last is Dead."""

    __slots__ = ("_append_rows", "_dead", "_full_rows", "_read_rows", "rows", "states")

    def __init__(self, states: type[enum.IntEnum], rows: Sequence[Row], events: Sequence[type]) -> None:
        """Build the table. `events` are all events that take the full path: each must have its row, and only these."""
        self.rows = tuple(rows)
        self.states = tuple(states)
        self._dead = self.states[-1]
        by_path: dict[Path, dict[type, Row]] = {path: {} for path in Path}
        for row in rows:
            assert len(row.cells) == len(self.states), f"{row.event.__name__}: a cell a state"
            assert row.event not in by_path[row.path], f"{row.event.__name__} has two rows"
            by_path[row.path][row.event] = row
        self._full_rows = by_path[Path.FULL]
        self._append_rows = by_path[Path.APPEND_ONLY]
        self._read_rows = by_path[Path.READ_ONLY]
        assert self._full_rows.keys() == set(events), "every event has its row"

    def on(self, path: Path) -> tuple[Row, ...]:
        """Return the rows of one path."""
        return tuple(row for row in self.rows if row.path is path)

    def handle(self, group: Any, event: Any, out: Outcome) -> None:
        """Run the full path of an event: the action of the group's present state fills the outcome."""
        row = self._full_rows[type(event)]
        if group.state is not self._dead:
            for guard, instead in row.guards:
                refused = guard(group, event)
                if refused:
                    if instead is not None:
                        instead(group, event, out)
                    else:
                        error_code, text = refused if type(refused) is Refusal else (refused, "")
                        out.reply_at_once(event.ref, event.refused(error_code, text))
                    return
        row.cells[group.state](group, event, out)

    def answer(self, group: Any, message: Any, now_ms: int) -> ErrorCode:
        """Answer a read-only message."""
        row = self._read_rows[type(message)]
        state = group.state
        if state is not self._dead:
            for guard, _ in row.guards:
                refused = guard(group, message)
                if refused:
                    return refused.error_code if type(refused) is Refusal else refused  # type: ignore[return-value]
        error_code: ErrorCode = row.cells[state](group, message, now_ms)
        return error_code

    def permits(self, group: Any, message: Any, action: Callable[..., Any]) -> bool:
        """Return true if the guards let the append-only message pass, and `action` is the cell of the present state."""
        row = self._append_rows[type(message)]
        for guard, _ in row.guards:
            if guard(group, message):
                return False
        return row.cells[group.state] is action

    def decide(self, group: Any, message: Any, moment: Moment, records: list[CommittedOffset]) -> Message | ErrorCode:
        """Decide an append-only message. Fill `records` and return the reply that is valid once they are durable; or
        return the error."""
        row = self._append_rows[type(message)]
        state = group.state
        if state is not self._dead:
            for guard, _ in row.guards:
                refused = guard(group, message)
                if refused:
                    return refused.error_code if type(refused) is Refusal else refused  # type: ignore[return-value]
        decided: Message | ErrorCode = row.cells[state](group, message, moment, records)
        return decided


Moves = Mapping[S, frozenset[S]]
"""The states that each state may turn into."""
