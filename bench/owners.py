"""One owner a partition, whatever dies: `python -m bench.owners [--records N] [--seed S]`.

A million records are read by two groups at once: streams on the ownership registry, and client-balanced consumers,
three processes each. Again and again one of them, or the daemon, dies by SIGKILL and is started anew, until both groups
have committed everything. Meanwhile the registry is asked over HTTP as fast as it answers.

Exits 1 if a record was handed out by nobody; if one came twice though neither its reader nor the daemon had died; if an
offset was skipped; if an epoch went back, or had two owners.
"""

import argparse
import http.client
import json
import random
import subprocess
import sys
import threading
import time
from bisect import bisect_right
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

from bench.owning_reader import LINE
from bench.processes import QUICK_GROUPS, ServerProcess, free_ports, scratch
from bench.wire import Wire
from muster import Producer

TOPIC, PARTITIONS, MEMBERS = "flights", 12, 3
KINDS = ("streams", "balanced")
_PAYLOAD = b"x" * 84
_SETTINGS = {**QUICK_GROUPS, "group.min.session.timeout.ms": "1000", "wal.checkpoint.bytes": str(8 << 20)}
_RATE = 6_000.0  # messages a second and process at most: else they would be through before anything dies
_PATIENCE_S = 600.0
_DAEMON_SHARE = 0.25
_BETWEEN_S = 1.0, 3.0
_FORGETS_S = 8.0
"""So long after a daemon died its members may find out that what they did is not on record."""


class Handed(NamedTuple):
    """A message that somebody got."""

    at_s: float
    reader: int
    offset: int


class Judgement(NamedTuple):
    handed: int
    missing: int
    behind_a_reader: int
    behind_the_daemon: int
    unexplained: list[str]


class Reader:
    """One place in a group: a process, and the next after it is killed. Each writes a diary of its own."""

    def __init__(self, kind: str, node: int, bootstrap: str, folder: Path) -> None:
        self.kind, self.node = kind, node
        self._bootstrap, self._folder = bootstrap, folder
        self.diaries: list[Path] = []
        self.died_at_s: dict[int, float] = {}
        self.start()

    def start(self) -> None:
        path = self._folder / f"{self.kind}-{self.node}-{len(self.diaries)}"
        self.diaries.append(path)
        place = [TOPIC, str(self.node), str(MEMBERS), str(_RATE), str(path)]
        command = [sys.executable, "-m", "bench.owning_reader", self.kind, self._bootstrap, f"by-{self.kind}", *place]
        with path.with_suffix(".log").open("w") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=log)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        self.died_at_s[len(self.diaries) - 1] = time.monotonic()

    def leave(self) -> int:
        """Its exit code."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        return self.process.wait(60)


class Sampler(threading.Thread):
    """Reads the registry as often as it answers."""

    def __init__(self, port: int) -> None:
        super().__init__(daemon=True)
        self._port = port
        self.samples = self.grants = 0
        self.violations: list[str] = []
        self.is_over = False
        self._seen: dict[tuple[str, str, int], tuple[int, str]] = {}

    def run(self) -> None:
        while not self.is_over:
            for kind in KINDS:
                try:
                    self._look(f"by-{kind}")
                except (OSError, http.client.HTTPException):
                    time.sleep(0.02)

    def _look(self, group: str) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=5)
        try:
            connection.request("GET", f"/v1/groups/{group}/ownership")
            answer = connection.getresponse()
            if answer.status != 200:
                return
            partitions: list[dict[str, Any]] = json.loads(answer.read())["partitions"]
        finally:
            connection.close()
        self.samples += 1
        for one in partitions:
            key = group, one["topic"], one["partition"]
            epoch, member_id = one["epoch"], one["member_id"]
            before = self._seen.get(key, (0, ""))
            if epoch < before[0]:
                self.violations.append(f"{key}: epoch {epoch} after {before[0]}")
            elif epoch == before[0] and member_id != before[1]:
                self.violations.append(f"{key}: epoch {epoch} is {member_id}'s, and was {before[1]}'s")
            self.grants += epoch > before[0]
            self._seen[key] = epoch, member_id


class Story:
    """All of it."""

    def __init__(self, folder: Path, records: int, seed: int, *, most_kills: int | None = None) -> None:
        self.folder, self.records, self.most_kills = folder, records, most_kills
        self.chance = random.Random(seed)
        self.native, self.http = free_ports(2)
        self.kills: Counter[str] = Counter()
        self.daemon_died_s: list[float] = []
        self.daemon = self._begin()
        self._produce()
        bootstrap = f"127.0.0.1:{self.native}"
        self.readers = [Reader(kind, node, bootstrap, folder) for kind in KINDS for node in range(MEMBERS)]
        self.sampler = Sampler(self.http)

    def _begin(self) -> ServerProcess:
        command = [sys.executable, "-m", "coordinator", "--data-dir", str(self.folder / "data"), "--kafka", "off"]
        command += ["--native", f"127.0.0.1:{self.native}", "--http", f"127.0.0.1:{self.http}"]
        for key, value in _SETTINGS.items():
            command += ["--set", f"{key}={value}"]
        return ServerProcess(command, self.folder / "daemon.log")

    def _produce(self) -> None:
        with Wire(self.daemon.native) as wire:
            wire.call("CreateTopics", topics=[{"name": TOPIC, "num_partitions": PARTITIONS}])
        with Producer(f"127.0.0.1:{self.native}", linger_ms=20, batch_bytes=1 << 17) as producer:
            for number in range(self.records):
                producer.send(TOPIC, _PAYLOAD, partition=number % PARTITIONS)
            producer.flush()

    def run(self) -> None:
        """Until both groups have committed everything."""
        self.sampler.start()
        ends = time.monotonic() + _PATIENCE_S
        while not self._is_read() and time.monotonic() < ends:
            time.sleep(self.chance.uniform(*_BETWEEN_S))
            if self.most_kills is None or self.kills.total() < self.most_kills:
                self._kill_somebody()
        self.sampler.is_over = True
        self.sampler.join()
        codes = [reader.leave() for reader in self.readers]
        self.daemon.stop()
        if any(codes):
            self.sampler.violations.append(f"readers that were told to end ended with {codes}")

    def _kill_somebody(self) -> None:
        if self.chance.random() < _DAEMON_SHARE:
            self.daemon_died_s.append(time.monotonic())
            self.daemon.kill()
            self.kills["daemon"] += 1
            self.daemon = self._begin()
            return
        reader = self.chance.choice(self.readers)
        reader.kill()
        self.kills[reader.kind] += 1
        reader.start()

    def _is_read(self) -> bool:
        with Wire(self.daemon.native) as wire:
            groups = wire.call("OffsetFetch", groups=[{"group_id": f"by-{kind}"} for kind in KINDS])["groups"]
        parts = [[part for topic in one["topics"] for part in topic["partitions"]] for one in groups]
        done = [sum(int(part["committed_offset"]) for part in each) for each in parts]
        if sys.stdout.isatty():
            print(f"\r{min(done):,} of {self.records:,} records, {self.kills.total()} kills", end="", flush=True)
        return min(done) >= self.records

    def judge(self, kind: str) -> Judgement:
        """Read the diaries."""
        handed: dict[int, list[Handed]] = {number: [] for number in range(PARTITIONS)}
        died: dict[int, float] = {}
        number = 0
        for reader in self.readers:
            for life, path in enumerate(reader.diaries if reader.kind == kind else ()):
                number += 1
                if life in reader.died_at_s:
                    died[number] = reader.died_at_s[life]
                for at_s, partition, offset in _lines(path):
                    handed[partition].append(Handed(at_s, number, offset))
        each = [judge(sorted(one), died, self.daemon_died_s) for one in handed.values()]
        counts = [len(range(partition, self.records, PARTITIONS)) for partition in handed]
        missing = sum(
            count - len({one.offset for one in found}) for count, found in zip(counts, handed.values(), strict=True)
        )
        return Judgement(
            sum(map(len, handed.values())),
            missing,
            sum(one[0] for one in each),
            sum(one[1] for one in each),
            [f"{kind}, partition {number}: {text}" for number, one in enumerate(each) for text in one[2]],
        )


def _lines(path: Path) -> list[tuple[float, int, int]]:
    data = path.read_bytes() if path.exists() else b""
    return list(LINE.iter_unpack(data[: len(data) // LINE.size * LINE.size]))


def judge(handed: list[Handed], died_at_s: dict[int, float], daemon_died_s: list[float]) -> tuple[int, int, list[str]]:
    """Judge the records of one partition, in the order of the clock. Return the numbers repeated after a reader and
    after a daemon died, and the records that nothing explains."""
    behind_a_reader = behind_the_daemon = 0
    unexplained = []
    last: dict[int, Handed] = {}  # by offset: who had it last
    expected = 0
    for one in handed:
        if one.offset > expected:
            unexplained.append(f"offset {one.offset} came when {expected} was next")
        if (before := last.get(one.offset)) is not None:
            if died_at_s.get(before.reader, one.at_s) < one.at_s:
                behind_a_reader += 1
            elif _died_between(daemon_died_s, before.at_s - _FORGETS_S, one.at_s):
                behind_the_daemon += 1
            else:
                unexplained.append(
                    f"offset {one.offset} came to reader {one.reader} {one.at_s - before.at_s:.3f} s after reader "
                    f"{before.reader}, who lived"
                )
        last[one.offset] = one
        expected = one.offset + 1
    return behind_a_reader, behind_the_daemon, unexplained


def _died_between(died_s: list[float], after_s: float, before_s: float) -> bool:
    place = bisect_right(died_s, before_s)
    return place > 0 and died_s[place - 1] > after_s


def main(arguments: list[str]) -> int:
    """The exit code."""
    parser = argparse.ArgumentParser("python -m bench.owners", description="One owner a partition, whatever dies.")
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1_000_000))
    given = parser.parse_args(arguments)
    with scratch() as folder:
        story, began = Story(folder, given.records, given.seed), time.monotonic()
        story.run()
        took_s = time.monotonic() - began
        judged = {kind: story.judge(kind) for kind in KINDS}
    violations = list(story.sampler.violations)
    kills = ", ".join(f"{what} {times}" for what, times in sorted(story.kills.items()))
    print(f"\r{given.records:,} records, {took_s:,.0f} s, seed {given.seed}; killed: {kills}")
    print(f"registry looked at {story.sampler.samples:,} times, {story.sampler.grants:,} grants seen")
    for kind, one in judged.items():
        print(
            f"{kind:<10} handed out {one.handed:>11,}   missing {one.missing:,}   again behind a reader that died "
            f"{one.behind_a_reader:,}, behind a daemon that died {one.behind_the_daemon:,}, "
            f"behind nothing {len(one.unexplained):,}"
        )
        violations += one.unexplained[:20]
        if one.missing:
            violations.append(f"{kind}: {one.missing} records were handed out to nobody")
    for sentence in violations:
        print(f"VIOLATION: {sentence}", file=sys.stderr)
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
