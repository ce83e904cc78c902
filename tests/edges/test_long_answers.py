"""Long answers through musterd in front of a broker, over real sockets: the bytes are the broker's, and whoever leaves
in the middle of one leaves nothing behind."""

import contextlib
import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from struct import pack, unpack

import pytest

from protocol.kafka.client import encode_request
from protocol.messages.data import Fetch, FetchPartition, FetchTopic
from protocol.messages.groups import Heartbeat
from tests.edges.musterd import Daemon, free_port, running, within
from tests.edges.test_beside_brokers import Both, make_topic, produce

MIB = 1 << 20
ALL = Fetch(
    (FetchTopic("big", (FetchPartition(0, 0, partition_max_bytes=8 * MIB),)),), max_bytes=8 * MIB, max_wait_ms=0
)
BEAT = encode_request(Heartbeat("nobody", 1, "m"), 3, 7, "c")


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    """A broker with eight records of a megabyte, and musterd in front of it."""
    tmp_path, listener = tmp_path_factory.mktemp("long"), free_port()
    with running(tmp_path / "broker", "message.max.bytes=2000000", with_kafka=True) as broker:
        settings = (f"upstream.servers=127.0.0.1:{broker.kafka_port}", f"upstream.listener.ports={listener}")
        with running(tmp_path / "front", *settings, "upstream.request.timeout.ms=2000", with_kafka=True) as front:
            both = Both(broker, front, listener)
            make_topic(both, "big", 1)
            produce(both, "big", [os.urandom(MIB - 1_000) for _ in range(8)], **{"message.max.bytes": 2_000_000})
            yield both


@pytest.fixture
def big(served: Both) -> Both:
    """The module's, which no test changes; the broker is there again if the test before has killed it."""
    if served.broker.process is None:
        served.broker.start()
        assert within(10, lambda: is_answered(served.listener))
    return served


def is_answered(port: int) -> bool:
    with asking(port, 1) as client, contextlib.suppress(OSError):
        return bool(client.recv(4))
    return False


def asking(port: int, count: int) -> socket.socket:
    """A client that has asked for everything so many times."""
    client = socket.create_connection(("127.0.0.1", port), 10)
    client.sendall(b"".join(encode_request(ALL, 12, number, "c") for number in range(count)))
    return client


def read(client: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        piece = client.recv(size - len(data))
        assert piece
        data += piece
    return bytes(data)


def read_frame(client: socket.socket) -> bytes:
    (size,) = unpack(">i", read(client, 4))
    return read(client, size)


def files_of(daemon: Daemon) -> int:
    assert daemon.process is not None
    return len(list(Path(f"/proc/{daemon.process.pid}/fd").iterdir()))


def test_long_answers_are_the_brokers_to_the_byte_and_ours_wait_between_them(big: Both) -> None:
    with asking(big.broker.kafka_port, 3) as there:
        answers = [read_frame(there) for _ in range(3)]
    assert len(answers[0]) > 4 * MIB
    with asking(big.listener, 2) as client:
        client.sendall(BEAT + encode_request(ALL, 12, 2, "c") + BEAT)
        assert [read_frame(client), read_frame(client)] == answers[:2]
        assert read_frame(client)[:4] == pack(">i", 7)
        assert read_frame(client) == answers[2]
        assert read_frame(client)[:4] == pack(">i", 7)


def test_clients_that_go_in_the_middle_of_an_answer_leave_no_files_behind(big: Both) -> None:
    with asking(big.listener, 1) as client:
        read_frame(client)
        before = files_of(big.front) + 2  # a pipe more may be kept
    for linger in (pack("ii", 1, 0), pack("ii", 0, 0)):  # a reset, and an end
        for _ in range(5):
            client = asking(big.listener, 4)
            read(client, MIB)
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            client.close()
    assert within(10, lambda: files_of(big.front) <= before)


def test_a_broker_that_goes_in_the_middle_of_an_answer_ends_the_connection_and_groups_go_on(big: Both) -> None:
    with asking(big.listener, 10) as client:
        read(client, MIB)
        big.broker.kill()
        got = MIB
        with contextlib.suppress(ConnectionResetError):
            while piece := client.recv(MIB):
                got += len(piece)
        assert got < 10 * 4 * MIB
    with socket.create_connection(("127.0.0.1", big.listener), 10) as client:
        client.sendall(BEAT)
        assert read_frame(client)[:4] == pack(">i", 7)


def test_a_client_that_takes_nothing_is_not_taken_for_a_broker_that_says_nothing(big: Both) -> None:
    with asking(big.listener, 8) as slow, asking(big.listener, 1) as quick:
        wanted = read_frame(quick)
        time.sleep(5)  # more than twice what a broker has
        for _ in range(8):
            assert read_frame(slow)[4:] == wanted[4:]


def test_a_client_that_says_nothing_more_hears_all_it_asked_for(big: Both) -> None:
    with asking(big.listener, 2) as client:
        client.sendall(BEAT)
        client.shutdown(socket.SHUT_WR)
        for number in range(2):
            frame = read_frame(client)
            assert unpack(">i", frame[:4]) == (number,)
            assert len(frame) > 7 * MIB
        assert unpack(">i", read_frame(client)[:4]) == (7,)
        assert client.recv(1) == b""
    for port in (big.front.kafka_port, big.broker.kafka_port):
        with socket.create_connection(("127.0.0.1", port), 10) as alone:
            alone.sendall(BEAT)
            alone.shutdown(socket.SHUT_WR)
            assert unpack(">i", read_frame(alone)[:4]) == (7,)
            assert alone.recv(1) == b""
