"""The consumer against a real `musterd`, where threads, sockets and processes that die decide:
docs/spec/consumer-client.md#H.15, #H.45, and on real time what `tests/client/` shows on a simulated clock.
"""

import selectors
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from muster import (
    CannotConnect,
    ConcurrentUse,
    Consumer,
    ConsumerRecord,
    Producer,
    Refused,
    TopicPartition,
    WokenUp,
)
from muster.blocking import ClusterClient
from protocol.errors import ErrorCode
from protocol.messages.topics import CreatableTopic, CreateTopics, CreateTopicsReply
from tests.edges.musterd import Daemon, forget, free_port, running, within

SETTINGS = ("group.initial.rebalance.delay.ms=0", "group.min.session.timeout.ms=500")
ALL = tuple(TopicPartition("flights", number) for number in range(4))


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with running(tmp_path_factory.mktemp("consumer") / "data", *SETTINGS, with_kafka=True) as daemon:
        yield daemon


@pytest.fixture
def daemon(served: Daemon) -> Iterator[Daemon]:
    """The module's, with an empty topic and without a group."""
    create(served)
    yield served
    forget(served, ["flights"], ["g"])


def create(daemon: Daemon) -> None:
    with ClusterClient(daemon.bootstrap) as connection:
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
        assert within(5, lambda: consumer._runner.guard._user == first.ident)
        for call in (lambda: consumer.poll(0), lambda: consumer.commit({ALL[0]: 0}), consumer.close):
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
        began = time.monotonic()
        timer.start()
        with pytest.raises(WokenUp):
            consumer.poll(120)
        assert 0.1 <= time.monotonic() - began < 60
        timer.join()
        assert consumer.poll(0) == []  # raised once


def test_a_wakeup_ends_a_poll_of_a_consumer_without_a_group_too(daemon: Daemon) -> None:
    with Consumer(daemon.bootstrap) as consumer:
        consumer.assign(ALL)
        consumer.poll(0.1)
        timer = threading.Timer(0.2, consumer.wakeup)
        timer.start()
        with pytest.raises(WokenUp):
            consumer.poll(20)
        timer.join()
        assert consumer.poll(0) == []


@pytest.mark.parametrize("commits_itself", [True, False])
def test_iterating_counts_what_was_handed_out_and_leaves_the_rest(daemon: Daemon, commits_itself: bool) -> None:
    produce(daemon.bootstrap, *range(100))
    handed_out: list[int] = []
    for wanted in (1, 8, 48, 100):
        settings = {"auto_offset_reset": "earliest", "enable_auto_commit": commits_itself, "max_poll_records": 10}
        with Consumer(daemon.bootstrap, "g", **settings) as consumer:  # type: ignore[arg-type]
            consumer.subscribe(["flights"])
            for record in consumer:
                handed_out.append(int(record.value))
                if len(handed_out) == wanted:
                    break
            if not commits_itself:
                stored = consumer.commit()
                assert sum(stored.values()) == len(handed_out)
    assert sorted(handed_out) == list(range(100))


def test_iterating_goes_on_while_commits_rebalances_and_new_records_come_between(daemon: Daemon) -> None:
    produce(daemon.bootstrap, *range(40))
    handed_out: list[int] = []
    with Consumer(daemon.bootstrap, "g", auto_offset_reset="earliest", auto_commit_interval_ms=1) as consumer:
        consumer.subscribe(["flights"])
        for record in consumer:
            handed_out.append(int(record.value))
            if len(handed_out) == 20:
                consumer.enforce_rebalance()
                produce(daemon.bootstrap, *range(40, 50))
            if len(handed_out) == 50:
                break
    assert sorted(handed_out) == list(range(50))
    with Consumer(daemon.bootstrap, "g") as after:
        assert sum(offset or 0 for offset in after.committed(ALL).values()) == 50


@pytest.fixture
def hundred(daemon: Daemon) -> Iterator[Consumer]:
    """At the beginning of a hundred records, 25 in each partition; all are taken at once."""
    produce(daemon.bootstrap, *range(100))
    with Consumer(daemon.bootstrap, "g", auto_offset_reset="earliest", enable_auto_commit=False) as consumer:
        consumer.assign(ALL)
        while not is_fetched(consumer):
            consumer.seek_to_beginning(*ALL)
        yield consumer


def is_fetched(consumer: Consumer) -> bool:
    """Begin to fetch, and pause until all has arrived. Return false if a record was handed out, or none was asked for
    before the pause.
    """
    handed_out = consumer.poll(0)
    consumer.pause(*ALL)
    arrived = within(1, lambda: not consumer.poll(0) and sum(consumer.current_lag(one) or 0 for one in ALL) == 100)
    consumer.resume(*ALL)
    return arrived and not handed_out


def test_places_say_what_the_loop_was_given_and_not_what_was_taken_for_it(hundred: Consumer) -> None:
    given: Counter[TopicPartition] = Counter()
    for record in hundred:
        one = TopicPartition(record.topic, record.partition)
        given[one] += 1
        assert hundred.position(one) == record.offset + 1 == given[one]
        assert hundred.current_lag(one) == 25 - given[one]
        if sum(given.values()) % 10 == 0:
            assert hundred.commit() == {one: given[one] for one in ALL}
        if sum(given.values()) == 100:
            break
    assert hundred.positions() == dict.fromkeys(ALL, 25)


def test_who_seeks_in_the_loop_goes_on_from_there(hundred: Consumer) -> None:
    numbers: list[int] = []
    for record in hundred:
        numbers.append(int(record.value))
        if numbers.count(0) == 1 and len(numbers) == 5:
            hundred.seek(ALL[0], 0)
        if len(numbers) == 90:
            hundred.seek_to_end()
            break
    assert numbers.count(0) == 2
    assert hundred.poll(0.2) == []
    hundred.seek_to_beginning()
    assert {one.offset for one in (next(iter(hundred)), next(iter(hundred)))} <= {0, 1}


def test_what_is_paused_in_the_loop_is_given_later(hundred: Consumer) -> None:
    numbers: list[int] = []
    for record in hundred:
        numbers.append(int(record.value))
        if len(numbers) == 5:
            hundred.pause(*ALL[:3])
        if len(numbers) > 5:
            assert record.partition == 3
        if numbers.count(99):
            break
    hundred.resume(*ALL[:3])
    for record in hundred:
        numbers.append(int(record.value))
        if len(numbers) == 100:
            break
    assert sorted(numbers) == list(range(100))


def test_a_poll_in_the_loop_gives_what_comes_next(hundred: Consumer) -> None:
    numbers: list[int] = []
    for record in hundred:
        numbers.append(int(record.value))
        if len(numbers) < 100:
            numbers += [int(one.value) for one in hundred.poll()]
        if len(numbers) == 100:
            break
    assert sorted(numbers) == list(range(100))


@pytest.mark.parametrize("dialect", ["native", "kafka"])
def test_topics_can_be_asked_about_without_being_read(daemon: Daemon, dialect: str) -> None:
    with Producer(daemon.bootstrap) as producer:
        for number in range(8):
            producer.send("flights", b"%d" % number, partition=number % 2, timestamp_ms=1_000 * number)
    bootstrap = daemon.bootstrap if dialect == "native" else f"kafka://127.0.0.1:{daemon.kafka_port}"
    with Consumer(bootstrap) as consumer:
        assert consumer.partitions_for("flights") == ALL
        assert consumer.begin_offsets(ALL) == dict.fromkeys(ALL, 0)
        assert list(consumer.end_offsets(ALL).values()) == [4, 4, 0, 0]
        at = consumer.offsets_for_times(dict.fromkeys(ALL, 2_500))
        assert at == dict(zip(ALL, (2, 1, None, None), strict=True))
        for wrong, sentence in (
            ("fights", "there is no topic 'fights'"),
            ("flights", "has partitions 0 to 3, not 9"),
        ):
            with pytest.raises(Refused, match=sentence):
                consumer.end_offsets([TopicPartition(wrong, 9)])


@pytest.mark.parametrize("dialect", ["", "kafka://"])
def test_topics_of_a_daemon_that_is_not_there_cannot_be_asked_about(dialect: str) -> None:
    bootstrap = f"{dialect}127.0.0.1:{free_port()}"
    with Consumer(bootstrap) as nobody, pytest.raises(CannotConnect, match="cannot connect"):
        nobody.partitions_for("flights", timeout_s=0.5)


def test_an_interrupt_in_the_middle_of_sending_costs_a_connection_and_nothing_else(
    daemon: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    modify, interrupts = selectors.DefaultSelector.modify, 3

    def interrupted(self: selectors.DefaultSelector, *arguments: Any) -> Any:
        nonlocal interrupts
        if threading.current_thread() is threading.main_thread() and interrupts:
            interrupts -= 1
            monkeypatch.setattr(self, "_selector", Interrupting())
            try:
                return modify(self, *arguments)
            finally:
                monkeypatch.undo()
                monkeypatch.setattr(selectors.DefaultSelector, "modify", interrupted)
        return modify(self, *arguments)

    class Interrupting:
        def modify(self, *_: object) -> None:
            raise KeyboardInterrupt

    produce(daemon.bootstrap, *range(20))
    monkeypatch.setattr(selectors.DefaultSelector, "modify", interrupted)
    read: list[int] = []
    with Consumer(daemon.bootstrap, "g", auto_offset_reset="earliest") as consumer:
        consumer.subscribe(["flights"])
        while len(read) < 20:
            with suppress(KeyboardInterrupt):
                read += [int(one.value) for one in consumer.poll(1)]
    assert (interrupts, sorted(read)) == (0, list(range(20)))


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


def test_closing_while_the_coordinator_is_dead_takes_as_long_as_it_may(tmp_path: Path) -> None:
    with running(tmp_path / "data", *SETTINGS) as daemon:
        create(daemon)
        produce(daemon.bootstrap, *range(8))
        told: list[tuple[TopicPartition, ...]] = []
        consumer = Consumer(daemon.bootstrap, "g", auto_offset_reset="earliest")
        consumer.subscribe(["flights"], on_revoked=told.append)
        steady(consumer)
        assert within(10, lambda: bool(consumer.poll(0.1)) or sum(consumer.positions().values()) == 8)
        daemon.kill()
        began = time.monotonic()
        consumer.close(2.0)
        assert 1.5 < time.monotonic() - began < 25, "not the 30 s that it has by itself"
        assert told == [ALL]
        consumer.close()
