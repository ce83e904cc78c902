"""Server processes to be measured: a musterd, or a bare server; and what the kernel says they cost."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from bench.wire import Wire

_START_S = 60.0
_STOP_S = 30.0

QUICK_GROUPS: Mapping[str, str] = {"group.initial.rebalance.delay.ms": "0"}
"""Groups form at once: nobody waits for members that may still come."""


class ServerProcess:
    """A child that prints `ready KIND=HOST:PORT ...` as its first line and serves until SIGTERM."""

    def __init__(self, command: list[str], log: Path = Path(os.devnull), tree: Path | None = None) -> None:
        """Start the command; its standard error is appended to `log`. `tree` has the sources to run; None: these."""
        place = None if tree is None else {**os.environ, "PYTHONPATH": str(tree)}
        with log.open("a") as errors:
            self.process = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=errors, text=True, cwd=tree, env=place
            )
        self.pid = self.process.pid
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line.startswith("ready "):
            self.kill()
            said = "" if log == Path(os.devnull) else log.read_text()[-2_000:]
            raise RuntimeError(f"{' '.join(command)} did not serve; its first line: {line!r} {said}".strip())
        self.addresses: dict[str, tuple[str, int]] = {}
        for word in line.split()[1:]:
            kind, _, address = word.partition("=")
            host, is_address, port = address.rpartition(":")
            if is_address:  # `tls=kafka` is none
                self.addresses[kind] = (host, int(port))
        self.native = self.addresses["native"]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    def cpu_s(self) -> float:
        """Seconds of processor the process has used, all its threads together, to the nanosecond."""
        return time.clock_gettime(~self.pid << 3 | 2)  # the kernel's name for "the clock of that process"

    def resident_bytes(self) -> int:
        """Memory that is in use by the process now."""
        with Path(f"/proc/{self.pid}/statm").open() as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def is_alive(self) -> bool:
        return self.process.poll() is None

    def kill(self) -> None:
        """SIGKILL, and wait until it is gone."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
        self._reap()

    def stop(self) -> int:
        """SIGTERM; its exit code."""
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(_STOP_S)
        finally:
            self.kill()

    def _reap(self) -> None:
        self.process.wait(_STOP_S)
        if self.process.stdout is not None:
            self.process.stdout.close()


class Daemon(ServerProcess):
    """A musterd on free ports."""

    def __init__(
        self,
        data_dir: Path,
        settings: Mapping[str, str] = QUICK_GROUPS,
        *,
        http: bool = True,
        tree: Path | None = None,
    ) -> None:
        super().__init__(self.command(data_dir, settings, http=http), tree=tree)

    @staticmethod
    def command(data_dir: Path, settings: Mapping[str, str] = QUICK_GROUPS, *, http: bool = True) -> list[str]:
        """Return the command line of a daemon."""
        command = [sys.executable, "-m", "coordinator", "--data-dir", str(data_dir), "--native", "127.0.0.1:0"]
        command += ["--kafka", "127.0.0.1:0", "--http", "127.0.0.1:0" if http else "off"]
        for key, value in settings.items():
            command += ["--set", f"{key}={value}"]
        return command

    def create_topic(self, name: str, partitions: int, open_wire: Callable[[tuple[str, int]], Wire] = Wire) -> None:
        """Offsets can only be committed for partitions that exist."""
        with open_wire(self.native) as wire:
            (created,) = wire.call("CreateTopics", topics=[{"name": name, "num_partitions": partitions}])["topics"]
            assert not created["error_code"], created

    def wait_until_loaded(self) -> None:
        """Returns once `/readyz` says that every shard is loaded."""
        host, port = self.addresses["http"]
        ends = time.monotonic() + _START_S
        while time.monotonic() < ends:
            if _answers_200(f"http://{host}:{port}/readyz"):
                return
            time.sleep(0.002)
        raise RuntimeError("the daemon did not get ready")


def _answers_200(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, ConnectionError):
        return False


class Bare(ServerProcess):
    """A bare server: see `bench.bare`."""

    def __init__(self, kind: str) -> None:
        super().__init__([sys.executable, "-m", "bench.bare", kind])


def free_ports(count: int) -> list[int]:
    """Different ones that nobody listens at just now."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [int(each.getsockname()[1]) for each in sockets]
    for each in sockets:
        each.close()
    return ports


def descendants() -> dict[int, list[str]]:
    """Return the processes below this one, as `processes` does."""
    found = processes()
    return {process: fields for process, fields in found.items() if _descends(process, found)}


def processes() -> dict[int, list[str]]:
    """Return all processes, each with the fields of its `stat` from its state on."""
    found: dict[int, list[str]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with contextlib.suppress(OSError):
                found[int(entry.name)] = (entry / "stat").read_text().rpartition(")")[2].split()
    return found


def spark_readers() -> set[int]:
    """Return the processes in which Spark runs the readers of streaming queries of this process's session."""
    found = set()
    for process in descendants():
        with contextlib.suppress(OSError):
            if b"python_streaming_source_runner" in Path(f"/proc/{process}/cmdline").read_bytes():
                found.add(process)
    return found


def _descends(process: int, known: Mapping[int, list[str]]) -> bool:
    while process in known and (parent := int(known[process][1])) != os.getpid():
        process = parent
    return process in known


@contextlib.contextmanager
def scratch(*, in_memory: bool = False) -> Iterator[Path]:
    """A folder for a daemon's data, gone afterwards. In memory, a sync costs nothing."""
    shared = Path("/dev/shm")
    with tempfile.TemporaryDirectory(
        prefix="muster-bench-", dir=shared if in_memory and shared.is_dir() else None
    ) as folder:
        yield Path(folder)
