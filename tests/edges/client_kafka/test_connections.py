"""Connections that the server ends, or answers slowly: a server of one thread that the test writes."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from muster.blocking import Connection
from protocol.kafka.session import KafkaDialect
from protocol.messages import Message
from protocol.messages.groups import Heartbeat, HeartbeatReply

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
                            connection.sendall(session.encode_reply(request.number, answer(request.message)))
                        connection.sendall(session.take_data())

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"kafka://127.0.0.1:{listener.getsockname()[1]}", seen
        listener.shutdown(socket.SHUT_RDWR)
        thread.join(5)


def test_a_connection_that_was_closed_while_idle_is_made_anew_and_nobody_hears_of_it() -> None:
    with (
        serving(lambda _: HeartbeatReply(), requests_each=1) as (bootstrap, seen),
        Connection(bootstrap) as connection,
    ):
        for _ in range(3):
            assert connection.ask(BEAT, timeout_s=5) == HeartbeatReply()
            connection._socket.recv(1, socket.MSG_PEEK)  # type: ignore[union-attr]  # until it is closed there
        connection.close()
        assert seen == [1, 1, 1]
