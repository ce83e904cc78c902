"""A driver without a thread: callers run the cores while they wait for replies.

It is for clients that only send requests (the command line, a range of a Spark task): they need no background activity,
and a reply reaches its caller without a switch of threads.
"""

import contextlib

from muster.net.bootstrap import Bootstrap
from muster.net.driver import CONNECT_MS
from muster.net.fork_guard import ClientCondition
from muster.net.sockets import SocketConnection, SocketDriver


class CallerCondition(ClientCondition):
    """A condition whose `wait` serves the sockets. A waiting caller keeps the lock, so callers wait for each other."""

    def __init__(self, driver: "CallerDriver") -> None:
        super().__init__()
        self._driver = driver

    def wait(self, timeout: float | None = None) -> bool:
        """Serve the sockets until something happens or is due, for at most the timeout."""
        self._driver.serve(timeout)
        return True


class CallerDriver(SocketDriver):
    """Runs cores in the threads that wait for them."""

    def __init__(self, bootstrap: Bootstrap, client_id: str, connect_timeout_ms: int = CONNECT_MS) -> None:
        self.changed: ClientCondition = CallerCondition(self)
        super().__init__(bootstrap, client_id, connect_timeout_ms)

    def serve(self, timeout_s: float | None) -> None:
        """Wait for the sockets once, and handle what they received. Called with the lock."""
        try:
            waits = [one for one in (timeout_s, self._until_due_s()) if one is not None]
            for key, events in self._sockets.select(min(waits, default=None)):
                self._serve(key.data, events)
            self._pass_time()
        except BaseException:  # including a Ctrl-C: received bytes may be lost, so connections must be closed
            self._disconnect()
            raise

    def stop(self) -> None:
        """Close the connections."""
        with self.changed.lock:
            self._disconnect()
            if self._selector is not None:
                self._selector.close()
                self._selector = None

    def _start(self) -> None:
        """Detect connections that servers have closed since the last wait, as brokers do with idle ones."""
        if self._connections:
            self.serve(0.0)

    def _send_out(self, connection: SocketConnection) -> None:
        """Send at once as much as the socket takes, since the caller is about to wait for the reply."""
        if connection.is_open and connection.out:
            with contextlib.suppress(OSError):  # a full socket; the selector reports any other error
                del connection.out[: connection.socket.send(connection.out)]
        super()._send_out(connection)

    def _disconnect(self) -> None:
        for connection in tuple(self._connections.values()):
            self._close(connection)
