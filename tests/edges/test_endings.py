"""Ends of clients that failed to start or are closed from the inside: no thread stays, and no caller waits for ever."""

import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from muster import ClientBalancedConsumer
from muster.blocking import ClusterClient
from muster.errors import MusterError
from muster.streams import StreamsConnector
from protocol.messages.topics import CreatableTopic, CreateTopics
from tests.edges.musterd import Daemon, free_port, running, within

SHUT_DOWN = 420


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with running(tmp_path_factory.mktemp("endings") / "data", "group.initial.rebalance.delay.ms=0") as daemon:
        with ClusterClient(daemon.bootstrap) as connection:
            connection.ask(CreateTopics((CreatableTopic("t", 4),)))
        yield daemon


class Listener:
    def __init__(self) -> None:
        self.connector: StreamsConnector | None = None
        self.thread: threading.Thread | None = None

    def before_releasing(self, owned: Any) -> None:
        self.thread = threading.current_thread()
        if self.connector is None:
            sys.exit(3)
        self.connector.shutdown()

    def before_starting(self, owned: Any, everyone: Any) -> None:
        pass


def test_a_listener_that_exits_holds_up_nobody_and_is_told_of(daemon: Daemon, name: str) -> None:
    heard: list[Exception] = []
    with StreamsConnector(daemon.bootstrap, name, on_error=heard.append) as one:
        one.set_rebalance_listener(Listener())
        one.create_message_streams({"t": 2})
        with StreamsConnector(daemon.bootstrap, name) as other:
            other.create_message_streams({"t": 2})
            assert within(10, lambda: len(one.owned.get("t", {})) == len(other.owned.get("t", {})) == 2)
        assert within(10, lambda: bool(heard))
    assert isinstance(heard[0], MusterError) and "SystemExit(3)" in str(heard[0])


def test_the_listeners_thread_ends_though_it_was_the_one_that_shut_down(daemon: Daemon, name: str) -> None:
    listener = Listener()
    with StreamsConnector(daemon.bootstrap, name) as one, StreamsConnector(daemon.bootstrap, name) as other:
        listener.connector = one
        one.set_rebalance_listener(listener)
        one.create_message_streams({"t": 2})
        other.create_message_streams({"t": 2})
        assert within(10, lambda: listener.thread is not None and not listener.thread.is_alive())
        assert within(10, lambda: len(other.owned.get("t", {})) == 4)


@pytest.mark.parametrize("starts", [True, False])
def test_a_balanced_consumer_that_never_started_ends_with_its_block_and_says_so(starts: bool) -> None:
    before = threading.active_count()
    with ClientBalancedConsumer(f"127.0.0.1:{free_port()}", "g") as consumer:
        if starts:
            assert not consumer.start({"t": None}).ok
    assert threading.active_count() == before
    assert consumer.start({"t": None}).code == SHUT_DOWN


def test_shutting_down_after_a_start_that_failed_ends_the_thread() -> None:
    before = threading.active_count()
    consumer = ClientBalancedConsumer(f"127.0.0.1:{free_port()}", "g")
    assert not consumer.start({"t": None}).ok
    consumer.shutdown()
    assert threading.active_count() == before
    assert consumer.start({"t": None}).code == SHUT_DOWN
    consumer.shutdown()
