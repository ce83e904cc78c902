"""EDGE: finds connections without traffic (`connections.max.idle.ms`), which the node then closes.

One periodic timer checks all connections: a timer for each, re-armed at each byte, would cost time at every heartbeat.
"""

import asyncio
from itertools import islice

from coordinator.io.server import ClientProtocol, Server, read_clock
from coordinator.node.events import Idle

_LOOKS_A_LIMIT = 20
_MOST_BETWEEN_MS, _LEAST_BETWEEN_MS = 10_000, 50
_MOST_A_LOOK = 500
"""Largest number of connections reported to the node in one turn of the loop."""


class IdleConnections:
    """Reports each connection of `server` on which no byte moved for `max_idle_ms`; below 0: none."""

    def __init__(self, server: Server, max_idle_ms: int) -> None:
        self._server = server
        self._max_idle_ms = max_idle_ms
        self._between_s = min(max(max_idle_ms // _LOOKS_A_LIMIT, _LEAST_BETWEEN_MS), _MOST_BETWEEN_MS) / 1_000
        self._timer: asyncio.TimerHandle | None = None

    def watch(self) -> None:
        """Begin. The server must have been started."""
        if self._max_idle_ms >= 0:
            self._again(self._between_s)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _again(self, after_s: float) -> None:
        self._timer = asyncio.get_running_loop().call_later(after_s, self._look)

    def _look(self) -> None:
        now_ms = read_clock().monotonic_ms
        since_ms = now_ms - self._max_idle_ms
        idle = (client for client in self._server.clients() if client.moved_ms <= since_ms)
        found = list(islice(idle, _MOST_A_LOOK))
        for client in found:
            client.moved_ms = now_ms  # a connection that the node keeps is checked again after a whole period
            if not _takes_answers(client):
                self._server.happen(Idle(client.number))
        self._again(self._between_s if len(found) < _MOST_A_LOOK else _LEAST_BETWEEN_MS / 1_000)


def _takes_answers(client: ClientProtocol) -> bool:
    """Return true if the client has read part of a long reply since the last check."""
    unsent = client.unsent_bytes()
    taken = client.handed_bytes - unsent
    moved = unsent > 0 and taken != client.idle_bytes
    client.idle_bytes = taken
    return moved
