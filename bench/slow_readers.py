"""Clients that ask an Apache Kafka for a topic of 1 GiB through a musterd in front of it, and read one byte a second:
what it costs musterd's memory, and whoever works beside them."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Self

from bench import peers
from bench.peers import Peer
from bench.report import Options, Sheet, Value
from protocol.kafka.client import KafkaClient, encode_request
from protocol.messages.data import (
    Fetch,
    FetchPartition,
    FetchTopic,
    Produce,
    ProducePartition,
    ProduceReply,
    ProduceTopic,
)
from protocol.record_batch import encode_batch

TOPIC, PARTITIONS = "slow-readers", 8
READERS, REQUESTS = 8, 8
_FILL_BYTES = 1 << 30
_RECORD = bytes(range(250)) * 4
_RECORDS = 1_000
"""A batch: a megabyte, the most that a broker takes by default."""
_ALL = (1 << 31) - 1
_EVERY_S = 1.0
_VERSION = 9
_FETCH_VERSION = 12


def fill(port: int, size: int) -> None:
    """A topic of so many bytes, at a broker itself."""
    peers.make_topics(port, {TOPIC: PARTITIONS})
    client = KafkaClient("bench", 1 << 20)
    batch = encode_batch([(None, _RECORD)] * _RECORDS, timestamp_ms=1)
    with socket.create_connection(("127.0.0.1", port), 60) as connection:

        def produce(partition: int) -> bool:
            topic = ProduceTopic(TOPIC, (ProducePartition(partition, batch),))
            connection.sendall(client.encode_request(Produce((topic,), 1), _VERSION)[1])
            while not (answers := client.receive_data(connection.recv(65_536))):
                pass
            reply = answers[0].reply
            assert isinstance(reply, ProduceReply)
            return not reply.responses[0].partition_responses[0].error_code

        for number in range(size // len(batch) + 1):
            while not produce(number % PARTITIONS):
                time.sleep(0.1)  # nobody leads it yet


@contextmanager
def reading(port: int) -> Iterator[None]:
    """Clients that read hardly anything meanwhile."""
    wanted = tuple(FetchPartition(number, 0, partition_max_bytes=_ALL) for number in range(PARTITIONS))
    fetch = Fetch((FetchTopic(TOPIC, wanted),), max_bytes=_ALL, max_wait_ms=0)
    clients = [socket.create_connection(("127.0.0.1", port), 60) for _ in range(READERS)]
    is_over = threading.Event()

    def read() -> None:
        while not is_over.wait(_EVERY_S):
            for client in clients:
                if not client.recv(1):
                    raise ConnectionError("a slow reader was sent away")

    for client in clients:
        client.sendall(b"".join(encode_request(fetch, _FETCH_VERSION, number, "slow") for number in range(REQUESTS)))
    thread = threading.Thread(target=read)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()
        for client in clients:
            client.close()


class Memory:
    """A process's, looked at again and again."""

    def __init__(self, server: Peer) -> None:
        self._server = server
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._look)
        self.before = self.peak = server.resident_bytes()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._is_over.wait(0.1):
            self.peak = max(self.peak, self._server.resident_bytes())


def measure(kafka: Peer, through: Peer, ask: Callable[[float], dict[str, Any]], options: Options) -> Sheet:
    """`ask(seconds)` is another client's work through the same musterd: what groupload says of it."""
    seconds = 6.0 if options.quick else 60.0
    fill(kafka.port, _FILL_BYTES // 16 if options.quick else _FILL_BYTES)
    ask(2.0)
    alone = ask(seconds / 6)
    with Memory(through) as memory, reading(through.port):
        time.sleep(_EVERY_S)
        beside = ask(seconds)
    time.sleep(_EVERY_S)
    mib: list[Value] = [one / (1 << 20) for one in (memory.before, memory.peak, through.resident_bytes())]
    rows: list[tuple[Value, ...]] = [
        ("musterd's memory, MiB", *mib),
        (
            "another client's Fetch of 1 KiB, ms at the median",
            *(one["lat_us"]["p50"] / 1e3 for one in (alone, beside)),
            None,
        ),
        ("the same at the 99th percentile", *(one["lat_us"]["p99"] / 1e3 for one in (alone, beside)), None),
    ]
    return Sheet(
        f"{READERS} clients that have asked {REQUESTS} times for a topic of 1 GiB, and read one byte a second",
        ("", "before", f"for {seconds:.0f} s (memory: at most)", "after"),
        rows,
    )
