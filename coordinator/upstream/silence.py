"""Brokers that owe a client's connection an answer and say nothing, for too long."""

from collections.abc import Collection, Mapping

from coordinator.core import Connection
from coordinator.effects import GiveUp
from protocol.kafka.front.session import FrontSession


class Silence:
    """Looked at from time to time: who has sent no byte between two looks has said nothing in between. Whoever has said
    nothing for `allowed_ms` is given up."""

    def __init__(self, allowed_ms: int) -> None:
        self._allowed_ms = allowed_ms
        self._heard: dict[int, tuple[int, int]] = {}
        """By connection, how many bytes its broker had sent, and since when no more."""

    def watch(self, number: int) -> None:
        """The broker owes this connection an answer."""
        self._heard.setdefault(number, (-1, 0))

    @property
    def watched(self) -> Collection[int]:
        """The connections that are."""
        return self._heard.keys()

    def forget(self, number: int) -> None:
        self._heard.pop(number, None)

    def given_up(self, connections: Mapping[int, Connection], now_ms: int) -> list[GiveUp]:
        """Whose time is over; it begins anew, should the connection outlive that."""
        over = []
        for number, (heard, since_ms) in list(self._heard.items()):
            session = connections[number].session
            assert isinstance(session, FrontSession)
            if not session.awaits_broker:
                del self._heard[number]
            elif session.heard_bytes != heard:
                self._heard[number] = session.heard_bytes, now_ms
            elif now_ms - since_ms >= self._allowed_ms:
                self._heard[number] = heard, now_ms
                over.append(GiveUp(number, f"it has said nothing for {self._allowed_ms} ms"))
        return over
