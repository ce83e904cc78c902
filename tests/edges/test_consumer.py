"""The consumer against a real `musterd`, where threads, sockets and processes that die decide: consumer-client H15,
H45, and on real time what `tests/client/` shows on a simulated clock.
"""

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from muster import ConcurrentUse, Consumer, ConsumerRecord, Producer, TopicPartition, WokenUp
from muster.blocking import Connection
from protocol.errors import ErrorCode
from protocol.messages.topics import CreatableTopic, CreateTopics, CreateTopicsReply
from tests.edges.musterd import Daemon, free_port, running, within

SETTINGS = ("group.initial.rebalance.delay.ms=0", "group.min.session.timeout.ms=500")
ALL = tuple(TopicPartition("flights", number) for number in range(4))


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    with running(tmp_path / "data", *SETTINGS) as daemon:
        create(daemon)
        yield daemon


def create(daemon: Daemon) -> None:
    with Connection(daemon.bootstrap) as connection:
        reply = connection.ask(CreateTopics((CreatableTopic("flights", 4),)))
    assert isinstance(reply, CreateTopicsReply)
    assert reply.topics[0].error_code == ErrorCode.NONE


def produce(bootstrap: str, *numbers: int) -> None:
    with Producer(bootstrap) as producer:
        for number in numbers:
            producer.send("flights", b"%d" % number, partition=number % 4)


def steady(*consumers: Consumer, seconds: float = 15.0) -> list[ConsumerRecord]:
    """Polled in turns until each has a share; what they were handed."""
    records: list[ConsumerRecord] = []

    def are_steady() -> bool:
        for one in consumers:
            records.extend(one.poll(0.02))
        return all(one.member.is_steady and one.assignment for one in consumers)

    assert within(seconds, are_steady)
    return records


def polled(*consumers: Consumer, until: int) -> list[ConsumerRecord]:
    """So many records, from any of them."""
    records: list[ConsumerRecord] = []

    def are_enough() -> bool:
        for one in consumers:
            records.extend(one.poll(0.02))
        return len(records) >= until

    assert within(20, are_enough), len(records)
    return records


def test_h15_a_coordinator_killed_and_started_elsewhere_is_found_and_consumption_goes_on(tmp_path: Path) -> None:
    first = Daemon(tmp_path / "data", *SETTINGS).start()
    second = Daemon(tmp_path / "data", *SETTINGS)
    second.port = free_port()
    bootstrap = f"{first.bootstrap},{second.bootstrap}"
    told: list[tuple[str, str]] = []

    def made(who: str) -> Consumer:
        consumer = Consumer(bootstrap, "g", auto_offset_reset="earliest", heartbeat_interval_ms=200)
        consumer.subscribe(
            ["flights"],
            on_assigned=lambda _ones: told.append((who, "assigned")),
            on_revoked=lambda _ones: told.append((who, "revoked")),
            on_lost=lambda _ones: told.append((who, "lost")),
        )
        return consumer

    try:
        create(first)
        produce(first.bootstrap, *range(100))
        a, b = made("a"), made("b")
        records = steady(a, b)
        records += polled(a, b, until=100 - len(records))
        had, generation = (a.assignment, b.assignment), a.member.generation_id
        told.clear()
        first.kill()
        a.poll(0.1)
        second.start()
        produce(second.bootstrap, *range(100, 200))
        records += polled(a, b, until=200 - len(records))
        assert sorted(int(one.value or b"-1") for one in records) == list(range(200))
        assert a.commit() == a.positions()
        until = time.monotonic() + 1
        while time.monotonic() < until:  # some heartbeats long
            assert (a.poll(0.05), b.poll(0.05)) == ([], [])
        assert (a.assignment, b.assignment) == had
        assert (a.member.generation_id, told) == (generation, [])
        a.close()
        b.close()
    finally:
        first.kill()
        second.kill()


def test_h45_a_poll_from_a_second_thread_is_refused_and_the_first_is_not_disturbed(daemon: Daemon) -> None:
    with Consumer(daemon.bootstrap, "g", auto_offset_reset="earliest") as consumer:
        consumer.subscribe(["flights"])
        steady(consumer)
        handed_out: list[list[ConsumerRecord]] = []
        first = threading.Thread(target=lambda: handed_out.append(consumer.poll(20)))
        first.start()
        for call in (lambda: consumer.poll(0), lambda: consumer.commit({ALL[0]: 0}), consumer.close):
            time.sleep(0.05)
            with pytest.raises(ConcurrentUse, match="in use by another thread"):
                call()
        assert first.is_alive()
        produce(daemon.bootstrap, 7)
        first.join(10)
        assert [[one.value for one in records] for records in handed_out] == [[b"7"]]


def test_a_wakeup_from_another_thread_ends_a_poll_that_waits(daemon: Daemon) -> None:
    with Consumer(daemon.bootstrap, "g") as consumer:
        consumer.subscribe(["flights"])
        steady(consumer)
        timer = threading.Timer(0.2, consumer.wakeup)
        timer.start()
        began = time.monotonic()
        with pytest.raises(WokenUp):
            consumer.poll(20)
        assert 0.1 <= time.monotonic() - began < 5
        timer.join()
        assert consumer.poll(0) == []  # raised once


def test_a_wakeup_during_a_join_is_raised_and_the_same_join_ends(daemon: Daemon) -> None:
    told: list[str] = []
    with Consumer(daemon.bootstrap, "g") as idle, Consumer(daemon.bootstrap, "g") as consumer:
        idle.subscribe(["flights"])
        steady(idle)
        consumer.subscribe(["flights"], on_assigned=lambda _ones: told.append("assigned"))
        timer = threading.Timer(0.3, consumer.wakeup)
        timer.start()
        with pytest.raises(WokenUp):
            consumer.poll(20)  # the coordinator waits for the idle one
        timer.join()
        assert told == []
        me = consumer.member.member_id
        steady(idle, consumer)
        assert told == ["assigned"]
        assert consumer.member.member_id == me


def test_closing_while_the_coordinator_is_dead_takes_as_long_as_it_may(daemon: Daemon) -> None:
    produce(daemon.bootstrap, *range(8))
    told: list[tuple[TopicPartition, ...]] = []
    consumer = Consumer(daemon.bootstrap, "g", auto_offset_reset="earliest")
    consumer.subscribe(["flights"], on_revoked=told.append)
    steady(consumer)
    assert within(10, lambda: bool(consumer.poll(0.1)) or sum(consumer.positions().values()) == 8)
    daemon.kill()
    began = time.monotonic()
    consumer.close(2.0)
    assert 1.5 < time.monotonic() - began < 4
    assert told == [ALL]
    consumer.close()
