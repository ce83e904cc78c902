"""Results of a run: sheets of figures, as tables for people and as JSON for scripts."""

import json
import os
import platform
import statistics
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

import msgspec
from rich.console import Console
from rich.table import Table

from coordinator.build_info import build, interpreter

Value = str | int | float | None


class Options(NamedTuple):
    """Extent of the measurements. Figures are medians over `rounds`, unless a scenario has rounds of its own."""

    rounds: int = 3
    seconds: float = 1.0
    quick: bool = False
    huge: bool = False
    only: tuple[str, ...] = ()
    """Scenarios of the comparison with Kafka; none: all."""
    slow: bool = False
    """Measure in front of a broker only the cost of clients that read hardly anything."""
    may_fetch: bool = False
    """Permission to fetch and build other projects' servers."""


class Sheet(msgspec.Struct):
    """One table. `notes` say what the columns mean."""

    title: str
    columns: tuple[str, ...]
    rows: list[tuple[Value, ...]]
    notes: tuple[str, ...] = ()


def median(values: Sequence[float]) -> float:
    return statistics.median(values)


def show(sheet: Sheet, console: Console) -> None:
    table = Table(title=sheet.title, title_justify="left", title_style="bold")
    for number, column in enumerate(sheet.columns):
        table.add_column(column, justify="left" if number == 0 else "right", no_wrap=number < 3)
    for row in sheet.rows:
        table.add_row(*(text(value) for value in row))
    console.print(table)
    for note in sheet.notes:
        console.print(f"  {note}", style="dim", highlight=False)
    console.print()


def text(value: Value) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}" if abs(value) < 1 else f"{value:.2f}"


def machine() -> dict[str, str]:
    """Describe the machine; comparisons across machines say little."""
    return {
        "build": build(),
        "python": interpreter(),
        "loop": _loop(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "processors": str(os.cpu_count()),
        "load before": " ".join(f"{load:.2f}" for load in os.getloadavg()),
    }


def _loop() -> str:
    try:
        return f"uvloop {metadata.version('uvloop')}"
    except metadata.PackageNotFoundError:
        return "asyncio"


def write_json(path: Path, about: Mapping[str, str], options: Options, sheets: Mapping[str, Sheet]) -> None:
    """The same figures, unrounded."""
    content = {
        "machine": dict(about),
        "options": options._asdict(),
        "sheets": {name: msgspec.to_builtins(sheet) for name, sheet in sheets.items()},
    }
    path.write_text(json.dumps(content, indent=2) + "\n")
