"""Hold on a group: a time in which changes of its members are collected, so that a deployment causes one rebalance
(docs/operations.md).

A hold is soft state: it ends with the process, and when the group changes its kind.
"""

from dataclasses import dataclass, field
from typing import Final

from protocol.client_text import client_text
from protocol.messages.groups import HoldGroup, Origin
from protocol.words import counted

LONGEST_MS: Final = 300_000
"""Longest hold. Members that join wait for its end, and clients give up after `max.poll.interval.ms`, 5 minutes by
default."""


@dataclass(slots=True)
class Hold:
    """A hold until a monotonic time. `until_members`: the number of joined members that ends it; 0: only time does."""

    until_ms: int
    until_members: int = 0
    came: set[str] = field(default_factory=set)
    """Members that joined since the hold began, of a group that does not park their requests."""

    def left_ms(self, now_ms: int) -> int:
        """Return the remaining time."""
        return max(0, self.until_ms - now_ms)

    def is_enough(self, joined: int) -> bool:
        """Return true if this number of joined members ends the hold."""
        return 0 < self.until_members <= joined


def left_of(hold: Hold | None, now_ms: int) -> int:
    """Return the remaining time of the hold; 0 without one."""
    return 0 if hold is None else hold.left_ms(now_ms)


def begun(request: HoldGroup, now_ms: int) -> Hold | None:
    """Return the requested hold; None for a release."""
    return Hold(now_ms + request.for_ms, request.until_members) if request.for_ms else None


def described(request: HoldGroup, sender: Origin) -> str:
    """Describe the request and its sender."""
    members = f" or until {counted(request.until_members, 'member')} came" if request.until_members else ""
    asked = f"held for {request.for_ms / 1000:g} s{members}" if request.for_ms else "released"
    return f"{asked}, by {client_text(sender.client_id, sender.client_host)}"


def act_of(request: HoldGroup) -> str:
    """Return the name of the action in its note."""
    return "hold" if request.for_ms else "release"
