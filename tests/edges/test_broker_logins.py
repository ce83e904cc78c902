"""Logins of HTTP at brokers, and what stands for them, with a node whose answers a test scripts."""

import asyncio
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any, cast

from coordinator.gateway.io.http_logins import BrokerLogins
from coordinator.node.events import Received
from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.messages.groups import ListGroups, ListGroupsReply
from protocol.messages.node import DescribeNode, ErrorReply, HelloReply, Login, LoginReply
from protocol.native.session import NativeDialect

HOST = "10.0.0.7"
RIGHT = ("alice", "right")
_DIALECT = NativeDialect(1 << 20, HelloReply("musterd", "1", 1, ("Login", "ListGroups"), {}))


class Node:
    """Server and node at once: it lets in whoever has the right password, and keeps what it was asked."""

    def __init__(self) -> None:
        self.asked: list[Message] = []
        self.lifetime_ms = 0
        self.is_silent = False
        self.open: dict[int, Any] = {}
        self.connections: dict[int, Any] = {}
        self.node = SimpleNamespace(core=self)
        self.calls = SimpleNamespace(ask=self._health)
        self.received_by: dict[int, Any] = {}

    async def _health(self, message: Message) -> Message:
        self.asked.append(message)
        return ErrorReply(ErrorCode.NONE, "well")

    def connect(self) -> Any:
        number = len(self.received_by) + 1

        def made(transport: Any) -> None:
            assert transport.get_extra_info("peername")[0] == HOST
            self.open[number] = transport
            self.received_by[number] = _DIALECT.open()
            self.connections[number] = SimpleNamespace(principal="User:ANONYMOUS")

        return SimpleNamespace(number=number, connection_made=made, connection_lost=lambda _why: self.lost(number))

    def lost(self, number: int) -> None:
        self.open.pop(number, None)
        self.connections.pop(number, None)

    def received(self, event: Received) -> None:
        session = self.received_by[event.connection]
        session.receive_data(event.data)
        while (request := session.next_request()) is not None:
            request_number, message = request
            self.asked.append(message)
            if not self.is_silent:
                reply = self._reply(event.connection, message)
                self.open[event.connection].write(session.encode_reply(request_number, reply))

    def _reply(self, number: int, message: Message) -> Message:
        if not isinstance(message, Login):
            return ListGroupsReply()
        if message.auth_bytes != b"\0alice\0right":
            return LoginReply(error_code=ErrorCode.SASL_AUTHENTICATION_FAILED, error_message="wrong")
        self.connections[number].principal = "User:alice"
        return LoginReply(done=True, session_lifetime_ms=self.lifetime_ms)

    def count(self, kind: type[Message]) -> int:
        return sum(type(one) is kind for one in self.asked)


async def _is(it: bool) -> bool:
    return it


async def until(is_so: Callable[[], Awaitable[bool]]) -> None:
    for _ in range(2_000):
        if await is_so():
            return
        await asyncio.sleep(0.005)
    raise TimeoutError


def logins_of(node: Node, **times: float) -> BrokerLogins:
    return BrokerLogins(cast(Any, node), node.connect, "PLAIN", **times)


async def test_a_password_is_shown_to_the_broker_once_while_it_is_trusted() -> None:
    node = Node()
    logins = logins_of(node)
    replies = await asyncio.gather(*(logins.log_in(*RIGHT, HOST) for _ in range(20)))
    assert {one.principal for one in replies} == {"User:alice"}
    assert (node.count(Login), len(node.open)) == (1, 1)
    assert isinstance(await logins.ask(ListGroups(), replies[0].session), ListGroupsReply)


async def test_it_is_shown_again_afterwards_and_the_connection_before_is_closed() -> None:
    node = Node()
    logins = logins_of(node, trusted_s=0.05, grace_s=0.05)
    first = await logins.log_in(*RIGHT, HOST)
    await until(lambda: _is(not node.open))
    assert (await logins.show_session(first.session, HOST)).error_code
    again = await logins.log_in(*RIGHT, HOST)
    assert again.session != first.session and node.count(Login) == 2


async def test_a_wrong_password_is_asked_about_each_time_and_leaves_no_connection() -> None:
    node = Node()
    logins = logins_of(node)
    for _ in range(3):
        assert (await logins.log_in("alice", "guessed", HOST)).error_code is ErrorCode.SASL_AUTHENTICATION_FAILED
    await asyncio.sleep(0)
    assert node.count(Login) == 3 and not node.open
    assert (await logins.log_in(*RIGHT, HOST)).principal == "User:alice"


async def test_nothing_is_asked_without_a_login_but_the_nodes_health() -> None:
    node = Node()
    logins = logins_of(node)
    for secret in ("", "x" * 64, "\ud800"):
        assert isinstance(await logins.ask(ListGroups(), secret), ErrorReply)
        assert (await logins.show_session(secret, HOST)).error_code
    assert not node.asked
    assert await logins.ask(DescribeNode(), "") == ErrorReply(ErrorCode.NONE, "well")


async def test_a_connection_that_ends_fails_what_waits_and_the_next_request_logs_in_anew() -> None:
    node = Node()
    logins = logins_of(node)
    first = await logins.log_in(*RIGHT, HOST)
    node.is_silent = True
    waiting = asyncio.ensure_future(logins.ask(ListGroups(), first.session))
    await asyncio.sleep(0)
    node.open[1].abort()
    reply = await waiting
    assert isinstance(reply, ErrorReply) and reply.error_code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    node.is_silent = False
    assert (await logins.log_in(*RIGHT, HOST)).principal == "User:alice"
    assert node.count(Login) == 2


async def test_one_that_is_closed_in_the_middle_of_a_login_is_told_to_come_later() -> None:
    node = Node()
    node.is_silent = True
    login = asyncio.ensure_future(logins_of(node).log_in(*RIGHT, HOST))
    await until(lambda: _is(bool(node.open)))
    node.open[1].close()
    assert (await login).error_code is ErrorCode.THROTTLING_QUOTA_EXCEEDED


async def test_no_request_begins_shortly_before_a_login_ends() -> None:
    node = Node()
    node.lifetime_ms = 60
    logins = logins_of(node)
    reply = await logins.log_in(*RIGHT, HOST, opens_session=True)
    assert reply.session_lifetime_ms == 60
    assert not (await logins.show_session(reply.session, HOST)).error_code

    async def has_ended() -> bool:
        return bool((await logins.show_session(reply.session, HOST)).error_code)

    await until(has_ended)
    assert 1 in node.open, "the node closes it"


async def test_a_session_ends_where_its_user_says_so() -> None:
    node = Node()
    logins = logins_of(node)
    reply = await logins.log_in(*RIGHT, HOST, opens_session=True)
    assert (await logins.show_session(reply.session, HOST, is_end=True)).principal == "User:alice"
    assert (await logins.show_session(reply.session, HOST)).error_code
    await asyncio.sleep(0)
    assert not node.open


async def test_names_that_no_user_has_are_not_asked_about() -> None:
    node = Node()
    logins = logins_of(node)
    for username, password in (("", "x"), ("a\0b", "x"), ("a", ""), ("a", "\ud800")):
        assert (await logins.log_in(username, password, HOST)).error_code is ErrorCode.SASL_AUTHENTICATION_FAILED
    assert not node.asked
