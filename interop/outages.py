"""`python -m interop.outages`: musterd in front of three Apache Kafka brokers, and everything that can go wrong, one
after another, while records are produced and read (`docs/beside-kafka.md`).

A producer that may not lose a record writes at a steady rate; consumers of three libraries, the Java one and our own,
which reads at the brokers themselves, are one group; a clerk commits by itself, twice a second. Nobody is helped. In
the end every record that was acknowledged has been read, no offset of any partition was left out, no commit that was
acknowledged is lost, and Kafka's own coordinator has heard of no group.
"""

import argparse
import sys
import threading
import time
from contextlib import ExitStack
from pathlib import Path

from confluent_kafka import Consumer, ElectionType, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from bench import builds
from interop.beside import Watch
from interop.deliveries import deliveries
from interop.kafka_cluster import Cluster, kafka_cluster
from interop.load import Load
from interop.outage_member import LIBRARIES, NATIVE
from interop.reader import Reader
from interop.recovery import Recovery
from interop.server import Musterd
from interop.verdict import add_keep, judged
from tests.edges.musterd import free_port

TOPIC, GROUP, PARTITIONS, BROKERS = "orders", "billing", 12, 3
_PATIENCE_S = 120.0
_DOWN_S = 30.0
"""Longer than any session of the members."""
_EASE_S = 10.0
"""Between one thing and the next."""


class Clerk:
    """Commits one offset after another, of a topic that is known, for a group without members."""

    def __init__(self, bootstrap: str) -> None:
        self.last = 0
        self.slowest_s = 0.0
        self._consumer = Consumer(
            {"bootstrap.servers": bootstrap, "group.id": "clerks", "enable.auto.commit": False, "log_level": 0}
        )
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run, name="clerk")
        self._thread.start()

    def _run(self) -> None:
        number = 0
        while not self._ends.wait(0.5):
            number += 1
            begun = time.monotonic()
            try:
                self._consumer.commit(offsets=[TopicPartition(TOPIC, 0, number)], asynchronous=False)
            except KafkaException:
                continue
            self.last, self.slowest_s = number, max(self.slowest_s, time.monotonic() - begun)

    def stop(self) -> int:
        """Stop, and return what is committed in the end."""
        self._ends.set()
        self._thread.join()
        found = self._consumer.committed([TopicPartition(TOPIC, 0)], timeout=30)[0].offset
        self._consumer.close()
        return int(found)


def _members(bootstrap: str, native: str, work: Path) -> list[Reader]:
    readers = []
    for library in LIBRARIES:
        file = work / f"{library}.read"
        where = native if library in NATIVE else bootstrap
        command = [sys.executable, "-m", "interop.outage_member", library, where, GROUP, TOPIC, str(file)]
        file.touch()
        readers.append(Reader(library, command, file, work / f"{library}.errors"))
    java = [builds.java(), f"-Dlog4j2.configurationFile={builds.KAFKA_FILES / 'log4j2.xml'}"]
    java += ["-cp", f"{builds.kafka_jars(may_fetch=True)}/*", "org.apache.kafka.tools.consumer.ConsoleConsumer"]
    java += ["--bootstrap-server", bootstrap, "--topic", TOPIC, "--group", GROUP]
    for name in ("print.partition=true", "print.offset=true", "print.value=false", "key.separator= "):
        java += ["--formatter-property", name]
    for name in ("auto.offset.reset=earliest", "auto.commit.interval.ms=1000", "session.timeout.ms=10000"):
        java += ["--command-property", name]
    readers.append(Reader("java", java, work / "java.read", work / "java.errors"))
    return readers


class Story(Recovery):
    """Runs the outages."""

    def __init__(self, cluster: Cluster, front: Musterd, readers: list[Reader], load: Load) -> None:
        super().__init__(readers, load, ease_s=_EASE_S, patience_s=_PATIENCE_S)
        self._cluster = cluster
        self._front = front

    def kill_musterd(self) -> None:
        self._front.crash()

    def restart_broker(self) -> None:
        self._cluster.brokers[0].stop()
        time.sleep(5)
        self._cluster.brokers[0].start()
        self._cluster.until_whole(TOPIC)

    def kill_broker(self) -> None:
        self._cluster.brokers[1].kill()
        time.sleep(15)
        self._cluster.brokers[1].start()
        self._cluster.until_whole(TOPIC)

    def move_leaders(self) -> None:
        before = self._cluster.leaders(TOPIC)
        admin = AdminClient({"bootstrap.servers": self._cluster.bootstrap, "log_level": 0})
        elected = admin.elect_leaders(ElectionType.PREFERRED, [TopicPartition(TOPIC, n) for n in range(PARTITIONS)])
        elected.result(30)
        moved = sum(before[number] != leader for number, leader in self._cluster.leaders(TOPIC).items())
        print(f"  {moved} of {PARTITIONS} partitions have another leader", flush=True)
        if not moved:
            self.failed.append("no leader moved")

    def freeze_all(self, seconds: float) -> None:
        for broker in self._cluster.brokers:
            broker.freeze()
        time.sleep(seconds)
        for broker in self._cluster.brokers:
            broker.thaw()
        self._cluster.until_whole(TOPIC)

    def kill_all(self, seconds: float) -> None:
        """Kill all brokers. Their ports refuse connections, instead of staying silent."""
        for broker in self._cluster.brokers:
            broker.kill()
        time.sleep(seconds)
        for broker in self._cluster.brokers:
            broker.start()
        self._cluster.until_whole(TOPIC)


def run(work: Path, per_second: int, away_s: float) -> list[str]:
    """Prints as it goes; what failed."""
    with ExitStack() as stack:
        cluster = stack.enter_context(kafka_cluster(work, BROKERS))
        first = free_port()
        front = Musterd(
            work / "musterd",
            f"upstream.servers={cluster.bootstrap}",
            f"upstream.listener.ports={first}-{first + 50}",
            "upstream.refresh.ms=1000",
        )
        stack.callback(front.end)
        admin = AdminClient({"bootstrap.servers": front.bootstrap})
        admin.create_topics([NewTopic(TOPIC, PARTITIONS, BROKERS)])[TOPIC].result(30)
        natives = (f"outage_member {library} " for library in NATIVE)
        at_brokers = ("-m coordinator", "kafka.Kafka", "-m interop.outages", "interop/outages", *natives)
        watches = [stack.enter_context(Watch(broker.port, *at_brokers)) for broker in cluster.brokers]
        load = Load(front.bootstrap, TOPIC, per_second, value=bytes(1024))
        clerk = Clerk(front.bootstrap)
        readers = _members(front.bootstrap, front.native, work)
        story = Story(cluster, front, readers, load)
        try:
            story.after("a beginning", lambda: time.sleep(15))
            for number in (1, 2, 3):
                story.after(f"musterd killed, {number}", story.kill_musterd)
            story.after("a broker restarted", story.restart_broker)
            story.after("leaders moved", story.move_leaders)
            story.after("a broker killed", story.kill_broker)
            story.after(f"the cluster away for {away_s:g} s", lambda: story.freeze_all(away_s))
            story.after(f"all brokers down for {_DOWN_S:g} s", lambda: story.kill_all(_DOWN_S))
            story.after("the end", load.stop, by_all=False)
        finally:
            load.stop()
            committed = clerk.stop()
            for reader in readers:
                reader.stop()
        failed = story.failed + [f"the producer: {one}" for one in load.refused]
        failed += [f"Kafka's own coordinator has heard of the group {group}" for group in cluster.groups()]
        failed += [f"connected to a broker itself: {who}" for watch in watches for who in watch.strangers.values()]
    return failed + _counted(load, clerk, committed, readers)


def _counted(load: Load, clerk: Clerk, committed: int, readers: list[Reader]) -> list[str]:
    read = {reader.name: reader.read() for reader in readers}
    found = deliveries(load.acknowledged, read)
    seen = set().union(*read.values())
    ends: dict[int, int] = {}
    for partition, offset in seen:
        ends[partition] = max(ends.get(partition, -1), offset)
    failed = found.faults
    skipped = sum(end + 1 for end in ends.values()) - len(seen)
    if skipped:
        failed.append(f"{skipped} offsets were left out")
    if committed < clerk.last:
        failed.append(f"{committed} is committed, and {clerk.last} was acknowledged")
    print(found)
    print(f"the clerk's last commit {committed}, its slowest took {clerk.slowest_s:.1f} s")
    return failed


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m interop.outages", description="Muster beside Kafka, under load.")
    parser.add_argument("--per-second", type=int, default=300, help="records of 1 KiB")
    parser.add_argument("--away", type=float, default=60.0, help="seconds for which the whole cluster says nothing")
    add_keep(parser)
    options = parser.parse_args()
    return judged(options.keep, lambda work: run(work, options.per_second, options.away))


if __name__ == "__main__":
    sys.exit(main())
