"""Output of commands: tables for people, JSON for scripts."""

import csv
import json
import os
import re
import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

NOTHING = "-"
INTERRUPTED = 130
"""Exit code after Ctrl-C."""
_PADDING = re.compile(r" +((?:\x1b\[[0-9;]*m)*)$", re.MULTILINE)


def forget_stdout() -> None:
    """Close standard output, whose reader has gone (`| head`), so that the interpreter's own flush at the end does not
    fail.
    """
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def say_left_out(sentence: str) -> None:
    """Print to standard error which parts an answer lacks."""
    print(f"muster: {sentence}", file=sys.stderr, flush=True)


def warn(sentence: str) -> None:
    """Print to standard error what the command does otherwise than it was told to."""
    print(f"muster: warning: {sentence}", file=sys.stderr, flush=True)


def say_nothing(_: str) -> None:
    """Print nothing, since it was printed before."""


def show_json(document: Any) -> None:
    """Print one document to standard output, in ASCII, with other characters escaped."""
    print(json.dumps(document, indent=2))


def show_table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, whole: str = "") -> None:
    """Print a table, with numbers aligned to the right. Nothing is cut off: on a terminal long cells wrap, except in
    the column `whole`; in a pipe a row is a line."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    cells = [[printable(cell) for cell in row] for row in rows]
    for number, column in enumerate(columns):
        filled = [row[number] for row in cells if row[number] != NOTHING]
        is_numeric = bool(filled) and all(text.removeprefix("-").isdigit() for text in filled)
        stays = column == whole or not sys.stdout.isatty()
        table.add_column(column, justify="right" if is_numeric else "left", no_wrap=stays, overflow="fold")
    for row in cells:
        table.add_row(*map(Text, row))
    _show(table)


def show_csv(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print lines of comma-separated values, with a header; unknown values are empty."""
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([["" if cell is None else printable(cell) if cell != "" else "" for cell in row] for row in rows])


def show_facts(facts: Iterable[tuple[str, object]]) -> None:
    """Print a name and a value on each line."""
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="bold")
    table.add_column(no_wrap=not sys.stdout.isatty(), overflow="fold")
    for name, value in facts:
        table.add_row(name, Text(printable(value)))
    _show(table)


def printable(value: object) -> str:
    """Return text without control characters, since clients choose ids and names."""
    if value is None or value == "":
        return NOTHING
    return "".join(sign if sign.isprintable() else sign.encode("unicode_escape").decode() for sign in str(value))


def local_time(wall_ms: int) -> str:
    """Format a time in the local zone: `2026-03-01 14:05:09.123`."""
    return datetime.fromtimestamp(wall_ms / 1000, UTC).astimezone().isoformat(" ", "milliseconds")[:23]


def utc_time(wall_ms: int) -> str:
    """Format a time in UTC, for scripts: `2026-03-01T14:05:09.123Z`."""
    return datetime.fromtimestamp(wall_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _show(table: Table) -> None:
    """Print the table without trailing spaces, which would be copied along with the text."""
    # A pipe has no width: with 80 columns, text that people grep for would be cut.
    width = None if sys.stdout.isatty() else 100_000
    console = Console(width=width, highlight=False, markup=False, soft_wrap=False)
    with console.capture() as shown:
        console.print(table)
    print(_PADDING.sub(r"\1", shown.get()), end="")
