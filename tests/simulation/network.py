"""A network that delays, splits and cuts. Bytes travel; order holds within a direction, as TCP has it, and nothing
else does."""

from collections.abc import Callable
from random import Random
from typing import Protocol


class Clock(Protocol):
    """Where the world's time is, and what will happen when."""

    now_ms: int

    def after(self, delay_ms: int, action: Callable[[], None]) -> None:
        """Let the action happen in so many milliseconds."""


class Pipe:
    """One direction of a connection."""

    __slots__ = ("_clock", "_deliver", "_last_ms", "_random", "open")

    def __init__(self, clock: Clock, random: Random, deliver: Callable[[bytes], None]) -> None:
        self._clock, self._random, self._deliver = clock, random, deliver
        self._last_ms = 0
        self.open = True

    def send(self, data: bytes) -> None:
        """Whole or in pieces, now or later; but in order."""
        pieces = self._split(data)
        for piece in pieces:
            delay_ms = self._random.choice((0, 0, 1, 1, 2, 5, 20))
            at_ms = max(self._clock.now_ms + delay_ms, self._last_ms)
            self._last_ms = at_ms
            self._clock.after(at_ms - self._clock.now_ms, lambda piece=piece: self._arrive(piece))  # type: ignore[misc]

    def _split(self, data: bytes) -> list[bytes]:
        if len(data) < 2 or self._random.random() < 0.7:
            return [data]
        at = self._random.randrange(1, len(data))
        return [data[:at], data[at:]]

    def _arrive(self, piece: bytes) -> None:
        if self.open:
            self._deliver(piece)

    def end_after_last(self, action: Callable[[], None]) -> None:
        """Let the action happen once everything sent has arrived."""
        delay_ms = max(self._last_ms - self._clock.now_ms, 0) + self._random.choice((0, 1, 10))
        self._clock.after(delay_ms, action)


class Link:
    """A connection between a member and the daemon: two pipes, and what each end does when it is gone."""

    __slots__ = ("_lost_by_client", "_lost_by_daemon", "number", "open", "to_client", "to_daemon")

    def __init__(
        self,
        number: int,
        to_daemon: Pipe,
        to_client: Pipe,
        lost_by_daemon: Callable[[], None],
        lost_by_client: Callable[[], None],
    ) -> None:
        self.number = number
        self.to_daemon, self.to_client = to_daemon, to_client
        self._lost_by_daemon, self._lost_by_client = lost_by_daemon, lost_by_client
        self.open = True

    def cut(self, clock: Clock, random: Random) -> None:
        """What is on its way is lost; each end notices in its own time."""
        if not self.open:
            return
        self.open = self.to_daemon.open = self.to_client.open = False
        clock.after(random.choice((0, 1, 50)), self._lost_by_daemon)
        clock.after(random.choice((0, 1, 50)), self._lost_by_client)

    def close_by_daemon(self, clock: Clock) -> None:
        """The daemon closed it: what it sent still arrives."""
        if self.open:
            self.open = self.to_daemon.open = False
            self.to_client.end_after_last(self._lost_by_client)

    def close_by_client(self) -> None:
        """The client closed it: what it sent still arrives."""
        if self.open:
            self.open = self.to_client.open = False
            self.to_daemon.end_after_last(self._lost_by_daemon)
