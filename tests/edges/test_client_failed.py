"""Unexpected errors in a client's background work surface from the application's next call, and close the client."""

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import muster.aio
from muster import ClientClosed, ClientFailed, Consumer, GroupMember, Producer, TopicPartition
from muster.balanced import ClientBalancedConsumer, Code
from muster.blocking import ClusterClient
from muster.streams import StreamsConnector
from protocol.messages.topics import CreatableTopic, CreateTopics
from tests.edges.musterd import running

ONE = TopicPartition("t", 0)


@pytest.fixture(scope="module")
def musterd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running(tmp_path_factory.mktemp("failed") / "data", "group.initial.rebalance.delay.ms=0") as daemon:
        with ClusterClient(daemon.bootstrap) as connection:
            connection.ask(CreateTopics((CreatableTopic("t", 1),)))
        yield daemon.bootstrap


def broken(core: object, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the core raise as soon as its driver tells it the time."""

    def step(_event: object, _now_ms: int) -> list[Any]:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(core, "step", step)
    monkeypatch.setattr(type(core), "next_deadline_ms", property(lambda _core: 0))


def until_it_raises(call: Callable[[], object]) -> ClientFailed:
    def call_again() -> None:
        for _ in range(100):
            call()

    with pytest.raises(
        ClientFailed, match=r"failed and is closed \(ZeroDivisionError: a bug\): make another"
    ) as raised:
        call_again()
    return raised.value


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("CRITICAL", "muster")


def wake(client: Any) -> None:
    background = client._driver
    with background.changed.lock:
        background._wake()


def wake_and_join(client: Any) -> None:
    wake(client)
    client._driver._thread.join(10)


def test_poll_raises_it_with_its_cause_and_then_the_consumer_is_closed(
    musterd: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    consumer = Consumer(musterd, "g")
    consumer.subscribe(["t"])
    while not consumer.assignment:
        consumer.poll(0.1)
    broken(consumer._consuming.lookups, monkeypatch)
    wake(consumer)
    failed = until_it_raises(lambda: consumer.poll(10))
    assert isinstance(failed.__cause__, ZeroDivisionError)
    with pytest.raises(ClientClosed):
        consumer.poll(0)
    with pytest.raises(ClientClosed):
        consumer.commit()
    consumer.close()


def test_a_close_that_comes_first_raises_it(musterd: str, monkeypatch: pytest.MonkeyPatch) -> None:
    member = GroupMember(musterd, "g2", ["t"])
    assert member.poll(10)
    broken(member._member.membership, monkeypatch)
    wake_and_join(member)
    until_it_raises(member.close)
    with pytest.raises(ClientClosed):
        member.poll()
    member.close()


def test_records_on_their_way_fail_with_it(musterd: str, monkeypatch: pytest.MonkeyPatch) -> None:
    producer = Producer(musterd, linger_ms=60_000)
    sent, told = producer.send("t", b"x"), list[object]()
    sent.add_done_callback(lambda done: told.append(done.exception()))
    step, calls = producer._core.step, list[int]()

    def fail_once(event: Any, now_ms: int) -> Any:
        calls.append(now_ms)
        if len(calls) == 1:
            raise ZeroDivisionError("a bug")
        return step(event, now_ms)

    monkeypatch.setattr(producer._core, "step", fail_once)
    monkeypatch.setattr(type(producer._core), "next_deadline_ms", property(lambda _core: 0 if not calls else None))
    wake(producer)
    until_it_raises(sent.result)
    until_it_raises(lambda: producer.send("t", b"y"))
    until_it_raises(producer.close)
    assert len(told) == 1
    with pytest.raises(ClientClosed):
        producer.send("t", b"z")


def test_a_client_balanced_consumer_answers_with_it(musterd: str, monkeypatch: pytest.MonkeyPatch) -> None:
    consumer = ClientBalancedConsumer(musterd, "g3")
    assert consumer.start({"t": None}).ok
    broken(consumer._core, monkeypatch)
    wake_and_join(consumer)
    said = consumer.describe_group()
    assert (said.ok, said.code, type(said.data)) == (False, Code.INTERNAL, ClientFailed)
    assert consumer.describe_group().code == Code.CLIENT_SHUTDOWN
    consumer.shutdown()


def test_a_stream_raises_it(musterd: str, monkeypatch: pytest.MonkeyPatch) -> None:
    connector = StreamsConnector(musterd, "g4")
    stream = connector.create_message_streams({"t": 1})["t"][0]
    assert connector._parts is not None
    broken(connector._parts.fetcher, monkeypatch)
    wake(connector)
    until_it_raises(lambda: next(stream))
    until_it_raises(connector.commit_offsets)
    until_it_raises(connector.shutdown)
    connector.shutdown()
    with pytest.raises(StopIteration):
        next(stream)


async def test_a_poll_in_a_loop_raises_it(musterd: str, monkeypatch: pytest.MonkeyPatch) -> None:
    consumer = muster.aio.Consumer(musterd, "g5")
    consumer.subscribe(["t"])
    while not consumer.assignment:
        await consumer.poll(0.1)
    polled = asyncio.create_task(consumer.poll(30))
    await asyncio.sleep(0)
    broken(consumer._consuming.lookups, monkeypatch)
    consumer._driver._set_timer()
    with pytest.raises(ClientFailed, match="ZeroDivisionError") as raised:
        await asyncio.wait_for(polled, 10)
    assert isinstance(raised.value.__cause__, ZeroDivisionError)
    with pytest.raises(ClientClosed):
        await consumer.poll(0)
    await consumer.close()


async def test_records_on_their_way_in_a_loop_fail_with_it(musterd: str, monkeypatch: pytest.MonkeyPatch) -> None:
    producer = muster.aio.Producer(musterd, linger_ms=60_000)
    sent = await producer.send("t", b"x")
    broken(producer._core, monkeypatch)
    monkeypatch.setattr(producer, "_abandon", sent.fail)
    producer._driver._set_timer()
    with pytest.raises(ClientFailed, match="ZeroDivisionError"):
        await asyncio.wait_for(sent.result(), 10)
    with pytest.raises(ClientFailed):
        await producer.send("t", b"y")
    with pytest.raises(ClientFailed):
        await producer.close()
