"""A client's connection for one request at a time, which it closes when no answer arrives."""

from collections.abc import Callable
from typing import Any

from protocol.messages import Message
from tests.simulation.network import Clock, Link
from tests.simulation.wires import Dialect

GIVE_UP_MS = 14_000

Connect = Callable[[Any, Callable[[bytes], None], Callable[[], None]], Link | None]
Heard = Callable[[Message, Any], None]
"""Takes the request, and its answer; None if there is none: then a repeated request may be carried out twice."""


class Port:
    """`asked_ms` is when the waiting request was sent; None if none waits."""

    def __init__(self, name: str, dialect: Dialect, clock: Clock, connect: Connect, heard: Heard) -> None:
        self.link: Link | None = None
        self.dialect, self.name = dialect, name
        self.asked_ms: int | None = None
        self.message: Message | None = None
        self.arrives_ms = 0
        """Time at which the last requested bytes will have arrived."""
        self._clock, self._connect, self._heard = clock, connect, heard
        self._wire = dialect.connect(name)

    def ask(self, message: Message) -> None:
        """Send the request; only one at a time."""
        assert self.message is None
        self.message, self.asked_ms = message, self._clock.now_ms
        if self.link is None:
            self._wire = self.dialect.connect(self.name)
            self.link = self._connect(self, self._received, self._lost)
        if self.link is None:
            self._clock.after(50, self._failed)
        else:
            self.link.to_daemon.send(self._wire.encode_request(message)[1])
            self.arrives_ms = self._clock.now_ms + self.link.to_daemon.arrives_in_ms

    def look(self) -> None:
        """Return whether it is time to give up."""
        if self.asked_ms is not None and self._clock.now_ms - self.asked_ms > GIVE_UP_MS:
            self.close()

    def close(self) -> None:
        link, self.link = self.link, None
        if link is not None:
            link.close_by_client()
            self._failed()

    def _received(self, data: bytes) -> None:
        for item in self._wire.receive_data(data):
            message, self.message, self.asked_ms = self.message, None, None
            assert message is not None
            self._heard(message, item.reply)  # type: ignore[union-attr]

    def _lost(self) -> None:
        self.link = None
        self._failed()

    def _failed(self) -> None:
        message, self.message, self.asked_ms = self.message, None, None
        if message is not None:
            self._heard(message, None)
