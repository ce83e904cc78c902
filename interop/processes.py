"""Client programs as processes: one that answers with a line; members that are watched, told to stop, and killed."""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, NamedTuple

from bench.processes import processes
from interop.catalogue import Client

_ROOT = Path(__file__).parents[1]
_TAIL = 1500
_SESSION = 3
"""Field of a process's session in its `stat`, from its state on."""


class Failed(Exception):
    """A capability that did not do what it should; the sentence says what was seen."""


class Record(NamedTuple):
    partition: int
    offset: int
    value: str
    seen_at: float = 0.0
    """Time at which its line was read here, by the monotonic clock."""


class Program(NamedTuple):
    """A client that is built: its description, and the folder it runs in."""

    client: Client
    folder: Path

    def start(self, arguments: Sequence[str], stderr: IO[bytes]) -> "subprocess.Popen[str]":
        """Starts it in a process group of its own, so that whatever it starts can be ended with it."""
        return subprocess.Popen(
            ["sh", "-c", f'exec {self.client.run} "$@"', self.client.name, *arguments],
            cwd=self.folder,
            env=environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            start_new_session=True,
        )

    def answer(self, arguments: Sequence[str], log: Path, timeout_s: float) -> str:
        """Runs it to its end; the last line it printed. Raises Failed for a timeout or another exit code than 0."""
        with log.open("ab") as stderr:
            process = self.start(arguments, stderr)
            try:
                out, _ = process.communicate(timeout=timeout_s)
            except subprocess.TimeoutExpired:
                raise Failed(f"no answer within {timeout_s:.0f} s; {tail(log)}") from None
            finally:
                kill_group(process)
                _close_pipes(process)
        last = out.strip().rpartition("\n")[2]
        if process.returncode:
            raise Failed(f"exit code {process.returncode}: {last} {tail(log)}")
        return last


def environment() -> dict[str, str]:
    """Return the environment of programs: the harness's interpreter as $PYTHON, with our own packages in reach."""
    return {**os.environ, "PYTHON": sys.executable, "PYTHONPATH": str(_ROOT), "PYTHONUNBUFFERED": "1"}


def kill_group(process: "subprocess.Popen[Any]") -> None:
    """SIGKILL to the program and to all it started; returns once it is gone."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait(10)


def kill_session(process: "subprocess.Popen[Any]") -> None:
    """SIGKILL to all processes of the session that the program leads, as when its machine is gone."""
    session = str(process.pid)
    for one in (pid for pid, fields in processes().items() if fields[_SESSION] == session):
        with suppress(ProcessLookupError):
            os.kill(one, signal.SIGKILL)
    process.wait(10)


def ask_to_stop(process: "subprocess.Popen[str]") -> None:
    """Write the line that ends a program; one that has ended already is left alone."""
    assert process.stdin is not None
    with suppress(BrokenPipeError):
        process.stdin.write("stop\n")
        process.stdin.flush()


def _close_pipes(process: "subprocess.Popen[Any]") -> None:
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with suppress(BrokenPipeError):
                pipe.close()


def tail(log: Path) -> str:
    """The last of what a program said on stderr, for a sentence about its failure."""
    text = log.read_text(errors="replace") if log.exists() else ""
    return f"stderr: {text[-_TAIL:].strip()}" if text.strip() else "it said nothing on stderr"


class Member:
    """A `member` of a program, and what it has told so far. Its fields change under the crowd's condition."""

    def __init__(self, name: str, process: "subprocess.Popen[str]", changed: threading.Condition) -> None:
        self.name = name
        self.history: list[frozenset[int]] = []
        self.records: list[Record] = []
        self.garbled: list[str] = []
        self.committed = False
        self.ended = False
        self._process = process
        self._changed = changed
        self._reader = threading.Thread(target=self._read, name=f"reads {name}", daemon=True)
        self._reader.start()

    @property
    def owned(self) -> frozenset[int]:
        """Return the last assignment that the member printed."""
        return self.history[-1] if self.history else frozenset()

    def stop(self, timeout_s: float = 30.0) -> None:
        """Asks it to leave; returns once it has ended. Raises Failed if it does not, or not with exit code 0."""
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.write("stop\n")
            self._process.stdin.flush()
        self.join(timeout_s)

    def join(self, timeout_s: float) -> None:
        """Waits until it has ended by itself. Raises Failed if it does not, or with another exit code than 0."""
        try:
            code = self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise Failed(f"{self.name} did not end within {timeout_s:.0f} s") from None
        self._reader.join(5)
        self.ended = True
        if code:
            raise Failed(f"{self.name} ended with exit code {code}")

    def kill(self) -> None:
        self.ended = True
        kill_group(self._process)
        self._reader.join(5)
        _close_pipes(self._process)

    @property
    def exit_code(self) -> int | None:
        return self._process.poll()

    def _read(self) -> None:
        assert self._process.stdout is not None
        with suppress(ValueError):  # closed under us, after a kill
            for line in self._process.stdout:
                if line.startswith("{"):
                    with self._changed:
                        self._take(line)
                        self._changed.notify_all()
        with self._changed:
            self._changed.notify_all()

    def _take(self, line: str) -> None:
        try:
            event = json.loads(line)
        except json.JSONDecodeError:  # cut off by a kill, or the program's own mistake: then it is told of
            self.garbled.append(line.rstrip())
            return
        match event.get("event"):
            case "assigned":
                self.history.append(frozenset(event["partitions"]))
            case "record":
                self.records.append(Record(event["partition"], event["offset"], event["value"], time.monotonic()))
            case "committed":
                self.committed = True


class Crowd:
    """The members of one scenario. Ends them all, whatever happens."""

    def __init__(self, logs: Path) -> None:
        self.members: list[Member] = []
        self._changed = threading.Condition()
        self._logs = logs

    def start(self, program: Program, arguments: Sequence[str]) -> Member:
        number = len(self.members) + 1
        with (self._logs / f"member-{number}.log").open("ab") as stderr:
            process = program.start(["member", *arguments], stderr)
        member = Member(f"member {number} ({program.client.name})", process, self._changed)
        self.members.append(member)
        return member

    def wait(self, holds: Callable[[], bool], what: str, timeout_s: float) -> None:
        """Returns once `holds` does. Raises Failed, saying all that is known, in time or when a member ends early."""
        ends = time.monotonic() + timeout_s
        with self._changed:
            while not holds():
                dead = [member for member in self.members if not member.ended and member.exit_code is not None]
                left = ends - time.monotonic()
                if left <= 0 or dead:
                    raise Failed(f"{what}: not {'before a member ended' if dead else 'in time'}; {self.state()}")
                self._changed.wait(min(left, 0.2))

    def state(self) -> str:
        """Describe the partitions of every member, and the last output of those that failed."""
        lines = []
        for number, member in enumerate(self.members, 1):
            lines += [f"{member.name} said what is no JSON: {line}" for line in member.garbled]
            code = member.exit_code
            alive = "alive" if code is None else f"ended ({code})"
            lines.append(f"{member.name} {alive} owns {sorted(member.owned)} after {len(member.history)} assignments")
            if code is not None and not member.ended:
                lines.append(tail(self._logs / f"member-{number}.log"))
        return "; ".join(lines)

    def end(self) -> None:
        for member in self.members:
            member.kill()


@contextmanager
def crowd(logs: Path) -> Iterator[Crowd]:
    gathered = Crowd(logs)
    try:
        yield gathered
    finally:
        gathered.end()


def missing(client: Client) -> tuple[str, ...]:
    """Return the executables that a client needs and this machine lacks; "one|other" needs either."""
    return tuple(name for name in client.needs if not any(map(shutil.which, name.split("|"))))
