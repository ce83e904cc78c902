"""`python -m interop.beside`: other people's clients at a musterd in front of an Apache Kafka 4.3.1, of which they are
never told (`docs/beside-kafka.md`).

* `python -m interop.beside`: the clients of `CLIENTS`, and the tests of Python's libraries
* `python -m interop.beside java --only mixed`: some of it
* `python -m interop.beside --brokers 3`: a cluster of three, where partitions have leaders on each

A group with members and offsets at the cluster comes over and goes back. Besides what is told of that and in the table:
Kafka's own coordinator has heard of no other group, and nobody but musterd and the brokers themselves ever opened a
connection to a broker's port.
"""

import argparse
import contextlib
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

from bench.builds import NotHere
from interop import builds, catalogue
from interop.catalogue import CAPABILITIES
from interop.kafka_cluster import kafka_cluster
from interop.moving import moved
from interop.rows import row
from interop.server import Musterd, Server
from interop.table import failures, printed
from tests.edges.musterd import free_port

CLIENTS = ("confluent-kafka", "java", "go-franz")
NOT_OURS = ("offsets_topic", "offsets_log")
"""Capabilities that read a group's commits in Kafka's topic or in a single server's folder, where they are not."""
TESTS = "tests/edges/kafka"
LEFT_OUT = ("test_compaction.py", "test_offsets_topic.py")
"""The one wants settings of topics that Apache Kafka refuses; the other reads commits in Kafka's own topic."""
OF_ONE_BROKER = (
    "test_admin.py::test_every_library_sees_the_same_cluster",
    "test_records.py::test_a_fetch_of_nothing_waits_as_long_as_it_may_and_no_longer",
    "test_groups.py::test_a_pattern_takes_in_a_topic_that_is_created_later[kafka-python]",
    "test_groups.py::test_partitions_added_to_a_topic_are_shared_out_too[kafka-python]",
)
"""Tests left out with a cluster of several brokers: the first two ask one broker for things that any may have.
kafka-python stays outside its group at Apache Kafka itself if brokers learn of a new topic one after the other."""
_ROOT = Path(__file__).parents[1]
_TESTS_S = 1_200.0
_LOOK_EVERY_S = 0.02
_SEEN_TWICE = 2


class Watch:
    """Looks who is connected to a port of this machine, from time to time: `strangers` are those that may not be."""

    def __init__(self, port: int, *allowed: str) -> None:
        self.strangers: dict[str, str] = {}
        self._port = port
        self._allowed = allowed
        self._ends = threading.Event()
        self._seen: dict[str, int] = {}
        self._thread = threading.Thread(target=self._look_on, name="watch")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._ends.set()
        self._thread.join()

    def _look_on(self) -> None:
        while not self._ends.wait(_LOOK_EVERY_S):
            for inode in self._connected() - set(self.strangers):
                who = _owner(inode)
                if who is not None and not any(word in who for word in self._allowed):
                    # A socket whose process ended between two looks has no owner: nobody is accused once.
                    self._seen[inode] = self._seen.get(inode, 0) + 1
                    if self._seen[inode] == _SEEN_TWICE:
                        self.strangers[inode] = who

    def _connected(self) -> set[str]:
        found = set()
        for table in ("/proc/net/tcp", "/proc/net/tcp6"):
            for line in Path(table).read_text().splitlines()[1:]:
                words = line.split()
                if int(words[2].rpartition(":")[2], 16) == self._port and words[9] != "0":
                    found.add(words[9])
        return found


def _owner(inode: str) -> str | None:
    """The command line of the process that has the socket."""
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(OSError):
                for link in (folder / "fd").iterdir():
                    with contextlib.suppress(OSError):
                        if str(link.readlink()) == f"socket:[{inode}]":
                            return (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    return None


class Choice(msgspec.Struct, frozen=True):
    """Selection of runs; everything by default."""

    clients: tuple[str, ...] = ()
    capabilities: tuple[str, ...] = ()
    brokers: int = 1


def main() -> int:
    options = _options()
    choice = Choice(tuple(options.clients), tuple(options.only or ()), options.brokers)
    with tempfile.TemporaryDirectory(prefix="muster-beside-") as scratch:
        failed = run(choice, options.keep or Path(scratch))
    for one in failed:
        print(f"FAILED {one}")
    print(f"{len(failed)} failed" if failed else "all of it passed")
    return 1 if failed else 0


def run(choice: Choice, work: Path) -> list[str]:
    """Prints what came of it; a line for each failure. What cannot be run here, for want of Java, is said and fails
    nothing."""
    with contextlib.ExitStack() as stack:
        try:
            cluster = stack.enter_context(kafka_cluster(work / "beside", choice.brokers))
        except NotHere as why:
            print(f"beside an Apache Kafka: not here: {why}")
            return []
        first = free_port()
        front = Musterd(
            work / "beside" / "musterd",
            f"upstream.servers={cluster.bootstrap}",
            f"upstream.listener.ports={first}-{first + 50}",
        )
        stack.callback(front.end)
        watches = [
            stack.enter_context(Watch(broker.port, "-m coordinator", "kafka.Kafka", "-m interop"))
            for broker in cluster.brokers
        ]
        failed = _clients(choice, front, work / "beside")
        if not (choice.clients or choice.capabilities):
            not_here = OF_ONE_BROKER if choice.brokers > 1 else ()
            failed += _tests(front, not_here, work / "beside" / "tests.log")
        failed += [f"Kafka's own coordinator has heard of the group {group}" for group in cluster.groups()]
        if not choice.clients:
            failed += moved(cluster, front)
        strangers = [who for watch in watches for who in watch.strangers.values()]
    return failed + [f"connected to a broker itself: {who}" for who in strangers]


def _clients(choice: Choice, front: Server, work: Path) -> list[str]:
    chosen = tuple(one for one in choice.capabilities or CAPABILITIES if one not in NOT_OURS)
    rows = [row(folder, front, chosen, work) for folder in builds.folders(frozenset(choice.clients or CLIENTS))]
    print(f"\n{printed(rows)}", flush=True)
    return failures(rows)


def _tests(front: Server, not_here: tuple[str, ...], log: Path) -> list[str]:
    """confluent-kafka, aiokafka and kafka-python, each with every test of the folder."""
    environment = {**os.environ, "TEST_KAFKA_BOOTSTRAP": front.bootstrap}
    command = [sys.executable, "-m", "pytest", TESTS, "-q", "-p", "no:cacheprovider", f"--ignore={TESTS}/suites"]
    command += [f"--ignore={TESTS}/{name}" for name in LEFT_OUT]
    command += [f"--deselect={TESTS}/{name}" for name in not_here]
    began = time.monotonic()
    with log.open("wb") as out:
        subprocess.run(command, cwd=_ROOT, env=environment, stdout=out, stderr=out, timeout=_TESTS_S, check=False)
    lines = log.read_text(errors="replace").splitlines()
    print(f"{TESTS}: {lines[-1] if lines else 'nothing said'} ({time.monotonic() - began:.0f} s)", flush=True)
    return [line for line in lines if line.startswith(("FAILED tests/", "ERROR tests/"))]


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m interop.beside", description="Clients at Muster beside Kafka.")
    parser.add_argument("clients", nargs="*", help=f"folders of interop/clients; {', '.join(CLIENTS)} without any")
    parser.add_argument("--brokers", type=int, default=1, help="of the cluster")
    parser.add_argument("--only", action="append", choices=CAPABILITIES, help="one capability; may be given again")
    parser.add_argument("--keep", type=Path, help="a folder for what the servers and the programs leave and say")
    return parser.parse_args()


if __name__ == "__main__":
    try:
        sys.exit(main())
    except catalogue.BadClient as bad:
        sys.exit(f"interop: {bad}")
