"""The state table as a part of a page: `make table` writes it into the docs, and a test holds the two together."""

from collections.abc import Callable
from typing import Any

from coordinator.groups.client_balanced.rows import ignore, refuse, say
from coordinator.groups.client_balanced.state import MAY_BECOME, GroupState
from coordinator.groups.client_balanced.table import QUIET, TABLE


def page() -> str:
    """The part, as Markdown."""
    states = [state.name.capitalize() for state in GroupState]
    lines = [
        "# State table of client-balanced groups",
        "",
        "Printed from `coordinator/groups/client_balanced/table.py` by `make table`, as above. Kafka's tools are shown Stable",
        "for Online. The group stands beside a classic one of the same id, which is Empty while members are here.",
        "",
        f"| event | guards | {' | '.join(states)} |",
        f"|{'---|' * (len(states) + 2)}",
    ]
    for row in TABLE:
        guards = ", ".join(map(_name, row.guards))
        lines.append(f"| {row.event.__name__} | {guards} | {' | '.join(map(_cell, row.cells))} |")
    for quiet in QUIET:
        guards = ", ".join(map(_name, quiet.guards))
        lines.append(f"| *{quiet.event.__name__}* | {guards} | {' | '.join(map(_cell, quiet.cells))} |")
    lines += ["", "## Moves its state may make", "", "| from | to |", "|---|---|"]
    for state, targets in MAY_BECOME.items():
        names = ", ".join(target.name.capitalize() for target in sorted(targets))
        lines.append(f"| {state.name.capitalize()} | {names} |")
    lines += [
        "",
        "Applying a record makes the group what the record says: Online with members, Empty without. A heartbeat that",
        "is more than a sign of life is a Beat.",
        "",
    ]
    return "\n".join(lines)


def _name(function: Callable[..., Any]) -> str:
    return f"`{getattr(function, '__name__', function)}`"


def _cell(cell: Callable[..., Any]) -> str:
    if cell is ignore:
        return "-"
    if isinstance(cell, refuse | say):
        return cell.error_code.name
    return _name(cell)


if __name__ == "__main__":
    print(page(), end="")  # noqa: T201 - that is what it is for
