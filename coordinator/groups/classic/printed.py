"""The state table as a page: `make table` writes it into the docs, and a test holds the two together."""

from collections.abc import Callable
from typing import Any

from coordinator.groups.classic import actions
from coordinator.groups.classic.rows import refuse, say, turn_down
from coordinator.groups.classic.state import MAY_BECOME, GroupState
from coordinator.groups.classic.table import BRIEF, QUIET, TABLE


def page() -> str:
    """The whole page, as Markdown."""
    states = [state.title for state in GroupState]
    lines = [
        "# State table of classic groups",
        "",
        "Printed from `coordinator/groups/classic/table.py` by `make table`. A row is an event, a cell what it does",
        "in a state. Guards run first, in their order; Dead answers before them. `-` ignores the event. Rows in",
        "italics are quiet: they change nothing that lasts. Rows in bold are brief: records and a reply, and nothing",
        "else follows.",
        "",
        f"| event | guards | {' | '.join(states)} |",
        f"|{'---|' * (len(states) + 2)}",
    ]
    for row in TABLE:
        guards = ", ".join(_guard(guard, instead) for guard, instead in row.guards)
        lines.append(f"| {row.event.__name__} | {guards} | {' | '.join(map(_cell, row.cells))} |")
    for brief in BRIEF:
        guards = ", ".join(_name(guard) for guard in brief.guards)
        lines.append(f"| **{brief.event.__name__}** | {guards} | {' | '.join(map(_cell, brief.cells))} |")
    for quiet in QUIET:
        guards = ", ".join(_name(guard) for guard in quiet.guards)
        lines.append(f"| *{quiet.event.__name__}* | {guards} | {' | '.join(map(_cell, quiet.cells))} |")
    lines += ["", "## Moves a group's state may make", "", "| from | to |", "|---|---|"]
    for state, targets in MAY_BECOME.items():
        lines.append(f"| {state.title} | {', '.join(target.title for target in sorted(targets))} |")
    lines += [
        "",
        "Applying a record makes the group what the record says: Stable with members, Empty without. That is how",
        "CompletingRebalance becomes Stable and PreparingRebalance Empty, live and at load alike.",
        "",
    ]
    return "\n".join(lines)


def _name(function: Callable[..., Any]) -> str:
    return f"`{getattr(function, '__name__', function)}`"


def _guard(guard: Callable[..., Any], instead: Callable[..., Any] | None) -> str:
    return _name(guard) if instead is None else f"{_name(guard)} else {_name(instead)}"


def _cell(cell: Callable[..., Any]) -> str:
    if cell is actions.ignore:
        return "-"
    if isinstance(cell, refuse | say | turn_down):
        return cell.error_code.name
    return _name(cell)


if __name__ == "__main__":
    print(page(), end="")  # noqa: T201 - that is what it is for
