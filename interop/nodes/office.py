"""Programs with many clerks, and what they say."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from bench.builds import NotHere
from interop import builds, catalogue
from interop.nodes.judge import Clerk
from interop.processes import ask_to_stop, environment, kill_group, missing

IN_PYTHON = ("confluent-kafka", "aiokafka", "muster")
BUILT = ("java", "go-franz")
LIBRARIES = (*IN_PYTHON, *BUILT)
_STOP_S = 120.0


class Office:
    """A process with clerks of one library, each with a group of its own."""

    def __init__(self, library: str, clerks: int, topic: str, bootstrap: str, pause_ms: int, work: Path) -> None:
        self.library = library
        prefix = f"clerks-{library}"
        self.clerks = {f"{prefix}-{number}": Clerk(f"{prefix}-{number}") for number in range(clerks)}
        arguments = ["--bootstrap", bootstrap, "--topic", topic, "--group", prefix, "--count", str(clerks)]
        arguments += ["--pause-ms", str(pause_ms)]
        self._garbled: list[str] = []
        self.log = work / f"{library}.log"
        with self.log.open("ab") as errors:
            self._process = _started(library, arguments, errors.fileno())
        self._reader = threading.Thread(target=self._read, name=f"reads {library}", daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        with suppress(ValueError):  # closed under us, after a kill
            for line in self._process.stdout:
                if line.startswith("{"):
                    self._hear(line)

    def _hear(self, line: str) -> None:
        try:
            event = json.loads(line)
        except json.JSONDecodeError:  # cut off by a kill, or the program's own mistake: then it is told of
            self._garbled.append(line.rstrip())
        else:
            self.clerks[event["group"]].hear(event)

    @property
    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def stop(self) -> str | None:
        """Ask all to end; what went wrong."""
        ask_to_stop(self._process)
        try:
            code = self._process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            return f"the clerks of {self.library} did not end within {_STOP_S:g} s"
        self._reader.join(10)
        if self._garbled:
            return f"the clerks of {self.library} said what is no JSON: {self._garbled[0]}"
        return f"the clerks of {self.library} ended with {code}" if code else None

    def kill(self) -> None:
        kill_group(self._process)
        self._reader.join(5)
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with suppress(BrokenPipeError):
                    pipe.close()


def _started(library: str, arguments: Sequence[str], errors: int) -> "subprocess.Popen[str]":
    if library in IN_PYTHON:
        command = [sys.executable, "-m", "interop.nodes.in_python", library, *arguments]
        folder = Path(__file__).parents[2]
    else:
        program = builds.built(builds.CLIENTS / library, _client(library))
        command = ["sh", "-c", f'exec {program.client.run} "$@"', library, "clerks", *arguments]
        command += ["--session-timeout-ms", "45000"]
        folder = program.folder
    return subprocess.Popen(
        command,
        cwd=folder,
        env={**os.environ, **environment()},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=errors,
        text=True,
        start_new_session=True,
    )


def _client(library: str) -> catalogue.Client:
    client = catalogue.read((builds.CLIENTS / library / "client.toml").read_bytes())
    if lacking := missing(client):
        raise NotHere(f"there is no {', '.join(lacking)} here, which {client.name} needs")
    return client
