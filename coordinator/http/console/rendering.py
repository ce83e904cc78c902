"""Templates and their filters. Jinja2 escapes all values. Pure, except that templates are read at the start."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final
from urllib.parse import quote_plus

from jinja2 import Environment, PackageLoader, StrictUndefined

from coordinator.http.console.assets import Asset
from diagnosis import people
from diagnosis.problem import Kind

MILD: Final = frozenset({Kind.IDLE_MEMBERS, Kind.OFFSETS_EXPIRE, Kind.CONSUMPTION_REWOUND})
"""Kinds of problems that are not urgent."""


def make_environment(assets: Mapping[str, Asset]) -> Environment:
    """Make the environment of all templates. An undefined name in a template is an error."""
    environment = Environment(
        loader=PackageLoader("coordinator.http.console"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    environment.filters.update(
        number=number, short=short, duration=people.duration, behind=behind, clock=clock, kind=kind_text, iso=iso
    )
    environment.filters["urlencode"] = quote_plus
    environment.globals.update(asset=lambda name: f"/console/assets/{name}?v={assets[name].tag}", mild=MILD)
    return environment


def number(value: int | None) -> str:
    """`12,345`; `unknown` if it is None."""
    return "unknown" if value is None else f"{value:,}"


def short(value: int | None) -> str:
    """`950`, `12.3 k`, `4.5 M`, in four places; a dash if it is None."""
    if value is None:
        return "\u2013"
    for divisor, unit in ((1_000_000_000, "G"), (1_000_000, "M"), (10_000, "k")):
        if abs(value) >= divisor:
            scaled = value / (1_000 if unit == "k" else divisor)
            return f"{scaled:.1f} {unit}" if scaled < 100 else f"{scaled:.0f} {unit}"
    return f"{value:,}"


def behind(lag_ms: int | None) -> str:
    """`12 s`, a lag in time; `0 s` if all is read, a dash if it is None."""
    if lag_ms is None:
        return "\u2013"
    return people.duration(lag_ms) if lag_ms else "0 s"


def clock(wall_ms: int) -> str:
    """`05:12:03`, UTC."""
    return datetime.fromtimestamp(wall_ms / 1_000, UTC).strftime("%H:%M:%S")


def iso(wall_ms: int) -> str:
    """`2026-11-23T05:12:03Z`."""
    return datetime.fromtimestamp(wall_ms / 1_000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def kind_text(kind: Kind) -> str:
    """Return the kind of a problem in words."""
    return str(kind).replace("_", " ").capitalize()
