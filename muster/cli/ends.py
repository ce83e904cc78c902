"""Ages of log ends, as text."""

from collections.abc import Iterable
from typing import Any, Final

OLD_MS: Final = 3_000
"""Age from which it is shown."""


def oldest(lines: Iterable[dict[str, Any]]) -> str | None:
    """Return the age of the oldest end of these lines, if it must be shown."""
    age_ms = max((line["end_age_ms"] for line in lines if line["end_age_ms"] is not None), default=0)
    return f"as of {round(age_ms / 1_000)} s ago" if age_ms >= OLD_MS else None


def left_out(lines: Iterable[dict[str, Any]]) -> str:
    """Return a text about the partitions that a sum of lags omits."""
    count = sum(line["lag"] is None for line in lines)
    return f" (not counted: {count} without an end)" if count else ""
