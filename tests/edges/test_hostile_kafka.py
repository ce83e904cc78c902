"""Bad input on the Kafka listener of a real daemon: whatever one client does, a member is answered all the time."""

import os
import random
import resource
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from struct import pack

import pytest

from protocol.errors import ErrorCode
from protocol.kafka.client import KafkaClient, encode_request
from protocol.messages import Message
from protocol.messages.data import Produce, ProducePartition, ProduceReply, ProduceTopic
from protocol.messages.groups import DescribeGroups, Heartbeat, JoinGroup, JoinProtocol
from protocol.messages.node import ApiVersions, ApiVersionsReply
from protocol.messages.topics import CreatableTopic, CreateTopics, CreateTopicsReply
from protocol.record_compression import Compression
from tests.edges.kafka.wire import SESSION_MS, Wire, WireMember
from tests.edges.musterd import Daemon, running
from tests.protocol.kafka.bending import bend
from tests.protocol.kafka.fuzz import bomb
from tests.protocol.kafka.samples import CASES, Chosen, Filled, sample

MAX_FRAME_BYTES = 1 << 20
GROWTH_BYTES = 48 << 20
"""Records may take 16 MiB decompressed, and what Python frees is not all given back at once."""
IDLE = 300
CODECS = [codec for codec in Compression if codec is not Compression.NONE]


class Member(threading.Thread):
    """Joins once and heartbeats from then on; any refusal, an eviction above all, ends it."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__(daemon=True)
        self._member = WireMember(Wire(bootstrap), "good", "consumer", {"range": b"x"})
        self._member.join()
        self._member.sync({self._member.member_id: b"y"})
        self._over = threading.Event()
        self.answered = 0
        self.slowest_s = 0.0

    def run(self) -> None:
        while not self._over.wait(0.05):
            began = time.monotonic()
            assert self._member.heartbeat() == 0
            self.slowest_s = max(self.slowest_s, time.monotonic() - began)
            self.answered += 1
        self._member.wire.close()

    def end(self) -> None:
        self._over.set()
        self.join()


class HostileRig:
    """A daemon with a member that behaves."""

    def __init__(self, daemon: Daemon) -> None:
        self.address = ("127.0.0.1", daemon.kafka_port)
        self._daemon = daemon
        with self.connect() as connection:
            for case in CASES:  # every codec is compiled when first used: that is no growth
                if case.is_request and case.api.advertised and case.version == case.api.request.newest:
                    connection.sendall(encode_request(sample(case, Filled(entries=0)), case.version, 1, "warm"))
            time.sleep(0.5)
        self.member = Member(f"127.0.0.1:{daemon.kafka_port}")
        self.member.start()
        self._resident = self._resident_bytes()

    def connect(self) -> socket.socket:
        return socket.create_connection(self.address, 10)

    def ask(self, message: Message, version: int) -> Message:
        with self.connect() as connection:
            client = KafkaClient("hostile", 1 << 24)
            connection.sendall(client.encode_request(message, version)[1])
            while not (answers := client.receive_data(_some(connection))):
                pass
            return answers[0].reply

    def assert_healthy(self) -> None:
        """The member is answered again and again, was never kept waiting for its session, and memory is flat."""
        seen, ends = self.member.answered, time.monotonic() + SESSION_MS / 1000
        while self.member.answered < seen + 2:
            assert self.member.is_alive(), "the member was refused"
            assert time.monotonic() < ends, "the member is not answered"
            time.sleep(0.02)
        assert self.member.slowest_s < SESSION_MS / 1000
        assert self._daemon.process is not None
        assert self._daemon.process.poll() is None
        assert self._resident_bytes() < self._resident + GROWTH_BYTES

    def closes(self, data: bytes) -> None:
        """The server hangs up on who sends this, and says nothing."""
        with self.connect() as connection:
            with suppress(ConnectionError):
                connection.sendall(data)
            assert _said_until_the_end(connection) == b""

    def _resident_bytes(self) -> int:
        assert self._daemon.process is not None
        statm = Path(f"/proc/{self._daemon.process.pid}/statm").read_text()
        return int(statm.split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _some(connection: socket.socket) -> bytes:
    data = connection.recv(1 << 16)
    assert data, "the server hung up"
    return data


def _said_until_the_end(connection: socket.socket) -> bytes:
    said = b""
    with suppress(ConnectionResetError):
        while data := connection.recv(1 << 16):
            said += data
    return said


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HostileRig]:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(before[1], 4 * IDLE), before[1]))
    settings = ("group.initial.rebalance.delay.ms=0", f"socket.request.max.bytes={MAX_FRAME_BYTES}")
    try:
        with running(tmp_path_factory.mktemp("hostile") / "data", *settings, with_kafka=True) as daemon:
            rig = HostileRig(daemon)
            yield rig
            rig.assert_healthy()
            rig.member.end()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def framed(body: bytes) -> bytes:
    return pack(">i", len(body)) + body


def header(key: int, version: int, tags: bytes = b"") -> bytes:
    return pack(">hhih", key, version, 7, -1) + tags


JOIN = encode_request(
    JoinGroup("bad", 6_000, protocol_type="consumer", protocols=(JoinProtocol("range", b"x"),)), 5, 1, "bad"
)
BEAT = encode_request(Heartbeat("bad", 1, "m"), 4, 1, "bad")
ENDLESS = b"\xff" * 100


@pytest.mark.parametrize("size", [-1, -(2**31), 2**31 - 1, MAX_FRAME_BYTES + 1, 0, 9])
def test_a_length_that_no_request_has_ends_its_connection(rig: HostileRig, size: int) -> None:
    rig.closes(pack(">i", size) + bytes(64))
    rig.assert_healthy()


def test_requests_cut_short_at_every_length_are_forgotten_with_their_connection(rig: HostileRig) -> None:
    for length in range(len(JOIN)):
        with rig.connect() as connection:
            connection.sendall(JOIN[:length])
    rig.assert_healthy()


def test_requests_whose_bodies_end_early_end_their_connection(rig: HostileRig) -> None:
    for length in range(14, len(BEAT), 3):
        rig.closes(framed(BEAT[4:length]))
    rig.assert_healthy()


@pytest.mark.parametrize(
    "body",
    [
        header(15, 0) + b"\x7f\xff\xff\xff",  # groups to describe
        header(15, 0) + b"\x80\x00\x00\x00",
        header(15, 5, b"\0") + b"\xff\xff\xff\xff\x0f",
        header(15, 5, b"\0") + b"\xff\xff\xff\x07" + b"\x01" * 1_000,
        header(8, 2) + b"\x00\x01g" + bytes(4) + b"\x00\x01m" + bytes(8) + b"\x7f\xff\xff\xff",  # topics of a commit
        header(0, 3) + b"\xff\xff\x00\x01" + bytes(4) + b"\x00\x00\x00\x01\x00\x01t\x7f\xff\xff\xff",  # partitions
        header(0, 9, b"\0") + b"\x00\x00\x01" + bytes(4) + b"\x02\x02t\x02" + bytes(4) + b"\xff\xff\xff\xff\x07",
        header(12, 4, b"\0") + ENDLESS,
        header(12, 4, ENDLESS),
        header(12, 4, b"\xff\xff\xff\xff\x07"),  # billions of tagged fields
        header(12, 4, b"\xc0\x9a\x0c" + b"\x00\x00" * 200_000),  # two hundred thousand of them, all there
        BEAT[4:-1] + b"\xc0\x9a\x0c" + b"\x00\x00" * 200_000,
        header(12, 0) + b"\x80\x00",
    ],
    ids=lambda body: f"{body[1]}-v{body[3]}-{body[10:30].hex()}",
)
def test_a_request_that_promises_what_does_not_come_ends_its_connection(rig: HostileRig, body: bytes) -> None:
    rig.closes(framed(body))
    rig.assert_healthy()


@pytest.mark.parametrize(
    ("key", "version"), [(999, 0), (-1, 0), (4, 0), (12, 5), (12, -1), (1, 3), (0, 99), (28, 3), (68, 0), (71, 0)]
)
def test_an_api_or_a_version_that_is_not_served_ends_its_connection(rig: HostileRig, key: int, version: int) -> None:
    rig.closes(framed(header(key, version) + bytes(100)))


def test_a_newer_api_versions_is_told_so_and_goes_on(rig: HostileRig) -> None:
    with rig.connect() as connection:
        connection.sendall(framed(header(18, 99) + ENDLESS))
        assert _some(connection)[4:10] == pack(">ih", 7, 35)
        connection.sendall(encode_request(ApiVersions("c", "1"), 4, 8, "c"))
        assert _some(connection)[4:10] == pack(">ih", 8, 0)
    assert isinstance(rig.ask(ApiVersions("bad name", "1"), 3), ApiVersionsReply)


@pytest.mark.parametrize("codec", CODECS, ids=lambda codec: codec.name.lower())
def test_a_compression_bomb_is_refused_and_takes_no_memory(rig: HostileRig, codec: Compression) -> None:
    created = rig.ask(CreateTopics((CreatableTopic("bombs", 1, 1),)), 4)
    assert isinstance(created, CreateTopicsReply)
    records = bomb(codec, 20 << 20)  # more than a request's records may take
    assert len(records) < MAX_FRAME_BYTES
    for _ in range(3):
        reply = rig.ask(Produce((ProduceTopic("bombs", (ProducePartition(0, records),)),)), 8)
        assert isinstance(reply, ProduceReply)
        (part,) = reply.responses[0].partition_responses
        assert part.error_code is ErrorCode.INVALID_RECORD
    rig.assert_healthy()


def test_records_in_formats_of_old_are_refused_in_their_own_words(rig: HostileRig) -> None:
    rig.ask(CreateTopics((CreatableTopic("bombs", 1, 1),)), 4)  # or it is there already
    records = bytes(8) + pack(">iIbbii", 14, 0, 0, 0, -1, -1)  # a message set of magic 0
    produce = Produce((ProduceTopic("bombs", (ProducePartition(0, records),)),))
    for version, error in ((2, ErrorCode.UNSUPPORTED_VERSION), (3, ErrorCode.INVALID_RECORD)):
        reply = rig.ask(produce, version)
        assert isinstance(reply, ProduceReply)
        assert reply.responses[0].partition_responses[0].error_code is error


def test_random_bytes_and_bent_requests_hurt_nobody_else(rig: HostileRig) -> None:
    chance = random.Random(6)
    asked = [case for case in CASES if case.is_request and case.api.advertised]
    for number in range(600):
        case = chance.choice(asked)
        whole = encode_request(sample(case, Chosen(chance)), case.version, number, "bad")
        data = bend(whole, chance) if number % 3 else framed(bend(whole[4:], chance))
        with rig.connect() as connection, suppress(ConnectionError):
            connection.sendall(data)
    rig.assert_healthy()


def test_idle_connections_in_the_middle_of_a_large_request_cost_what_they_sent(rig: HostileRig) -> None:
    with ExitStack() as stack:
        for _ in range(IDLE):
            connection = stack.enter_context(rig.connect())
            connection.sendall(pack(">i", MAX_FRAME_BYTES) + b"\x00\x0c")
        rig.assert_healthy()
        assert isinstance(rig.ask(ApiVersions(), 0), ApiVersionsReply)


def _takes_more(connection: socket.socket, data: bytes, most: int) -> bool:
    """Send as much as the socket takes, less than `most` bytes; return whether it took any."""
    sent = 0
    with suppress(BlockingIOError):
        while True:
            sent += connection.send(data)
            assert sent < most, "the server reads on and on"
    return sent > 0


def test_a_flood_behind_a_request_that_waits_is_not_read(rig: HostileRig) -> None:
    """A join that waits for a member that never comes back holds its connection; what follows fills no memory."""
    slow = WireMember(Wire(f"127.0.0.1:{rig.address[1]}"), "slow", "consumer", {"range": b"x"})
    slow.join()
    slow.sync({slow.member_id: b"y"})
    with rig.connect() as connection:
        first = KafkaClient("bad", 1 << 24)
        join = JoinGroup("slow", 6_000, "", "consumer", (JoinProtocol("range", b"x"),), 6_000)
        connection.sendall(first.encode_request(join, 3)[1])
        connection.setblocking(False)
        flood = encode_request(DescribeGroups(("slow",)), 5, 9, "bad") * 1_000
        while _takes_more(connection, flood, 64 << 20):
            time.sleep(0.2)
        rig.assert_healthy()
    slow.wire.close()
