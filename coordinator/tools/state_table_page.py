"""Prints the state tables of all kinds of groups: `make table` writes docs/state-table.md, which a test compares."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from enum import IntEnum
from typing import Any

from coordinator.groups.classic import group_states as classic
from coordinator.groups.classic.table import TABLE as CLASSIC
from coordinator.groups.client_balanced import state as client_balanced
from coordinator.groups.client_balanced.table import TABLE as CLIENT_BALANCED
from coordinator.groups.consumer import state as consumer
from coordinator.groups.consumer.table import TABLE as CONSUMER
from coordinator.groups.table import Path, Row, StateTable, ignore, reject

_HEAD = """# State tables

Printed from the tables of `coordinator/groups/` by `make table`. A row is an event, a cell what it does in a state.
Guards run first, in their order; Dead answers before them. `-` ignores the event. Rows in italics are read-only: they
change nothing that lasts. Rows in bold are append-only: records and a reply, and nothing else follows. Functions of one
table that share a name are printed with their modules."""

_CLASSIC = """
## Classic groups

`coordinator/groups/classic/table.py`. Applying a record makes the group what the record says: Stable with members,
Empty without. That is how CompletingRebalance becomes Stable and PreparingRebalance Empty, live and at load alike."""

_CLIENT_BALANCED = """
## Client-balanced groups

`coordinator/groups/client_balanced/table.py`. Kafka's tools are shown Stable for Online. The group stands beside a
classic one of the same id, which is Empty while members are here. Applying a record makes the group what the record
says: Online with members, Empty without. A heartbeat that is more than a sign of life is a Beat."""

_CONSUMER = """
## Server-driven consumer groups

`coordinator/groups/consumer/table.py`. The state follows from members and epochs: Assigning while the target assignment
is older than the group epoch, Reconciling while a member has not reached it. The offsets are those of a classic group
of the same id, which is Empty."""

_MARKS = {Path.FULL: "", Path.APPEND_ONLY: "**", Path.READ_ONLY: "*"}


def page() -> str:
    """Return the whole page, as Markdown."""
    parts = [
        _HEAD,
        *_part(_CLASSIC, CLASSIC, classic.MAY_BECOME, [state.title for state in classic.GroupState]),
        *_part(
            _CLIENT_BALANCED,
            CLIENT_BALANCED,
            client_balanced.MAY_BECOME,
            [state.name.capitalize() for state in client_balanced.BalancedState],
        ),
        *_part(_CONSUMER, CONSUMER, consumer.MAY_BECOME, [state.title for state in consumer.ConsumerGroupState]),
    ]
    return "\n".join(parts) + "\n"


def _part(head: str, table: StateTable[Any], moves: Mapping[Any, frozenset[Any]], titles: list[str]) -> list[str]:
    lines = [head, "", f"| event | guards | {' | '.join(titles)} |", f"|{'---|' * (len(titles) + 2)}"]
    rows = [row for path in Path for row in table.on(path)]
    names = _names(rows)
    lines += [_line(row, names) for row in rows]
    lines += ["", "| from | to |", "|---|---|"]
    for state, targets in moves.items():
        lines.append(f"| {titles[state]} | {_titles_of(targets, titles)} |")
    return lines


def _titles_of(states: frozenset[IntEnum], titles: list[str]) -> str:
    return ", ".join(titles[state] for state in sorted(states))


def _names(rows: list[Row]) -> Mapping[Callable[..., Any], str]:
    """Return what is printed for each function: its name, and its module's if another one has the same name."""
    sharing: defaultdict[str, set[Callable[..., Any]]] = defaultdict(set)
    for row in rows:
        for function in _functions(row):
            sharing[_name(function)].add(function)
    return {
        function: name if len(functions) == 1 else f"{_module(function)}.{name}"
        for name, functions in sharing.items()
        for function in functions
    }


def _functions(row: Row) -> Iterator[Callable[..., Any]]:
    for guard, instead in row.guards:
        yield guard
        if instead:
            yield instead
    yield from (cell for cell in row.cells if not isinstance(cell, reject))


def _name(function: Callable[..., Any]) -> str:
    return str(getattr(function, "__name__", function))


def _module(function: Callable[..., Any]) -> str:
    """Return the module below its kind of group."""
    return function.__module__.removeprefix("coordinator.groups.").partition(".")[2]


def _line(row: Row, names: Mapping[Callable[..., Any], str]) -> str:
    mark = _MARKS[row.path]
    guards = ", ".join(
        f"`{names[guard]}`" + (f" else `{names[instead]}`" if instead else "") for guard, instead in row.guards
    )
    return f"| {mark}{row.event.__name__}{mark} | {guards} | {' | '.join(_cell(cell, names) for cell in row.cells)} |"


def _cell(cell: Callable[..., Any], names: Mapping[Callable[..., Any], str]) -> str:
    if cell is ignore:
        return "-"
    return cell.error_code.name if isinstance(cell, reject) else f"`{names[cell]}`"


if __name__ == "__main__":
    print(page(), end="")
