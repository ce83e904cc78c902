"""A driver without a thread: cores are run by the caller, while it waits for their answers.

For clients that only send requests (the command line, a range of a Spark task): there is no background activity and
nothing to stop, and a caller gets a reply without another thread.
"""

import contextlib

from muster.net.bootstrap import Bootstrap
from muster.net.driver import CONNECT_MS
from muster.net.fork_guard import ClientCondition
from muster.net.sockets import SocketConnection, SocketDriver


class CallerCondition(ClientCondition):
    """A condition whose `wait` serves the sockets. Whoever waits keeps the lock: callers wait for each other."""

    def __init__(self, driver: "CallerDriver") -> None:
        super().__init__()
        self._driver = driver

    def wait(self, timeout: float | None = None) -> bool:
        """Serve what happens first, or is due; at most so long."""
        self._driver.serve(timeout)
        return True


class CallerDriver(SocketDriver):
    """Runs cores in the threads that wait for them."""

    def __init__(self, bootstrap: Bootstrap, client_id: str, connect_timeout_ms: int = CONNECT_MS) -> None:
        self.changed: ClientCondition = CallerCondition(self)
        super().__init__(bootstrap, client_id, connect_timeout_ms)

    def serve(self, timeout_s: float | None) -> None:
        """Wait for the sockets once, and hear what there is. Under the lock."""
        try:
            waits = [one for one in (timeout_s, self._until_due_s()) if one is not None]
            for key, events in self._sockets.select(min(waits, default=None)):
                self._serve(key.data, events)
            self._pass_time()
        except BaseException:  # a Ctrl-C too: what was read may be lost, and connections with it
            self._disconnect()
            raise

    def stop(self) -> None:
        """Close the connections."""
        with self.changed:
            self._disconnect()
            if self._selector is not None:
                self._selector.close()
                self._selector = None

    def _start(self) -> None:
        """Notice what servers have closed since somebody waited last, as brokers do with idle connections."""
        if self._connections:
            self.serve(0.0)

    def _send_out(self, connection: SocketConnection) -> None:
        """Send at once what the socket takes: whoever asks is about to wait for the answer."""
        if connection.is_open and connection.out:
            with contextlib.suppress(OSError):  # a full socket; of any other error the selector tells
                del connection.out[: connection.socket.send(connection.out)]
        super()._send_out(connection)

    def _disconnect(self) -> None:
        for connection in tuple(self._connections.values()):
            self._close(connection)
