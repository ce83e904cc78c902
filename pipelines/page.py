"""The report: one self-contained page of HTML, with tables and plots."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined
from msgspec import Struct

ROWS: Final = 25
"""Largest number of rows shown of a table; a longer one shows how many it has."""
Row = Mapping[str, Any]


class Plot(Struct, frozen=True):
    """Bars for a table's rows: the column with their names, and the one with their lengths."""

    label: str
    value: str


class Section(Struct, frozen=True):
    """A table, under a title. `units`: units of columns whose names do not have them."""

    title: str
    meaning: str
    rows: Sequence[Row]
    empty: str
    plot: Plot | None = None


class Bar(Struct, frozen=True):
    """A bar: `share` of the longest, in percent."""

    label: str
    text: str
    share: float


def render(title: str, when: datetime, figures: Mapping[str, str], sections: Iterable[Section]) -> str:
    """Return the page."""
    environment = Environment(
        loader=PackageLoader("pipelines", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"cell": cell, "heading": heading, "bars": bars}
    template = environment.get_template("report.html")
    return template.render(title=title, when=cell("", when), figures=figures, sections=list(sections), limit=ROWS)


def bars(section: Section) -> list[Bar]:
    """Return the bars of a section, at most as many as its table shows rows. Rows with the same label are one bar."""
    if section.plot is None:
        return []
    sums: dict[str, int] = {}
    for row in section.rows:
        label = str(row[section.plot.label])
        sums[label] = sums.get(label, 0) + (row[section.plot.value] or 0)
    longest = max(sums.values(), default=0)
    return [
        Bar(label, cell(section.plot.value, value), round(100 * value / longest, 2))
        for label, value in list(sums.items())[:ROWS]
        if longest
    ]


def heading(column: str) -> str:
    """Return a column's title: `standstill_ms` becomes `standstill`."""
    return column.removesuffix("_ms").replace("_", " ")


def cell(column: str, value: object) -> str:
    """Format a value; times are UTC."""
    match value:
        case None:
            return "-"
        case datetime():
            return value.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S")
        case int() if column.endswith("_ms"):
            return f"{value / 1_000:,.1f} s" if value >= 100 else f"{value} ms"
        case int() if column != "partition":
            return f"{value:,}"
        case _:
            return str(value)
