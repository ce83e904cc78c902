"""`AuditTrail`: lines about logins, refusals and administration, as JSON. An edge writes them to a file.

Repetitions within a minute become one further line, with their number, so that a client that keeps retrying does not
fill the disk. Administration is never folded. No field has a password, a key, a salt or a token.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Final

import msgspec

from coordinator.clock import Moment

FOLD_MS: Final = 60_000
"""Time after the first of several equal events for which the others are only counted."""
MOST_FOLDED: Final = 10_000
"""Largest number of distinct events whose repetitions are counted."""
MOST_A_SECOND: Final = 1_000
"""Largest number of new lines about logins and refusals in a second, and of those about takeovers; further ones are
only counted."""
_MOST_TEXT: Final = 1_000
_MOST_CHANGES: Final = 1_000
_NOTHING: Final[tuple[Any, ...]] = ("", None, -1, [])
"""Values that are omitted."""
_OF_ONE: Final = frozenset({"port"})
"""Fields in which repetitions may differ."""


class AuditEvent(StrEnum):
    """Kinds of lines."""

    LOGIN = "login"
    LOGIN_FAILED = "login failed"
    REFUSED = "refused"
    ADMINISTRATION = "administration"
    TAKEOVER = "takeover"
    LEFT_OUT = "left out"


_Key = tuple[tuple[str, Any], ...]


class _Folded:
    """Repetitions of a line since it was written."""

    __slots__ = ("fields", "since_ms", "times")

    def __init__(self, fields: Mapping[str, Any], since_ms: int) -> None:
        self.fields = fields
        self.since_ms = since_ms
        self.times = 0


class AuditTrail:
    """Lines that are still to be written. While `is_on` is false nothing is kept."""

    def __init__(self, *, is_on: bool = False) -> None:
        self.is_on = is_on
        self._lines: list[bytes] = []
        self._folded: dict[_Key, _Folded] = {}
        """Events of the last minute, the oldest first."""
        self._second = 0
        self._in_second = 0
        self._takeovers = 0
        self._left_out = 0

    def administration(self, wall_ms: int, sender: Mapping[str, Any], request: str, changes: list[Any]) -> None:
        """Add a line for each change of an administrative request, with its values before and after."""
        if self.is_on:
            more = {} if len(changes) <= _MOST_CHANGES else {"more_changes": len(changes) - _MOST_CHANGES}
            fields = {**sender, "request": request, "changes": changes[:_MOST_CHANGES], **more}
            self._write(AuditEvent.ADMINISTRATION, wall_ms, fields)

    def takeover(self, wall_ms: int, fields: Mapping[str, Any]) -> None:
        """Add a line about a process that was fenced by another with its instance id."""
        if not self.is_on:
            return
        self._takeovers += 1
        if self._takeovers > MOST_A_SECOND:
            self._left_out += 1
        else:
            self._write(AuditEvent.TAKEOVER, wall_ms, fields)

    def record(self, event: AuditEvent, moment: Moment, fields: Mapping[str, Any]) -> None:
        """Add a line about a login or a refusal, or count it as a repetition."""
        if not self.is_on:
            return
        fields = {name: _clean(value) for name, value in fields.items()}  # before they are kept: clients choose them
        key: _Key = (("event", event), *((name, value) for name, value in fields.items() if name not in _OF_ONE))
        known = self._folded.get(key)
        if known is not None:
            known.times += 1
            return
        second = moment.monotonic_ms // 1_000
        if second != self._second:
            self._second, self._in_second = second, 0
        self._in_second += 1
        if self._in_second > MOST_A_SECOND:
            self._left_out += 1
            return
        if len(self._folded) >= MOST_FOLDED:
            self._end(next(iter(self._folded)), moment)
        self._folded[key] = _Folded(fields, moment.monotonic_ms)
        self._write(event, moment.wall_ms, fields)

    def leave_out(self, count: int) -> None:
        """Count events that are not told."""
        self._left_out += count

    def tick(self, moment: Moment, *, is_end: bool = False) -> None:
        """Add lines for repetitions whose minute is over, or for all; must be called every second."""
        self._takeovers = 0
        for key in list(self._folded):
            if not is_end and moment.monotonic_ms - self._folded[key].since_ms < FOLD_MS:
                break
            self._end(key, moment)
        if self._left_out:
            self._write(AuditEvent.LEFT_OUT, moment.wall_ms, {"times": self._left_out})
            self._left_out = 0

    def take(self) -> list[bytes]:
        """Return the lines since the last call."""
        lines, self._lines = self._lines, []
        return lines

    def _end(self, key: _Key, moment: Moment) -> None:
        folded = self._folded.pop(key)
        if folded.times:
            self._write(key[0][1], moment.wall_ms, {**folded.fields, "repeated": folded.times})

    def _write(self, event: AuditEvent, wall_ms: int, fields: Mapping[str, Any]) -> None:
        at = datetime.fromtimestamp(wall_ms / 1_000, UTC).isoformat(timespec="milliseconds")
        told = {"time": at.replace("+00:00", "Z"), "event": event.value}
        told |= {name: _clean(value) for name, value in fields.items() if value not in _NOTHING}
        self._lines.append(msgspec.json.encode(told) + b"\n")


def _clean(value: Any) -> Any:
    """Shorten texts and make them valid UTF-8, since clients choose them."""
    if isinstance(value, str):
        shown = value if len(value) <= _MOST_TEXT else value[:_MOST_TEXT] + "..."
        return shown.encode("utf-8", "replace").decode()
    if isinstance(value, Mapping):
        return {_clean(name): _clean(one) for name, one in value.items()}
    return [_clean(one) for one in value] if isinstance(value, list | tuple) else value
