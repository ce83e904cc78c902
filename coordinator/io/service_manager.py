"""EDGE: notifies the service manager of the daemon's state: ready, alive, stopping (systemd's sd_notify(3)). Without
`NOTIFY_SOCKET` in the environment it sends nothing."""

import asyncio
import socket
from collections.abc import Mapping
from contextlib import suppress


class ServiceManager:
    """The other end of `NOTIFY_SOCKET`. If it has a watchdog (`WATCHDOG_USEC`), it is notified twice in that time that
    the event loop runs."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        address = environment.get("NOTIFY_SOCKET", "")
        self._address = "\0" + address[1:] if address.startswith("@") else address
        watchdog = environment.get("WATCHDOG_USEC", "")
        self._every_s = int(watchdog) / 2_000_000 if watchdog.isascii() and watchdog.isdigit() else 0.0
        self._timer: asyncio.TimerHandle | None = None

    def ready(self, status: str) -> None:
        """Notify the manager that the daemon serves, and start the watchdog's notifications."""
        self._notify(f"READY=1\nSTATUS={status}")
        if self._address and self._every_s > 0:
            self._live()

    def stopping(self) -> None:
        """Notify the manager that the daemon stops. That may take long, so the watchdog's notifications continue."""
        self._notify("STOPPING=1\nSTATUS=stopping")

    def close(self) -> None:
        """Stop all notifications."""
        if self._timer is not None:
            self._timer.cancel()

    def _live(self) -> None:
        self._notify("WATCHDOG=1")
        self._timer = asyncio.get_running_loop().call_later(self._every_s, self._live)

    def _notify(self, message: str) -> None:
        """Send the message. Failures are ignored: the daemon serves even if the manager does not listen."""
        if not self._address:
            return
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.setblocking(False)
            sender.sendto(message.encode(), self._address)
