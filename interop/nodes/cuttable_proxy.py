"""A way from one node to the brokers that can be closed: nothing passes until it is open again, and nothing is lost."""

import socket
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress

_BYTES = 1 << 16


class CuttableProxy:
    """Listeners in front of listeners, one each. While nobody listens behind, who connects is let in and let go."""

    def __init__(self, fronts: Sequence[int], behind: Sequence[int], host_behind: str = "127.0.0.1") -> None:
        self._host_behind = host_behind
        self.bootstrap = ",".join(f"127.0.0.1:{front}" for front in fronts)
        self._open = threading.Event()
        self._open.set()
        self._sockets: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []
        for front, port in zip(fronts, behind, strict=True):
            listener = socket.create_server(("127.0.0.1", front))
            self._sockets.add(listener)
            self._start(self._listen, listener, port)

    def cut(self) -> None:
        """Let nothing through in either direction. Connections stay open, as those of a network that drops packets."""
        self._open.clear()

    def mend(self) -> None:
        """Let through what waits, and all that follows."""
        self._open.set()

    def close(self) -> None:
        """End all connections, and wait for all threads."""
        self._open.set()
        for one in tuple(self._sockets):
            _shut(one)
        for thread in self._threads:
            thread.join(10)

    def _start(self, work: Callable[..., None], *arguments: object) -> None:
        thread = threading.Thread(target=work, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _listen(self, listener: socket.socket, port: int) -> None:
        with listener, suppress(OSError):
            while True:
                node, _ = listener.accept()
                self._start(self._serve, node, port)

    def _serve(self, node: socket.socket, port: int) -> None:
        self._sockets.add(node)
        with node, suppress(OSError):
            self._open.wait()
            with socket.create_connection((self._host_behind, port)) as broker:
                self._sockets.add(broker)
                back = threading.Thread(target=self._pass, args=(broker, node), daemon=True)
                back.start()
                self._pass(node, broker)
                back.join()
                self._sockets.discard(broker)
        self._sockets.discard(node)

    def _pass(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(_BYTES):
                self._open.wait()
                target.sendall(data)
        _shut(target)
        _shut(source)


def _shut(one: socket.socket) -> None:
    with suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
