"""Prints the results of logins as Markdown. Pure."""

from collections.abc import Mapping, Sequence

from interop.logins.story import COLUMNS
from interop.table import Result, Verdict, line

MARK = "printed by python -m interop.logins"
MARK_BESIDE = "printed by python -m interop.logins --beside"
Cell = tuple[str, str, str]
"""A client, a security protocol and a mechanism."""
Found = Mapping[Cell, Sequence[Result]]


def table(found: Found) -> str:
    """The table, then what was seen, once for all that showed the same."""
    head = ["client", "protocol", "mechanism", *COLUMNS]
    lines = [line(head), line(["---"] * len(head))]
    notes: dict[tuple[str, str, str], list[str]] = {}
    for (client, protocol, mechanism), results in found.items():
        by_column = {result.capability: result for result in results}
        lines.append(line([client, protocol, mechanism, *(_cell(by_column.get(one)) for one in COLUMNS)]))
        for result in results:
            what = " ".join(result.detail.split()).replace("|", "\\|")
            word = "FAILED: " if result.verdict is Verdict.FAILED else ""
            notes.setdefault((client, result.capability, word + what), []).append(f"{protocol} {mechanism}")
    said = [f"* {client}, *{column}* ({', '.join(where)}): {what}" for (client, column, what), where in notes.items()]
    return "\n".join([*lines, "", *said]) + "\n"


def failures(found: Found) -> list[str]:
    """A line for each cell that failed."""
    return [
        f"{' '.join(cell)}, {result.capability}: {result.detail}"
        for cell, results in found.items()
        for result in results
        if result.verdict is Verdict.FAILED
    ]


def _cell(result: Result | None) -> str:
    return "" if result is None else result.verdict.value
