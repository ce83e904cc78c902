"""The asyncio client against a real `musterd`, in both dialects, and beside the client with threads."""

import asyncio
import random
import re
import secrets
import signal
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from muster import (
    BufferFull,
    CannotConnect,
    ClientClosed,
    ConcurrentUse,
    MusterError,
    Refused,
    RequestTimedOut,
    TopicPartition,
    WokenUp,
    WrongSubscription,
)
from muster import Consumer as BlockingConsumer
from muster.aio import Consumer, Producer, Sent
from muster.blocking import ClusterClient
from protocol.errors import ErrorCode
from protocol.messages.groups import DescribeGroups, DescribeGroupsReply
from protocol.messages.topics import CreatableTopic, CreateTopics, CreateTopicsReply
from tests.edges.musterd import Daemon, free_port, running

SETTINGS = ("group.initial.rebalance.delay.ms=0", "group.min.session.timeout.ms=500")
Partitions = tuple[TopicPartition, ...]


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with running(tmp_path_factory.mktemp("aio") / "data", *SETTINGS, with_kafka=True) as daemon:
        yield daemon


@pytest.fixture(params=["native", "kafka"])
def bootstrap(daemon: Daemon, request: pytest.FixtureRequest) -> str:
    return daemon.bootstrap if request.param == "native" else f"kafka://127.0.0.1:{daemon.kafka_port}"


@pytest.fixture
def topic(daemon: Daemon, request: pytest.FixtureRequest) -> str:
    """One of four partitions, and the name of a group too."""
    name = f"{re.sub('[^a-z0-9]+', '-', request.node.name.lower())[:60]}-{secrets.token_hex(3)}"
    create(daemon, name)
    return name


def create(daemon: Daemon, name: str, partitions: int = 4) -> None:
    with ClusterClient(daemon.bootstrap) as connection:
        reply = connection.ask(CreateTopics((CreatableTopic(name, partitions),)))
    assert isinstance(reply, CreateTopicsReply)
    assert reply.topics[0].error_code == ErrorCode.NONE


def all_of(topic: str) -> list[TopicPartition]:
    return [TopicPartition(topic, number) for number in range(4)]


def numbers(first: int, end: int) -> list[bytes]:
    return [b"%d" % number for number in range(first, end)]


async def produce(bootstrap: str, topic: str, first: int, end: int, partition: int | None = None) -> None:
    async with Producer(bootstrap) as producer:
        for number in range(first, end):
            await producer.send(topic, b"%d" % number, key=b"%d" % number, partition=partition)


def consumer_of(bootstrap: str, topic: str, **settings: object) -> Consumer:
    given = {"auto_offset_reset": "earliest", "enable_auto_commit": False, "heartbeat_interval_ms": 300}
    consumer = Consumer(bootstrap, topic, **{**given, **settings})  # type: ignore[arg-type]
    consumer.subscribe([topic])
    return consumer


async def poll_until(holds: Callable[[], bool], *consumers: Consumer, seconds: float = 15.0) -> list[bytes]:
    """The values read meanwhile by all, in turns."""
    values: list[bytes] = []
    async with asyncio.timeout(seconds):
        while not holds():
            for consumer in consumers:
                values.extend(record.value or b"" for record in await consumer.poll(0.02))
    return values


async def read(count: int, *consumers: Consumer) -> list[bytes]:
    values: list[bytes] = []
    while len(values) < count:
        values += await poll_until(lambda: True, *consumers)
        for consumer in consumers:
            values.extend(record.value or b"" for record in await consumer.poll(0.02))
    return values


async def iterate(consumer: Consumer) -> list[bytes | None]:
    return [record.value async for record in consumer]


# --------------------------------------------------------------------------------------------------------- producing


async def test_what_is_sent_is_read_once_and_in_order(bootstrap: str, topic: str) -> None:
    async with Producer(bootstrap, batch_bytes=2_000, linger_ms=1) as producer:
        sent = [await producer.send(topic, b"%d" % number, partition=number % 4) for number in range(2_000)]
        assert [(await one).offset for one in sent] == [number // 4 for number in range(2_000)]
    async with consumer_of(bootstrap, topic) as consumer:
        found: dict[int, list[bytes | None]] = {}
        while sum(map(len, found.values())) < 2_000:
            for record in await consumer.poll(5):
                found.setdefault(record.partition, []).append(record.value)
    assert found == {number: [b"%d" % value for value in range(number, 2_000, 4)] for number in range(4)}


@pytest.mark.parametrize("dialect", ["native", "kafka"])
async def test_a_daemon_killed_has_each_record_once_and_in_order(tmp_path: Path, dialect: str) -> None:
    with running(tmp_path / "data", *SETTINGS, with_kafka=True) as daemon:
        create(daemon, "t")
        bootstrap = daemon.bootstrap if dialect == "native" else f"kafka://127.0.0.1:{daemon.kafka_port}"
        sent: list[Sent] = []

        async def write(producer: Producer) -> None:
            while True:
                sent.append(await producer.send("t", b"%d" % len(sent), partition=0))
                await asyncio.sleep(0.001)

        async with Producer(bootstrap, batch_bytes=500, linger_ms=1) as producer:
            writing = asyncio.create_task(write(producer))
            await asyncio.sleep(0.3)
            daemon.kill()
            await asyncio.to_thread(daemon.start)
            await asyncio.sleep(0.3)
            writing.cancel()
            await producer.flush(20)
            assert [(await one.result(0)).offset for one in sent] == list(range(len(sent)))
        async with consumer_of(bootstrap, "t") as consumer:
            assert await read(len(sent), consumer) == numbers(0, len(sent))
            assert len(sent) > 50, "nothing was tested"


async def test_a_record_says_where_it_stands_and_failures_come_at_flush(bootstrap: str, topic: str) -> None:
    heard: list[Sent] = []
    async with Producer(bootstrap, max_request_bytes=3_000_000) as producer:
        first = await producer.send(topic, "a", "k", headers={"h": b"1"}, timestamp_ms=1_700_000_000_000)
        first.add_done_callback(heard.append)
        written = await first.result(10)
        assert (written.topic, written.partition, written.offset) == (topic, first.partition, 0)
        assert written.timestamp_ms == 1_700_000_000_000
        await asyncio.sleep(0)
        assert heard == [first]
        await producer.send(topic, bytes(2_000_000), partition=1)
        with pytest.raises(Refused, match="did not take the records"):
            await producer.flush()
        await producer.flush()
        with pytest.raises(ValueError, match="partitions 0 to 3"):
            await producer.send(topic, "a", partition=4)
    with pytest.raises(ClientClosed):
        await producer.send(topic, "late")
    await producer.close()


async def test_without_acks_a_daemon_that_takes_nothing_is_waited_for(
    bootstrap: str, daemon: Daemon, topic: str
) -> None:
    value, taken = b"x" * 50_000, 0
    assert daemon.process is not None
    async with Producer(
        bootstrap, acks=0, buffer_memory_bytes=1_000_000, batch_bytes=100_000, max_block_ms=500
    ) as producer:
        await producer.send(topic, b"first", partition=0)
        await producer.flush()
        daemon.process.send_signal(signal.SIGSTOP)
        try:
            with suppress(BufferFull):
                while taken < 2_000:  # 100 MB
                    await producer.send(topic, value, partition=0)
                    taken += 1
        finally:
            daemon.process.send_signal(signal.SIGCONT)
        await producer.flush(30)
    assert 20 <= taken < 1_000
    async with Producer(bootstrap) as after:
        assert (await (await after.send(topic, b"last", partition=0))).offset == taken + 1


async def test_a_producer_says_that_nobody_is_there(topic: str) -> None:
    nowhere = f"127.0.0.1:{free_port()}"
    async with Producer(nowhere, max_block_ms=200) as producer:
        with pytest.raises(CannotConnect, match=rf"cannot connect to {nowhere}: Connection refused\. Is musterd"):
            await producer.send(topic, b"x")


async def test_closing_gives_up_what_it_cannot_wait_for(tmp_path: Path) -> None:
    with running(tmp_path / "data") as daemon:
        create(daemon, "t")
        producer = Producer(daemon.bootstrap)
        await (await producer.send("t", b"first")).result(10)
        daemon.kill()
        lost = await producer.send("t", b"lost")
        with pytest.raises(RequestTimedOut):
            await lost.result(0.01)
        with pytest.raises((CannotConnect, RequestTimedOut)):
            await producer.close(timeout_s=0.2)
        with pytest.raises(ClientClosed, match="closed before the record was acknowledged"):
            await lost


# ----------------------------------------------------------------------------------------------------------- groups


async def test_two_share_and_the_one_that_stays_goes_on_where_the_other_committed(bootstrap: str, topic: str) -> None:
    await produce(bootstrap, topic, 0, 200)
    async with consumer_of(bootstrap, topic) as first:
        values = await read(200, first)
        assert sum((await first.commit()).values()) == 200
        second = consumer_of(bootstrap, topic)
        values += await poll_until(lambda: len(first.assignment) == len(second.assignment) == 2, first, second)
        assert sorted(first.assignment + second.assignment) == all_of(topic)
        assert first.member.generation_id == second.member.generation_id
        await produce(bootstrap, topic, 200, 400)
        values += await read(400 - len(values), first, second)
        assert sorted(values) == sorted(numbers(0, 400))
        await first.commit()
        await second.commit()
        await second.close()
        late = await poll_until(lambda: len(first.assignment) == 4, first)
        await produce(bootstrap, topic, 400, 500)
        late += await read(100 - len(late), first)
        assert sorted(late) == numbers(400, 500)


async def test_it_shares_a_group_with_a_consumer_of_threads(daemon: Daemon, bootstrap: str, topic: str) -> None:
    await produce(bootstrap, topic, 0, 200)
    values: list[bytes] = []
    with BlockingConsumer(daemon.bootstrap, topic, auto_offset_reset="earliest", heartbeat_interval_ms=300) as other:
        other.subscribe([topic])
        async with consumer_of(bootstrap, topic, enable_auto_commit=True) as ours, asyncio.timeout(20):

            async def poll_both() -> None:
                theirs = asyncio.to_thread(other.poll, 0.02)
                both = await asyncio.gather(ours.poll(0.02), theirs)
                values.extend(record.value or b"" for records in both for record in records)

            while {len(ours.assignment), len(other.assignment)} != {2}:
                await poll_both()
            assert sorted(ours.assignment + other.assignment) == all_of(topic)
            await produce(bootstrap, topic, 200, 400)
            while len(values) < 400:
                await poll_both()
        while len(other.assignment) < 4:
            await asyncio.to_thread(other.poll, 0.05)
        assert sorted(values) == sorted(numbers(0, 400)), "the commit that precedes a rebalance was not lost"


async def test_a_cooperative_member_keeps_what_stays_and_listeners_may_be_coroutines(
    bootstrap: str, topic: str
) -> None:
    told: list[tuple[str, int]] = []

    async def assigned(partitions: Partitions) -> None:
        await asyncio.sleep(0)
        told.append(("+", len(partitions)))

    async def revoked(partitions: Partitions) -> None:
        await first.commit(dict.fromkeys(partitions, 7))
        told.append(("-", len(partitions)))

    await produce(bootstrap, topic, 0, 10)
    first = consumer_of(bootstrap, topic, assignors=["cooperative-sticky"])
    first.subscribe([topic], on_assigned=assigned, on_revoked=revoked)
    second = consumer_of(bootstrap, topic, assignors=["cooperative-sticky"])
    async with first:
        await poll_until(lambda: len(first.assignment) == 4, first)
        async with second:
            await poll_until(lambda: len(second.assignment) == 2, first, second)
            assert [one for one in told if one != ("+", 0)] == [("+", 4), ("-", 2)]
            given_up = second.assignment
            assert set(await second.committed(given_up)) == set(given_up)
            assert set((await second.committed(given_up)).values()) == {7}
    assert told[-1][0] == "-"


async def test_heartbeats_go_on_while_the_application_awaits_something_else(bootstrap: str, topic: str) -> None:
    async with consumer_of(bootstrap, topic, session_timeout_ms=600, heartbeat_interval_ms=150) as consumer:
        await poll_until(lambda: len(consumer.assignment) == 4, consumer)
        generation = consumer.member.generation_id
        await asyncio.sleep(1.5)
        await consumer.poll(0)
        assert consumer.member.is_steady
        assert consumer.member.generation_id == generation


async def test_a_pattern_finds_topics_that_are_there(daemon: Daemon, bootstrap: str, topic: str) -> None:
    create(daemon, f"{topic}-more", 1)
    async with Consumer(bootstrap, topic, auto_offset_reset="earliest") as consumer:
        consumer.subscribe(pattern=f"{topic}.*")
        await poll_until(lambda: len(consumer.assignment) == 5, consumer)
        with pytest.raises(WrongSubscription):
            consumer.assign([TopicPartition(topic, 0)])
        await consumer.unsubscribe()
        assert consumer.assignment == ()
        with pytest.raises(MusterError, match="nothing is subscribed to"):
            await consumer.poll()
        consumer.subscribe([topic])
        await poll_until(lambda: len(consumer.assignment) == 4, consumer)


async def test_what_was_polled_is_committed_by_itself_and_at_close(bootstrap: str, topic: str) -> None:
    await produce(bootstrap, topic, 0, 20, partition=0)
    one = TopicPartition(topic, 0)
    async with consumer_of(bootstrap, topic, enable_auto_commit=True, auto_commit_interval_ms=50) as consumer:
        assert await read(20, consumer) == numbers(0, 20)
        async with asyncio.timeout(5):
            while (await consumer.committed([one]))[one] != 20:
                await consumer.poll(0.02)
        await produce(bootstrap, topic, 20, 30, partition=0)
        assert await read(10, consumer) == numbers(20, 30)
    async with Consumer(bootstrap, topic) as consumer:
        assert await consumer.committed([one]) == {one: 30}


# --------------------------------------------------------------------------------------------- cancelling and closing


async def test_cancelled_polls_lose_nothing(bootstrap: str, topic: str) -> None:
    values: list[bytes] = []
    cancelled = 0
    async with consumer_of(bootstrap, topic, max_poll_records=3) as consumer, asyncio.timeout(20):
        writing = asyncio.create_task(produce(bootstrap, topic, 0, 1_000, partition=2))
        while len(values) < 1_000:
            polling = asyncio.create_task(consumer.poll(5))
            for _ in range(secrets.randbelow(8)):
                await asyncio.sleep(0)
            if not polling.cancel():
                values.extend(record.value or b"" for record in polling.result())
                continue
            with suppress(asyncio.CancelledError):
                values.extend(record.value or b"" for record in await polling)
                continue
            cancelled += 1
            await asyncio.sleep(0.001)
        await writing
    assert values == numbers(0, 1_000)
    assert cancelled > 20, "nothing was tested"


async def test_members_that_come_go_and_are_cancelled_skip_nothing(bootstrap: str, topic: str) -> None:
    """Records may be read twice: a member that leaves during a rebalance may not commit."""
    seen: list[bytes] = []
    members, cancelled, luck = 0, 0, random.Random(7)

    async def write() -> None:
        async with Producer(bootstrap) as producer:
            for number in range(2_000):
                await producer.send(topic, b"%d" % number, key=b"%d" % number)
                if number % 40 == 0:
                    await asyncio.sleep(0.04)

    async def member() -> None:
        nonlocal members, cancelled
        while len(set(seen)) < 2_000:
            members += 1
            assignors = ["cooperative-sticky"]
            consumer = consumer_of(bootstrap, topic, enable_auto_commit=True, assignors=assignors, max_poll_records=9)
            async with consumer:
                for _ in range(luck.randrange(10, 60)):
                    if len(set(seen)) == 2_000:
                        break
                    try:
                        records = await asyncio.wait_for(consumer.poll(1), luck.choice((0.0005, 0.002, 0.05)))
                    except TimeoutError:
                        cancelled += 1
                        continue
                    seen.extend(record.value or b"" for record in records)

    async with asyncio.timeout(30):
        await asyncio.gather(member(), member(), member(), write())
    assert set(seen) == set(numbers(0, 2_000))
    assert members > 6 and cancelled > 50, "nothing was tested"


async def test_a_listener_goes_on_when_the_poll_that_called_it_is_cancelled(bootstrap: str, topic: str) -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()
    told: list[Partitions] = []

    async def assigned(partitions: Partitions) -> None:
        begun.set()
        await go_on.wait()
        await consumer.commit({partitions[0]: 3})
        told.append(partitions)

    await produce(bootstrap, topic, 0, 10)
    consumer = consumer_of(bootstrap, topic)
    consumer.subscribe([topic], on_assigned=assigned)
    async with consumer:
        polling = asyncio.create_task(consumer.poll(10))
        await begun.wait()
        polling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await polling
        again = asyncio.create_task(consumer.poll(10))
        await asyncio.sleep(0.05)
        assert not again.done(), "nothing is handed out before the listener has ended"
        go_on.set()
        assert await again
        assert [len(one) for one in told] == [4]


async def test_what_a_listener_raises_comes_out_of_poll_once(bootstrap: str, topic: str) -> None:
    async def assigned(_partitions: Partitions) -> None:
        await asyncio.sleep(0)
        raise LookupError("no such place")

    await produce(bootstrap, topic, 0, 10)
    consumer = consumer_of(bootstrap, topic)
    consumer.subscribe([topic], on_assigned=assigned)
    async with consumer:
        with pytest.raises(LookupError):
            await poll_until(lambda: False, consumer)
        assert len(await read(10, consumer)) == 10


async def test_closing_ends_a_poll_and_an_iteration_of_another_task(bootstrap: str, topic: str) -> None:
    consumer = consumer_of(bootstrap, topic)
    polling = asyncio.create_task(consumer.poll(30))
    await asyncio.sleep(0.2)
    await consumer.close()
    with pytest.raises(ClientClosed):
        await polling
    with pytest.raises(ClientClosed):
        await consumer.poll()
    with pytest.raises(ClientClosed):
        consumer.seek(TopicPartition(topic, 0), 0)
    with pytest.raises(ClientClosed):
        await iterate(consumer)
    await consumer.close()
    async with consumer_of(bootstrap, topic) as another:
        await produce(bootstrap, topic, 0, 5, partition=0)
        iterating = asyncio.create_task(iterate(another))
        for _ in range(1_000):
            if sum(another.positions().values()) == 5:
                break
            await asyncio.sleep(0.01)
        await another.close()
        assert await iterating == numbers(0, 5)


async def test_only_one_task_polls_and_others_may_commit(bootstrap: str, topic: str) -> None:
    await produce(bootstrap, topic, 0, 10, partition=0)
    async with consumer_of(bootstrap, topic) as consumer:
        assert len(await read(10, consumer)) == 10
        polling = asyncio.create_task(consumer.poll(10))
        await asyncio.sleep(0.01)
        with pytest.raises(ConcurrentUse, match="another task"):
            await consumer.poll()
        assert (await consumer.commit())[TopicPartition(topic, 0)] == 10
        heard: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        consumer.commit_async({TopicPartition(topic, 0): 9}, lambda offsets, error: heard.set_result((offsets, error)))
        assert await heard == ({TopicPartition(topic, 0): 9}, None)
        consumer.wakeup()
        with pytest.raises(WokenUp):
            await polling


async def test_iterating_counts_what_was_given_and_leaves_the_rest(bootstrap: str, topic: str) -> None:
    await produce(bootstrap, topic, 0, 1_200, partition=0)
    one, given = TopicPartition(topic, 0), list[bytes | None]()
    async with consumer_of(bootstrap, topic, enable_auto_commit=True) as consumer:
        async for record in consumer:
            given.append(record.value)
            if len(given) == 1_003:
                break
        assert consumer.positions()[one] == 1_003
    async with consumer_of(bootstrap, topic) as consumer:
        assert [record.value for record in await consumer.poll(10)] == numbers(1_003, 1_200)
        assert given == numbers(0, 1_003)


async def test_who_commits_seeks_and_pauses_in_the_loop_says_so_of_what_the_loop_was_given(
    bootstrap: str, topic: str
) -> None:
    await produce(bootstrap, topic, 0, 40, partition=0)
    await produce(bootstrap, topic, 40, 80, partition=1)
    first, second = all_of(topic)[:2]
    paused = second
    values: list[bytes] = []
    async with Consumer(bootstrap, topic, auto_offset_reset="earliest", enable_auto_commit=False) as consumer:
        consumer.assign([first, second])
        async for record in consumer:
            values.append(record.value)
            one = TopicPartition(topic, record.partition)
            assert await consumer.position(one) == record.offset + 1
            assert consumer.current_lag(one) == 39 - record.offset
            if len(values) == 5:
                assert await consumer.commit() == {**consumer.positions(), one: record.offset + 1}
                consumer.pause(one)
                paused = one
            if len(values) == 6:
                assert one != paused
                consumer.seek(one, 20)
                consumer.resume(paused)
            if len(values) == 61:  # six, forty less five, forty less twenty
                break
        assert await consumer.poll(0.2) == []
    assert len(set(values)) == 61


async def test_a_client_that_need_not_wait_leaves_time_to_others(bootstrap: str, topic: str) -> None:
    turns, seen = 0, set[int]()

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(count())
    async with Producer(bootstrap) as producer:
        for number in range(3_000):
            await producer.send(topic, b"%d" % number, partition=0)
            seen.add(turns)
    assert len(seen) > 5, "a turn for each batch"
    async with consumer_of(bootstrap, topic, max_poll_records=10) as consumer:
        for _ in range(300):
            before = turns
            await consumer.poll()
            assert turns > before
    counting.cancel()


async def test_unsubscribing_commits_nothing(bootstrap: str, topic: str) -> None:
    await produce(bootstrap, topic, 0, 10)
    async with consumer_of(bootstrap, topic, enable_auto_commit=True) as consumer:
        assert len(await read(10, consumer)) == 10
        await consumer.unsubscribe()
        assert set((await consumer.committed(all_of(topic))).values()) == {None}


async def test_an_application_that_stumbles_in_a_callback_still_leaves(daemon: Daemon, topic: str) -> None:
    async def stumble(_offsets: object, _error: object) -> None:
        raise LookupError("no such place")

    consumer = consumer_of(daemon.bootstrap, topic)
    await poll_until(lambda: len(consumer.assignment) == 4, consumer)
    consumer.commit_async({TopicPartition(topic, 0): 1}, stumble)
    with pytest.raises(LookupError):
        await consumer.close()
    await consumer.close()
    with ClusterClient(daemon.bootstrap) as connection:
        reply = connection.ask(DescribeGroups((topic,)))
    assert isinstance(reply, DescribeGroupsReply)
    assert reply.groups[0].members == ()


async def test_closing_without_a_coordinator_tells_the_application_and_ends_in_time_or_when_cancelled(
    tmp_path: Path,
) -> None:
    told: list[Partitions] = []
    with running(tmp_path / "data", *SETTINGS) as daemon:
        create(daemon, "t")
        consumers = [consumer_of(daemon.bootstrap, "t", enable_auto_commit=True) for _ in range(2)]
        for consumer in consumers:
            consumer.subscribe(["t"], on_revoked=told.append)

        # One that still joins has nothing to leave: it would close at once.
        def are_stable() -> bool:
            first, second = (one.member.generation_id for one in consumers)
            return first == second and all(len(one.assignment) == 2 for one in consumers)

        await poll_until(are_stable, *consumers)
        told.clear()
        daemon.kill()
        loop = asyncio.get_running_loop()
        began = loop.time()
        await consumers[0].close(timeout_s=0.5)
        assert [len(one) for one in told] == [2]
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(consumers[1].close(), 0.5)
        assert loop.time() - began < 20
        with pytest.raises(ClientClosed):
            await consumers[1].poll()


# ---------------------------------------------------------------------------------------------------- without a group


async def test_partitions_by_hand_are_read_sought_paused_and_measured(bootstrap: str, topic: str) -> None:
    await produce(bootstrap, topic, 0, 10, partition=0)
    await produce(bootstrap, topic, 0, 10, partition=1)
    zero, one, *_ = all_of(topic)
    async with Consumer(bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([zero, one])
        assert await consumer.position(zero) == 0
        assert sorted(await read(20, consumer)) == sorted(numbers(0, 10) * 2)
        assert consumer.current_lag(zero) == 0
        consumer.pause(one)
        consumer.seek(zero, 8)
        consumer.seek(one, 5)
        assert await read(2, consumer) == numbers(8, 10)
        assert consumer.paused == (one,)
        consumer.resume(one)
        assert await read(5, consumer) == numbers(5, 10)
        consumer.seek_to_end(one)
        assert await consumer.position(one) == 10
        with pytest.raises(ValueError, match="is not assigned"):
            consumer.seek(TopicPartition(topic, 3), 0)
        with pytest.raises(MusterError, match="no group_id"):
            await consumer.commit()
        with pytest.raises(ValueError, match="await unsubscribe"):
            consumer.assign([])


async def test_topics_can_be_asked_about_without_being_read(bootstrap: str, topic: str) -> None:
    async with Producer(bootstrap) as producer:
        for number in range(8):
            await producer.send(topic, b"x", partition=number % 2, timestamp_ms=1_000 * number)
    partitions = all_of(topic)
    async with Consumer(bootstrap) as consumer:
        assert await consumer.partitions_for(topic) == tuple(partitions)
        assert await consumer.begin_offsets(partitions) == dict.fromkeys(partitions, 0)
        assert list((await consumer.end_offsets(partitions)).values()) == [4, 4, 0, 0]
        at = await consumer.offsets_for_times(dict.fromkeys(partitions, 2_500))
        assert at == dict(zip(partitions, (2, 1, None, None), strict=True))
        with pytest.raises(Refused, match="there is no topic 'nowhere'"):
            await consumer.end_offsets([TopicPartition("nowhere", 0)])
        with pytest.raises(ValueError, match="milliseconds since 1970"):
            await consumer.offsets_for_times({partitions[0]: -1})
    with pytest.raises(ClientClosed):
        await consumer.partitions_for(topic)


async def test_a_question_that_is_cancelled_or_closed_upon_is_forgotten(tmp_path: Path) -> None:
    consumer = Consumer(f"127.0.0.1:{free_port()}")
    asking = asyncio.create_task(consumer.partitions_for("t"))
    await asyncio.sleep(0.1)
    asking.cancel()
    await asyncio.wait((asking,))
    assert asking.cancelled()
    with pytest.raises(CannotConnect):
        await consumer.partitions_for("t", 0.2)
    asking = asyncio.create_task(consumer.partitions_for("t"))
    await asyncio.sleep(0.1)
    await consumer.close()
    with pytest.raises(ClientClosed):
        await asking


async def test_a_wakeup_ends_a_poll_of_a_consumer_without_a_group_too(bootstrap: str, topic: str) -> None:
    async with Consumer(bootstrap) as consumer:
        consumer.assign(all_of(topic))
        asyncio.get_running_loop().call_later(0.2, consumer.wakeup)
        with pytest.raises(WokenUp):
            await consumer.poll(20)
        assert await consumer.poll(0) == []


async def test_a_poll_that_waits_hears_of_a_partition_that_another_task_resumes(bootstrap: str, topic: str) -> None:
    await produce(bootstrap, topic, 0, 10, partition=0)
    zero = TopicPartition(topic, 0)
    async with Consumer(bootstrap, auto_offset_reset="earliest", fetch_max_wait_ms=20_000) as consumer:
        consumer.assign([zero])
        consumer.pause(zero)
        consumer.seek(zero, 0)
        consumer.resume(zero)
        assert await consumer.poll(0) == []
        consumer.pause(zero)  # while its records are on their way
        assert await consumer.poll(0.2) == []
        polling = asyncio.create_task(consumer.poll(10))
        await asyncio.sleep(0.01)
        consumer.resume(zero)
        async with asyncio.timeout(5):  # a fetch would wait four times as long
            assert len(await polling) == 10


async def test_a_consumer_says_that_nobody_is_there() -> None:
    nowhere = f"127.0.0.1:{free_port()}"
    async with Consumer(nowhere, "g") as consumer:
        with pytest.raises(ValueError, match="await unsubscribe"):
            consumer.subscribe([])
        consumer.subscribe(["t"])
        with pytest.raises(CannotConnect, match="Connection refused"):
            await consumer.poll(0.3)
        with pytest.raises(CannotConnect):
            await consumer.committed([TopicPartition("t", 0)], 0.1)


def test_a_client_belongs_to_one_event_loop() -> None:
    consumer = Consumer("127.0.0.1:1", "g")

    async def subscribe() -> None:
        consumer.subscribe(["t"])

    asyncio.run(subscribe())
    with pytest.raises(MusterError, match="another event loop"):
        asyncio.run(subscribe())
