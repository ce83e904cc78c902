"""Consumers that are processes of their own, and what each has read."""

import os
import signal
import subprocess
from pathlib import Path

from interop.processes import kill_session

_STOP_S = 90.0


class Reader:
    """A consumer, in a session of processes of its own. It appends `partition offset` lines to its file, before it
    commits."""

    def __init__(self, name: str, command: list[str], file: Path, errors: Path) -> None:
        self.name = name
        self._command = command
        self._file = file
        self._errors = errors
        self._taken = 0
        self._read: list[tuple[int, int]] = []
        self.start()

    def start(self) -> None:
        """Start it again after its end: it writes on in the same file."""
        with self._file.open("ab") as out, self._errors.open("ab") as err:
            self._process = subprocess.Popen(self._command, stdout=out, stderr=err, start_new_session=True)

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def stop(self) -> None:
        """SIGTERM; returns once it has ended."""
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """SIGKILL to all its processes at once; an incomplete last line of its file is removed."""
        kill_session(self._process)
        if self._file.exists():
            os.truncate(self._file, self._file.read_bytes().rfind(b"\n") + 1)

    def read(self) -> list[tuple[int, int]]:
        """Places, in the order in which they were read. The last line may not be whole yet."""
        with self._file.open("rb") as file:
            file.seek(self._taken)
            whole, newline, _ = file.read().rpartition(b"\n")
        self._taken += len(whole) + len(newline)
        for line in whole.decode(errors="replace").split("\n"):
            words = line.replace("Partition:", "").replace("Offset:", "").split()
            if len(words) >= 2 and words[0].isdigit() and words[1].isdigit():
                self._read.append((int(words[0]), int(words[1])))
        return self._read
