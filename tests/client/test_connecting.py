"""Time limits of connecting, with a driver without sockets."""

from collections.abc import Callable
from unittest.mock import Mock

from membership.events import CallFailed, MemberEffect, MemberEvent, NodeAddress, SendRequest, TimePassed
from muster.net.bootstrap import Bootstrap
from muster.net.connection import ConnectionState
from muster.net.cores import ConnectionKey, Driven
from muster.net.driver import CONNECT_MS, Driver
from protocol.messages.node import DescribeNode

HERE = NodeAddress("here", 1)


class Asking:
    """Asks one thing, and writes down what it hears."""

    next_deadline_ms = None

    def __init__(self) -> None:
        self.heard: list[MemberEvent] = []

    def step(self, event: MemberEvent, now_ms: int) -> list[MemberEffect]:
        self.heard.append(event)
        return [SendRequest(1, None, DescribeNode())] if isinstance(event, TimePassed) else []


class NoSockets(Driver[ConnectionState]):
    """Connections that are open or up when a test says so."""

    def __init__(self, timeout_ms: int = CONNECT_MS) -> None:
        self.changed = Mock()
        self.clock_ms = 0
        super().__init__(Bootstrap((HERE,)), "test", timeout_ms)

    def time(self) -> float:
        return self.clock_ms / 1000

    def now_ms(self) -> int:
        return self.clock_ms

    def carry_out(self, driven: Driven, action: Callable[[int], list[MemberEffect]]) -> None:
        self._carry_out(driven, action(self.clock_ms))

    def _open(self, way: ConnectionKey) -> ConnectionState:
        return ConnectionState(way, self._exchange(way.address), None)

    def _send_out(self, connection: ConnectionState) -> None:
        """Nothing leaves."""

    def _end(self, connection: ConnectionState) -> None:
        """Nothing is there to close."""

    def wait(self, until_ms: int) -> None:
        self.clock_ms = until_ms
        self._pass_time()


def asked(driver: NoSockets) -> Asking:
    core = Asking()
    driven = Driven(core, lambda _: None)
    driver.add(driven)
    driver.feed(driven, TimePassed())
    return core


def test_a_connection_that_is_not_made_in_time_fails_what_it_was_asked() -> None:
    driver = NoSockets()
    core = asked(driver)
    assert driver._next_due_ms == CONNECT_MS
    driver.wait(CONNECT_MS - 1)
    assert core.heard == [TimePassed()]
    driver.wait(CONNECT_MS)
    assert core.heard == [TimePassed(), CallFailed(1, is_unreached=True)]
    assert driver.last_failure.startswith("cannot connect to here:1: Connection timed out. Is musterd running")


def test_one_that_is_up_in_time_stays_however_long_its_answer_takes() -> None:
    driver = NoSockets(timeout_ms=300)
    core = asked(driver)
    (connection,) = driver._connections.values()
    connection.is_open = True
    for later_ms in (299, 300, 100_000):
        driver.wait(later_ms)
    assert core.heard == [TimePassed()]
    assert driver._next_due_ms is None


def test_shaking_hands_of_tls_is_part_of_connecting() -> None:
    driver = NoSockets(timeout_ms=300)
    core = asked(driver)
    (connection,) = driver._connections.values()
    connection.is_open, connection.tunnel = True, Mock(is_up=False, unsent=0)
    driver.wait(300)
    assert core.heard == [TimePassed(), CallFailed(1, is_unreached=True)]
