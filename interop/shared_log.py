"""`python -m interop.shared_log`: nodes with shards in the log of three Apache Kafka brokers, and everything that can
go wrong, one after another (docs/spec/shared-log.md).

Each node (`interop.log_node`) counts the shards that it owns upwards. In the end no number that was acknowledged is
missing from any later replay, and none was acknowledged by two owners.
"""

import argparse
import signal
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from interop.kafka_cluster import Cluster, kafka_cluster
from interop.verdict import add_keep, judged

BROKERS, SHARDS = 3, 12
NODES = (1, 2, 3)
_PATIENCE_S = 180.0
_EASE_S = 5.0
"""Between one thing and the next."""
_AGAIN = 5
"""Acknowledgements of each shard after which it counts as served again."""


class Line(NamedTuple):
    """A line of a node about one of its shards."""

    what: str
    shard: int
    tag: int
    number: int
    at_s: float


def parsed(line: str) -> Line | None:
    """Return what a line says of a shard; None: nothing."""
    words = line.split()
    if len(words) != 5 or words[0] not in {"own", "ack"}:
        return None
    shard, tag, number = map(int, words[1:4])
    return Line(words[0], shard, tag, number, float(words[4]))


def faults_of(lines: Iterable[Line]) -> list[str]:
    """Return what must not be, in what all nodes said."""
    told: dict[int, dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
    owned: dict[int, dict[int, int]] = defaultdict(dict)
    for line in lines:
        if line.what == "own":
            owned[line.shard][line.tag] = line.number
        else:
            told[line.shard][line.tag].append(line.number)
    faults = []
    for shard, by_tag in told.items():
        for tag, numbers in by_tag.items():
            if any(later <= earlier for earlier, later in pairwise(numbers)):
                faults.append(f"shard {shard}: numbers of one owner go back")
            for later in sorted(one for one in owned[shard] if one > tag):
                if owned[shard][later] < numbers[-1]:
                    faults.append(f"shard {shard}: {numbers[-1]} was acknowledged, an owner after it read less")
                elif by_tag.get(later, [numbers[-1] + 1])[0] <= numbers[-1]:
                    faults.append(f"shard {shard}: {numbers[-1]} was acknowledged by two owners")
    return faults


def gaps_of(acknowledged_s: Iterable[list[float]], from_s: float) -> list[float]:
    """Return the longest time without an acknowledgement since then, of each that had one; times are in order."""
    found = []
    for times in acknowledged_s:
        since = [at_s for at_s in times if at_s >= from_s]
        before = [at_s for at_s in times if at_s < from_s][-1:] or [from_s]
        if since:
            found.append(max(later - earlier for earlier, later in pairwise([*before, *since])))
    return found


def gaps(lines: Iterable[Line], from_s: float) -> list[float]:
    """Return them by shard, in no order."""
    times: dict[int, list[float]] = defaultdict(list)
    for line in sorted((one for one in lines if one.what == "ack"), key=lambda one: one.at_s):
        times[line.shard].append(line.at_s)
    return gaps_of(times.values(), from_s)


class Counting:
    """A node, a process of its own, and what it says."""

    def __init__(self, number: int, bootstrap: str, work: Path) -> None:
        self.number = number
        self.lines: list[Line] = []
        command = [sys.executable, "-m", "interop.log_node", "--node", str(number), "--bootstrap", bootstrap]
        command += ["--shards", str(SHARDS)]
        self._said = (work / f"node-{number}.said").open("a")
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=self._said, text=True)
        self._listener = threading.Thread(target=self._listen, name=f"node {number}")
        self._listener.start()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            found = parsed(line)
            if found is not None:
                self.lines.append(found)
            else:
                self._said.write(line)

    def signal(self, number: signal.Signals) -> None:
        """Send a signal; return once a process that it ends has ended."""
        self._process.send_signal(number)
        if number in {signal.SIGKILL, signal.SIGTERM}:
            self._process.wait(_PATIENCE_S)
            self._listener.join()
            self._said.close()

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None


class Story:
    """Runs what goes wrong, and measures how long shards take no writes."""

    def __init__(self, cluster: Cluster, work: Path) -> None:
        self.failed: list[str] = []
        self.nodes: list[Counting] = []
        self._cluster = cluster
        self._work = work

    def lines(self) -> list[Line]:
        return [line for node in self.nodes for line in list(node.lines)]

    def start(self, *numbers: int) -> None:
        self.nodes += [Counting(number, self._cluster.bootstrap, self._work) for number in numbers]

    def living(self, number: int) -> Counting:
        return next(node for node in self.nodes if node.number == number and node.is_alive)

    def tell(self, what: str, happen: Callable[[], None], *, at_most_s: float | None = None) -> None:
        """Let it happen, wait until every shard takes writes again, and say how long the longest took none."""
        from_s = time.monotonic()
        happen()
        until_s = time.monotonic()
        while time.monotonic() - until_s < _PATIENCE_S and not self._is_served(until_s):
            time.sleep(0.25)
        if not self._is_served(until_s):
            self.failed.append(f"{what}: not every shard takes writes")
        found = sorted(gaps(self.lines(), from_s))
        longest_s = found[-1] if found else 0.0
        told = (
            f"{what}: shards took no write for {longest_s:.2f} s at most, {found[len(found) // 2]:.2f} s in the middle"
        )
        print(told, flush=True)
        if at_most_s is not None and longest_s > at_most_s:
            self.failed.append(f"{what}: {longest_s:.2f} s, {at_most_s:g} s are allowed")
        time.sleep(_EASE_S)

    def _is_served(self, since_s: float) -> bool:
        counts = dict.fromkeys(range(SHARDS), 0)
        for line in self.lines():
            counts[line.shard] += line.what == "ack" and line.at_s > since_s
        return min(counts.values()) >= _AGAIN

    def end_one(self, number: int, how: signal.Signals) -> None:
        self.living(number).signal(how)

    def sleep(self, number: int, for_s: float) -> None:
        node = self.living(number)
        node.signal(signal.SIGSTOP)
        time.sleep(for_s)
        node.signal(signal.SIGCONT)

    def kill_all(self) -> None:
        for node in self.nodes:
            if node.is_alive:
                node.signal(signal.SIGKILL)
        self.start(*NODES)

    def end(self) -> None:
        for node in self.nodes:
            if node.is_alive:
                node.signal(signal.SIGCONT)
                node.signal(signal.SIGKILL)


def kill_broker(cluster: Cluster, away_s: float) -> None:
    """Kill one broker, and start it again after a while; return once it is whole."""
    broker = cluster.brokers[1]
    broker.kill()
    time.sleep(away_s)
    broker.start()
    cluster.until_whole()


def run(work: Path, rounds: int, within_s: float | None) -> list[str]:
    """Prints as it goes; what failed."""
    with ExitStack() as stack:
        cluster = stack.enter_context(kafka_cluster(work, BROKERS))
        story = Story(cluster, work)
        stack.callback(story.end)
        story.tell("one node begins", lambda: story.start(1))
        story.tell("two more join", lambda: story.start(2, 3))
        for number in range(1, rounds + 1):
            story.tell(f"kill -9, {number}", lambda: story.end_one(1, signal.SIGKILL), at_most_s=within_s)
            story.tell("it comes back", lambda: story.start(1))
            story.tell(f"planned stop, {number}", lambda: story.end_one(2, signal.SIGTERM))
            story.tell("it comes back", lambda: story.start(2))
            story.tell("asleep for 12 s", lambda: story.sleep(3, 12.0))
            story.tell("a broker killed for 15 s", lambda: kill_broker(cluster, 15.0))
            story.tell("all nodes killed at once", story.kill_all)
        story.end()
        last = Counting(4, cluster.bootstrap, work)
        story.nodes.append(last)
        story.tell("another node reads everything", lambda: None)
        story.end()
        lines = story.lines()
        claims = sum(line.what == "own" for line in lines)
        print(f"{len(lines) - claims:,} numbers acknowledged, {claims} take-overs")
        return story.failed + faults_of(lines)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m interop.shared_log", description="Shards in a Kafka cluster's log."
    )
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--within", type=float, help="seconds in which a killed node's shards must take writes again")
    add_keep(parser)
    options = parser.parse_args()
    return judged(options.keep, lambda work: run(work, options.rounds, options.within))


if __name__ == "__main__":
    sys.exit(main())
