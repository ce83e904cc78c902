"""Messages from the driver's listener to the process of a query's reader about finished batches.

A source learns that a batch is finished when Spark requests the next one; only the driver knows it earlier. The reader
listens on a socket in a folder that only its user may enter; the query's progress has its path.
"""

import json
import shutil
import socket
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

_LARGEST = 16_384
DRAINED = "drained"
"""Content of a drain file once the query is drained."""


class Finished(Struct, frozen=True):
    """The batch with this plan is in Spark's commit log. `is_stateful`: the query keeps state. `facts`: the driver's
    facts about the query, for operators of the group."""

    seq: int
    is_stateful: bool = False
    facts: Mapping[str, str] = {}


class DrainFile:
    """A file that stops a query: while it exists, no batch is planned."""

    def __init__(self, path: str | None) -> None:
        self._path = None if path is None else Path(path)

    def exists(self) -> bool:
        return self._path is not None and self._path.exists()

    def answer(self) -> None:
        """Write into the file, if it exists, that the query has committed everything that it has read."""
        if self._path is not None and self._path.exists():
            self._path.write_text(DRAINED)


class ControlSocket:
    """The reader's end of the socket."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="muster-spark-"))
        self.path = self._folder / "control"
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            self._socket.bind(str(self.path))
        except OSError:
            self.close()
            raise

    def receive(self, timeout_s: float) -> Finished | None:
        """Return the next message; None if none arrived in time, or if it cannot be decoded."""
        self._socket.settimeout(timeout_s)
        try:
            given = json.loads(self._socket.recv(_LARGEST))
            facts = {str(name): str(text) for name, text in given["facts"].items()}
            return Finished(int(given["finished"]), bool(given["stateful"]), facts)
        except (TimeoutError, AttributeError, ValueError, KeyError, TypeError):
            return None

    def close(self) -> None:
        self._socket.close()
        shutil.rmtree(self._folder, ignore_errors=True)


def send_finished(path: str, finished: Finished) -> None:
    """Send a message; does nothing if the reader is gone or on another machine."""
    message = {"finished": finished.seq, "stateful": finished.is_stateful, "facts": finished.facts}
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender, suppress(OSError):
        sender.setblocking(False)
        sender.sendto(json.dumps(message).encode(), path)
