"""A network that delays, splits, holds back and cuts. As in TCP, bytes stay in order within a direction; nothing else
is guaranteed."""

from collections.abc import Callable
from random import Random
from typing import Protocol


class Clock(Protocol):
    """The world's time, and its scheduled events."""

    now_ms: int

    def after(self, delay_ms: int, action: Callable[[], None]) -> None:
        """Let the action happen in so many milliseconds."""


_DELAYS_MS = (0, 0, 1, 1, 2, 5, 20, 0)


class Pipe:
    """One direction of a connection."""

    __slots__ = ("_clock", "_deliver", "_last_ms", "_random", "_waiting", "open")

    def __init__(self, clock: Clock, random: Random | None, deliver: Callable[[bytes], None]) -> None:
        """Without a random source, bytes arrive in one piece and at once."""
        self._clock, self._random, self._deliver = clock, random, deliver
        self._last_ms = 0
        self._waiting: list[bytes] | None = None
        self.open = True

    @property
    def waits(self) -> bool:
        """Return true while what is sent waits for a login."""
        return self._waiting is not None

    def wait(self) -> None:
        """Hold back data sent from now on, until `go_on`."""
        self._waiting = []

    def go_on(self) -> None:
        """Send the data held back."""
        waiting, self._waiting = self._waiting, None
        for data in waiting or ():
            self.send(data)

    def send(self, data: bytes) -> None:
        """Send data whole or in pieces, now or later, but in order."""
        if self._waiting is None:
            self.send_now(data)
        else:
            self._waiting.append(data)

    def send_now(self, data: bytes) -> None:
        """Send ahead of the data held back."""
        random = self._random
        if random is None:
            self._post(data, 0)
            return
        draw = random.random()
        if draw >= 0.85 and len(data) > 1:
            at = 1 + int(random.random() * (len(data) - 1))
            self._post(data[:at], 0)
            data = data[at:]
        self._post(data, _DELAYS_MS[int(draw * 64) % 8])

    def _post(self, piece: bytes, delay_ms: int) -> None:
        now_ms = self._clock.now_ms
        at_ms = max(now_ms + delay_ms, self._last_ms)
        self._last_ms = at_ms
        self._clock.after(at_ms - now_ms, lambda: self._arrive(piece))

    def _arrive(self, piece: bytes) -> None:
        if self.open:
            self._deliver(piece)

    def hold(self, delay_ms: int) -> None:
        """Delay all data sent from now on, as TCP does after lost packets."""
        self._last_ms = max(self._last_ms, self._clock.now_ms + delay_ms)

    @property
    def arrives_in_ms(self) -> int:
        """Return the time until everything sent so far has arrived."""
        return max(self._last_ms - self._clock.now_ms, 0)

    def end_after_last(self, action: Callable[[], None]) -> None:
        """Let the action happen once everything sent has arrived."""
        self._clock.after(self.arrives_in_ms + 1, action)


class Link:
    """A connection between a member and the daemon: two pipes, and the function that each end calls when it is closed.
    `on_reply`, once set, takes the next answer instead of its being sent."""

    __slots__ = (
        "_is_dead",
        "_lost_by_client",
        "_lost_by_daemon",
        "number",
        "on_reply",
        "open",
        "to_client",
        "to_daemon",
    )

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
        self._is_dead = False
        self.on_reply: Callable[[bytes], None] | None = None
        self.open = True

    @property
    def is_troubled(self) -> bool:
        """Return true if no data arrives, or not soon."""
        return self._is_dead or max(self.to_daemon.arrives_in_ms, self.to_client.arrives_in_ms) > 1_000

    @property
    def is_whole(self) -> bool:
        """Return true if both ends and the network keep the connection."""
        return self.open and not self._is_dead

    def reply(self, data: bytes) -> None:
        """Send data of the daemon."""
        if self.on_reply is not None:
            on_reply, self.on_reply = self.on_reply, None
            on_reply(data)
        else:
            self.to_client.send(data)

    def cut(self, clock: Clock, random: Random) -> None:
        """Lose all data in flight; each end notices in its own time."""
        if not self.open:
            return
        self.open = self.to_daemon.open = self.to_client.open = False
        if not self._is_dead:
            clock.after(random.choice((0, 1, 50)), self._lost_by_daemon)
        clock.after(random.choice((0, 1, 50)), self._lost_by_client)

    def cut_off(self, clock: Clock, notices_ms: int) -> None:
        """Leave the connection half open: nothing arrives any more, in either direction, and neither end is notified.
        The daemon's system notices in the end."""
        if self.open and not self._is_dead:
            self._is_dead = True
            self.to_daemon.open = self.to_client.open = False
            clock.after(notices_ms, self._lost_by_daemon)

    def close_by_daemon(self, clock: Clock) -> None:
        """Close it at the daemon's end: data already sent still arrives."""
        if self.open:
            self.open = self.to_daemon.open = False
            if not self._is_dead:
                self.to_client.end_after_last(self._lost_by_client)

    def close_by_client(self) -> None:
        """Close it at the client's end: data already sent still arrives."""
        if self.open:
            self.open = self.to_client.open = False
            if not self._is_dead:
                self.to_daemon.end_after_last(self._lost_by_daemon)
