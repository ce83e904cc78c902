"""Consumers that are processes of their own, what each has read, and whether all go on after something happens."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from interop.load import Load
from interop.processes import kill_session

_STOP_S = 90.0
_LOOK_S = 0.25


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


class Telling:
    """Lets things happen while records are written and read, and measures the time until all goes on."""

    def __init__(
        self,
        readers: Sequence[Reader],
        load: Load,
        *,
        followers: Sequence[Reader] = (),
        ease_s: float,
        patience_s: float,
    ) -> None:
        """`readers` read what the load writes; `followers` something else, and must go on too."""
        self.failed: list[str] = []
        self._readers = readers
        self._all = (*readers, *followers)
        self._load = load
        self._ease_s = ease_s
        self._patience_s = patience_s

    def tell(self, what: str, happen: Callable[[], None], *, by_all: bool = True) -> None:
        """Let it happen, and look that all that was acknowledged by then is read, by and by; and that every member has
        read something since."""
        begun = time.monotonic()
        happen()
        over = time.monotonic()
        due = set(self._load.acknowledged)
        before = {reader.name: len(reader.read()) for reader in self._all}
        waiting, seen = ["everything"], set[tuple[int, int]]()
        while waiting and time.monotonic() - over < self._patience_s:
            time.sleep(_LOOK_S)
            for reader in self._readers:
                seen.update(reader.read())
            due -= seen
            waiting = [f"{len(due)} records"] if due else []
            if by_all:
                waiting += [one.name for one in self._all if one.is_alive and len(one.read()) == before[one.name]]
        caught_up_s = time.monotonic() - over
        dead = [f"{reader.name} has ended" for reader in self._all if not reader.is_alive]
        self.failed += [f"{what}: {one}" for one in dead + [f"still waiting for {one}" for one in waiting]]
        said = "; ".join(dead + waiting) or "all read"
        print(f"{what}: {over - begun:.1f} s; after {caught_up_s:.1f} s more: {said}", flush=True)
        time.sleep(self._ease_s)
