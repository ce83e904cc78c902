"""The server under test: a musterd of our own, which can be killed and started again, or one that runs already."""

import signal
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from bench import peers
from bench.processes import ServerProcess


class Server:
    """Someone else's server: an address, and nothing we may do to it."""

    security: Mapping[str, str] = {}
    """Settings with which the harness itself logs in, by librdkafka's names."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap

    @property
    def is_ours(self) -> bool:
        return False

    def crash(self) -> None:
        raise NotImplementedError("the server is not ours to kill")


class Musterd(Server):
    """A fresh musterd with its data in a folder, at one address for as long as it lives."""

    http = "off"
    """Address of the HTTP listener."""
    kafka = "127.0.0.1:0"
    """Address of the listener for Kafka's clients."""

    def __init__(self, folder: Path, *settings: str) -> None:
        self._folder = folder
        self._settings = [word for setting in settings for word in ("--set", setting)]
        self._process = self._start(self.kafka)
        host, port = self._process.addresses["kafka"]
        self.kafka = f"{host}:{port}"
        super().__init__(self.kafka)

    @property
    def is_ours(self) -> bool:
        return True

    def crash(self) -> None:
        """SIGKILL; returns once it serves again, at the same address over the same data."""
        self.end()
        self.start()

    def start(self) -> None:
        """Start it again after its end, at the same address over the same data."""
        self._process = self._start(self.kafka, self.native)

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal to the process."""
        self._process.process.send_signal(number)

    @property
    def native(self) -> str:
        """Address of the native protocol."""
        host, port = self._process.addresses["native"]
        return f"{host}:{port}"

    @property
    def http_port(self) -> int:
        """Port of the HTTP listener, where there is one."""
        return self._process.addresses["http"][1]

    @property
    def cpu_s(self) -> float:
        """Seconds of processor it has used since it was started last."""
        return self._process.cpu_s()

    @property
    def data(self) -> Path:
        return self._folder / "data"

    def stop(self) -> None:
        """SIGTERM; returns once it has ended, in good order."""
        code = self._process.stop()
        assert code == 0, f"musterd ended with {code}"

    def end(self) -> None:
        self._process.kill()

    def _start(self, address: str, native: str = "127.0.0.1:0") -> ServerProcess:
        self._folder.mkdir(parents=True, exist_ok=True)
        command = [
            sys.executable,
            "-m",
            "coordinator",
            "--data-dir",
            str(self.data),
            "--kafka",
            address,
            *self._settings,
        ]
        command += ["--native", native, "--http", self.http, "--set", "group.initial.rebalance.delay.ms=200"]
        return ServerProcess(["sh", "-c", 'exec "$@" 2>>"$0"', str(self._folder / "musterd.log"), *command])


@contextmanager
def serving(bootstrap: str | None, folder: Path) -> Iterator[Server]:
    """The server at this address, or without one a musterd that ends with the block."""
    if bootstrap is not None:
        yield Server(bootstrap)
        return
    ours = Musterd(folder)
    try:
        yield ours
    finally:
        ours.end()


@contextmanager
def apache_kafka(folder: Path) -> Iterator[Server]:
    """An Apache Kafka broker of its own, whose jars are fetched once. Raises `bench.builds.NotHere`."""
    folder.mkdir(parents=True, exist_ok=True)
    with peers.apache_kafka(folder, may_fetch=True) as peer:
        yield Server(f"127.0.0.1:{peer.port}")
