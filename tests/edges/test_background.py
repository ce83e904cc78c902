"""The thread behind a client, and the thread of callbacks: what should not happen costs what it interrupted."""

import contextlib
import logging
import socket
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Self

import pytest

from membership.events import CallFailed, MemberEffect, MemberEvent, NodeAddress, SendRequest, TimePassed
from muster import ClientFailed, Consumer, MusterError, Producer, TopicPartition
from muster.blocking import ClusterClient
from muster.blocking.callbacks import Callbacks
from muster.net.bootstrap import Bootstrap
from muster.net.condition import LockedCondition
from muster.net.cores import Driven
from muster.net.loop import LoopDriver
from muster.net.thread import ThreadDriver
from protocol.messages.node import DescribeNode
from protocol.messages.topics import CreatableTopic, CreateTopics
from tests.edges.musterd import running, within

NO_NAME = NodeAddress("n" * 70, 9, 1)  # too long for a label of a domain name


class Core:
    """Asks what it is given to ask, and says what it heard."""

    def __init__(self, step: Callable[[MemberEvent], list[MemberEffect]] | None = None) -> None:
        self.heard: list[MemberEvent] = []
        self.next_deadline_ms: int | None = None
        self._step = step or (lambda _event: [])

    def step(self, event: MemberEvent, now_ms: int) -> list[MemberEffect]:
        self.heard.append(event)
        self.next_deadline_ms = None
        return self._step(event)


BROKER = NodeAddress("127.0.0.1", 1, 7, "kafka")


def asking_a_broker(event: MemberEvent) -> list[MemberEffect]:
    return [SendRequest(1, BROKER, DescribeNode())] if isinstance(event, TimePassed) else []


def asking(event: MemberEvent) -> list[MemberEffect]:
    return [SendRequest(1, NO_NAME, DescribeNode())] if isinstance(event, TimePassed) else []


def test_a_node_whose_name_is_none_is_one_that_cannot_be_reached() -> None:
    background, core = ThreadDriver(Bootstrap((NO_NAME,)), "c"), Core(asking)
    driven = Driven(core, lambda _effect: None)
    background.add(driven)
    background.feed(driven, TimePassed())
    assert within(5, lambda: CallFailed(1, is_unreached=True) in core.heard)
    assert "cannot connect to nnn" in background.last_failure
    background.stop()


def test_that_a_broker_beside_musterd_cannot_be_reached_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    """Nothing else says why no records come: musterd can be reached."""
    background, core = ThreadDriver(Bootstrap((NO_NAME,)), "c"), Core(asking_a_broker)
    driven = Driven(core, lambda _effect: None)
    background.add(driven)
    for times in (1, 2, 3):
        background.feed(driven, TimePassed())
        assert within(5, lambda: core.heard.count(CallFailed(1, is_unreached=True)) == times)  # noqa: B023
    background.stop()
    assert [one.levelname for one in caplog.records] == ["WARNING"]
    assert "It is a broker beside musterd" in caplog.text


class Slammed:
    """A port that takes connections and closes them at once; it counts them."""

    def __init__(self) -> None:
        self.connections = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = NodeAddress("127.0.0.1", self._listener.getsockname()[1])
        threading.Thread(target=self._slam, daemon=True).start()

    def _slam(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                self._listener.accept()[0].close()
                self.connections += 1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()


def asking_every_millisecond(core: Core, *nodes: NodeAddress) -> None:
    """Have it ask each of these, and set its timer anew."""

    def step(event: MemberEvent) -> list[MemberEffect]:
        core.next_deadline_ms = time.monotonic_ns() // 1_000_000 + 1
        asked = len(core.heard)
        return [SendRequest(asked, nodes[asked % len(nodes)], DescribeNode())] if isinstance(event, TimePassed) else []

    core._step = step


def test_reconnects_back_off_each_node_by_itself() -> None:
    with Slammed() as one, Slammed() as other:
        background, core = ThreadDriver(Bootstrap((one.address,)), "c"), Core()
        driven = Driven(core, lambda _effect: None)
        background.add(driven)
        asking_every_millisecond(core, one.address)
        background.feed(driven, TimePassed())
        began = time.monotonic()
        assert within(10, lambda: len(core.heard) > 500)
        assert 2 <= one.connections < 8 + time.monotonic() - began, "50 ms, 100 ms, 200 ms, ... to 1 s apart"
        asking_every_millisecond(core, one.address, other.address)
        assert within(0.5, lambda: other.connections > 0), "the other node's pauses are its own"
        background.stop()


async def test_reconnects_back_off_from_a_loop_too() -> None:
    with Slammed() as one:
        driver, core = LoopDriver(Bootstrap((one.address,)), "c"), Core()
        driven = Driven(core, lambda _effect: None)
        driver.add(driven)
        asking_every_millisecond(core, one.address)
        driver.feed(driven, TimePassed())
        began = time.monotonic()
        assert await driver.changed.wait_for(lambda: len(core.heard) > 500, 30)
        assert 2 <= one.connections < 8 + time.monotonic() - began
        await driver.stop()


async def test_and_from_a_loop(caplog: pytest.LogCaptureFixture) -> None:
    driver, core = LoopDriver(Bootstrap((NO_NAME,)), "c"), Core(asking_a_broker)
    driven = Driven(core, lambda _effect: None)
    driver.add(driven)
    for times in (1, 2, 3):
        driver.feed(driven, TimePassed())
        assert await driver.changed.wait_for(lambda: core.heard.count(CallFailed(1, is_unreached=True)) == times, 5)  # noqa: B023
    await driver.stop()
    assert [one.levelname for one in caplog.records] == ["WARNING"]
    assert "It is a broker beside musterd" in caplog.text


async def test_a_node_whose_name_is_none_is_one_that_cannot_be_reached_from_a_loop_either() -> None:
    driver, core = LoopDriver(Bootstrap((NO_NAME,)), "c"), Core(asking)
    driven = Driven(core, lambda _effect: None)
    driver.add(driven)
    driver.feed(driven, TimePassed())
    assert await driver.changed.wait_for(lambda: CallFailed(1, is_unreached=True) in core.heard, 5)
    await driver.stop()


def test_a_bug_ends_the_thread_of_a_client_and_whoever_feeds_it_next_hears_of_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def failing(_event: MemberEvent) -> list[MemberEffect]:
        raise ZeroDivisionError

    background, core = ThreadDriver(Bootstrap((NO_NAME,)), "c"), Core(failing)
    core.next_deadline_ms = 0
    background.add(Driven(core, lambda _effect: None))
    with caplog.at_level(logging.ERROR, "muster"):
        other = Driven(Core(), lambda _effect: None)
        background.feed(other, TimePassed())  # starts the thread
        assert within(5, lambda: background.refusals.has_failed)
    assert "ends after what should not have happened" in caplog.text
    with pytest.raises(ClientFailed, match="ZeroDivisionError"):
        background.feed(other, TimePassed())
    background.stop()


def test_a_callback_that_ends_its_thread_holds_up_nobody(caplog: pytest.LogCaptureFixture) -> None:
    callbacks, called = Callbacks(LockedCondition()), list[int]()
    with caplog.at_level(logging.ERROR, "muster"):
        callbacks.put(sys.exit)
        callbacks.put(lambda: called.append(1))
        assert callbacks.wait(5)
    assert called == [1]
    callbacks.stop()


def test_a_record_that_is_none_costs_the_others_nothing(tmp_path: Path) -> None:
    with running(tmp_path / "data") as daemon:
        with ClusterClient(daemon.bootstrap) as connection:
            connection.ask(CreateTopics((CreatableTopic("t", 1),)))
        with Producer(daemon.bootstrap) as producer:
            good = producer.send("t", b"good")
            with pytest.raises(ValueError, match="the value is a list"):
                producer.send("t", [1])  # type: ignore[arg-type]
            with pytest.raises(ValueError, match="surrogates"):
                producer.send("\ud800", b"")
            assert good.result(10).offset == 0
            assert producer.send("t", b"after").result(10).offset == 1
        with Consumer(daemon.bootstrap, "g", auto_offset_reset="earliest") as consumer:
            with pytest.raises(ValueError, match="no TopicPartition"):
                consumer.assign([("t", 0)])  # type: ignore[list-item]
            with pytest.raises(MusterError, match="nothing is subscribed"):
                consumer.poll(0)
            consumer.assign([TopicPartition("t", 0)])
            assert within(10, lambda: bool(consumer.poll(0.1)))
