"""`python -m interop.nodes`: three musterd with `offsets.log=cluster` in front of three Apache Kafka brokers, killed,
stopped and asleep, while groups commit and members stay (docs/cluster.md).

Clerks commit one offset after another, each for a group of its own, and read it back. What was acknowledged must be
read by everybody later; two members of one group must not be rebalanced because a node went.
"""

import argparse
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from interop.kafka_cluster import kafka_cluster
from interop.server import Musterd
from interop.shared_log import gaps_of, kill_broker
from interop.verdict import add_keep, judged
from tests.edges.musterd import free_port

TOPIC, GROUP, PARTITIONS, BROKERS, SHARDS = "orders", "billing", 4, 3, 12
NODES = (1, 2, 3)
_PATIENCE_S = 180.0
_EASE_S = 5.0
"""Between one thing and the next."""
_AGAIN = 5
"""Commits of each clerk after which its group counts as served again."""
_READ_EVERY = 10


class Clerk:
    """Commits 1, 2, 3 ... for a group without members, and reads back every tenth."""

    def __init__(self, group: str, bootstrap: str) -> None:
        self.group = group
        self.acknowledged_s: list[float] = []
        self.faults: list[str] = []
        self.errors: list[str] = []
        self._last = 0
        self._consumer = Consumer(
            {"bootstrap.servers": bootstrap, "group.id": group, "enable.auto.commit": False, "log_level": 0}
        )
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run, name=group)
        self._thread.start()

    def _run(self) -> None:
        number = 0
        while not self._ends.wait(0.02):
            number += 1
            try:
                self._consumer.commit(offsets=[TopicPartition(TOPIC, 0, number)], asynchronous=False)
                self._last = number
                self.acknowledged_s.append(time.monotonic())
                if number % _READ_EVERY == 0:
                    self._read_back()
            except KafkaException as error:
                self.errors.append(error.args[0].name())

    def _read_back(self) -> None:
        found = self._consumer.committed([TopicPartition(TOPIC, 0)], timeout=5)[0].offset
        if found < self._last:
            self.faults.append(f"group {self.group}: {found} was read, {self._last} had been acknowledged")

    def stop(self) -> None:
        """Stop, and look at the last offset once more."""
        self._ends.set()
        self._thread.join()
        try:
            self._read_back()
        except KafkaException as error:
            self.faults.append(f"group {self.group}: its offset cannot be read: {error}")
        self._consumer.close()


class Member:
    """A consumer of one group, which counts how often it was given partitions or lost them."""

    def __init__(self, bootstrap: str) -> None:
        self.moves = 0
        self._consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": GROUP, "log_level": 0})
        self._consumer.subscribe([TOPIC], on_assign=self._moved, on_revoke=self._moved, on_lost=self._moved)
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run, name="member")
        self._thread.start()

    def _moved(self, _consumer: object, _partitions: object) -> None:
        self.moves += 1

    def _run(self) -> None:
        while not self._ends.is_set():
            self._consumer.poll(0.2)

    def stop(self) -> None:
        self._ends.set()
        self._thread.join()
        self._consumer.close()


class Story:
    """Runs what goes wrong, and measures how long clerks could not commit."""

    def __init__(self, nodes: list[Musterd], clerks: list[Clerk], members: list[Member]) -> None:
        self.failed: list[str] = []
        self.nodes = nodes
        self._clerks = clerks
        self._members = members

    def tell(
        self, what: str, happen: Callable[[], None], *, at_most_s: float | None = None, may_rebalance: bool = False
    ) -> None:
        """Let it happen, wait until every clerk commits again, and say how long the slowest could not."""
        moves, errors = self._moves(), Counter(self._errors())
        from_s = time.monotonic()
        happen()
        until_s = time.monotonic()
        while time.monotonic() - until_s < _PATIENCE_S and not self._all_commit(until_s):
            time.sleep(0.25)
        if not self._all_commit(until_s):
            self.failed.append(f"{what}: not every clerk commits")
        found = sorted(gaps_of([clerk.acknowledged_s for clerk in self._clerks], from_s))
        moved, refused = self._moves() - moves, Counter(self._errors()) - errors
        print(
            f"{what}: no commit for {found[-1]:.2f} s at most, {found[len(found) // 2]:.2f} s in the middle; "
            f"errors told to clients: {dict(refused) or 'none'}; {moved} moves of partitions",
            flush=True,
        )
        if at_most_s is not None and found[-1] > at_most_s:
            self.failed.append(f"{what}: {found[-1]:.2f} s, {at_most_s:g} s are allowed")
        if moved and not may_rebalance:
            self.failed.append(f"{what}: members were rebalanced")
        time.sleep(_EASE_S)

    def _moves(self) -> int:
        return sum(member.moves for member in self._members)

    def _errors(self) -> list[str]:
        return [error for clerk in self._clerks for error in clerk.errors]

    def _all_commit(self, since_s: float) -> bool:
        return all(sum(at_s > since_s for at_s in clerk.acknowledged_s) >= _AGAIN for clerk in self._clerks)

    def sleep(self, node: Musterd, for_s: float) -> None:
        node.send_signal(signal.SIGSTOP)
        time.sleep(for_s)
        node.send_signal(signal.SIGCONT)

    def kill_all(self) -> None:
        for node in self.nodes:
            node.end()
        for node in self.nodes:
            node.start()


def _node(number: int, brokers: str, work: Path) -> Musterd:
    first = free_port()
    return Musterd(
        work / f"musterd-{number}",
        f"node.id={number}",
        "offsets.log=cluster",
        f"offsets.topic.num.partitions={SHARDS}",
        f"upstream.servers={brokers}",
        f"upstream.listener.ports={first}-{first + 20}",
    )


def _second_of_one_id(brokers: str, work: Path) -> list[str]:
    """Start a second node 1 while the first lives: it must end with a sentence. Return what failed."""
    folder = work / "again"
    try:
        _node(1, brokers, folder).end()
    except RuntimeError:
        said = (folder / "musterd-1" / "musterd.log").read_text()
        if "node.id 1 is that of a musterd which lives" in said:
            print("a second node 1: refused, and told why", flush=True)
            return []
    return ["a second node 1 was not refused with its sentence"]


def run(work: Path, clerks: int, within_s: float | None, stopped_within_s: float | None) -> list[str]:
    """Prints as it goes; what failed."""
    with ExitStack() as stack:
        cluster = stack.enter_context(kafka_cluster(work, BROKERS))
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
        admin.create_topics([NewTopic(TOPIC, PARTITIONS, BROKERS)])[TOPIC].result(30)
        nodes: list[Musterd] = []
        for number in NODES:
            nodes.append(_node(number, cluster.bootstrap, work))
            stack.callback(nodes[-1].end)
        bootstrap = ",".join(node.bootstrap for node in nodes)
        told = [Clerk(f"clerks-{number}", bootstrap) for number in range(clerks)]
        members = [Member(bootstrap), Member(bootstrap)]
        story = Story(nodes, told, members)
        try:
            story.tell("a beginning", lambda: time.sleep(10), may_rebalance=True)
            story.failed += _second_of_one_id(cluster.bootstrap, work)
            story.tell("a second node 1 was refused", lambda: None)
            story.tell("kill -9", nodes[0].end, at_most_s=within_s)
            story.tell("it comes back", nodes[0].start)
            story.tell("planned stop", nodes[1].stop, at_most_s=stopped_within_s)
            story.tell("it comes back", nodes[1].start)
            story.tell("asleep for 12 s", lambda: story.sleep(nodes[2], 12.0))
            story.tell("a broker killed for 15 s", lambda: kill_broker(cluster, 15.0))
            story.tell("all nodes killed at once", story.kill_all, may_rebalance=True)
        finally:
            for one in told:
                one.stop()
            for member in members:
                member.stop()
        faults = [fault for clerk in told for fault in clerk.faults]
        print(f"{sum(len(clerk.acknowledged_s) for clerk in told):,} commits acknowledged")
        heard = cluster.groups() - {"__muster_nodes"}
        return story.failed + faults + [f"Kafka's own coordinator has heard of the group {one}" for one in heard]


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m interop.nodes", description="Three musterd over one Kafka cluster."
    )
    parser.add_argument("--clerks", type=int, default=24, help="groups that commit all the time")
    parser.add_argument("--within", type=float, help="seconds in which a killed node's groups must commit again")
    parser.add_argument("--stopped-within", type=float, help="the same, of a node that is stopped as planned")
    add_keep(parser)
    options = parser.parse_args()
    return judged(options.keep, lambda work: run(work, options.clerks, options.within, options.stopped_within))


if __name__ == "__main__":
    sys.exit(main())
