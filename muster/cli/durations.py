"""Durations in options: `90m`, `12h`, `7d`."""

import re
from typing import Final

import typer

_UNITS_MS: Final = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_DURATION: Final = re.compile(r"(\d{1,6})([smhd])")


def duration_ms(text: str, hint: str) -> int:
    """Parse a duration into milliseconds. Raises a usage error about the option `hint`."""
    found = _DURATION.fullmatch(text)
    if found is None:
        raise typer.BadParameter(f"{text[:40]!r} is no time: say 90m, 12h or 7d", param_hint=hint)
    return int(found[1]) * _UNITS_MS[found[2]]
