"""Prints the results as Markdown: a line a client and story, a column a server. Pure."""

from collections.abc import Iterable, Mapping, Sequence

from interop.table import Result, Verdict, line

MARK = "printed by python -m interop.consumer"
Outcomes = Mapping[tuple[str, str], Mapping[str, Result]]
"""By (client, story) and server."""


def table(found: Outcomes, servers: Sequence[str], names: Mapping[str, str]) -> str:
    """The table, then what was seen, once where both servers showed the same."""
    lines = [line(["client", "story", *(names[one] for one in servers)]), line(["---"] * (2 + len(servers)))]
    notes: list[str] = []
    for (client, story), results in found.items():
        lines.append(line([client, story, *(_cell(results.get(one)) for one in servers)]))
        seen: dict[str, list[str]] = {}
        for one in (one for one in servers if one in results):
            seen.setdefault(_said(results[one]), []).append(names[one])
        notes += [f"* {client}, {story}, {' and '.join(where)}: {what}" for what, where in seen.items()]
    return "\n".join([*lines, "", *notes]) + "\n"


def _cell(result: Result | None) -> str:
    if result is None:
        return ""
    return f"ok, {result.seconds:.0f} s" if result.verdict is Verdict.PASSED else result.verdict.value


def _said(result: Result) -> str:
    word = "FAILED: " if result.verdict is Verdict.FAILED else ""
    return word + _one_line(result.detail.split())


def _one_line(words: Iterable[str]) -> str:
    return " ".join(words).replace("|", "\\|")
