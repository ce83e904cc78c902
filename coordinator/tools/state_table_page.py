"""Prints the state tables of all kinds of groups: `make table` writes docs/state-table.md, which a test compares."""

from collections.abc import Callable, Mapping
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
change nothing that lasts. Rows in bold are append-only: records and a reply, and nothing else follows."""

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
    lines += [_line(row) for path in Path for row in table.on(path)]
    lines += ["", "| from | to |", "|---|---|"]
    for state, targets in moves.items():
        lines.append(f"| {titles[state]} | {_titles_of(targets, titles)} |")
    return lines


def _titles_of(states: frozenset[IntEnum], titles: list[str]) -> str:
    return ", ".join(titles[state] for state in sorted(states))


def _line(row: Row) -> str:
    mark = _MARKS[row.path]
    guards = ", ".join(_name(guard) + (f" else {_name(instead)}" if instead else "") for guard, instead in row.guards)
    return f"| {mark}{row.event.__name__}{mark} | {guards} | {' | '.join(map(_cell, row.cells))} |"


def _name(function: Callable[..., Any]) -> str:
    return f"`{getattr(function, '__name__', function)}`"


def _cell(cell: Callable[..., Any]) -> str:
    if cell is ignore:
        return "-"
    return cell.error_code.name if isinstance(cell, reject) else _name(cell)


if __name__ == "__main__":
    print(page(), end="")
