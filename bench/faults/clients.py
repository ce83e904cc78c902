"""Clients whose word counts: commits with what was acknowledged, and members that heartbeat in time."""

import contextlib
import json
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from bench.faults import Broken, check
from bench.processes import Daemon, ServerProcess
from bench.wire import Refusal, Wire
from muster import GroupMember
from muster.errors import MusterError

TOPIC, PARTITIONS = "flights", 100
GROUP, SESSION_MS = "crew", 6_000
_HEARTBEAT_MS = 1_000
_PASSING = (14, 15, 16)  # loading, not available, not coordinator
_DISK_FAILED = 74
_PATIENCE_S = 30.0


def within(seconds: float, holds: Callable[[], bool], otherwise: str) -> None:
    """Wait until it holds. Raise Broken if it does not in time."""
    ends = time.monotonic() + seconds
    while not holds():
        check(time.monotonic() < ends, f"{otherwise} within {seconds:g} s")
        time.sleep(0.05)


class Served:
    """A daemon over a folder. One that ended because its disk failed is started again, as systemd does."""

    def __init__(self, data: Path, log: Path, arguments: Sequence[str] = (), **settings: object) -> None:
        self._log = log
        named = {key.replace("_", "."): str(value) for key, value in settings.items()}
        self._command = [*Daemon.command(data, named), *arguments]
        self.failures = 0
        self.server = self._start()
        with Wire(self.server.native) as wire:
            wire.call("CreateTopics", topics=[{"name": TOPIC, "num_partitions": PARTITIONS}])

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.server.kill()

    def _start(self) -> ServerProcess:
        return ServerProcess(self._command, self._log)

    def wire(self) -> Wire:
        """A new connection. Raises OSError where there is none."""
        return Wire(self.server.native)

    @property
    def bootstrap(self) -> str:
        host, port = self.server.native
        return f"{host}:{port}"

    def has_failed(self) -> bool:
        """Return whether the daemon ended because its disk failed. Raises Broken if it ended otherwise."""
        code = self.server.process.poll()
        check(code in (None, _DISK_FAILED), f"musterd ended with exit code {code}")
        return code is not None

    def restart_if_failed(self) -> bool:
        if not self.has_failed():
            return False
        self.failures += 1
        self.server.kill()
        self.server = self._start()
        return True

    def restart(self) -> None:
        """Kill it, and start it again."""
        self.server.kill()
        self.server = self._start()

    def readyz(self) -> dict[str, Any]:
        """Ready or not."""
        host, port = self.server.addresses["http"]
        try:
            answer = urllib.request.urlopen(f"http://{host}:{port}/readyz", timeout=5)
        except urllib.error.HTTPError as refusal:
            answer = refusal
        with answer:
            said: dict[str, Any] = json.load(answer)
            return said

    def is_ready(self) -> bool:
        """Raises Broken where a shard cannot be loaded."""
        said = self.readyz()
        check("failed_shards" not in said, f"shards cannot be loaded: {said.get('failed_shards')}")
        return bool(said["ready"])

    def gauge(self, name: str) -> int:
        """A number of the node's."""
        with self.wire() as wire:
            return int(wire.call("DescribeNode")["gauges"][name])

    def lines(self, beginning: str) -> int:
        """Return the number of log events with this beginning."""
        return self._log.read_text().count(f'"event": "{beginning}')


class Ledger:
    """The acknowledged offset of each group, and the one tried since; it is committed for all partitions."""

    def __init__(self) -> None:
        self.acknowledged: dict[str, int] = {}
        self.count = 0
        self.refused = 0
        self._tried: dict[str, int] = {}

    def commit(self, wire: Wire, group_id: str) -> bool:
        """Commit the next offset; whether that was acknowledged. Raises OSError when the connection ends."""
        offset = self._tried[group_id] = self._tried.get(group_id, 0) + 1
        entries = [{"partition_index": index, "committed_offset": offset} for index in range(PARTITIONS)]
        try:
            reply = wire.call("OffsetCommit", group_id=group_id, topics=[{"name": TOPIC, "partitions": entries}])
        except Refusal as refusal:
            codes = {refusal.code}
        else:
            codes = {entry["error_code"] for topic in reply["topics"] for entry in topic["partitions"]}
        check(codes == {0} or codes <= set(_PASSING), f"a commit was answered with {codes}")
        if codes != {0}:
            self.refused += 1
            return False
        self.acknowledged[group_id] = offset
        self.count += 1
        return True

    def compare(self, served: Served) -> None:
        """Raise Broken where an acknowledged offset is not there."""
        within(_PATIENCE_S, served.is_ready, "musterd was not ready")
        lost = []
        with served.wire() as wire:
            for group_id, offset in self.acknowledged.items():
                (group,) = wire.call("OffsetFetch", groups=[{"group_id": group_id}])["groups"]
                kept = [entry["committed_offset"] for topic in group["topics"] for entry in topic["partitions"]]
                if len(kept) != PARTITIONS or not offset <= min(kept) <= max(kept) <= self._tried[group_id]:
                    found = f"{min(kept)} to {max(kept)}" if kept else "nothing"
                    lost.append(f"{group_id}: {offset} was acknowledged, {found} of {len(kept)} partitions is there")
        check(not lost, f"{len(lost)} of {len(self.acknowledged)} groups lost acknowledged commits: {lost[:1]}")


class Committer:
    """Commits for several groups in turn, in a thread, until it is told to stop; connects again when cut off."""

    def __init__(self, served: Served, ledger: Ledger, groups: int = 50) -> None:
        self._served = served
        self._ledger = ledger
        self._groups = [f"group-{number:04d}" for number in range(groups)]
        self._is_over = threading.Event()
        self._broken: Broken | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_over.set()
        self._thread.join(_PATIENCE_S)
        if self._broken is not None and error is None:
            raise self._broken

    def _run(self) -> None:
        try:
            while not self._is_over.is_set():
                with contextlib.suppress(OSError), self._served.wire() as wire:
                    self._commit(wire)
                time.sleep(0.05)
        except Broken as broken:
            self._broken = broken

    def _commit(self, wire: Wire) -> None:
        while True:
            for group_id in self._groups:
                if self._is_over.is_set():
                    return
                if not self._ledger.commit(wire, group_id):
                    time.sleep(0.05)


class Crew:
    """Members of one group, a thread each, that heartbeat once a second and leave nothing unread."""

    def __init__(self, bootstrap: str, members: int = 3) -> None:
        self._is_over = threading.Event()
        self._bootstrap = bootstrap
        self.assigned = [0] * members
        self._threads = [threading.Thread(target=self._run, args=(index,), daemon=True) for index in range(members)]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_over.set()
        for thread in self._threads:
            thread.join(_PATIENCE_S)

    def await_all(self, partitions: int = PARTITIONS, seconds: float = _PATIENCE_S) -> None:
        """Wait until its members have so many partitions together, and each has some."""
        has_all = lambda: sum(self.assigned) == partitions and 0 not in self.assigned  # noqa: E731
        within(seconds, has_all, f"{len(self.assigned)} members did not share {partitions} partitions")

    def _run(self, index: int) -> None:
        member = GroupMember(
            self._bootstrap,
            GROUP,
            [TOPIC],
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=_HEARTBEAT_MS,
            client_id=f"crew-{index}",
        )
        with contextlib.suppress(MusterError):
            while not self._is_over.is_set():
                with contextlib.suppress(MusterError):
                    member.poll(0.1)
                self.assigned[index] = len(member.assignment)
            member.close(2)


class Watch:
    """Return the notes of the crew's group since a moment, or the start."""

    def __init__(self, served: Served, *, from_start: bool = False) -> None:
        self._served = served
        self._after = -1 if from_start else self._notes()[-1]["number"]

    def _notes(self, after: int = -1) -> list[dict[str, Any]]:
        with self._served.wire() as wire:
            notes: list[dict[str, Any]] = wire.call("ListNotes", group_id=GROUP, after=after, limit=1_000)["notes"]
            return notes

    def causes(self) -> list[str]:
        return [note["cause"] for note in self._notes(self._after)]

    def nobody_was_evicted(self, during: str) -> None:
        """Raise Broken if the group moved at all."""
        if causes := self.causes():
            raise Broken(f"members that heartbeat in time did not stay {during}: {causes}")
