"""The processes the demo starts, each ended by it, and by its own means should the demo itself be killed."""

import json
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

READY = "ready "
SAMPLES_MS = 1_000
"""Interval of the daemon's samples of lag: the demo lasts a minute, and its report tells of lag by time."""


class ProcessEnded(Exception):
    """A process that should be running is not."""


def python(*arguments: str, log: Path, **given: Any) -> subprocess.Popen[str]:
    """A session of its own: Ctrl-C is for the demo, which then ends its processes in order."""
    with log.open("a") as errors:
        return subprocess.Popen(
            [sys.executable, "-m", *arguments],
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            start_new_session=True,
            **given,
        )


def end(process: subprocess.Popen[str], *, patience_s: float = 10.0) -> None:
    """In good order, or else at once."""
    if process.stdin is not None:
        process.stdin.close()
    else:
        process.terminate()
    try:
        process.wait(patience_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


class Daemon:
    """A musterd on free ports, with its data in `folder`."""

    def __init__(self, folder: Path) -> None:
        self.log = folder / "musterd.log"
        addresses = ("--native", "127.0.0.1:0", "--kafka", "127.0.0.1:0", "--http", "127.0.0.1:0")
        settings = ("--data-dir", str(folder / "data"), "--set", f"ends.sample.interval.ms={SAMPLES_MS}")
        self.process = python("coordinator", *addresses, *settings, log=self.log)
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line.startswith(READY):
            self.process.kill()
            raise ProcessEnded(f"musterd did not start:\n{self.log.read_text()}")
        self.addresses = dict(part.split("=", 1) for part in line.removeprefix(READY).split())

    @property
    def bootstrap(self) -> str:
        return self.addresses["native"]

    def check(self) -> None:
        """Raises `ProcessEnded`."""
        if self.process.poll() is not None:
            raise ProcessEnded(f"musterd ended with {self.process.returncode}:\n{self.log.read_text()[-2_000:]}")

    def end(self) -> None:
        end(self.process)


class PlainMember:
    """A consumer in a process of its own, and what it has reported. `module` is the program it runs."""

    def __init__(
        self,
        name: str,
        bootstrap: str,
        group: str,
        topic: str,
        sink: Path,
        log: Path,
        records_per_s: int,
        module: str = "demo.plain_member",
    ) -> None:
        self.name = name
        self.log = log
        self.read = 0
        self.holds: list[int] = []
        self.news: list[dict[str, Any]] = []
        arguments = (bootstrap, group, topic, name, str(sink), str(records_per_s))
        self.process = python(module, *arguments, log=log, stdin=subprocess.PIPE)
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            said = json.loads(line)
            self.read += said.get("read", 0)
            if "holds" in said:
                self.holds = said["holds"]
            if "read" not in said:
                self.news.append(said)

    @property
    def is_running(self) -> bool:
        return self.process.poll() is None

    def check(self) -> None:
        """Raises `ProcessEnded`."""
        if not self.is_running:
            raise ProcessEnded(f"{self.name} ended with {self.process.returncode}:\n{self.log.read_text()[-2_000:]}")

    def kill(self) -> None:
        """SIGKILL: it can neither commit nor say goodbye."""
        self.process.kill()
        self.process.wait()

    def end(self) -> None:
        if self.is_running:
            end(self.process)
