"""Prints the results of our own client as Markdown. Pure."""

from collections.abc import Iterable, Mapping, Sequence

from interop.catalogue import CAPABILITIES, ON_OURS
from interop.ours.suite import Suite
from interop.table import Result, Row, Verdict, line

Outcomes = Mapping[str, str | Suite]
"""By server: the suite, or why it could not be run."""
Groups = Mapping[tuple[str, str], Mapping[str, Result]]
"""By (with whom, assignor) and server."""


def suites(outcomes: Outcomes) -> str:
    """A line a server, then which tests were left out and why, then which failed."""
    head = ["server", "passed", "skipped", "failed", "seconds"]
    lines = [line(head), line(["---"] * len(head))]
    notes: list[str] = []
    for server, outcome in outcomes.items():
        if isinstance(outcome, str):
            lines.append(line([server, "not here", "", "", ""]))
            notes.append(f"* {server}: not here: {outcome}")
            continue
        counts = (outcome.passed, len(outcome.skipped), len(outcome.failed))
        lines.append(line([server, *map(str, counts), f"{outcome.seconds:.0f}"]))
        for mark, cases in (("skipped", outcome.skipped), ("FAILED", outcome.failed)):
            notes += [f"* {server}, {mark}: {case.name}: {_one_line(case.why)}" for case in cases]
    return _lines(lines, notes)


def capabilities(row: Row, server: str, why_not: str | None) -> str:
    """Our client's row once more, at another server, on end."""
    lines = [line([row.client.name, f"at {server}", "what was seen"]), line(["---"] * 3)]
    for name in CAPABILITIES:
        if not row.client.offers(name):
            continue
        if name in ON_OURS:
            lines.append(line([name.replace("_", " "), "-", "only a musterd may be killed"]))
            continue
        detail = next((result.detail for result in row.results if result.capability == name), why_not or "")
        verdict = Verdict.NOT_HERE if why_not else row.verdict(name)
        lines.append(line([name.replace("_", " "), verdict.value, _one_line(detail)]))
    return _lines(lines, [])


def groups(found: Groups, servers: Sequence[str]) -> str:
    """A line a group, a column a server, then what was seen in each."""
    lines = [line(["with", "assignor", *servers]), line(["---"] * (2 + len(servers)))]
    notes: list[str] = []
    for (others, assignor), results in found.items():
        cells = [_cell(results.get(server)) for server in servers]
        lines.append(line([others, assignor, *cells]))
        for server in (one for one in servers if one in results):
            result = results[server]
            word = "FAILED: " if result.verdict is Verdict.FAILED else ""
            notes.append(f"* {others}, {assignor}, {server}: {word}{_one_line(result.detail)}")
    return _lines(lines, notes)


def _cell(result: Result | None) -> str:
    if result is None:
        return ""
    return f"ok, {result.seconds:.0f} s" if result.verdict is Verdict.PASSED else result.verdict.value


def _lines(table: Iterable[str], notes: Iterable[str]) -> str:
    noted = "\n".join(notes)
    return "\n".join(table) + "\n" + (f"\n{noted}\n" if noted else "")


def _one_line(text: str) -> str:
    """Return the text as one line for a table's cell."""
    return " ".join(text.split()).replace("|", "\\|")
