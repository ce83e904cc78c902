"""Members of groups that run by themselves: in a thread, or in a process that can be killed."""

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from tests.edges.kafka.client import Consumer, Got, Library, Membership, Part

Result = TypeVar("Result")
POLL_S = 0.05
ENDS_WITHIN_S = 30.0


class Member:
    """A consumer that a thread of its own polls; other calls are passed to that thread."""

    def __init__(
        self, library: Library, bootstrap: str, membership: Membership, topics: Sequence[str], like: str | None = None
    ) -> None:
        self.got: list[Got] = []
        self.assignment: frozenset[Part] = frozenset()
        self.assignments: list[frozenset[Part]] = []
        """All assignments seen, in order."""
        self.failed: BaseException | None = None
        self._errands: SimpleQueue[tuple[Callable[[Consumer], Any], Future[Any]]] = SimpleQueue()
        self._over = threading.Event()
        self._thread = threading.Thread(
            target=self._run, args=(library, bootstrap, membership, topics, like), daemon=True
        )
        self._thread.start()

    def _run(
        self, library: Library, bootstrap: str, membership: Membership, topics: Sequence[str], like: str | None
    ) -> None:
        try:
            consumer = library.consumer(bootstrap, membership)
            try:
                if like is None:
                    consumer.subscribe(topics)
                else:
                    consumer.subscribe_to_names_like(like)
                while not self._over.is_set():
                    self._run_errands(consumer)
                    self.got += consumer.poll(POLL_S)
                    self._look(consumer.assignment())
            finally:
                consumer.close()
        except BaseException as failure:  # noqa: BLE001  (the test that asks for it sees it)
            self.failed = failure
            while not self._over.wait(POLL_S):
                self._refuse_errands(failure)

    def _look(self, assignment: frozenset[Part]) -> None:
        self.assignment = assignment
        if not self.assignments or self.assignments[-1] != assignment:
            self.assignments.append(assignment)

    def _run_errands(self, consumer: Consumer) -> None:
        while True:
            try:
                errand, done = self._errands.get_nowait()
            except Empty:
                return
            try:
                done.set_result(errand(consumer))
            except BaseException as failure:  # noqa: BLE001  (raised where it was asked)
                done.set_exception(failure)

    def _refuse_errands(self, failure: BaseException) -> None:
        with suppress(Empty):
            while True:
                self._errands.get_nowait()[1].set_exception(failure)

    def do(self, errand: Callable[[Consumer], Result]) -> Result:
        """Run a function in the consumer's own thread, between two polls."""
        done: Future[Result] = Future()
        self._errands.put((errand, done))
        return done.result(ENDS_WITHIN_S)

    def close(self) -> None:
        """Close the consumer; it leaves the group unless it is a static member."""
        self._over.set()
        self._thread.join(ENDS_WITHIN_S)
        assert not self._thread.is_alive()


class MemberProcess:
    """A consumer in a process, which prints records before it commits them."""

    def __init__(self, library: Library, bootstrap: str, membership: Membership, topics: Sequence[str]) -> None:
        self.library = library
        self.got: list[tuple[Part, int]] = []
        self.assignment: frozenset[Part] = frozenset()
        what = {
            "library": library.name,
            "bootstrap": bootstrap,
            "membership": asdict(membership),
            "topics": list(topics),
        }
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.edges.kafka.member", json.dumps(what)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[3],
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self.said = ""
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if not line.endswith("\n"):
                return  # killed within a line: it has not committed that record
            said = json.loads(line)
            if "assigned" in said:
                self.assignment = frozenset((topic, partition) for topic, partition in said["assigned"])
            else:
                self.got += [((topic, partition), offset) for topic, partition, offset in said["got"]]

    def _listen(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self.said = (self.said + line)[-4_000:]

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def stop(self) -> int:
        """Stop it cleanly, so that it leaves its group; return the exit code."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        return self._ended()

    def kill(self) -> None:
        """Kill it: its sockets close, and it sends nothing to the server."""
        self._process.kill()
        self._ended()

    def _ended(self) -> int:
        code = self._process.wait(ENDS_WITHIN_S)
        for thread in (self._reader, self._listener):
            thread.join(ENDS_WITHIN_S)
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            assert pipe is not None
            pipe.close()
        return code
