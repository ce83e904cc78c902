"""The background thread of a client: only it uses the sockets and handles deadlines of cores, so that heartbeats
continue whatever the application does.
"""

import contextlib
import selectors
import socket
import threading
import time

from muster.net.bootstrap import Bootstrap
from muster.net.driver import SEND_OFF_S
from muster.net.fork_guard import ClientCondition
from muster.net.sockets import SocketDriver

_LONGEST_S = 3_600.0
"""Longest wait of the selector, which does not accept months."""


class ThreadDriver(SocketDriver):
    """Runs cores in a thread, which starts at the first event for one of them."""

    def __init__(self, bootstrap: Bootstrap, client_id: str) -> None:
        self.changed = ClientCondition()
        super().__init__(bootstrap, client_id)
        self._waker: socket.socket | None = None
        self._thread: threading.Thread | None = None
        self._is_stopping = False

    def condition(self) -> ClientCondition:
        """Return another condition with the same lock, for a caller that must not be woken by every event."""
        return ClientCondition(self.changed)

    def stop(self) -> None:
        """End the thread and close its connections."""
        with self.changed.lock:
            thread, self._is_stopping = self._thread, True
            self._wake()
        if thread is not None and thread is not threading.current_thread():
            thread.join(timeout=5.0)

    # -- under the lock, in any thread

    def _start(self) -> None:
        if self._thread is not None:
            return
        wakened, self._waker = socket.socketpair()
        wakened.setblocking(False)
        self._waker.setblocking(False)
        self._sockets.register(wakened, selectors.EVENT_READ, None)
        # A daemon thread, so that a program can end without closing the client.
        self._thread = threading.Thread(target=self._run, args=(self._sockets, wakened), name="muster", daemon=True)
        self._thread.start()

    def _wake(self) -> None:
        if self._waker is not None:
            with contextlib.suppress(OSError):
                self._waker.send(b"\0")

    # -- in the thread

    def _run(self, selector: selectors.BaseSelector, wakened: socket.socket) -> None:
        try:
            self._work(selector, wakened)
            self._send_off(selector, wakened)
        except Exception as error:  # noqa: BLE001  (whatever it is, the next call raises it)
            with self.changed.lock:
                self._fail(error)
        finally:
            with self.changed.lock:
                self._disconnect(selector, wakened)

    def _work(self, selector: selectors.BaseSelector, wakened: socket.socket) -> None:
        while True:
            with self.changed.lock:
                if self._is_stopping:
                    return
                self._pass_time()
                due_s = self._until_due_s()
            ready = selector.select(None if due_s is None else min(due_s, _LONGEST_S))
            with self.changed.lock:
                for key, events in ready:
                    if key.data is not None:
                        self._serve(key.data, events)
                        continue
                    with contextlib.suppress(BlockingIOError):
                        wakened.recv(4096)

    def _send_off(self, selector: selectors.BaseSelector, wakened: socket.socket) -> None:
        """Send requests that are never answered, for a short time at most."""
        selector.unregister(wakened)
        deadline = time.monotonic() + SEND_OFF_S
        while time.monotonic() < deadline:
            with self.changed.lock:
                if not self._owes:
                    return
            for key, events in selector.select(0.05):
                with self.changed.lock:
                    self._serve(key.data, events)

    def _disconnect(self, selector: selectors.BaseSelector, wakened: socket.socket) -> None:
        for connection in tuple(self._connections.values()):
            if connection.exchange.has_sent_unacknowledged:
                connection.linger(time.monotonic() + SEND_OFF_S)
            self._close(connection)
        selector.close()
        wakened.close()
        if self._waker is not None:
            self._waker.close()
            self._waker = None
        self.changed.notify_all()
