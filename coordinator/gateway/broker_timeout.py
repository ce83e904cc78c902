"""Timeouts of brokers that send nothing while a proxied connection waits for their reply."""

from collections.abc import Collection, Mapping

from coordinator.core.core import Connection
from coordinator.gateway.effects import AbandonUpstream
from coordinator.gateway.relayed.session import RelayedSession
from coordinator.gateway.session.session import ProxySession

SILENT = "the broker has sent nothing"


class BrokerTimeouts:
    """Timeouts, checked every `check_every_ms`: a connection to a broker that sent no byte for `timeout_ms` is closed.

    A paused process receives nothing, so a late check counts at most twice the interval.
    """

    def __init__(self, timeout_ms: int, check_every_ms: int) -> None:
        self._timeout_ms = timeout_ms
        self._max_elapsed_ms = 2 * check_every_ms
        self._checked_ms: int | None = None
        self._silence: dict[int, tuple[int, int]] = {}
        """Bytes that the broker had sent, and the milliseconds since, by connection."""

    def watch(self, number: int) -> None:
        """Watch a connection that waits for its broker's reply."""
        self._silence.setdefault(number, (-1, 0))

    @property
    def watched(self) -> Collection[int]:
        """Numbers of the watched connections."""
        return self._silence.keys()

    def remove(self, number: int) -> None:
        self._silence.pop(number, None)

    def expired(self, connections: Mapping[int, Connection], now_ms: int) -> list[AbandonUpstream]:
        """Return effects for the connections that timed out. Their timeouts restart, in case the edge ignores these."""
        elapsed_ms = 0 if self._checked_ms is None else min(now_ms - self._checked_ms, self._max_elapsed_ms)
        self._checked_ms = now_ms
        expired_sides = []
        for number, (bytes_received, silent_ms) in list(self._silence.items()):
            session = connections[number].session
            assert isinstance(session, ProxySession | RelayedSession)
            if not session.awaits_broker:
                del self._silence[number]
            elif session.upstream_bytes != bytes_received:
                self._silence[number] = session.upstream_bytes, 0
            elif silent_ms + elapsed_ms < self._timeout_ms:
                self._silence[number] = bytes_received, silent_ms + elapsed_ms
            else:
                self._silence[number] = bytes_received, 0
                expired_sides.append(AbandonUpstream(number, f"{SILENT} for {self._timeout_ms} ms"))
        return expired_sides
