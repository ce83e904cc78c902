"""Messages from the driver's listener to the process of a query's reader: which batch is finished.

Spark tells a source that a batch is over when it wants the next one. Only the driver knows it earlier. The reader
listens on a socket in a folder that only its user may enter; the query's progress names it.
"""

import json
import shutil
import socket
import tempfile
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

_LARGEST = 4_096


class Finished(Struct, frozen=True):
    """The batch with this plan is in Spark's commit log. `is_stateful`: the query keeps state."""

    seq: int
    is_stateful: bool = False


class ControlSocket:
    """The reader's end."""

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
        """Return the next message; None if there was none in time, or one that is none of ours."""
        self._socket.settimeout(timeout_s)
        try:
            given = json.loads(self._socket.recv(_LARGEST))
            return Finished(int(given["finished"]), bool(given["stateful"]))
        except (TimeoutError, ValueError, KeyError, TypeError):
            return None

    def close(self) -> None:
        self._socket.close()
        shutil.rmtree(self._folder, ignore_errors=True)


def tell_finished(path: str, finished: Finished) -> None:
    """Send a message; nothing happens if the reader is gone or is on another machine."""
    message = {"finished": finished.seq, "stateful": finished.is_stateful}
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender, suppress(OSError):
        sender.setblocking(False)
        sender.sendto(json.dumps(message).encode(), path)
