"""Listeners with TLS, as stock clients meet them; and what becomes of those that come without, or do not finish."""

import asyncio
import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.request import urlopen

import aiohttp
import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]
from kafka import KafkaConsumer

from protocol.kafka.client import KafkaAnswer, KafkaClient, encode_request
from protocol.messages.data import Fetch, FetchPartition, FetchTopic
from protocol.messages.groups import Heartbeat
from protocol.messages.topics import Metadata, MetadataReply
from tests.edges.certificates import Folder
from tests.edges.musterd import Daemon, running, within

MIB = 1 << 20


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def test_the_first_line_says_who_speaks_tls(folder: Folder, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "coordinator", "--data-dir", str(tmp_path / "data"), "--http", "127.0.0.1:0"]
    command += ["--native", "off", "--kafka", "127.0.0.1:0"]
    settings = [part for one in (*folder.listening(), "tls.listeners=native,kafka") for part in ("--set", one)]
    with subprocess.Popen([*command, *settings], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        assert process.stdout.readline().endswith(b" tls=kafka\n")
        process.terminate()


@contextmanager
def secured(folder: Folder, path: Path, *settings: str, clients_show: bool = False) -> Iterator[Daemon]:
    listening = folder.listening(clients_show=clients_show)
    with running(path / "data", *listening, *settings, with_http=True, with_kafka=True) as daemon:
        yield daemon


@pytest.fixture
def daemon(folder: Folder, tmp_path: Path) -> Iterator[Daemon]:
    with secured(folder, tmp_path, "message.max.bytes=2000000", "group.initial.rebalance.delay.ms=0") as one:
        yield one


def log_of(daemon: Daemon) -> str:
    return (daemon.folder.parent / f"{daemon.folder.name}.log").read_text()


def librdkafka(daemon: Daemon, folder: Folder, **more: str) -> dict[str, str | int | float | bool]:
    return {
        "bootstrap.servers": f"127.0.0.1:{daemon.kafka_port}",
        "security.protocol": "SSL",
        "ssl.ca.location": str(folder.ca),
        **more,
    }


def connect(port: int, context: ssl.SSLContext) -> ssl.SSLSocket:
    return context.wrap_socket(socket.create_connection(("127.0.0.1", port), timeout=10), server_hostname="127.0.0.1")


def is_closed(client: socket.socket) -> bool:
    try:
        return client.recv(100) == b""
    except OSError:
        return True


def test_stock_clients_write_and_read_over_tls(daemon: Daemon, folder: Folder) -> None:
    producer = Producer(librdkafka(daemon, folder))
    values = [os.urandom(100_000) for _ in range(30)]
    for value in values:
        producer.produce("orders", value)
    assert producer.flush(60) == 0
    consumer = Consumer(librdkafka(daemon, folder) | {"group.id": "g", "auto.offset.reset": "earliest"})
    consumer.subscribe(["orders"])
    got: list[bytes | None] = []
    deadline = time.monotonic() + 60
    while len(got) < 30 and time.monotonic() < deadline:
        message = consumer.poll(0.5)
        if message is not None and message.error() is None:
            got.append(message.value())
    assert got == values
    consumer.commit(asynchronous=False)
    consumer.close()
    python = KafkaConsumer(
        "orders",
        bootstrap_servers=f"127.0.0.1:{daemon.kafka_port}",
        security_protocol="SSL",
        ssl_cafile=str(folder.ca),
        auto_offset_reset="earliest",
        consumer_timeout_ms=10_000,
    )
    assert next(iter(python)).value == values[0]
    python.close()


async def test_http_is_https_and_the_native_protocol_is_too(daemon: Daemon, folder: Folder) -> None:
    trusting = folder.trusting()
    async with aiohttp.ClientSession() as session:
        async with session.get(f"https://127.0.0.1:{daemon.http_port}/readyz", ssl=trusting) as answer:
            assert (await answer.json())["ready"] is True
        async with session.get(f"https://127.0.0.1:{daemon.http_port}/metrics", ssl=trusting) as answer:
            page = await answer.text()
    (line,) = [line for line in page.splitlines() if line.startswith("muster_tls_certificate_expiry")]
    assert float(line.split()[1]) == folder.ends_s
    reader, writer = await asyncio.open_connection("127.0.0.1", daemon.port, ssl=trusting)
    writer.write(b"\xff\xff\xff\xff no frame")
    assert await reader.read() is not None
    writer.close()


def test_listeners_that_are_not_named_stay_as_they_are(folder: Folder, tmp_path: Path) -> None:
    with (
        secured(folder, tmp_path, "tls.listeners=kafka") as daemon,
        urlopen(f"http://127.0.0.1:{daemon.http_port}/readyz", timeout=5) as answer,
    ):
        assert json.load(answer)["ready"] is True
        assert AdminClient(librdkafka(daemon, folder)).list_topics(timeout=60).brokers


def test_tls_older_than_1_2_is_not_spoken(daemon: Daemon, folder: Folder) -> None:
    for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        context = folder.trusting()
        context.minimum_version = context.maximum_version = version
        with connect(daemon.kafka_port, context) as client:
            assert client.version() == version.name.replace("_", ".")
    old = folder.trusting()
    with pytest.warns(DeprecationWarning, match="TLSv1_1"):
        old.minimum_version = old.maximum_version = ssl.TLSVersion.TLSv1_1
    old.set_ciphers("DEFAULT:@SECLEVEL=0")
    with pytest.raises(OSError):  # noqa: PT011  what it says differs by version
        connect(daemon.kafka_port, old)


def test_who_shows_no_certificate_or_a_strange_one_is_not_let_in(folder: Folder, tmp_path: Path) -> None:
    strange = Folder(tmp_path / "strange")
    audit = tmp_path / "audit.log"
    with secured(folder, tmp_path, f"audit.log.location={audit}", clients_show=True) as daemon:
        known = librdkafka(daemon, folder, **folder.shown())
        assert AdminClient(known).list_topics(timeout=60).brokers
        told: tuple[tuple[dict[str, str], str], ...] = (
            ({}, "the client shows no certificate"),
            (strange.shown(), "the client's certificate is refused"),
        )
        for how, sentence in told:
            refused = AdminClient(librdkafka(daemon, folder, **how))
            with pytest.raises(KafkaException):
                refused.list_topics(timeout=2)
            assert within(10, lambda sentence=sentence: sentence in log_of(daemon))  # it goes on trying
        admin = AdminClient(known)
        admin.create_topics([NewTopic("orders", 1)])["orders"].result(60)
        assert daemon.stop() == 0
    assert "Traceback" not in log_of(daemon)
    told_by = {(line["event"], line.get("certificate")) for line in map(json.loads, audit.read_text().splitlines())}
    assert told_by == {(event, certificate_of(folder.client)) for event in ("login", "administration")}


def certificate_of(path: Path) -> str:
    """Return what openssl says of a certificate, as origins have it."""
    command = ["openssl", "x509", "-noout", "-subject", "-serial", "-nameopt", "RFC2253,-esc_msb", "-in", str(path)]
    subject, serial = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    return f"{subject.removeprefix('subject=').strip()} {serial}"


def test_a_client_without_tls_is_cut_off_with_a_line_and_no_other_is(daemon: Daemon, folder: Folder) -> None:
    with connect(daemon.kafka_port, folder.trusting()) as good:
        for port in (daemon.port, daemon.kafka_port, daemon.http_port):
            with socket.create_connection(("127.0.0.1", port), timeout=10) as bad:
                bad.sendall(encode_request(Heartbeat("g", 1, "m"), 3, 1, "plain"))
                assert is_closed(bad)
            with socket.create_connection(("127.0.0.1", port), timeout=10) as bad:
                bad.sendall(b"GET / HTTP/1.1\r\n\r\n")
                assert is_closed(bad)
        client = KafkaClient("good", MIB)
        good.sendall(client.encode_request(Heartbeat("g", 1, "m"), 3)[1])
        assert client.receive_data(good.recv(1_000))
    assert within(5, lambda: "the client does not speak TLS" in log_of(daemon))
    assert "Traceback" not in log_of(daemon)
    assert log_of(daemon).count("TLS handshakes failed") < 4
    assert daemon.stop() == 0


@pytest.mark.long
def test_handshakes_that_are_never_finished_hold_nobody_up_and_end(daemon: Daemon, folder: Folder) -> None:
    with ExitStack() as sockets:
        halves = [open_half(sockets, daemon.kafka_port) for _ in range(200)]
        for number, half in enumerate(halves):
            half.sendall(b"\x16\x03\x01\x02\x00\x01"[: number % 7])
        assert AdminClient(librdkafka(daemon, folder)).list_topics(timeout=60).brokers
        for half in halves[:100]:
            half.close()
        began = time.monotonic()
        assert all(is_closed(half) for half in halves[100:])
        assert time.monotonic() - began < 30
    assert within(5, lambda: "did not finish" in log_of(daemon))
    assert "Traceback" not in log_of(daemon)


def open_half(sockets: ExitStack, port: int) -> socket.socket:
    return sockets.enter_context(socket.create_connection(("127.0.0.1", port), timeout=15))


def test_who_breaks_off_or_says_what_is_no_tls_any_more_ends_its_own_connection_alone(
    daemon: Daemon, folder: Folder
) -> None:
    at_once = b"\1\0\0\0\0\0\0\0"  # no linger: what is closed is reset
    with connect(daemon.kafka_port, folder.trusting()) as good:
        for port in (daemon.kafka_port, daemon.port, daemon.http_port):
            with socket.create_connection(("127.0.0.1", port), timeout=10) as reset:
                reset.sendall(b"\x16\x03\x01\x02")
                reset.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, at_once)
            with socket.socket(fileno=connect(port, folder.trusting()).detach()) as broken:
                broken.settimeout(10)
                broken.sendall(b"\x17\x03\x03\x00\x20" + os.urandom(32))
                while broken.recv(1_000):
                    pass
            with socket.socket(fileno=connect(port, folder.trusting()).detach()) as gone:
                gone.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, at_once)
        client = KafkaClient("good", MIB)
        good.sendall(client.encode_request(Heartbeat("g", 1, "m"), 3)[1])
        assert client.receive_data(good.recv(1_000))
    assert daemon.stop() == 0
    assert "Traceback" not in log_of(daemon)
    assert "never retrieved" not in log_of(daemon)


def test_a_certificate_is_replaced_while_the_daemon_serves(daemon: Daemon, folder: Folder) -> None:
    with connect(daemon.kafka_port, folder.trusting()) as before:
        first = before.getpeercert(binary_form=True)
        folder.key.write_text("half a key")
        with connect(daemon.kafka_port, folder.trusting()) as same:
            assert same.getpeercert(binary_form=True) == first
        folder.issue()
        for port in (daemon.kafka_port, daemon.port, daemon.http_port):
            with connect(port, folder.trusting()) as fresh:
                assert fresh.getpeercert(binary_form=True) not in (first, None)
        client = KafkaClient("before", MIB)
        before.sendall(client.encode_request(Heartbeat("g", 1, "m"), 3)[1])
        assert client.receive_data(before.recv(1_000)), "connections that there are go on"
    log = log_of(daemon)
    assert log.count("new certificates cannot be used") == 1
    assert log.count("certificates read anew") == 1


def test_sighup_reads_the_certificates_whether_they_are_other_ones_or_not(daemon: Daemon, folder: Folder) -> None:
    assert daemon.process is not None
    with connect(daemon.kafka_port, folder.trusting()) as client:
        for times in (1, 2):
            daemon.process.send_signal(signal.SIGHUP)
            assert within(5, lambda times=times: log_of(daemon).count("certificates read anew") == times)
        folder.chain.write_text("")
        daemon.process.send_signal(signal.SIGHUP)
        assert within(5, lambda: "new certificates cannot be used; those before stay in use" in log_of(daemon))
        client.sendall(b"\0\0\0\x0a\0\x12\0\0\0\0\0\x07\xff\xff")  # ApiVersions 0
        assert client.recv(8)[4:] == b"\0\0\0\x07", "who was connected is served on"
    connect(daemon.kafka_port, folder.trusting()).close()
    assert daemon.stop() == 0


def test_who_is_no_longer_trusted_does_not_come_back(folder: Folder, tmp_path: Path) -> None:
    with secured(folder, tmp_path, clients_show=True) as daemon:
        context = folder.trusting(shows=True)
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        with connect(daemon.kafka_port, context) as client:
            session = client.session
        assert not is_refused(context, daemon.kafka_port, session)
        folder.ca.write_bytes(Folder(tmp_path / "other").authority.cert_pem.bytes())
        assert is_refused(context, daemon.kafka_port, session)


async def test_an_act_over_http_names_the_certificate_of_its_sender(folder: Folder, tmp_path: Path) -> None:
    with secured(folder, tmp_path, clients_show=True) as daemon:
        admin = AdminClient({**librdkafka(daemon, folder), **folder.shown()})
        admin.create_topics([NewTopic("orders", 1, 1)])["orders"].result(10)
        offsets = ConsumerGroupTopicPartitions("billing", [TopicPartition("orders", 0, 5)])
        admin.alter_consumer_group_offsets([offsets])["billing"].result(10)
        context, group = folder.trusting(shows=True), f"https://127.0.0.1:{daemon.http_port}/v1/groups/billing"
        async with aiohttp.ClientSession() as session:
            async with session.post(f"{group}/hold", json={"for_ms": 60_000}, ssl=context) as answer:
                assert answer.status == 200
            async with session.get(f"{group}/notes", ssl=context) as answer:
                notes = (await answer.json())["notes"]
            async with session.get(f"{group}/offsets", ssl=context) as answer:
                (kept,) = (await answer.json())["offsets"]
    for origin in (notes[-1]["origin"], kept["committed_by"]):
        assert origin["certificate"].startswith("OU=Testing cert") and " serial=" in origin["certificate"], notes


def is_refused(context: ssl.SSLContext, port: int, session: ssl.SSLSession | None) -> bool:
    plain = socket.create_connection(("127.0.0.1", port), timeout=10)
    try:
        with context.wrap_socket(plain, server_hostname="127.0.0.1", session=session) as client:
            client.sendall(encode_request(Heartbeat("g", 1, "m"), 3, 1, "again"))
            return client.recv(1) == b""
    except TimeoutError:
        return False
    except OSError:
        return True


def resident_bytes(daemon: Daemon) -> int:
    assert daemon.process is not None
    pages = int(Path(f"/proc/{daemon.process.pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def test_who_reads_nothing_over_tls_takes_no_more_than_is_allowed_and_holds_nobody_up(
    folder: Folder, tmp_path: Path
) -> None:
    limits = ("max.unsent.bytes=1048576", "message.max.bytes=2000000", "num.partitions=1")
    with secured(folder, tmp_path, *limits) as daemon:
        producer = Producer(librdkafka(daemon, folder) | {"message.max.bytes": "2000000"})
        for _ in range(8):
            producer.produce("big", os.urandom(MIB - 1_000))
        assert producer.flush(60) == 0
        part = FetchPartition(0, 0, partition_max_bytes=8 * MIB)
        fetch = Fetch((FetchTopic("big", (part,)),), max_bytes=8 * MIB, max_wait_ms=0)
        with (
            connect(daemon.kafka_port, folder.trusting()) as slow,
            connect(daemon.kafka_port, folder.trusting()) as quick,
        ):
            before = resident_bytes(daemon)
            for number in range(40):
                slow.sendall(encode_request(fetch, 11, number, "slow"))
            client = KafkaClient("quick", 10 * MIB)
            deadline = time.monotonic() + 1
            while time.monotonic() < deadline:
                quick.sendall(client.encode_request(Metadata(None), 9)[1])
                while not (answers := client.receive_data(quick.recv(65_536))):
                    pass
                assert isinstance(answers[0].reply, MetadataReply)
            assert resident_bytes(daemon) - before < 48 * MIB
        assert within(5, lambda: "slow reader closed" in log_of(daemon))


def test_large_answers_arrive_whole_whoever_reads_them_slowly(daemon: Daemon, folder: Folder) -> None:
    producer = Producer(librdkafka(daemon, folder) | {"message.max.bytes": "2000000"})
    values = [os.urandom(MIB - 1_000) for _ in range(8)]
    for value in values:
        producer.produce("big", value)
    assert producer.flush(60) == 0
    part = FetchPartition(0, 0, partition_max_bytes=9 * MIB)
    fetch = Fetch((FetchTopic("big", (part,)),), max_bytes=9 * MIB, max_wait_ms=0)
    client = KafkaClient("slow", 10 * MIB)
    with connect(daemon.kafka_port, folder.trusting()) as slow:
        slow.sendall(client.encode_request(fetch, 11)[1] + client.encode_request(fetch, 11)[1])
        answers: list[KafkaAnswer] = []
        got = bytearray()
        while len(answers) < 2:
            if len(got) % 7 == 0:
                time.sleep(0.002)
            data = slow.recv(65_536)
            got += data
            answers += client.receive_data(data)
    for value in values:
        assert got.count(value) == 2


def test_a_stop_ends_in_good_order_whoever_is_connected(daemon: Daemon, folder: Folder) -> None:
    consumer = Consumer(librdkafka(daemon, folder) | {"group.id": "g"})
    consumer.subscribe(["^orders.*"])
    consumer.poll(1)
    with (
        connect(daemon.kafka_port, folder.trusting()) as silent,
        socket.create_connection(("127.0.0.1", daemon.kafka_port)) as half,
        connect(daemon.http_port, folder.trusting()) as idle,
    ):
        silent.sendall(b"\0\0")
        idle.sendall(b"GET /healthz HTTP/1.1\r\nHost: here\r\n\r\n")
        assert b"200" in idle.recv(1_000)
        half.sendall(b"\x16")
        began = time.monotonic()
        assert daemon.stop() == 0
        assert time.monotonic() - began < 30
    consumer.close()
    assert "Traceback" not in log_of(daemon)
    assert '"level": "error"' not in log_of(daemon)


@pytest.mark.parametrize(
    ("setting", "sentence"),
    [
        ("tls.certificate.location=gone.pem", "tls.certificate.location = gone.pem: cannot be read: No such file"),
        ("tls.client.ca.location=gone.pem", "tls.client.ca.location = gone.pem: cannot be read: No such file"),
    ],
)
def test_what_cannot_be_used_stops_the_start_before_anything_is_touched(
    folder: Folder, tmp_path: Path, setting: str, sentence: str
) -> None:
    daemon = Daemon(tmp_path / "data", *folder.listening(), setting)
    with pytest.raises(AssertionError):
        daemon.start()
    assert daemon.process is not None
    assert daemon.process.wait(5) == 2
    assert daemon.process.stdout is not None
    daemon.process.stdout.close()
    assert f"musterd: {sentence}" in log_of(daemon)
    assert not daemon.folder.exists()
