"""EDGE: log lines about single connections, at most one a second for each kind, so that clients that reconnect without
end do not fill the log.

The first event of a kind is logged at once. Further ones within a second are logged as one line at its end, with their
number and the details of the last.
"""

import asyncio
import re
from typing import Any, Final, Literal

import structlog

log = structlog.get_logger()

_EVERY_S: Final = 1.0
_MOST_KINDS: Final = 32
"""Largest number of kinds at one time. Clients can influence the text of a reason, and with it the number of kinds."""
_NUMBERS: Final = re.compile(r"\d+")

Level = Literal["info", "warning"]


class _EventKind:
    """Events of one kind since its last line."""

    __slots__ = ("count", "details", "event", "level", "timer")

    def __init__(self, level: Level, event: str) -> None:
        self.level = level
        self.event = event
        self.count = 0
        self.details: dict[str, Any] = {}
        self.timer: asyncio.TimerHandle | None = None

    def write(self) -> None:
        getattr(log, self.level)(self.event, count=self.count, **self.details)
        self.count = 0


class RateLimitedLog:
    """Rate limit for log lines about connections. The event loop must be running when `write` is called."""

    def __init__(self, every_s: float = _EVERY_S, most_kinds: int = _MOST_KINDS) -> None:
        self._every_s = every_s
        self._most_kinds = most_kinds
        self._kinds: dict[str, _EventKind] = {}

    def write(self, event: str, reason: str = "", *, level: Level = "info", **details: Any) -> None:
        """Log the event, now or in the kind's next line. Reasons that differ only in numbers are of one kind."""
        name = f"{event}: {_NUMBERS.sub('0', reason)}"
        if name not in self._kinds and len(self._kinds) >= self._most_kinds:
            name = event  # too many kinds: all further reasons of the event share one
        kind = self._kinds.get(name)
        if kind is None:
            kind = self._kinds[name] = _EventKind(level, event)
        kind.count += 1
        kind.details = {**details, "reason": reason} if reason else details
        if kind.timer is None:
            kind.write()
            self._await_more(name, kind)

    def close(self) -> None:
        """Log what has not been logged yet."""
        for kind in self._kinds.values():
            if kind.timer is not None:
                kind.timer.cancel()
            if kind.count:
                kind.write()
        self._kinds.clear()

    def _await_more(self, name: str, kind: _EventKind) -> None:
        kind.timer = asyncio.get_running_loop().call_later(self._every_s, self._over, name, kind)

    def _over(self, name: str, kind: _EventKind) -> None:
        if not kind.count:
            del self._kinds[name]
            return
        kind.write()
        self._await_more(name, kind)
