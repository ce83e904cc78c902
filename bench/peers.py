"""Servers that speak Kafka's protocol, side by side: a musterd, an Apache Kafka broker, franz-go's kfake.

All on loopback, with the same topics, without an initial rebalance delay; none is pinned to a processor.
"""

import base64
import os
import socket
import subprocess
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from bench import builds
from bench.builds import NotHere
from bench.processes import QUICK_GROUPS, Daemon, free_ports
from protocol.kafka.reading import reader
from protocol.kafka.schemas import create_topics
from protocol.kafka.writing import writer
from protocol.messages.topics import CreatableTopic, CreateTopics

PURE, COMPILED, KAFKA, KFAKE = "musterd", "compiled", "Kafka", "kfake"
"""Names of the servers: musterd in both of its builds, and the others."""
OFFSETS_TOPIC, RECORDS_TOPIC = "groupload-topic", "groupload-records"
TOPICS: Mapping[str, int] = {OFFSETS_TOPIC: 128, RECORDS_TOPIC: 8}

_START_S = 60.0
_STOP_S = 30.0
_CREATE_TOPICS, _VERSION = 19, 4

_KAFKA_PROPERTIES = """
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
log.dirs={folder}/data
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
"""


class Peer:
    """A server that runs, by its name in the tables."""

    def __init__(self, name: str, port: int, pid: int, native_port: int | None = None) -> None:
        """`native_port`: of a musterd's own protocol."""
        self.name = name
        self.port = port
        self.pid = pid
        self.native_port = native_port

    def resident_bytes(self) -> int:
        with Path(f"/proc/{self.pid}/statm").open() as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@contextmanager
def musterd(
    folder: Path, settings: Mapping[str, str] = QUICK_GROUPS, *, name: str = PURE, tree: Path | None = None
) -> Iterator[Peer]:
    """A daemon of the sources in `tree`; None: of these."""
    with Daemon(folder / name, settings, http=False, tree=tree) as daemon:
        port = daemon.addresses["kafka"][1]
        make_topics(port)
        yield Peer(name, port, daemon.pid, daemon.native[1])


@contextmanager
def apache_kafka(
    folder: Path, *, may_fetch: bool, settings: Mapping[str, str] = QUICK_GROUPS, heap: str = "1g"
) -> Iterator[Peer]:
    """One KRaft broker with a heap of 1 GiB, or of another size as Java has it. Raises NotHere."""
    java, jars = builds.java(), builds.kafka_jars(may_fetch=may_fetch)
    home = folder / "kafka"
    home.mkdir()
    port, controller = free_ports(2)
    properties = home / "server.properties"
    told = "".join([f"{key}={value}\n" for key, value in settings.items()])
    properties.write_text(_KAFKA_PROPERTIES.format(port=port, controller=controller, folder=home) + told)
    run = [java, f"-Dlog4j2.configurationFile={builds.KAFKA_FILES / 'log4j2.xml'}", "-cp", f"{jars}/*"]
    cluster_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
    format_it = [*run, "kafka.tools.StorageTool", "format", "-t", cluster_id.replace("-", "_"), "-c", str(properties)]
    subprocess.run(format_it, cwd=home, capture_output=True, timeout=_START_S, check=True)
    with (home / "log").open("wb") as log:
        memory = [f"-Xms{heap}", f"-Xmx{heap}", "-XX:+UseG1GC"]
        process = subprocess.Popen([*run, *memory, "kafka.Kafka", str(properties)], cwd=home, stdout=log, stderr=log)
    with _ended(process):
        make_topics(port)
        yield Peer(KAFKA, port, process.pid)


@contextmanager
def kfake(folder: Path, *, may_fetch: bool) -> Iterator[Peer]:
    """Everything in memory. Raises NotHere."""
    command = [str(builds.kfake(may_fetch=may_fetch))]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    with _ended(process):
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line.startswith("ready "):
            raise NotHere(f"kfake did not serve; its first line: {line!r}")
        port = int(line.rpartition(":")[2])
        make_topics(port)
        yield Peer(KFAKE, port, process.pid)


@contextmanager
def _ended(process: "subprocess.Popen[str] | subprocess.Popen[bytes]") -> Iterator[None]:
    try:
        yield
    finally:
        process.terminate()
        try:
            process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(_STOP_S)
        if process.stdout is not None:
            process.stdout.close()


def make_topics(port: int, topics: Mapping[str, int] = TOPICS) -> None:
    """Tries again until the broker has come up."""
    wanted = tuple([CreatableTopic(name, partitions, 1) for name, partitions in topics.items()])
    body = writer(create_topics.REQUEST, _VERSION)(CreateTopics(wanted))
    header = _CREATE_TOPICS.to_bytes(2, "big") + _VERSION.to_bytes(2, "big") + bytes(4) + b"\0\x05bench"
    ends = time.monotonic() + _START_S
    while True:
        try:
            reply = reader(create_topics.REPLY, _VERSION)(_call(port, header + body), 4)
            wrong = [topic for topic in reply.topics if topic.error_code]
        except OSError as error:
            wrong = [error]
        if not wrong:
            return
        if time.monotonic() > ends:
            raise NotHere(f"its topics could not be made: {wrong[0]}")
        time.sleep(0.2)


def _call(port: int, frame: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", port), _START_S) as connection:
        connection.sendall(len(frame).to_bytes(4, "big") + frame)
        with connection.makefile("rb") as answer:
            size = answer.read(4)
            if len(size) < 4:
                raise ConnectionResetError("the server closed the connection")
            return answer.read(int.from_bytes(size, "big"))
