"""Bad input against a real daemon: whatever one client does, a member of a group is answered within its session."""

import os
import random
import resource
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import msgpack
import pytest

from bench.wire import Refusal, Wire, WireMember
from tests.edges.musterd import Daemon, running

SESSION_MS = 6_000
MAX_FRAME_BYTES = 64 * 1024
MAX_UNSENT_BYTES = 256 * 1024
GROWTH_BYTES = 32 << 20
IDLE = 1_000


class Member(threading.Thread):
    """Joins once and heartbeats from then on; any refusal, an eviction above all, ends it."""

    def __init__(self, address: tuple[str, int]) -> None:
        super().__init__(daemon=True)
        self._member = WireMember(Wire(address), "good", session_timeout_ms=SESSION_MS)
        self._member.join()
        self._over = threading.Event()
        self.answered = 0
        self.slowest_s = 0.0

    def run(self) -> None:
        while not self._over.wait(0.1):
            began = time.monotonic()
            self._member.heartbeat()
            self.slowest_s = max(self.slowest_s, time.monotonic() - began)
            self.answered += 1
        self._member.wire.close()

    def end(self) -> None:
        self._over.set()
        self.join()


class HostileRig:
    """A daemon with a member that behaves."""

    def __init__(self, daemon: Daemon) -> None:
        self.address = ("127.0.0.1", daemon.port)
        self.daemon = daemon
        self.member = Member(self.address)
        self.member.start()
        self._resident = self._resident_bytes()

    def connect(self) -> socket.socket:
        return socket.create_connection(self.address, 10)

    def assert_healthy(self) -> None:
        """The member is answered again and again, was never kept waiting for its session, and memory is flat."""
        seen, ends = self.member.answered, time.monotonic() + SESSION_MS / 1000
        while self.member.answered < seen + 2:
            assert self.member.is_alive(), "the member was refused"
            assert time.monotonic() < ends, "the member is not answered"
            time.sleep(0.02)
        assert self.member.slowest_s < SESSION_MS / 1000
        assert self.daemon.process is not None
        assert self.daemon.process.poll() is None
        assert self._resident_bytes() < self._resident + GROWTH_BYTES

    def _resident_bytes(self) -> int:
        assert self.daemon.process is not None
        statm = Path(f"/proc/{self.daemon.process.pid}/statm").read_text()
        return int(statm.split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HostileRig]:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(before[1], 4 * IDLE), before[1]))
    settings = (
        "group.initial.rebalance.delay.ms=0",
        f"native.max.frame.bytes={MAX_FRAME_BYTES}",
        f"max.unsent.bytes={MAX_UNSENT_BYTES}",
    )
    try:
        with running(tmp_path_factory.mktemp("hostile") / "data", *settings) as daemon:
            rig = HostileRig(daemon)
            yield rig
            rig.assert_healthy()
            rig.member.end()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def request(method: str, **params: object) -> bytes:
    data: bytes = msgpack.packb([0, 7, method, [params]])
    return data


JOIN = request(
    "JoinGroup",
    group_id="bad",
    session_timeout_ms=SESSION_MS,
    protocol_type="consumer",
    protocols=[{"name": "range", "metadata": b"x"}],
)


def ends(connection: socket.socket) -> bytes:
    """Return the bytes that the server sends until it closes. Raises TimeoutError if it does not close."""
    said = b""
    with suppress(ConnectionResetError):
        while data := connection.recv(65536):
            said += data
    return said


def test_requests_cut_short_at_every_length_are_forgotten_with_their_connection(rig: HostileRig) -> None:
    for length in range(len(JOIN)):
        with rig.connect() as connection:
            connection.sendall(JOIN[:length])
    rig.assert_healthy()


@pytest.mark.parametrize(
    "data",
    [
        b"\x94\x00\x07\xa9Heartbeat\x91\xc6\xff\xff\xff\xff",  # a byte string of 4 GiB
        b"\x94\x00\x07\xa9Heartbeat\x91\xdb\x7f\xff\xff\xff",  # a text of 2 GiB
        b"\xdd\xff\xff\xff\xff",  # an array of 4 billion
        b"\x94\x00\x07\xa9Heartbeat\x91\xdf\xff\xff\xff\xff",  # a map of 4 billion
        b"\xdd\x00\x00\xff\xff" * 4_000,  # arrays in arrays that would be gigabytes once built
        b"\x91" * (MAX_FRAME_BYTES + 1),  # arrays in arrays, deeper than any parser likes
        request("JoinGroup", group_id="x" * MAX_FRAME_BYTES, session_timeout_ms=SESSION_MS),
    ],
    ids=["bin", "text", "array", "map", "bomb", "deep", "whole"],
)
def test_a_frame_beyond_the_limit_ends_its_connection(rig: HostileRig, data: bytes) -> None:
    with rig.connect() as connection:
        with suppress(ConnectionError):
            connection.sendall(data)
        assert ends(connection) == b""
    rig.assert_healthy()


@pytest.mark.parametrize(
    "value",
    [7, "text", None, [], {}, [0], [0, 7, "Heartbeat"], [1, 7, None, {}], [2, "RebalanceStarted", [{}]],
     [0, -1, "x", [{}]], [0, 7, 9, [{}]], [0, 7, "Heartbeat", {}],
     [0, 7, "Heartbeat", [{}, {}]], [9, 7, "Heartbeat", [{}]]],
    ids=repr,
)  # fmt: skip
def test_a_value_that_is_no_request_ends_its_connection(rig: HostileRig, value: object) -> None:
    with rig.connect() as connection:
        connection.sendall(msgpack.packb(value))
        assert ends(connection) == b""


@pytest.mark.parametrize(
    ("method", "params", "code"),
    [
        ("Heartbeat", {"group_id": 7, "generation_id": 1, "member_id": "m"}, 42),
        ("Heartbeat", {"group_id": "g", "generation_id": "1", "member_id": "m"}, 42),
        ("Heartbeat", {"group_id": "g", "generation_id": 1 << 63, "member_id": "m"}, 42),
        ("Heartbeat", {}, 42),
        ("JoinGroup", {"group_id": "g", "session_timeout_ms": 6_000, "protocols": "range"}, 42),
        (
            "JoinGroup",
            {"group_id": "g", "session_timeout_ms": 6_000, "protocols": [{"name": "r", "metadata": "t"}]},
            42,
        ),
        ("OffsetCommit", {"group_id": "g", "topics": {"t": 1}}, 42),
        ("OffsetFetch", {"groups": [[]]}, 42),
        ("SyncGroup", {"group_id": None, "generation_id": 1, "member_id": "m"}, 42),
        ("Produce", {"topics": [1]}, 42),
        ("Nonsense", {}, 35),
        ("", {}, 35),
    ],
)
def test_wrong_types_are_refused_and_the_connection_goes_on(
    rig: HostileRig, method: str, params: dict[str, object], code: int
) -> None:
    with Wire(rig.address) as wire:
        with pytest.raises(Refusal) as refused:
            wire.call(method, **params)
        assert refused.value.code == code
        assert wire.call("Hello", client_name="still here", client_version="1")["server_name"] == "musterd"


def test_random_bytes_and_requests_with_random_bytes_in_them_hurt_nobody_else(rig: HostileRig) -> None:
    chance = random.Random(6)
    for number in range(600):
        if number % 2:
            data = chance.randbytes(chance.randrange(1, 2_000))
        else:
            broken = bytearray(JOIN * 3)
            for _ in range(chance.randrange(1, 6)):
                broken[chance.randrange(len(broken))] = chance.randrange(256)
            data = bytes(broken)
        with rig.connect() as connection, suppress(ConnectionError):
            connection.sendall(data)
    rig.assert_healthy()


def test_a_thousand_idle_connections_keep_nobody_waiting(rig: HostileRig) -> None:
    with ExitStack() as stack:
        for number in range(IDLE):
            connection = stack.enter_context(rig.connect())
            if number % 2:
                connection.sendall(JOIN[:20])  # in the middle of a request, for ever
        rig.assert_healthy()
        with Wire(rig.address) as wire:
            assert wire.call("Hello", client_name="one more", client_version="1")["server_name"] == "musterd"


def test_a_request_sent_byte_by_byte_is_answered(rig: HostileRig) -> None:
    with rig.connect() as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in request("Heartbeat", group_id="none", generation_id=1, member_id="m"):
            connection.sendall(bytes((byte,)))
            time.sleep(0.002)
        reply = msgpack.unpackb(connection.recv(65536))
        assert reply[:2] == [1, 7] and reply[2][1] == "UNKNOWN_MEMBER_ID"
    rig.assert_healthy()


def test_a_client_that_reads_a_byte_a_second_keeps_nobody_waiting(rig: HostileRig) -> None:
    with slow_reader(rig) as connection:
        for _ in range(3):
            assert len(connection.recv(1)) == 1
            rig.assert_healthy()
            time.sleep(1)


def test_a_client_that_never_reads_is_not_buffered_for(rig: HostileRig) -> None:
    with slow_reader(rig) as connection:
        rig.assert_healthy()
        connection.setblocking(False)
        with pytest.raises((BlockingIOError, ConnectionError)):
            send_on(connection)  # the server has stopped reading from it, or has closed it
        rig.assert_healthy()


def send_on(connection: socket.socket) -> None:
    while True:
        connection.send(HELLO * 10)


HELLO = request("Hello", client_name="slow", client_version="1")


def slow_reader(rig: HostileRig) -> socket.socket:
    """A client that has asked for more than fits anywhere, and has read nothing."""
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.settimeout(0.5)
    connection.connect(rig.address)
    with suppress(TimeoutError, ConnectionError):
        for _ in range(4_000):
            connection.sendall(HELLO * 10)
    return connection
