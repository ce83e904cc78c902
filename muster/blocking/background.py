"""The thread behind a client: it alone touches sockets and steps cores when time passes, so that heartbeats go on
whatever the application does.
"""

import contextlib
import logging
import os
import random
import selectors
import socket
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Final

from muster.blocking.fork_guard import ClientCondition
from muster.blocking.pipe import nonce
from muster.blocking.wire import Wire
from muster.dialects import dialect_of
from muster.dialects.bootstrap import Bootstrap
from muster.dialects.exchange import Exchange
from muster.dialects.lanes import Lane, lane_of
from muster.driven import Core, Driven, Way
from muster.errors import AuthenticationFailed
from muster.events import Call, CallFailed, Effect, HangUp, MemberEvent, NodeAddress, Woke
from muster.refusals import Refusals, authentication_failed
from muster.tunnel import Tunnel
from protocol.errors import ProtocolViolation

__all__ = ["Background", "Core", "Driven"]

_READ_BYTES = 256 * 1024
_SEND_OFF_S = 1.0
_LOG: Final = logging.getLogger("muster")
_LONGEST_S = 3_600.0
"""A selector takes no wait of months."""


class Background:
    """Runs cores. Everything of theirs is guarded by `changed`, which is notified whenever something happened."""

    def __init__(self, bootstrap: Bootstrap, client_id: str) -> None:
        self.changed = ClientCondition()
        self.has_ever_connected = False
        """Whether anybody has answered: a port of something else lets one connect, and hangs up."""
        self.last_failure = ""
        self.refusals = Refusals(random.random)
        self._where = bootstrap
        self._bootstrap, self._dialect = bootstrap.addresses, bootstrap.dialect
        self._client_id = client_id
        self.on_refusal: Callable[[AuthenticationFailed], None] = lambda _failed: None
        """Called in the thread, under the lock, for who is not in the middle of a call that could raise it."""
        self.on_failure: Callable[[], None] = lambda: None
        """Called in the thread, under the lock, once an unexpected error has ended it."""
        self._asked = 0
        self._driven: list[Driven] = []
        self._wires: dict[Way, Wire] = {}
        self._attempts: dict[NodeAddress, int] = {}
        """To connect, in vain since the last that was not: a name may stand for several addresses."""
        self._has_other_addresses: set[NodeAddress] = set()
        """Names of which another address is tried at once, without a pause."""
        self._due: deque[tuple[Driven, MemberEvent]] = deque()
        """What cores have yet to hear."""
        self._selector: selectors.BaseSelector | None = None
        self._waker: socket.socket | None = None
        self._thread: threading.Thread | None = None
        self._is_stopping = False

    @property
    def trouble(self) -> str:
        """Why nobody can be asked at present, as a sentence; nothing while somebody answers."""
        with self.changed:
            return "" if any(wire.exchange.has_answered for wire in self._wires.values()) else self.last_failure

    def condition(self) -> threading.Condition:
        """Another with the same lock, for who is not to be woken whenever anything happens."""
        return ClientCondition(self.changed)

    @staticmethod
    def time() -> float:
        """Seconds of a clock that goes on, whatever happens to the wall's."""
        return time.monotonic()

    @staticmethod
    def now_ms() -> int:
        """As cores are told it."""
        return _now_ms()

    @staticmethod
    def jitter() -> float:
        """A number in [0, 1), for backoffs."""
        return random.random()  # noqa: S311

    def add(self, driven: Driven) -> None:
        """Have it driven from now on. Takes no lock: making a client must not count as its first use."""
        self._driven.append(driven)

    def feed(self, driven: Driven, event: MemberEvent) -> None:
        """Something happened to a core. Starts the thread if there is none. Raises ClientFailed."""
        with self.changed:
            self.refusals.raise_failure()
            self._start()
            self._step(driven, event)
            self._wake()

    def carry_out(self, driven: Driven, action: Callable[[int], list[Effect]]) -> None:
        """What a core asks for when it is told the time so. Raises ClientFailed."""
        with self.changed:
            self.refusals.raise_failure()
            self._start()
            self._carry_out(driven, action(_now_ms()))
            self._wake()

    def stop(self) -> None:
        """End the thread and close its connections."""
        with self.changed:
            thread, self._is_stopping = self._thread, True
            self._wake()
        if thread is not None and thread is not threading.current_thread():
            thread.join(timeout=5.0)

    # -- under the lock, in whichever thread

    def _start(self) -> None:
        if self._thread is not None:
            return
        self._selector = selectors.DefaultSelector()
        wakened, self._waker = socket.socketpair()
        wakened.setblocking(False)
        self._waker.setblocking(False)
        self._selector.register(wakened, selectors.EVENT_READ, None)
        # A daemon: a program that forgets to close must still be able to end.
        self._thread = threading.Thread(target=self._run, args=(wakened,), name="muster", daemon=True)
        self._thread.start()

    def _wake(self) -> None:
        if self._waker is not None:
            with contextlib.suppress(OSError):
                self._waker.send(b"\0")

    def _step(self, driven: Driven, event: MemberEvent) -> None:
        self._carry_out(driven, driven.core.step(event, _now_ms()))

    def _carry_out(self, driven: Driven, effects: list[Effect]) -> None:
        done = 0
        try:
            for effect in effects:
                if isinstance(effect, Call):
                    self._send(driven, effect)
                elif isinstance(effect, HangUp):
                    self._hang_up(driven, effect.node)
                else:
                    driven.tell(effect)
                done += 1
        except BaseException:  # a Ctrl-C: the core must not wait for answers to what was not asked
            unsaid = (one for one in effects[done:] if isinstance(one, Call))
            self._due.extend((driven, CallFailed(one.call)) for one in unsaid)
            raise
        finally:
            self.changed.notify_all()

    def _send(self, driven: Driven, call: Call) -> None:
        address = call.node or self._bootstrap[self._asked % len(self._bootstrap)]
        group = self._wires.get(Way(driven, address, Lane.GROUP))
        held_back = () if group is None else group.exchange.unanswered
        way = Way(driven, address, lane_of(call.message, dialect_of(address, self._dialect), held_back))
        try:
            wire = self._wires.get(way)
            if wire is None:
                if self.refusals.bars(address, _now_ms()):
                    self._due.append((driven, CallFailed(call.call, is_unreached=True)))
                    return
                wire = self._open(way)
        except (OSError, ValueError) as error:  # ValueError: what a node was said to be called is no name
            self._note_failure(address, error)
            self._due.append((driven, CallFailed(call.call, is_unreached=True)))
            return
        wire.give(wire.exchange.say(call, _now_ms()))
        self._hear(wire, b"")
        self._watch(wire)

    def _open(self, way: Way) -> Wire:
        address = way[1]
        context = self._where.security_of(address).context()
        tunnel = Tunnel(context, address.host) if context is not None else None
        found = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
        attempt = self._attempts[address] = self._attempts.get(address, -1) + 1
        family, kind, protocol, _, where = found[attempt % len(found)]
        if (attempt + 1) % len(found):
            self._has_other_addresses.add(address)
        else:
            self._has_other_addresses.discard(address)
        connecting = socket.socket(family, kind, protocol)
        connecting.setblocking(False)
        connecting.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            with contextlib.suppress(BlockingIOError):
                connecting.connect(where)
        except OSError:
            connecting.close()
            raise
        session = self._where.open_session(address, self._client_id, nonce)
        wire = self._wires[way] = Wire(way, connecting, Exchange(session), tunnel)
        wire.give(b"")
        assert self._selector is not None
        self._selector.register(connecting, selectors.EVENT_READ | selectors.EVENT_WRITE, wire)
        return wire

    def _watch(self, wire: Wire) -> None:
        assert self._selector is not None
        wants = selectors.EVENT_READ | (selectors.EVENT_WRITE if wire.out or not wire.is_open else 0)
        try:
            self._selector.modify(wire.socket, wants, wire)
        except KeyError:  # a Ctrl-C in the middle of this had the selector forget it: a connection is made anew
            self._close(wire)

    def _hang_up(self, driven: Driven, node: NodeAddress | None) -> None:
        if node is None:
            node = self._bootstrap[self._asked % len(self._bootstrap)]
            self._asked += 1
        for lane in Lane:
            wire = self._wires.get(Way(driven, node, lane))
            if wire is not None:
                self._close(wire)

    def _close(self, wire: Wire) -> None:
        """Whatever it was asked will not be answered."""
        if self._wires.pop(wire.way, None) is None:
            return
        assert self._selector is not None
        with contextlib.suppress(KeyError):
            self._selector.unregister(wire.socket)
        wire.close()
        self._due.extend((wire.way[0], failed) for failed in wire.exchange.lost())

    def _hear(self, wire: Wire, data: bytes) -> None:
        """The core hears of it when it is not in the middle of something else."""
        self._due.extend((wire.way[0], event) for event in wire.exchange.hear(data))
        if data:
            if wire.exchange.has_answered:
                self.has_ever_connected = True
                self.refusals.answered(wire.way[1])
            if wire.exchange.is_let_in:
                self.refusals.welcomed(wire.way[1])

    def _note_failure(self, address: NodeAddress, error: Exception, *, had_answered: bool = False) -> None:
        if not had_answered and address not in self._has_other_addresses:
            self.refusals.attempt_failed(address, _now_ms())
        failed = authentication_failed(address, error)
        if failed is not None:
            self.refusals.note(address, failed, _now_ms())
            self.on_refusal(failed)
            self.last_failure = str(failed)
            self.refusals.failed(address, self.last_failure)
            self.changed.notify_all()
            return
        self.last_failure = self._where.cannot_connect(address, error)
        self.refusals.failed(address, self.last_failure)
        if not had_answered and self.refusals.unreached(address):
            _LOG.warning(self.last_failure)

    # -- in the thread

    def _run(self, wakened: socket.socket) -> None:
        selector = self._selector
        assert selector is not None
        try:
            self._work(selector, wakened)
            self._send_off(selector, wakened)
        except Exception as error:  # noqa: BLE001  (whatever it is, the next call raises it)
            _LOG.exception("the thread of a client ends after what should not have happened")
            with self.changed:
                self.refusals.fail(error)
                self.on_failure()
        finally:
            with self.changed:
                self._disconnect(selector, wakened)

    def _work(self, selector: selectors.BaseSelector, wakened: socket.socket) -> None:
        while True:
            with self.changed:
                if self._is_stopping:
                    return
                self._pass_time()
                timeout_s = self._timeout_s()
            ready = selector.select(timeout_s)
            with self.changed:
                for key, events in ready:
                    if key.data is None:
                        with contextlib.suppress(BlockingIOError):
                            wakened.recv(4096)
                        continue
                    wire: Wire = key.data
                    if self._wires.get(wire.way) is wire:
                        self._serve(wire, events)

    def _disconnect(self, selector: selectors.BaseSelector, wakened: socket.socket) -> None:
        for wire in tuple(self._wires.values()):
            if wire.exchange.has_told:
                wire.linger(time.monotonic() + _SEND_OFF_S)
            self._close(wire)
        selector.close()
        wakened.close()
        if self._waker is not None:
            self._waker.close()
            self._waker = None
        self.changed.notify_all()

    def _send_off(self, selector: selectors.BaseSelector, wakened: socket.socket) -> None:
        """What nobody waits for an answer to is let go of once it is sent, if that takes no longer than a moment."""
        selector.unregister(wakened)
        deadline = time.monotonic() + _SEND_OFF_S
        while time.monotonic() < deadline:
            with self.changed:
                if not any(wire.owes for wire in self._wires.values()):
                    return
            for key, events in selector.select(0.05):
                wire: Wire = key.data
                with self.changed:
                    if self._wires.get(wire.way) is wire:
                        self._serve(wire, events)

    def _pass_time(self) -> None:
        while self._due:
            driven, event = self._due.popleft()
            self._step(driven, event)
        now_ms = _now_ms()
        for driven in self._driven:
            due = driven.core.next_deadline_ms
            if due is not None and due <= now_ms:
                self._step(driven, Woke())

    def _timeout_s(self) -> float | None:
        if self._due:
            return 0.0
        due = [at for at in (driven.core.next_deadline_ms for driven in self._driven) if at is not None]
        return min(max(0.0, (min(due) - _now_ms()) / 1000), _LONGEST_S) if due else None

    def _serve(self, wire: Wire, events: int) -> None:
        try:
            if not wire.is_open:
                error = wire.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
                if error:
                    raise OSError(error, os.strerror(error))
                wire.is_open = True
                self._attempts.pop(wire.way[1], None)
            if events & selectors.EVENT_WRITE and wire.out:
                del wire.out[: wire.socket.send(wire.out)]
                self._watch(wire)
                self._due.extend((wire.way[0], gone) for gone in wire.exchange.departed(wire.unsent))
            if events & selectors.EVENT_READ:
                self._receive(wire)
        except BlockingIOError:
            return
        except (OSError, ProtocolViolation) as error:
            self._note_failure(wire.way[1], error, had_answered=wire.exchange.has_answered)
            self._close(wire)

    def _receive(self, wire: Wire) -> None:
        data = wire.socket.recv(_READ_BYTES)
        if not data:
            raise ConnectionResetError(wire.closed)
        said = wire.take(data)
        if said:
            self._hear(wire, said)
        wire.give(wire.exchange.take_data())
        if wire.out:
            self._watch(wire)
        if wire.tunnel is not None and wire.tunnel.is_over:
            raise wire.tunnel.failure or ConnectionResetError(wire.closed)


def _now_ms() -> int:
    return time.monotonic_ns() // 1_000_000
