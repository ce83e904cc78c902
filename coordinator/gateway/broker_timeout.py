"""Brokers that owe a client's connection an answer and say nothing, for too long."""

from collections.abc import Collection, Mapping

from coordinator.gateway.effects import AbandonUpstream
from coordinator.gateway.session.session import ProxySession
from coordinator.handlers.core import Connection


class BrokerTimeouts:
    """Looked at every `look_every_ms`: who has sent no byte between two looks has said nothing in between. Whoever has
    said nothing for `allowed_ms` is given up. While the process itself stood still, nobody could be heard: of a look
    that comes late no more counts than twice that time."""

    def __init__(self, allowed_ms: int, look_every_ms: int) -> None:
        self._allowed_ms = allowed_ms
        self._most_a_look_ms = 2 * look_every_ms
        self._looked_ms: int | None = None
        self._heard: dict[int, tuple[int, int]] = {}
        """By connection, how many bytes its broker had sent, and for how long no more."""

    def watch(self, number: int) -> None:
        """The broker owes this connection an answer."""
        self._heard.setdefault(number, (-1, 0))

    @property
    def watched(self) -> Collection[int]:
        """The connections that are."""
        return self._heard.keys()

    def forget(self, number: int) -> None:
        self._heard.pop(number, None)

    def given_up(self, connections: Mapping[int, Connection], now_ms: int) -> list[AbandonUpstream]:
        """Whose time is over; it begins anew, should the connection outlive that."""
        passed_ms = 0 if self._looked_ms is None else min(now_ms - self._looked_ms, self._most_a_look_ms)
        self._looked_ms = now_ms
        over = []
        for number, (heard, silent_ms) in list(self._heard.items()):
            session = connections[number].session
            assert isinstance(session, ProxySession)
            if not session.awaits_broker:
                del self._heard[number]
            elif session.upstream_bytes != heard:
                self._heard[number] = session.upstream_bytes, 0
            elif silent_ms + passed_ms < self._allowed_ms:
                self._heard[number] = heard, silent_ms + passed_ms
            else:
                self._heard[number] = heard, 0
                over.append(AbandonUpstream(number, f"it has said nothing for {self._allowed_ms} ms"))
        return over
