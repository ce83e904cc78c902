"""Another machine, as far as a network is concerned: a network namespace at the other end of a cable."""

import subprocess
import sys
from types import TracebackType
from typing import Final, Self

from bench.faults import check
from bench.faults.loop_disk import run

HERE: Final = "198.18.0.1"
_THERE: Final = "198.18.0.2"
_CABLE, _OTHER_END = "cable", "other-end"


class OtherMachine:
    """Entered connected. What runs there dies with it, without a word if its cable is cut."""

    def __init__(self) -> None:
        self._host: subprocess.Popen[str] | None = None
        self._running: list[subprocess.Popen[str]] = []

    def __enter__(self) -> Self:
        command = ["unshare", "--net", "sh", "-c", "echo up; exec sleep infinity"]
        self._host = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self._host.stdout is not None
        check(self._host.stdout.readline() == "up\n", "there is no other network")
        run("ip", "link", "add", _CABLE, "type", "veth", "peer", "name", _OTHER_END, "netns", str(self._host.pid))
        run("ip", "address", "add", f"{HERE}/30", "dev", _CABLE)
        run("ip", "link", "set", _CABLE, "up")
        self._there("ip", "address", "add", f"{_THERE}/30", "dev", _OTHER_END)
        self.connect()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._host is not None and self._host.stdout is not None
        for process in (*self._running, self._host):
            process.kill()
            process.wait()
            assert process.stdout is not None
            process.stdout.close()
        subprocess.run(["ip", "link", "delete", _CABLE], capture_output=True, check=False)

    def _entered(self) -> tuple[str, ...]:
        assert self._host is not None
        return ("nsenter", "--net", "--target", str(self._host.pid))

    def _there(self, *command: str) -> None:
        run(*self._entered(), *command)

    def connect(self) -> None:
        self._there("ip", "link", "set", _OTHER_END, "up")

    def cut(self) -> None:
        """Nothing comes or goes any more; nobody is told."""
        self._there("ip", "link", "set", _OTHER_END, "down")

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """A `bench.faults.peer` there, with these arguments, once it has said that it is ready."""
        command = [*self._entered(), sys.executable, "-m", "bench.faults.peer", *arguments]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self._running.append(process)
        assert process.stdout is not None
        check(process.stdout.readline() == "ready\n", f"a peer did not get ready: {' '.join(arguments)}")
        return process

    def vanish(self) -> None:
        """Cut the cable, and then end all that runs there: its last words reach nobody."""
        self.cut()
        for process in self._running:
            process.kill()
            process.wait()
