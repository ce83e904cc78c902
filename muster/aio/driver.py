"""What drives a client's cores in an event loop: connections as asyncio's transports, time by its timers. No thread, no
task that lives on: heartbeats go on whenever the application awaits something.
"""

import asyncio
import logging
import os
import random
import ssl
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from secrets import token_urlsafe
from typing import Final, cast

from muster.aio.changed import Changed
from muster.dialects import dialect_of
from muster.dialects.bootstrap import Bootstrap
from muster.dialects.exchange import Exchange
from muster.dialects.lanes import Lane, lane_of
from muster.driven import Driven, Way
from muster.errors import MusterError
from muster.events import Call, CallFailed, Effect, HangUp, MemberEvent, NodeAddress, Woke
from muster.refusals import Refusals, authentication_failed
from muster.security import Security
from muster.tunnel import Tunnel
from protocol.errors import ProtocolViolation

_SEND_OFF_S = 1.0
_LOG: Final = logging.getLogger("muster")
_NONCE_BYTES = 24


class Driver:
    """Runs cores in the event loop that first needed it. Whatever happens, `changed` is notified."""

    def __init__(self, bootstrap: Bootstrap, client_id: str) -> None:
        self.changed = Changed()
        self.has_ever_connected = False
        self.last_failure = ""
        self.refusals = Refusals(random.random)
        self._where = bootstrap
        self._bootstrap, self._dialect = bootstrap.addresses, bootstrap.dialect
        self._client_id = client_id
        self.on_failure: Callable[[], None] = lambda: None
        """Called once an unexpected error has ended the client."""
        self._asked = 0
        self._driven: list[Driven] = []
        self._wires: dict[Way, _Wire] = {}
        self._ending: set[_Wire] = set()
        """Closed, but the loop has not let go of them yet."""
        self._due: deque[tuple[Driven, MemberEvent]] = deque()
        """What cores have yet to hear."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._is_stopped = False

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """Raises RuntimeError outside of an event loop, MusterError in another than before."""
        running = asyncio.get_running_loop()
        if self._loop is None:
            self._loop = running
        elif self._loop is not running:
            raise MusterError("this client belongs to another event loop: make one in each")
        return running

    @staticmethod
    def jitter() -> float:
        """A number in [0, 1), for backoffs."""
        return random.random()  # noqa: S311

    def time(self) -> float:
        """Seconds of the loop's clock."""
        return self.loop.time()

    def now_ms(self) -> int:
        """As cores are told it: by the loop's clock."""
        return int(self.loop.time() * 1000)

    @property
    def trouble(self) -> str:
        """Why nobody can be asked at present, as a sentence; nothing while somebody answers."""
        return "" if any(wire.exchange.has_answered for wire in self._wires.values()) else self.last_failure

    def add(self, driven: Driven) -> None:
        """Have it driven from now on."""
        self._driven.append(driven)

    def feed(self, driven: Driven, event: MemberEvent) -> None:
        """Something happened to a core. After `stop` it is too late to tell. Raises ClientFailed."""
        self.refusals.raise_failure()
        if not self._is_stopped:
            self._carry_out(driven, driven.core.step(event, self.now_ms()))
            self._set_timer()

    def carry_out(self, driven: Driven, action: Callable[[int], list[Effect]]) -> None:
        """What a core asks for when it is told the time so. Raises ClientFailed."""
        self.refusals.raise_failure()
        if not self._is_stopped:
            self._carry_out(driven, action(self.now_ms()))
            self._set_timer()

    async def stop(self) -> None:
        """Close the connections. What nobody waits for an answer to is let go of once it is sent, if that takes no
        longer than a moment.
        """
        if self._loop is None:
            return
        try:
            if not self._is_stopped:
                await self.changed.wait_for(lambda: not any(wire.owes for wire in self._wires.values()), _SEND_OFF_S)
            self._stop()
            await self.changed.wait_for(lambda: not self._ending, _SEND_OFF_S)
        finally:
            self._stop()
            for wire in tuple(self._ending):
                wire.abort()

    def _stop(self) -> None:
        self._is_stopped = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for wire in tuple(self._wires.values()):
            self._close(wire)
        self._due.clear()

    # -- effects

    def _carry_out(self, driven: Driven, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Call):
                self._send(driven, effect)
            elif isinstance(effect, HangUp):
                self._hang_up(driven, effect.node)
            else:
                driven.tell(effect)
        self.changed.notify_all()

    def _send(self, driven: Driven, call: Call) -> None:
        address = call.node or self._bootstrap[self._asked % len(self._bootstrap)]
        group = self._wires.get(Way(driven, address, Lane.GROUP))
        held_back = () if group is None else group.exchange.unanswered
        dialect = dialect_of(address, self._dialect)
        way = Way(driven, address, lane_of(call.message, dialect, held_back))
        wire = self._wires.get(way)
        if wire is None:
            if self.refusals.bars(address, self.now_ms()):
                self._due.append((driven, CallFailed(call.call, is_unreached=True)))
                return
            session = self._where.open_session(address, self._client_id, _nonce)
            wire = self._wires[way] = _Wire(self, way, Exchange(session))
            wire.connect(self.loop, self._where.security_of(address))
        wire.send(wire.exchange.say(call, self.now_ms()))
        self._due.extend((driven, event) for event in wire.exchange.hear(b""))
        self._note_departed(wire)

    def _hang_up(self, driven: Driven, node: NodeAddress | None) -> None:
        if node is None:
            node = self._bootstrap[self._asked % len(self._bootstrap)]
            self._asked += 1
        for lane in Lane:
            wire = self._wires.get(Way(driven, node, lane))
            if wire is not None:
                self._close(wire)

    def _close(self, wire: "_Wire") -> None:
        """Whatever it was asked will not be answered: the core hears so when it is not in the middle of something."""
        if self._wires.get(wire.way) is wire:
            del self._wires[wire.way]
            self._due.extend((wire.way.driven, failed) for failed in wire.exchange.lost())
        if wire.close(lingers=self._is_stopped and wire.exchange.has_told):
            self._ending.add(wire)

    # -- time

    def _pass_time(self) -> None:
        if self._is_stopped:
            return
        while self._due:
            driven, event = self._due.popleft()
            self._carry_out(driven, driven.core.step(event, self.now_ms()))
        now_ms = self.now_ms()
        for driven in self._driven:
            due = driven.core.next_deadline_ms
            if due is not None and due <= now_ms:
                self._carry_out(driven, driven.core.step(Woke(), now_ms))
        self._set_timer()

    def _woke(self) -> None:
        self._timer = None
        with self._ending_if_it_fails():
            self._pass_time()

    @contextmanager
    def _ending_if_it_fails(self) -> Iterator[None]:
        """The next call raises what the loop's callbacks raised: nobody else would hear of it."""
        try:
            yield
        except Exception as error:  # noqa: BLE001  (whatever it is, the next call raises it)
            _LOG.exception("a client ends after what should not have happened")
            self.refusals.fail(error)
            self._stop()
            self.on_failure()
            self.changed.notify_all()

    def _set_timer(self) -> None:
        """One that rings too early finds nothing to do, and is set anew."""
        due = [at for at in (driven.core.next_deadline_ms for driven in self._driven) if at is not None]
        if self._due:
            due.append(0)
        if not due:
            return
        at_s = min(due) / 1000
        if self._timer is not None:
            if self._timer.when() <= at_s:
                return
            self._timer.cancel()
        self._timer = self.loop.call_at(at_s, self._woke)

    def _note_departed(self, wire: "_Wire") -> None:
        self._due.extend((wire.way.driven, gone) for gone in wire.exchange.departed(wire.unsent_bytes))

    # -- called by wires

    def opened(self, wire: "_Wire") -> None:
        self.changed.notify_all()
        self.sent(wire)

    def sent(self, wire: "_Wire") -> None:
        """Something of what was written has left."""
        if self._wires.get(wire.way) is wire:
            with self._ending_if_it_fails():
                self._note_departed(wire)
                self._pass_time()

    def heard(self, wire: "_Wire", data: bytes) -> None:
        if self._wires.get(wire.way) is wire:
            with self._ending_if_it_fails():
                self._hear(wire, data)

    def _hear(self, wire: "_Wire", data: bytes) -> None:
        try:
            self._due.extend((wire.way.driven, event) for event in wire.exchange.hear(data))
            if wire.exchange.has_answered:
                self.has_ever_connected = True
                self.refusals.answered(wire.way.address)
            if wire.exchange.is_let_in:
                self.refusals.welcomed(wire.way.address)
            wire.send(wire.exchange.take_data())
            self._note_departed(wire)
        except ProtocolViolation as violation:
            self.failed(wire, violation)
            return
        self._pass_time()

    def failed(self, wire: "_Wire", error: Exception) -> None:
        if self._wires.get(wire.way) is wire:
            address = wire.way.address
            if not wire.exchange.has_answered:
                self.refusals.attempt_failed(address, self.now_ms())
            failed = authentication_failed(address, error)
            if failed is not None:
                self.refusals.note(address, failed, self.now_ms())
            self.last_failure = str(failed or self._where.cannot_connect(address, error))
            self.refusals.failed(address, self.last_failure)
            if failed is None and not wire.exchange.has_answered and self.refusals.unreached(address):
                _LOG.warning(self.last_failure)
            self._close(wire)
            with self._ending_if_it_fails():
                self._pass_time()

    def ended(self, wire: "_Wire") -> None:
        self._ending.discard(wire)
        self.changed.notify_all()


class _Wire(asyncio.Protocol):
    """A connection, from before it is made until the loop lets go of it."""

    def __init__(self, driver: Driver, way: Way, exchange: Exchange) -> None:
        self.way = way
        self.exchange = exchange
        self._driver = driver
        self._tunnel: Tunnel | None = None
        self._transport: asyncio.Transport | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._unsent = bytearray()
        self._is_closed = False

    @property
    def owes(self) -> bool:
        return self.exchange.owes

    @property
    def unsent_bytes(self) -> int:
        kept = len(self._unsent) + (self._tunnel.unsent if self._tunnel else 0)
        return kept + (self._transport.get_write_buffer_size() if self._transport else 0)

    def connect(self, loop: asyncio.AbstractEventLoop, security: Security) -> None:
        self._connecting = loop.create_task(self._connect(loop, security))

    def send(self, data: bytes) -> None:
        if self._transport is None:
            self._unsent += data
            return
        if self._is_closed:
            return
        if self._tunnel is not None:
            self._tunnel.send(data)
            data = self._tunnel.take_data()
        if data:
            self._transport.write(data)

    def close(self, *, lingers: bool = False) -> bool:
        """What was written is sent first. Whether `Driver.ended` is still to come. If it `lingers`, that is when the
        server closes it too: with anything unread in it, it would be cut off, and what was sent may be lost (RFC 1122,
        4.2.2.13).
        """
        is_first, self._is_closed = not self._is_closed, True
        if self._transport is not None:
            if self._tunnel is not None and is_first:
                self._tunnel.close()
                self._transport.write(self._tunnel.take_data())
            if lingers:
                self._transport.write_eof()
            else:
                self._transport.close()
            return is_first
        if self._connecting is not None:
            self._connecting.cancel()
        return is_first and self._connecting is not None

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    async def _connect(self, loop: asyncio.AbstractEventLoop, security: Security) -> None:
        address = self.way.address
        try:
            context = security.context()
            if context is not None:
                self._tunnel = Tunnel(context, address.host)
            await loop.create_connection(lambda: self, address.host, address.port)
        except (OSError, ValueError) as error:  # ValueError: what a node was said to be called is no name
            self._connecting = None
            self._driver.failed(self, _plain(error) if isinstance(error, OSError) else error)
        finally:
            self._connecting = None
            if self._transport is None:
                self._driver.ended(self)

    @property
    def _closed(self) -> str:
        tunnel = self._tunnel
        return self.exchange.closed(is_tls=tunnel is not None, is_up=tunnel is not None and tunnel.is_up)

    # -- called by the loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        if self._is_closed:
            self._transport.abort()
            return
        self._transport.set_write_buffer_limits(high=0)  # to be told as soon as all is written
        early, self._unsent = bytes(self._unsent), bytearray()
        self.send(early)
        self._driver.opened(self)

    def data_received(self, data: bytes) -> None:
        if self._is_closed:
            return
        if self._tunnel is None:
            self._driver.heard(self, data)
            return
        try:
            said = self._tunnel.receive(data)
        except ssl.SSLError as error:
            self.send(b"")
            self._driver.failed(self, error)
            return
        self.send(b"")
        if said:
            self._driver.heard(self, said)
        if self._tunnel.is_over and not self._is_closed:
            self._driver.failed(self, self._tunnel.failure or ConnectionResetError(self._closed))

    def resume_writing(self) -> None:
        self._driver.sent(self)

    def connection_lost(self, error: Exception | None) -> None:
        if not self._is_closed:
            self._driver.failed(self, error if isinstance(error, OSError) else ConnectionResetError(self._closed))
        self._driver.ended(self)


def _nonce() -> str:
    """For one login."""
    return token_urlsafe(_NONCE_BYTES)


def _plain(error: OSError) -> OSError:
    """The event loop's own sentence says the address again."""
    number = error.errno or 0
    return OSError(number, os.strerror(number)) if number > 0 else error
