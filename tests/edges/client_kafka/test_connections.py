"""Connections that the server ends, or answers slowly: a server of one thread that the test writes."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from select import select

import pytest

from membership.events import CallFailed, MemberEffect, MemberEvent, Replied, SendRequest, TimePassed
from muster import RangeReader
from muster.blocking import ClusterClient
from muster.net.bootstrap import parse_bootstrap
from muster.net.cores import Driven
from muster.net.thread import ThreadDriver
from protocol.kafka.session import KafkaDialect
from protocol.messages import Message
from protocol.messages.data import Produce, ProducePartition, ProduceTopic
from protocol.messages.groups import Heartbeat, HeartbeatReply
from protocol.record_batch import encode_batch
from tests.edges.client_kafka.conftest import Where
from tests.edges.musterd import free_port, within

BEAT = Heartbeat("g", 1, "m")


@contextmanager
def serving(answer: Callable[[Message], Message], *, requests_each: int) -> Iterator[tuple[str, list[int]]]:
    """Takes one connection after another and closes each after so many requests; how many it has seen on each."""
    seen: list[int] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection:
                    seen.append(0)
                    session = KafkaDialect(1 << 20, {Heartbeat}).open()
                    while seen[-1] < requests_each and (data := connection.recv(65_536)):
                        session.receive_data(data)
                        while (request := session.next_request()) is not None:
                            seen[-1] += 1
                            connection.sendall(session.encode_reply(request[0], answer(request[1])))
                        connection.sendall(session.take_data())

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"kafka://127.0.0.1:{listener.getsockname()[1]}", seen
        listener.shutdown(socket.SHUT_RDWR)
        thread.join(5)


def test_a_connection_that_was_closed_while_idle_is_made_anew_and_nobody_hears_of_it() -> None:
    with (
        serving(lambda _: HeartbeatReply(), requests_each=1) as (bootstrap, seen),
        ClusterClient(bootstrap) as connection,
    ):
        for _ in range(3):
            assert connection.ask(BEAT, timeout_s=5) == HeartbeatReply()
            (opened,) = connection._driver._connections.values()
            assert select([opened.socket], [], [], 5)[0], "closed there"
        connection.close()
        assert seen == [1, 1, 1]


def test_what_is_never_answered_is_sent_before_the_thread_ends(where: Where, topic: str) -> None:
    """Though the connection is only being made when the thread is told to end."""

    class Core:
        next_deadline_ms = None

        def step(self, event: MemberEvent, now_ms: int) -> list[MemberEffect]:
            part = ProducePartition(0, encode_batch([(None, b"quiet")], timestamp_ms=1))
            silent = Produce((ProduceTopic(topic, (part,)),), acks=0)
            return [SendRequest(1, None, silent)] if isinstance(event, TimePassed) else []

    background = ThreadDriver(parse_bootstrap(where.kafka), "test")
    driven = Driven(Core(), lambda _: None)
    background.add(driven)
    background.feed(driven, TimePassed())
    background.stop()
    with RangeReader(where.kafka, topic, 0, 0, 1) as reader:
        assert [record.value for record in reader.records()] == [b"quiet"]


def test_a_name_of_several_addresses_is_tried_at_each_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """A host like `localhost` has two addresses, and the server may listen on one."""
    with serving(lambda _: HeartbeatReply(), requests_each=9) as (bootstrap, _):
        host, _, port = bootstrap.removeprefix("kafka://").partition(":")
        real = socket.getaddrinfo
        both = real(host, free_port(), type=socket.SOCK_STREAM) + real(host, int(port), type=socket.SOCK_STREAM)
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: both)
        heard: list[MemberEvent] = []

        class Core:
            next_deadline_ms = None

            def step(self, event: MemberEvent, now_ms: int) -> list[MemberEffect]:
                heard.append(event)
                return [SendRequest(len(heard), None, BEAT)] if isinstance(event, TimePassed | CallFailed) else []

        background = ThreadDriver(parse_bootstrap("kafka://some-name:1"), "test")
        driven = Driven(Core(), lambda _: None)
        background.add(driven)
        background.feed(driven, TimePassed())
        assert within(5, lambda: len(heard) == 3)
        background.stop()
    assert heard == [TimePassed(), CallFailed(1, is_unreached=True), Replied(2, HeartbeatReply())]
