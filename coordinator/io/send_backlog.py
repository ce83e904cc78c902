"""What all clients together leave unread, and which of them must go.

Asked now and then, not at every answer: between two looks no more is sent than was taken into account.
"""

from collections.abc import Iterable
from typing import Protocol, TypeVar

_PATIENCE_MS = 10_000
"""Of who takes nothing at all, while others could use the room."""
_LOOKS_A_LIMIT = 16
OWES_NOTHING = -1
"""As what a reader has taken, when it had taken all: how long it stands still is counted from when it next does not."""


class SlowReader(Protocol):
    """A client, and what was handed to its socket."""

    handed_bytes: int
    """Since it connected."""
    taken_bytes: int
    """Of these, when last looked at."""
    taken_ms: int
    """When it had last been seen to take some."""

    def unsent_bytes(self) -> int:
        """What its socket has not taken yet."""


R = TypeVar("R", bound=SlowReader)


class SendBacklog:
    """`bytes` is what no client had taken when last looked at; `look_every_bytes` how much may be sent until then."""

    __slots__ = ("bytes", "look_every_bytes", "max_bytes")

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.look_every_bytes = max_bytes // _LOOKS_A_LIMIT
        self.bytes = 0

    @property
    def is_crowded(self) -> bool:
        """Whether to look again soon, whatever is sent."""
        return self.bytes > self.look_every_bytes

    def look(self, readers: Iterable[R], now_ms: int) -> list[R]:
        """Who must go: while half the room is taken who has taken nothing for long, and beyond all of it those who
        have stood still longest, of them those with most."""
        owing: list[tuple[int, int, int, R]] = []
        self.bytes = 0
        for order, reader in enumerate(readers):
            unsent = reader.unsent_bytes()
            taken = reader.handed_bytes - unsent
            if not unsent:
                reader.taken_bytes = OWES_NOTHING
                continue
            if taken != reader.taken_bytes:
                reader.taken_bytes, reader.taken_ms = taken, now_ms
            self.bytes += unsent
            owing.append(((now_ms - reader.taken_ms) // 1_000, unsent, order, reader))
        closing: list[R] = []
        if self.bytes > self.max_bytes // 2:
            for still_s, unsent, _order, reader in sorted(owing, key=lambda one: one[:3], reverse=True):
                if self.bytes <= self.max_bytes and still_s * 1_000 < _PATIENCE_MS:
                    break
                closing.append(reader)
                self.bytes -= unsent
        return closing
