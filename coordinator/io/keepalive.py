"""EDGE: TCP keepalive, which detects peers whose machine failed without closing its connections."""

import asyncio
import contextlib
import socket

IDLE_S, INTERVAL_S, PROBES = 60, 15, 4
"""Probes that detect a failed peer within two minutes. By default Linux probes after two hours."""
_TIMES = (("TCP_KEEPIDLE", IDLE_S), ("TCP_KEEPINTVL", INTERVAL_S), ("TCP_KEEPCNT", PROBES))


def keep_alive(server: asyncio.Server) -> None:
    """Set SO_KEEPALIVE on the listening sockets: on Linux each accepted socket inherits it."""
    for listening in server.sockets:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in _TIMES:
            with contextlib.suppress(AttributeError, OSError):  # not every system has these options
                listening.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
