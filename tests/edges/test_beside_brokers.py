"""musterd in front of a broker, over real sockets, with stock clients that were given Muster's address alone. The
broker is another musterd, with embedded topics; `interop/` has the same with Apache Kafka."""

import asyncio
import contextlib
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from struct import pack, unpack, unpack_from
from urllib.request import urlopen

import pytest
from confluent_kafka import OFFSET_INVALID, Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from coordinator.config.config import Address
from coordinator.config.keys import Ports
from coordinator.gateway.io.broker_client import BrokerClient, BrokerLogin, RequestFailed
from coordinator.gateway.io.proxied_sockets import SEND_BACKLOG_BYTES
from coordinator.gateway.io.supervisor import GatewayPlan
from protocol.apis import WIRE_APIS
from protocol.errors import ErrorCode
from protocol.kafka.client import KafkaClient, encode_request
from protocol.kafka.version_codec import VersionCodec
from protocol.messages import Message
from protocol.messages.data import Fetch, FetchPartition, FetchTopic
from protocol.messages.groups import Heartbeat, HeartbeatReply
from protocol.messages.node import ApiVersion, ApiVersionsReply, SaslAuthenticateReply, SaslHandshakeReply
from protocol.messages.topics import Metadata, MetadataBroker, MetadataReply, MetadataTopic
from tests.edges.musterd import Daemon, free_port, running, within
from tests.edges.tcp import tcp_server

MIB = 1 << 20


class Both:
    """A broker, and Muster in front of it."""

    def __init__(self, broker: Daemon, front: Daemon, listener: int) -> None:
        self.broker = broker
        self.front = front
        self.listener = listener

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.front.kafka_port}"

    def groups_at_broker(self) -> list[str]:
        admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{self.broker.kafka_port}"})
        return [group.group_id for group in admin.list_consumer_groups().result(10).valid]


@contextlib.contextmanager
def pair(folder: Path) -> Iterator[Both]:
    listener = free_port()
    settings = ("group.initial.rebalance.delay.ms=0", "upstream.refresh.ms=200", f"upstream.listener.ports={listener}")
    with running(folder / "broker", "message.max.bytes=2000000", with_kafka=True) as broker:
        upstream = f"upstream.servers=127.0.0.1:{broker.kafka_port}"
        with running(folder / "front", *settings, upstream, with_http=True, with_kafka=True) as front:
            yield Both(broker, front, listener)


@pytest.fixture
def both(tmp_path: Path) -> Iterator[Both]:
    with pair(tmp_path) as both:
        yield both


@pytest.fixture(scope="module")
def unharmed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    """For tests that end with both as they were."""
    with pair(tmp_path_factory.mktemp("pair")) as both:
        yield both


def make_topic(both: Both, name: str, partitions: int = 2) -> None:
    admin = AdminClient({"bootstrap.servers": both.bootstrap})
    admin.create_topics([NewTopic(name, partitions, 1)])[name].result(10)


def produce(both: Both, topic: str, values: list[bytes], **settings: object) -> None:
    producer = Producer({"bootstrap.servers": both.bootstrap, "enable.idempotence": True, **settings})
    for value in values:
        producer.produce(topic, value)
    assert producer.flush(20) == 0


def consumer_of(both: Both, group: str = "kitchen", bootstrap: str = "") -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": bootstrap or both.bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "session.timeout.ms": 6_000,
        }
    )


def read(consumer: Consumer, count: int, seconds: float = 20) -> list[bytes]:
    got: list[bytes] = []
    deadline = time.monotonic() + seconds
    while len(got) < count and time.monotonic() < deadline:
        message = consumer.poll(0.2)
        if message is not None and message.error() is None:
            got.append(message.value() or b"")
    return got


def remote_ports() -> set[int]:
    """Return the remote ports of this process's connections."""
    inodes = set()
    for link in Path("/proc/self/fd").iterdir():
        try:
            inodes.add(str(link.readlink()).removeprefix("socket:[").removesuffix("]"))
        except OSError:
            continue
    lines = Path("/proc/self/net/tcp").read_text().splitlines()[1:]
    return {int(line.split()[2].split(":")[1], 16) for line in lines if line.split()[9] in inodes}


def resident_bytes(daemon: Daemon) -> int:
    assert daemon.process is not None
    pages = int(Path(f"/proc/{daemon.process.pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def test_a_stock_client_knows_muster_alone_and_its_group_lives_here(both: Both) -> None:
    make_topic(both, "orders")
    values = [b"%d" % number for number in range(300)]
    produce(both, "orders", values, **{"compression.type": "zstd"})
    consumer = consumer_of(both)
    consumer.subscribe(["orders"])
    assert sorted(read(consumer, 300)) == sorted(values)
    consumer.commit(asynchronous=False)
    known = consumer.committed([TopicPartition("orders", number) for number in range(2)])
    # librdkafka may put a batch of all records into one partition; the other one then has no commit.
    assert sum(one.offset for one in known if one.offset != OFFSET_INVALID) == 300
    ports = remote_ports()
    assert both.broker.kafka_port not in ports
    assert both.listener in ports
    assert both.groups_at_broker() == []
    assert both.front.stop() == 0
    consumer.close()


def test_a_group_goes_on_while_the_broker_is_away_and_records_do_when_it_is_back(both: Both) -> None:
    make_topic(both, "orders", 1)
    produce(both, "orders", [b"1"])
    consumer = consumer_of(both)
    consumer.subscribe(["orders"])
    assert read(consumer, 1) == [b"1"]
    both.broker.stop()
    assert within(10, lambda: _gauge(both, "muster_upstream_reachable") == 0)
    with urlopen(f"http://127.0.0.1:{both.front.http_port}/readyz", timeout=5) as answer:
        assert json.load(answer)["upstream"]["reachable"] is False
    consumer.commit(offsets=[TopicPartition("orders", 0, 1)], asynchronous=False)
    both.broker.start()
    assert within(10, lambda: _gauge(both, "muster_upstream_reachable") == 1)
    produce(both, "orders", [b"2"])
    assert read(consumer, 1) == [b"2"]
    consumer.close()


@pytest.mark.long
def test_who_was_there_and_who_is_new_share_a_group_while_the_broker_is_down_and_both_go_on_when_it_is_back(
    both: Both,
) -> None:
    make_topic(both, "orders", 2)
    first = consumer_of(both)
    first.subscribe(["orders"])
    assert within(10, lambda: first.poll(0.1) is None and len(first.assignment()) == 2)
    both.broker.stop()
    assert within(10, lambda: _gauge(both, "muster_upstream_reachable") == 0)
    second = consumer_of(both)
    second.subscribe(["orders"])

    def share() -> bool:
        first.poll(0.1), second.poll(0.1)
        return len(first.assignment()) == len(second.assignment()) == 1

    assert within(15, share)
    deadline = time.monotonic() + 8  # longer than a session
    while time.monotonic() < deadline:
        assert share()
    assert within(10, lambda: commits(first))
    both.broker.start()
    assert within(10, lambda: _gauge(both, "muster_upstream_reachable") == 1)
    for partition in range(2):
        producer = Producer({"bootstrap.servers": both.bootstrap})
        producer.produce("orders", b"%d" % partition, partition=partition)
        assert producer.flush(20) == 0
    got = read(first, 1), read(second, 1)
    assert sorted(got) == [[b"0"], [b"1"]]
    first.close()
    second.close()


def commits(consumer: Consumer) -> bool:
    """A connection that breaks has librdkafka look for its coordinator again, and refuse to commit meanwhile."""
    first = TopicPartition("orders", consumer.assignment()[0].partition, 0)
    try:
        consumer.commit(offsets=[first], asynchronous=False)
    except KafkaException as failed:
        if failed.args[0].code() != KafkaError._WAIT_COORD:
            raise
        return False
    return True


def test_a_group_moves_over_with_its_offsets_once_nobody_is_left_behind(both: Both) -> None:
    make_topic(both, "orders", 1)
    produce(both, "orders", [b"%d" % number for number in range(5)])
    there = consumer_of(both, bootstrap=f"127.0.0.1:{both.broker.kafka_port}")
    there.subscribe(["orders"])
    assert read(there, 3) == [b"0", b"1", b"2"]
    there.commit(offsets=[TopicPartition("orders", 0, 3)], asynchronous=False)
    early = consumer_of(both)
    early.subscribe(["orders"])
    assert read(early, 1, seconds=2) == []
    early.close()
    there.close()
    here = consumer_of(both)
    here.subscribe(["orders"])
    assert read(here, 2) == [b"3", b"4"]
    here.commit(offsets=[TopicPartition("orders", 0, 4)], asynchronous=False)
    here.close()
    command = [
        sys.executable,
        "-m",
        "muster.cli",
        "--bootstrap",
        both.front.bootstrap,
        "groups",
        "hand-back",
        "kitchen",
    ]
    wrong = f"127.0.0.1:{both.listener}"
    told = subprocess.run([*command, "--to", wrong, "--yes"], capture_output=True, check=False)
    sentence = f"{wrong} is a listener of Muster's: name a broker, say 127.0.0.1:{both.broker.kafka_port}"
    assert sentence.encode() in told.stderr
    assert told.returncode == 1
    told = subprocess.run([*command, "--yes"], capture_output=True, check=False)  # musterd knows where they are
    assert b"read it back" in told.stdout, told.stderr
    there = consumer_of(both, bootstrap=f"127.0.0.1:{both.broker.kafka_port}")
    there.subscribe(["orders"])
    assert read(there, 1) == [b"4"]
    there.close()


def _gauge(both: Both, name: str) -> float:
    with urlopen(f"http://127.0.0.1:{both.front.http_port}/metrics", timeout=5) as answer:
        page = answer.read().decode()
    (line,) = [line for line in page.splitlines() if line.startswith(f"{name} ")]
    return float(line.split()[1])


def test_who_reads_nothing_takes_no_memory_and_holds_nobody_up(unharmed: Both) -> None:
    make_topic(unharmed, "big", 1)
    produce(unharmed, "big", [os.urandom(MIB - 1_000) for _ in range(8)], **{"message.max.bytes": 2_000_000})
    with socket.create_connection(("127.0.0.1", unharmed.listener)) as slow:
        before = resident_bytes(unharmed.front)
        part = FetchPartition(0, 0, partition_max_bytes=8 * MIB)
        fetch = Fetch((FetchTopic("big", (part,)),), max_bytes=8 * MIB, max_wait_ms=0)
        for number in range(40):
            slow.sendall(encode_request(fetch, 12, number, "slow"))
        deadline = time.monotonic() + 2
        while time.monotonic() < deadline:
            assert read_metadata(unharmed).topics[0].name == "big"
            time.sleep(0.05)
        assert resident_bytes(unharmed.front) - before < 16 * SEND_BACKLOG_BYTES
        assert len(slow.recv(1_000)) == 1_000


def read_metadata(both: Both) -> MetadataReply:
    client = KafkaClient("quick", 10 * MIB)
    with socket.create_connection(("127.0.0.1", both.listener)) as quick:
        quick.sendall(client.encode_request(Metadata((MetadataTopic("big"),)), 9)[1])
        while not (answers := client.receive_data(quick.recv(65_536))):
            pass
    reply = answers[0].reply
    assert isinstance(reply, MetadataReply)
    return reply


@pytest.mark.parametrize(
    "garbage",
    [pack(">i", -1), pack(">i", 2**31 - 1), b"GET / HTTP/1.1\r\n\r\n", pack(">ihhih", 10, 999, 0, 1, 0)],
    ids=["negative", "huge", "http", "unknown api"],
)
def test_garbage_closes_its_connection_and_no_other(unharmed: Both, garbage: bytes) -> None:
    client = KafkaClient("good", MIB)
    with (
        socket.create_connection(("127.0.0.1", unharmed.listener)) as good,
        socket.create_connection(("127.0.0.1", unharmed.listener)) as bad,
    ):
        bad.sendall(garbage)
        bad.settimeout(5)
        assert bad.recv(100) == b""
        good.sendall(client.encode_request(Heartbeat("g", 1, "m"), 3)[1])
        ((_, reply),) = client.receive_data(good.recv(1_000))
        assert isinstance(reply, HeartbeatReply)


def test_a_cluster_that_is_not_there_yet_is_found_when_it_comes(tmp_path: Path) -> None:
    listener, port = free_port(), free_port()
    settings = (f"upstream.servers=127.0.0.1:{port}", "upstream.refresh.ms=100", f"upstream.listener.ports={listener}")
    with running(tmp_path / "front", *settings, with_kafka=True) as front:
        with socket.create_connection(("127.0.0.1", front.kafka_port)) as early:
            early.settimeout(5)
            assert is_closed(early)
        broker = Daemon(tmp_path / "broker", with_kafka=True)
        broker.kafka_port = port
        try:
            broker.start()
            admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{front.kafka_port}"})
            told = admin.list_topics(timeout=10).brokers
            assert [f"{one.host}:{one.port}" for one in told.values()] == [f"127.0.0.1:{listener}"]
        finally:
            broker.kill()


def is_closed(client: socket.socket) -> bool:
    try:
        return client.recv(1) == b""
    except ConnectionResetError:
        return True


async def test_a_client_that_comes_back_before_the_cluster_was_found_again_does_no_harm(tmp_path: Path) -> None:
    """It knows a broker's listener from before; another broker keeps the search waiting meanwhile."""
    silent = asyncio.Event()

    async def say_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await silent.wait()

    async def tell_of_both(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        brokers = (MetadataBroker(0, "127.0.0.1", port), MetadataBroker(1, "127.0.0.1", hung))
        replies: dict[int, Message] = {
            18: ApiVersionsReply(api_keys=tuple(ApiVersion(key, 0, 2) for key in (3, 18))),
            3: MetadataReply(brokers, cluster_id="pretended"),
        }
        with contextlib.suppress(asyncio.IncompleteReadError):
            while True:
                (size,) = unpack(">i", await reader.readexactly(4))
                key, version, number = unpack_from(">hhi", await reader.readexactly(size))
                writer.write(VersionCodec(WIRE_APIS[key], version).frame(number, replies[key]))

    first = free_port()
    async with tcp_server(say_nothing) as hung, tcp_server(tell_of_both) as port:
        settings = [f"upstream.servers=127.0.0.1:{port}", f"upstream.listener.ports={first}"]
        settings += ["upstream.ask.timeout.ms=1000"]
        front = Daemon(tmp_path / "front", *settings, with_kafka=True)
        starting = asyncio.create_task(asyncio.to_thread(front.start))
        try:
            while not starting.done():
                with contextlib.suppress(OSError):
                    _, writer = await asyncio.open_connection("127.0.0.1", first)
                    writer.close()
                await asyncio.sleep(0.02)
            await starting
            assert front.process is not None
            assert front.process.poll() is None
        finally:
            await asyncio.to_thread(front.kill)


@pytest.mark.parametrize("host", ["127.0.0.1", "no such host", "a" * 70 + ".example", ""])
@pytest.mark.parametrize("port", [1, 70_000, -1])
async def test_a_link_to_nowhere_says_so(host: str, port: int) -> None:
    plan = GatewayPlan((Address(host, port),), Ports(1, 1), "127.0.0.1", "127.0.0.1", 1, 5)
    with pytest.raises(RequestFailed, match=":"):
        await BrokerClient.open(plan.servers[0].host, plan.servers[0].port, plan.timeout_s)


async def pretend(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """A broker that lets in whoever knows the password, and offers PLAIN alone."""
    replies: dict[int, Message] = {
        18: ApiVersionsReply(api_keys=tuple(ApiVersion(key, 0, 2) for key in (3, 17, 18, 36))),
        17: SaslHandshakeReply(mechanisms=("PLAIN",)),
        3: MetadataReply(cluster_id="pretended"),
    }
    with contextlib.suppress(asyncio.IncompleteReadError):
        while True:
            (size,) = unpack(">i", await reader.readexactly(4))
            frame = await reader.readexactly(size)
            key, version, number = unpack_from(">hhi", frame)
            if key == 36:
                good = b"\0muster\0secret" in frame
                reply: Message = (
                    SaslAuthenticateReply(session_lifetime_ms=2_000)
                    if good
                    else SaslAuthenticateReply(ErrorCode.SASL_AUTHENTICATION_FAILED, "who is that?")
                )
            else:
                reply = replies[key]
            writer.write(VersionCodec(WIRE_APIS[key], version).frame(number, reply))


async def test_a_link_is_used_no_longer_than_its_login_holds() -> None:
    async with tcp_server(pretend) as port:
        link = await BrokerClient.open("127.0.0.1", port, 5, BrokerLogin("muster", "secret"))
        at_first = link.is_open
        await asyncio.sleep(1.7)
        assert (at_first, link.is_open) == (True, False)
        link.close()


async def test_a_link_says_who_it_is_and_is_told_if_it_may_not_come_in() -> None:
    async with tcp_server(pretend) as port:
        link = await BrokerClient.open("127.0.0.1", port, 5, BrokerLogin("muster", "secret"))
        assert await link.ask(Metadata(()), 5) == MetadataReply(cluster_id="pretended")
        link.close()
        assert not link.is_open
        with pytest.raises(RequestFailed, match="'muster' is not let in by PLAIN: who is that"):
            await BrokerClient.open("127.0.0.1", port, 5, BrokerLogin("muster", "guessed"))
    assert "secret" not in repr(BrokerLogin("muster", "secret"))
