"""A real daemon in a process of its own."""

import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from muster.blocking import ClusterClient
from protocol.errors import ErrorCode
from protocol.messages.groups import DeleteGroups, DeleteGroupsReply
from protocol.messages.topics import DeletableTopic, DeleteTopics, DeleteTopicsReply

_NONE = ErrorCode.NONE
READY_WITHIN_S = 60.0
PATIENCE = 6
"""Factor for time limits, which are for a quiet machine; only failures take the full time."""


class Daemon:
    """A `musterd` that can be killed and started again at the same address over the same folder."""

    def __init__(self, folder: Path, *settings: str, with_http: bool = False, with_kafka: bool = False) -> None:
        self.folder = folder
        self.settings = settings
        self.with_http = with_http
        self.with_kafka = with_kafka
        self.port = 0
        self.kafka_port = 0
        self.http_port = 0
        self.open: frozenset[str] = frozenset()
        """Listeners that the first line named."""
        self.process: subprocess.Popen[str] | None = None
        self.source = Path(__file__).parents[2]
        """The tree whose daemon it is."""

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self) -> "Daemon":
        http = f"127.0.0.1:{self.http_port}" if self.with_http else "off"
        command = [sys.executable, "-m", "coordinator", "--native", f"127.0.0.1:{self.port}", "--http", http]
        command += ["--kafka", f"127.0.0.1:{self.kafka_port}" if self.with_kafka else "off"]
        command += ["--data-dir", str(self.folder)]
        for setting in self.settings:
            command += ["--set", setting]
        # The command runs beside its data, not in the source tree: it must be found there too.
        path = os.pathsep.join(filter(None, (str(self.source), os.environ.get("PYTHONPATH"))))
        environment = {**os.environ, "PYTHONPATH": path}
        log = (self.folder.parent / f"{self.folder.name}.log").open("a")
        with log:
            self.process = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=log, text=True, env=environment, cwd=self.folder.parent
            )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line.startswith("ready "), f"{line!r}: {Path(log.name).read_text()[-2000:]}"
        bound = dict(part.split("=") for part in line.split()[1:])
        self.open = frozenset(bound)
        ports = {kind: int(address.rpartition(":")[2]) for kind, address in bound.items() if ":" in address}
        self.port = ports.get("native", self.port)
        self.kafka_port = ports.get("kafka", self.kafka_port)
        self.http_port = ports.get("http", self.http_port)
        return self

    def revived(self) -> "Daemon":
        """Start the daemon again if a previous test of the module has killed it."""
        return self if self.process is not None else self.start()

    def kill(self) -> None:
        """Kill the daemon as a crash would."""
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        """Stop the daemon cleanly; return the exit code."""
        return self._end(signal.SIGTERM)

    def _end(self, how: signal.Signals) -> int:
        if self.process is None:
            return 0
        self.process.send_signal(how)
        code = self.process.wait(READY_WITHIN_S)
        assert self.process.stdout is not None
        self.process.stdout.close()
        self.process = None
        return code


@contextmanager
def running(
    folder: Path, *settings: str, with_http: bool = False, with_kafka: bool = False, kafka_port: int = 0
) -> Iterator[Daemon]:
    """`kafka_port` 0: any that is free."""
    daemon = Daemon(folder, *settings, with_http=with_http, with_kafka=with_kafka)
    daemon.kafka_port = kafka_port
    daemon.start()
    try:
        yield daemon
    finally:
        daemon.kill()


def forget(daemon: Daemon, topics: Sequence[str], groups: Sequence[str] = ()) -> None:
    """Delete these, for the next test of a module. No member is left in the groups."""
    with ClusterClient(daemon.bootstrap) as connection:
        deleted = connection.ask(DeleteTopics(tuple(map(DeletableTopic, topics))))
        assert isinstance(deleted, DeleteTopicsReply)
        assert {one.error_code for one in deleted.responses} <= {_NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}, deleted
        ended = connection.ask(DeleteGroups(tuple(groups)))
        assert isinstance(ended, DeleteGroupsReply)
        assert {one.error_code for one in ended.results} <= {_NONE, ErrorCode.GROUP_ID_NOT_FOUND}, ended


def free_port() -> int:
    """Return a port on which nothing listens now, below the system's ephemeral ports."""
    while True:
        port = random.randrange(20_000, 32_000)
        if is_free(port):
            return port


def is_free(port: int) -> bool:
    with socket.socket() as probe, suppress(OSError):
        probe.bind(("127.0.0.1", port))
        return True
    return False


def within(seconds: float, holds: object, *, every_s: float = 0.02) -> bool:
    """Return whether the callable `holds` comes true in time, `PATIENCE` included."""
    assert callable(holds)
    deadline = time.monotonic() + PATIENCE * seconds
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(every_s)
    return True
