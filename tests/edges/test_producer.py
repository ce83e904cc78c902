"""The producer against a real daemon, killed at times."""

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import suppress

import pytest

from muster import (
    BufferFull,
    CannotConnect,
    ClientClosed,
    Producer,
    RangeReader,
    Refused,
    RequestTimedOut,
    Sent,
    TopicPartition,
)
from muster.blocking.cluster import LATEST, ClusterClient
from protocol.errors import ErrorCode
from protocol.messages.topics import CreatableTopic, CreateTopics, CreateTopicsReply, TopicConfig
from protocol.record_batch import Record
from tests.edges.musterd import Daemon, running

PARTITIONS = 3


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with running(tmp_path_factory.mktemp("producer") / "data", with_kafka=True) as daemon:
        yield daemon


@pytest.fixture
def daemon(shared: Daemon) -> Daemon:
    return shared.revived()


@pytest.fixture
def topic(daemon: Daemon, name: str) -> str:
    create(daemon, name, PARTITIONS)
    return name


def create(daemon: Daemon, topic: str, partitions: int, *configs: TopicConfig) -> None:
    with ClusterClient(daemon.bootstrap) as connection:
        reply = connection.ask(CreateTopics((CreatableTopic(topic, partitions, configs=configs),)))
    assert isinstance(reply, CreateTopicsReply)
    assert reply.topics[0].error_code == ErrorCode.NONE


def log(daemon: Daemon, partition: int, topic: str) -> list[Record]:
    one = TopicPartition(topic, partition)
    cluster = ClusterClient(daemon.bootstrap)
    try:
        end = cluster.offsets([one], LATEST)[one]
    finally:
        cluster.close()
    with RangeReader(daemon.bootstrap, topic, partition, 0, end) as reader:
        return list(reader.records())


def values(daemon: Daemon, partition: int, topic: str) -> list[bytes | None]:
    return [record.value for record in log(daemon, partition, topic)]


@pytest.mark.parametrize("dialect", ["native", "kafka"])
def test_a_daemon_killed_three_times_has_each_record_once_and_in_order(
    daemon: Daemon, dialect: str, topic: str
) -> None:
    sent: list[list[tuple[bytes, Sent]]] = [[] for _ in range(PARTITIONS)]
    stop = threading.Event()

    def write(producer: Producer, partition: int) -> None:
        number = 0
        while not stop.is_set():
            value = b"%d" % number
            sent[partition].append((value, producer.send(topic, value, partition=partition)))
            number += 1
            if number % 20 == 0:
                time.sleep(0.001)

    bootstrap = daemon.bootstrap if dialect == "native" else f"kafka://127.0.0.1:{daemon.kafka_port}"
    # The buffer is small: what threads write while the daemon is away must not take longer than what is tested.
    with Producer(bootstrap, batch_bytes=1_000, linger_ms=1, buffer_memory_bytes=200_000) as producer:
        threads = [threading.Thread(target=write, args=(producer, number)) for number in range(PARTITIONS)]
        for thread in threads:
            thread.start()
        for _ in range(3):
            time.sleep(0.4)
            daemon.kill()
            time.sleep(0.1)
            daemon.start()
        time.sleep(0.4)
        stop.set()
        for thread in threads:
            thread.join()
        producer.flush(timeout_s=30)
    for number, written in enumerate(sent):
        assert len(written) > 100, "nothing was tested"
        assert values(daemon, number, topic) == [value for value, _ in written]
        assert [one.result().offset for _, one in written] == list(range(len(written)))


def test_a_record_says_where_it_stands(daemon: Daemon, topic: str) -> None:
    with Producer(daemon.bootstrap) as producer:
        first = producer.send(topic, "a", "k", headers={"h": b"1", "none": None}, timestamp_ms=1_700_000_000_000)
        second = producer.send(topic, None, key="k")
        written = first.result(timeout_s=10)
        assert (written.topic, written.partition) == (topic, first.partition)
        assert written.timestamp_ms == 1_700_000_000_000
        assert second.result(10).offset == written.offset + 1
        assert second.is_done
    found, gone = log(daemon, written.partition, topic)
    assert (found.key, found.value, found.headers) == (b"k", b"a", (("h", b"1"), ("none", None)))
    assert found.timestamp_ms == written.timestamp_ms
    assert abs(gone.timestamp_ms - time.time() * 1000) < 60_000
    assert gone.value is None


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_compressed_records_come_back_as_they_were(daemon: Daemon, compression: str, topic: str) -> None:
    with Producer(daemon.bootstrap, compression=compression) as producer:  # type: ignore[arg-type]
        for number in range(500):
            producer.send(topic, b"value %d" % number, partition=1)
    assert values(daemon, 1, topic) == [b"value %d" % number for number in range(500)]


def test_callbacks_hear_of_each_record(daemon: Daemon, topic: str) -> None:
    heard: list[Sent] = []
    with Producer(daemon.bootstrap) as producer:
        for number in range(10):
            producer.send(topic, b"%d" % number).add_done_callback(heard.append)
        producer.flush()
        assert len(heard) == 10
        assert all(one.is_done and one.exception() is None for one in heard)
        done = producer.send(topic, b"later")
        done.result(10)
        done.add_done_callback(heard.append)
    assert heard[-1] is done


def test_a_callback_that_fails_does_no_harm(daemon: Daemon, caplog: pytest.LogCaptureFixture, topic: str) -> None:
    def fail(_: Sent) -> None:
        raise KeyError("a mistake")

    with Producer(daemon.bootstrap) as producer:
        producer.send(topic, b"x").add_done_callback(fail)
        producer.flush()
        producer.send(topic, b"y").result(10)
    assert "a callback" in caplog.text


def test_a_callback_may_send_again_and_wait_where_there_is_no_room(daemon: Daemon, topic: str) -> None:
    """Each record sends the next, through a buffer that has room for one or two."""
    heard: list[bytes | None] = []

    def send(number: int) -> None:
        producer.send(topic, b"%d" % number + b"x" * 200, partition=0).add_done_callback(
            lambda sent: follow(sent, number)
        )

    def follow(sent: Sent, number: int) -> None:
        heard.append(b"%d" % number)
        assert sent.result().offset == number
        assert threading.current_thread().name == "muster-callbacks"
        if number < 50:
            send(number + 1)
            producer.flush()  # waits for the record, not for callbacks
        else:
            done.set()

    done = threading.Event()
    with Producer(daemon.bootstrap, buffer_memory_bytes=600, linger_ms=0) as producer:
        send(0)
        assert done.wait(30)
    assert heard == [b"%d" % number for number in range(51)]


def test_a_callback_that_waits_holds_up_callbacks_and_no_records(daemon: Daemon, topic: str) -> None:
    go_on, order = threading.Event(), list[int]()

    def wait(_: Sent) -> None:
        assert go_on.wait(30)
        order.append(0)

    with Producer(daemon.bootstrap) as producer:
        producer.send(topic, b"0", partition=0).add_done_callback(wait)
        for number in range(1, 99):
            sent = producer.send(topic, b"%d" % number, partition=0)
            sent.add_done_callback(lambda _, number=number: order.append(number))  # type: ignore[misc]
        assert producer.send(topic, b"99", partition=0).result(10).offset == 99
        with pytest.raises(RequestTimedOut, match=r"not all callbacks have returned within 0\.2 s"):
            producer.flush(0.2)
        assert order == []
        go_on.set()
    assert order == list(range(99))  # the end waits for them


def test_a_callback_may_close_its_producer(daemon: Daemon, topic: str) -> None:
    closed = threading.Event()
    producer = Producer(daemon.bootstrap)

    def close(_: Sent) -> None:
        producer.close()
        closed.set()

    producer.send(topic, b"last").add_done_callback(close)
    assert closed.wait(20)
    with pytest.raises(ClientClosed):
        producer.send(topic, b"too late")


def test_without_acks_a_daemon_that_takes_nothing_is_waited_for(daemon: Daemon, topic: str) -> None:
    """Unsent records are bounded by the client's buffer and the kernel's, and none is lost."""
    value, taken = b"x" * 50_000, 0
    settings = {"acks": 0, "buffer_memory_bytes": 1_000_000, "batch_bytes": 100_000, "max_block_ms": 500}
    with Producer(daemon.bootstrap, **settings) as producer:  # type: ignore[arg-type]
        producer.send(topic, b"first", partition=0)
        producer.flush()
        assert daemon.process is not None
        daemon.process.send_signal(signal.SIGSTOP)
        try:
            with suppress(BufferFull):
                while taken < 2_000:  # 100 MB
                    producer.send(topic, value, partition=0)
                    taken += 1
            with pytest.raises(RequestTimedOut):
                producer.flush(0.1)
        finally:
            daemon.process.send_signal(signal.SIGCONT)
        producer.flush(30)
    assert 20 <= taken < 1_000
    with Producer(daemon.bootstrap) as after:
        assert after.send(topic, b"last", partition=0).result(10).offset == taken + 1


def test_many_threads_share_one_producer(daemon: Daemon, topic: str) -> None:
    def write(name: int) -> None:
        for number in range(300):
            producer.send(topic, b"%d:%d" % (name, number), key=b"%d" % name)

    with Producer(daemon.bootstrap, buffer_memory_bytes=4_000, batch_bytes=1_000) as producer:
        threads = [threading.Thread(target=write, args=(name,)) for name in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    found = [value or b"" for number in range(PARTITIONS) for value in values(daemon, number, topic)]
    assert len(found) == 1_800
    for name in range(6):
        mine = [value for value in found if value.startswith(b"%d:" % name)]
        assert mine == [b"%d:%d" % (name, number) for number in range(300)]


@pytest.mark.parametrize("acks", [0, 1])
def test_fewer_acks_write_too(daemon: Daemon, acks: int, topic: str) -> None:
    with Producer(daemon.bootstrap, acks=acks) as producer:
        written = [producer.send(topic, b"%d" % number, partition=0) for number in range(100)]
        producer.flush()
        offsets = [one.result().offset for one in written]
        assert offsets == ([-1] * 100 if acks == 0 else list(range(100)))
    with Producer(daemon.bootstrap) as after:
        assert after.send(topic, b"last", partition=0).result(10).offset == 100
    assert values(daemon, 0, topic)[:100] == [b"%d" % number for number in range(100)]


def test_what_the_server_refuses_is_told_by_the_record_and_at_flush(daemon: Daemon, topic: str) -> None:
    create(daemon, f"{topic}-small", 1, TopicConfig("max.message.bytes", "1000"))
    with Producer(daemon.bootstrap) as producer:
        for number in range(50):
            producer.send(f"{topic}-small", b"%d" % number + bytes(100))
        producer.flush()
        large = producer.send(f"{topic}-small", bytes(5_000))
        after = producer.send(f"{topic}-small", b"after")
        with pytest.raises(Refused, match=f"{topic}-small-0 did not take the records"):
            producer.flush()
        producer.flush()
        with pytest.raises(Refused):
            large.result()
        assert after.result(10).offset == 50
    assert len(log(daemon, 0, f"{topic}-small")) == 51


def test_a_full_buffer_is_waited_for_and_then_said(daemon: Daemon, topic: str) -> None:
    with Producer(daemon.bootstrap, buffer_memory_bytes=3_000, max_block_ms=300, linger_ms=10_000) as producer:
        first, _, third = [producer.send(topic, os.urandom(1_000), partition=0) for _ in range(3)]
        assert first.result(0).offset == 0, "what lingers goes out for the third"
        assert not third.is_done
        producer.flush()
        daemon.kill()
        producer.send(topic, os.urandom(1_000), partition=0)
        producer.send(topic, os.urandom(1_000), partition=0)
        with pytest.raises(BufferFull, match=r"were full for 0.3 s: .* cannot connect"):
            producer.send(topic, os.urandom(2_000), partition=0)
        daemon.start()
        producer.flush(30)


def test_what_nobody_acknowledges_in_time_is_given_up(daemon: Daemon, topic: str) -> None:
    with Producer(daemon.bootstrap, request_timeout_ms=200, delivery_timeout_ms=500) as producer:
        producer.send(topic, b"first", partition=0).result(10)
        daemon.kill()
        lost = producer.send(topic, b"lost", partition=0)
        with pytest.raises((CannotConnect, RequestTimedOut), match="not acknowledged within 500 ms"):
            lost.result(10)
        daemon.start()
        deadline = time.monotonic() + 10
        while True:
            try:
                assert producer.send(topic, b"next", partition=0).result(10).offset >= 1
                break
            except (CannotConnect, RequestTimedOut):
                assert time.monotonic() < deadline
    assert values(daemon, 0, topic)[-1] == b"next"


def test_closing_gives_up_what_it_cannot_wait_for(daemon: Daemon, topic: str) -> None:
    producer = Producer(daemon.bootstrap)
    producer.send(topic, b"first").result(10)
    daemon.kill()
    lost = producer.send(topic, b"lost")
    with pytest.raises((CannotConnect, RequestTimedOut)):
        producer.close(timeout_s=0.3)
    with pytest.raises(Exception, match="closed before the record was acknowledged"):
        lost.result(0)
    producer.close()
