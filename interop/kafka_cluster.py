"""A cluster of Apache Kafka brokers on loopback, each of which can be stopped, killed, frozen and started again."""

import base64
import contextlib
import os
import signal
import subprocess
import time
import uuid
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from bench import builds
from bench.processes import free_ports

_START_S, _STOP_S = 90.0, 60.0
_PROPERTIES = """
process.roles=broker,controller
node.id={node_id}
controller.quorum.voters={voters}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}{more_listeners}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}{more_advertised}
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT{more_protocols}
log.dirs={folder}/data
default.replication.factor={copies}
min.insync.replicas={insync}
offsets.topic.replication.factor={copies}
transaction.state.log.replication.factor={copies}
transaction.state.log.min.isr={insync}
share.coordinator.state.topic.replication.factor={copies}
share.coordinator.state.topic.min.isr={insync}
group.initial.rebalance.delay.ms=0
auto.leader.rebalance.enable=false
"""


class Broker:
    """One of them; `port` stays its own."""

    def __init__(self, command: list[str], folder: Path, port: int) -> None:
        self.port = port
        self._command = command
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        """Returns at once; `Cluster.until_whole` waits."""
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(self._command, cwd=self._folder, stdout=log, stderr=log)

    def stop(self) -> None:
        """SIGTERM: it hands its partitions over first."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def freeze(self) -> None:
        """SIGSTOP: its connections stay open, and nothing comes over them."""
        self._running.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._running.send_signal(signal.SIGCONT)

    @property
    def pid(self) -> int:
        return self._running.pid

    @property
    def _running(self) -> "subprocess.Popen[bytes]":
        assert self._process is not None, "the broker does not run"
        return self._process

    def _end(self, how: signal.Signals) -> None:
        if self._process is None:
            return
        self._process.send_signal(how)
        self._process.send_signal(signal.SIGCONT)
        try:
            self._process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(_STOP_S)
        self._process = None


class Way(NamedTuple):
    """Listeners of the brokers that advertise other ports than they have, by the brokers' ids less one."""

    advertised: tuple[int, ...]
    ports: tuple[int, ...]


class Cluster:
    """`brokers` by their ids less one; `ways` are further listeners of theirs."""

    def __init__(self, brokers: list[Broker], ways: Sequence[Way] = ()) -> None:
        self.brokers = brokers
        self.ways = ways

    @property
    def bootstrap(self) -> str:
        return ",".join(broker.address for broker in self.brokers)

    def groups(self) -> set[str]:
        """Return the groups known to the cluster's own coordinator."""
        admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})
        return {group.group_id for group in admin.list_consumer_groups().result(30).valid}

    def leaders(self, topic: str) -> dict[int, int]:
        """Return the leader of each partition; nothing unless every replica is in sync."""
        admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})
        told = admin.list_topics(topic, timeout=10).topics[topic].partitions
        if any(set(part.isrs) != set(part.replicas) for part in told.values()):
            return {}
        return {number: part.leader for number, part in told.items()}

    def until_whole(self, topic: str | None = None) -> None:
        """Until every broker is there, and every replica of the topic in sync. Raises TimeoutError."""
        deadline = time.monotonic() + _START_S
        while time.monotonic() < deadline:
            with contextlib.suppress(KafkaException):
                admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})
                there = len(admin.list_topics(timeout=5).brokers)
                if there == len(self.brokers) and (topic is None or self.leaders(topic)):
                    return
            time.sleep(0.5)
        raise TimeoutError(f"not all {len(self.brokers)} brokers are there after {_START_S:g} s")


@contextlib.contextmanager
def kafka_cluster(folder: Path, count: int, *, heap_mib: int = 512, ways: int = 0) -> Iterator[Cluster]:
    """Brokers 1 to `count`, every topic on all of them, with as many `ways` besides. Raises `bench.builds.NotHere`."""
    java, jars = builds.java(), builds.kafka_jars(may_fetch=True)
    ports = free_ports(2 * count * (1 + ways))
    further = iter(ports[2 * count :])
    each = [Way(tuple(islice(further, count)), tuple(islice(further, count))) for _ in range(ways)]
    voters = ",".join(f"{number + 1}@127.0.0.1:{ports[count + number]}" for number in range(count))
    cluster_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=").replace("-", "_")
    run = [java, f"-Dlog4j2.configurationFile={builds.KAFKA_FILES / 'log4j2.xml'}", "-cp", f"{jars}{os.sep}*"]
    brokers = []
    for number in range(count):
        home = folder / f"kafka-{number + 1}"
        home.mkdir(parents=True)
        properties = home / "server.properties"
        told = _PROPERTIES.format(
            node_id=number + 1,
            voters=voters,
            port=ports[number],
            controller=ports[count + number],
            folder=home,
            copies=count,
            insync=min(count, 2),
            more_listeners="".join(f",WAY{at}://127.0.0.1:{way.ports[number]}" for at, way in enumerate(each)),
            more_advertised="".join(f",WAY{at}://127.0.0.1:{way.advertised[number]}" for at, way in enumerate(each)),
            more_protocols="".join(f",WAY{at}:PLAINTEXT" for at in range(ways)),
        )
        properties.write_text(told)
        format_it = [*run, "kafka.tools.StorageTool", "format", "-t", cluster_id, "-c", str(properties)]
        subprocess.run(format_it, cwd=home, capture_output=True, timeout=_START_S, check=True)
        heap = [f"-Xms{heap_mib}m", f"-Xmx{heap_mib}m", "-XX:+UseG1GC"]
        brokers.append(Broker([*run, *heap, "kafka.Kafka", str(properties)], home, ports[number]))
    cluster = Cluster(brokers, each)
    try:
        for broker in brokers:
            broker.start()
        cluster.until_whole()
        yield cluster
    finally:
        for broker in brokers:
            broker.kill()
