"""Prints the results of a run: the table client x capability x result, and the failures. Pure."""

from collections.abc import Sequence
from enum import Enum
from pathlib import Path

import msgspec

from interop.catalogue import CAPABILITIES, Client

PAGE = Path(__file__).parents[1] / "docs" / "interop.md"
CLIENTS = "printed by make interop"
BEGIN, END = f"<!-- {CLIENTS}: begin -->", f"<!-- {CLIENTS}: end -->"


class Verdict(Enum):
    """Content of a cell."""

    PASSED = "ok"
    FAILED = "**failed**"
    NOT_HERE = "not here"
    NOT_RUN = ""
    NOT_OFFERED = "-"


class Result(msgspec.Struct, frozen=True):
    """One capability of one client. `detail` is the program's own sentence."""

    capability: str
    verdict: Verdict
    detail: str = ""
    seconds: float = 0.0


class Row(msgspec.Struct, frozen=True):
    """One client with what its capabilities came to; those left out were not run."""

    client: Client
    results: tuple[Result, ...]
    missing: tuple[str, ...] = ()

    def verdict(self, capability: str) -> Verdict:
        if not self.client.offers(capability):
            return Verdict.NOT_OFFERED
        if self.missing:
            return Verdict.NOT_HERE
        return next((result.verdict for result in self.results if result.capability == capability), Verdict.NOT_RUN)


def printed(rows: Sequence[Row]) -> str:
    """The table, then what each cell's program said, as Markdown."""
    head = ["client", "version", "language", *(name.replace("_", " ") for name in CAPABILITIES)]
    lines = [line(head), line(["---"] * len(head))]
    for row in rows:
        cells = [row.verdict(name).value for name in CAPABILITIES]
        lines.append(line([row.client.name, row.client.version, row.client.language, *cells]))
    return "\n".join(lines) + "\n" + _details(rows)


def _details(rows: Sequence[Row]) -> str:
    lines: list[str] = []
    for row in rows:
        if row.missing:
            lines.append(f"* **{row.client.name}**: not here, for want of {', '.join(row.missing)}")
        elif row.results:
            said = (f"*{result.capability}*: {_one_line(result)}" for result in row.results)
            lines.append(f"* **{row.client.name}**: {'; '.join(said)}")
    return "\nWhat each program saw:\n\n" + "\n".join(lines) + "\n" if lines else ""


def _one_line(result: Result) -> str:
    detail = " ".join(result.detail.split())
    return f"FAILED: {detail}" if result.verdict is Verdict.FAILED else detail


def line(cells: Sequence[str]) -> str:
    """Return a line of a table."""
    return "| " + " | ".join(cells) + " |"


def spliced(page: str, text: str, what: str = CLIENTS) -> str:
    """The page with the text between the two marks of `what`. Raises ValueError if the page lacks them."""
    begin, end = f"<!-- {what}: begin -->", f"<!-- {what}: end -->"
    before, has_begin, rest = page.partition(begin)
    _, has_end, after = rest.partition(end)
    if not has_begin or not has_end:
        raise ValueError(f"the page has no place for it: {begin} and {end}")
    return f"{before}{begin}\n\n{text}\n{end}{after}"


def failures(rows: Sequence[Row]) -> list[str]:
    """One line a failed cell; empty if all is well."""
    return [
        f"{row.client.name} {result.capability}: {result.detail}"
        for row in rows
        for result in row.results
        if result.verdict is Verdict.FAILED
    ]
