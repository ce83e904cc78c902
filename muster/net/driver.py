"""Drives a client's cores: connections, requests, replies, failures, and deadlines.

The thread and the event loop behind clients are subclasses: they open and close connections, move their bytes, and wake
at `next_due_ms`.
"""

import errno
import logging
import os
import random
from abc import abstractmethod
from collections import deque
from collections.abc import Callable
from secrets import token_urlsafe
from typing import Any, Final, Generic, TypeVar

from membership.events import CallFailed, HangUp, MemberEffect, MemberEvent, NodeAddress, SendRequest, TimePassed
from muster.errors import AuthenticationFailed
from muster.net.bootstrap import Bootstrap
from muster.net.connection import ConnectionState
from muster.net.cores import ConnectionKey, Driven
from muster.net.dialects import dialect_of
from muster.net.exchange import Exchange
from muster.net.lanes import Lane, lane_of
from muster.net.refusals import Refusals, authentication_failed
from muster.net.tunnel import Tunnel
from protocol.errors import ProtocolViolation

SEND_OFF_S: Final = 1.0
"""Time for which closing a client waits until requests without a reply are sent."""
CONNECT_MS: Final = 10_000
"""Time to connect to a node, TLS included (Kafka: socket.connection.setup.timeout.ms)."""
LOG: Final = logging.getLogger("muster")
_NONCE_BYTES: Final = 24

C = TypeVar("C", bound=ConnectionState)


class Driver(Generic[C]):
    """Runs cores. Every event notifies `changed`."""

    changed: Any

    def __init__(self, bootstrap: Bootstrap, client_id: str, connect_timeout_ms: int = CONNECT_MS) -> None:
        self.has_ever_connected = False
        """True once a server has answered: another program's port may accept connections, and close them."""
        self.last_failure = ""
        self.failures: dict[NodeAddress, Exception] = {}
        """The last failure of each node."""
        self.refusals = Refusals(self.jitter)
        self.on_refusal: Callable[[AuthenticationFailed], None] = lambda _failed: None
        """Called for a refused login if no call of the client can raise it."""
        self.on_failure: Callable[[], None] = lambda: None
        """Called once an unexpected error has ended the client."""
        self._where = bootstrap
        self._client_id = client_id
        self._connect_timeout_ms = connect_timeout_ms
        self._asked = 0
        self._driven: list[Driven] = []
        self._connections: dict[ConnectionKey, C] = {}
        self._due: deque[tuple[Driven, MemberEvent]] = deque()
        """Events for cores, delivered when no step is under way."""
        self._held: list[tuple[int, Driven, SendRequest, NodeAddress]] = []
        """Requests to nodes, with the times from which they may be connected to again."""

    @abstractmethod
    def time(self) -> float:
        """Seconds of a monotonic clock."""

    @abstractmethod
    def now_ms(self) -> int:
        """Milliseconds of the cores' clock."""

    @abstractmethod
    def carry_out(self, driven: Driven, action: Callable[[int], list[MemberEffect]]) -> None:
        """Run an action of a core with the time, and carry out its effects. Raises ClientFailed."""

    def feed(self, driven: Driven, event: MemberEvent) -> None:
        """Step a core with an event. Raises ClientFailed."""
        self.carry_out(driven, lambda now_ms: driven.core.step(event, now_ms))

    @abstractmethod
    def _open(self, way: ConnectionKey) -> C:
        """Begin to open a connection. Raises OSError, ValueError, ProtocolViolation."""

    @abstractmethod
    def _send_out(self, connection: C) -> None:
        """Send the connection's buffer."""

    @abstractmethod
    def _end(self, connection: C) -> None:
        """Close the connection."""

    @staticmethod
    def jitter() -> float:
        """A number in [0, 1), for backoffs."""
        return random.random()  # noqa: S311

    @property
    def trouble(self) -> str:
        """The reason why no server can be reached at present, as a sentence; empty while one answers."""
        is_answered = any(one.exchange.has_answered for one in self._connections.values())
        return "" if is_answered else self.last_failure

    def add(self, driven: Driven) -> None:
        """Drive a core from now on. Takes no lock, since creating a client must not count as its first use."""
        self._driven.append(driven)

    # -- effects

    def _step(self, driven: Driven, event: MemberEvent) -> None:
        self._carry_out(driven, driven.core.step(event, self.now_ms()))

    def _carry_out(self, driven: Driven, effects: list[MemberEffect]) -> None:
        done = 0
        try:
            for effect in effects:
                if isinstance(effect, SendRequest):
                    self._send(driven, effect)
                elif isinstance(effect, HangUp):
                    self._hang_up(driven, effect.node)
                else:
                    driven.on_effect(effect)
                done += 1
        except BaseException:  # a Ctrl-C: the core must not wait for replies to unsent requests
            unsaid = (one for one in effects[done:] if isinstance(one, SendRequest))
            self._due.extend((driven, CallFailed(one.call)) for one in unsaid)
            raise
        finally:
            self.changed.notify_all()

    def _send(self, driven: Driven, call: SendRequest, to: NodeAddress | None = None) -> None:
        address = to or call.node or self.bootstrap_address
        group = self._connections.get(ConnectionKey(driven, address, Lane.GROUP))
        held_back = () if group is None else group.exchange.unanswered
        lane = lane_of(call.message, dialect_of(address, self._where.dialect), held_back)
        key = ConnectionKey(driven, address, lane)
        at_ms = self.refusals.reconnect_at_ms(address)
        if at_ms > self.now_ms() and key not in self._connections:
            self._held.append((at_ms, driven, call, address))
            return
        connection = self._connection(key)
        if connection is None:
            self._due.append((driven, CallFailed(call.call, is_unreached=True)))
            return
        connection.give(connection.exchange.encode_request(call, self.now_ms()))
        self._deliver(connection, b"")
        self._send_out(connection)

    def _connection(self, way: ConnectionKey) -> C | None:
        """Return the existing connection, or open one; None while the node cannot be reached."""
        connection = self._connections.get(way)
        if connection is None and not self.refusals.bars(way.address, self.now_ms()):
            try:
                connection = self._connections[way] = self._open(way)
                connection.up_by_ms = self.now_ms() + self._connect_timeout_ms
            # ValueError: a node's name is invalid. ProtocolViolation: there is no token for the login
            except (OSError, ValueError, ProtocolViolation) as error:
                self._note_failure(way.address, error)
        return connection

    def _exchange(self, address: NodeAddress) -> Exchange:
        return Exchange(self._where.open_session(address, self._client_id, nonce))

    def _tunnel(self, address: NodeAddress) -> Tunnel | None:
        """Return the tunnel to a node with TLS. Raises OSError, ValueError."""
        context = self._where.security_of(address).context()
        return Tunnel(context, address.host) if context is not None else None

    @property
    def bootstrap_address(self) -> NodeAddress:
        """The node for the next request to any node."""
        return self._where.addresses[self._asked % len(self._where.addresses)]

    def _hang_up(self, driven: Driven, node: NodeAddress | None) -> None:
        if node is None:
            node = self.bootstrap_address
            self._asked += 1
        for lane in Lane:
            connection = self._connections.get(ConnectionKey(driven, node, lane))
            if connection is not None:
                self._close(connection)
        held, self._held = self._held, []
        for one in held:
            if one[1] is driven and one[3] == node:
                self._due.append((driven, CallFailed(one[2].call, is_unreached=True)))
            else:
                self._held.append(one)

    def _is_current(self, connection: C) -> bool:
        return self._connections.get(connection.way) is connection

    def _close(self, connection: C) -> None:
        """Close a connection, and fail its requests."""
        if self._is_current(connection):
            del self._connections[connection.way]
            self._due.extend((connection.way.driven, failed) for failed in connection.exchange.lost())
        self._end(connection)

    # -- received bytes

    def _take_in(self, connection: C, data: bytes) -> None:
        """Handle bytes from the socket. Raises OSError, ProtocolViolation."""
        said = connection.take(data)
        if said:
            self._deliver(connection, said)
            connection.give(connection.exchange.take_data())
        self._send_out(connection)
        connection.check_over()

    def _deliver(self, connection: C, data: bytes) -> None:
        address, exchange = connection.way.address, connection.exchange
        self._due.extend((connection.way.driven, event) for event in exchange.receive_data(data))
        if not data:
            return
        if exchange.has_answered:
            self.has_ever_connected = True
            self.refusals.answered(address)
        if exchange.is_let_in:
            self.refusals.welcomed(address)

    def _note_departed(self, connection: C, unsent: int) -> None:
        self._due.extend((connection.way.driven, gone) for gone in connection.exchange.departed(unsent))

    def _lose(self, connection: C, error: Exception) -> None:
        """Handle a connection that ended, or could not be opened."""
        self._note_failure(connection.way.address, error, had_answered=connection.exchange.has_answered)
        self._close(connection)

    def _note_failure(self, address: NodeAddress, error: Exception, *, had_answered: bool = False) -> None:
        now_ms = self.now_ms()
        if not had_answered and self.is_last_address(address):
            self.refusals.attempt_failed(address, now_ms)
        failed = authentication_failed(address, error)
        self.failures[address] = error
        self.last_failure = str(failed or self._where.cannot_connect(address, error))
        self.refusals.failed(address, self.last_failure)
        if failed is not None:
            self.refusals.note(address, failed, now_ms)
            self.on_refusal(failed)
            self.changed.notify_all()
        elif not had_answered and self.refusals.unreached(address):
            LOG.warning(self.last_failure)

    def is_last_address(self, _address: NodeAddress) -> bool:
        """Return true if a name has no other address to try at once."""
        return True

    def _fail(self, error: Exception) -> None:
        """End the client after an unexpected error: the next call raises it."""
        LOG.error("a client ends after what should not have happened", exc_info=error)
        self.refusals.fail(error)
        self.on_failure()
        self.changed.notify_all()

    # -- time

    def _pass_time(self) -> None:
        self._lose_slow_ones()
        if self._held:
            self._send_held()
        while self._due:
            self._step(*self._due.popleft())
        now_ms = self.now_ms()
        for driven in self._driven:
            due = driven.core.next_deadline_ms
            if due is not None and due <= now_ms:
                self._step(driven, TimePassed())

    def _lose_slow_ones(self) -> None:
        """Close connections that take too long to open."""
        for connection in tuple(self._connections.values()):
            if connection.is_up:
                connection.up_by_ms = None
            elif connection.up_by_ms is not None and connection.up_by_ms <= self.now_ms():
                self._lose(connection, TimeoutError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT)))

    def _send_held(self) -> None:
        now_ms, held, self._held = self.now_ms(), self._held, []
        for one in held:
            at_ms, driven, call, address = one
            if at_ms <= now_ms:
                self._send(driven, call, address)
            else:
                self._held.append(one)

    @property
    def _next_due_ms(self) -> int | None:
        if self._due:
            return 0
        due = [driven.core.next_deadline_ms for driven in self._driven]
        due += [one[0] for one in self._held]
        due += [one.up_by_ms for one in self._connections.values()]
        return min((at for at in due if at is not None), default=None)

    @property
    def _owes(self) -> bool:
        """True if a request without a reply was not sent completely yet."""
        return any(one.exchange.owes for one in self._connections.values())


def nonce() -> str:
    """Return the nonce of one login."""
    return token_urlsafe(_NONCE_BYTES)
