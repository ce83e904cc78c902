"""EDGE: the event loop around the node. It moves bytes, reads the clock into a `Moment`, carries out effects in order,
has jobs run outside the loop (`disk_jobs.py`), and keeps one timer at the node's next deadline. It contains no group
logic."""

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, cast

import structlog

from coordinator.active_clock import ActiveClock
from coordinator.clock import Moment
from coordinator.core.budget import BYTES_A_STEP, READS_A_STEP
from coordinator.io.allocator import keep_large_buffers
from coordinator.io.calls import Calls
from coordinator.io.disk_jobs import DiskJobs
from coordinator.io.exit import exit_on_error, exit_process
from coordinator.io.job_runners import FlushRunner, JobThreadRunner
from coordinator.io.loop_lag import LoopLag
from coordinator.io.patient_disk import patient
from coordinator.io.rate_limited_log import RateLimitedLog
from coordinator.io.send_backlog import CAUGHT_UP, SendBacklog
from coordinator.io.tls.listening import ListeningTls, listen_at
from coordinator.node.effects import Close, Effect, Flush, LogError, LogNote, Pause, Resume, Return, RunJob, Send
from coordinator.node.events import Ended, Event, Flushed, Lost, Opened, Received, Stopping, Woke
from coordinator.node.node import AnyNode
from partition_log.disk.disk import Disk

log = structlog.get_logger()

_BOOT_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
_RECEIVE_BYTES = 256 * 1024
_FIRST_CONNECTION = 1
_LAST_BYTES_S, _LAST_ANSWERS_S, _POLL_S = 1.0, 30.0, 0.01
_CHECK_SOON_S = 0.25
_NEVER_MS = -(2**63)
"""Deadline of a timer that is not to be armed again: no deadline of the node comes before it."""
_LONG_STALL_MS = 1_000
"""Shortest stall that is logged; `/metrics` counts all stalls."""


def read_clock() -> Moment:
    """Read the clocks."""
    return Moment(time.monotonic_ns() // 1_000_000, time.time_ns() // 1_000_000, read_boot_ms())


def read_boot_ms() -> int:
    """Read the clock that includes time while the machine is suspended; the monotonic clock if there is none."""
    return time.clock_gettime_ns(_BOOT_CLOCK) // 1_000_000


def _certificate(transport: asyncio.Transport | None) -> tuple[tuple[Any, ...], str]:
    """Return name and serial number in the client's certificate, as `ssl` gives them; empty without one."""
    certificate = None if transport is None else transport.get_extra_info("peercert")
    return (certificate["subject"], certificate["serialNumber"]) if certificate else ((), "")


class ClientProtocol(asyncio.BufferedProtocol):
    """One client's socket. All clients share one receive buffer: separate buffers would cost 20 KB per connection."""

    __slots__ = (
        *("_server", "dialect", "handed_bytes", "idle_bytes", "moved_ms", "number", "paused_by_node", "reads_slowly"),
        *("taken_bytes", "taken_ms", "transport"),
    )

    def __init__(self, server: "Server", dialect: str) -> None:
        self._server = server
        self.dialect = dialect
        self.number = -1
        self.transport: asyncio.Transport | None = None
        self.paused_by_node = False
        self.reads_slowly = False
        self.handed_bytes = self.taken_ms = self.idle_bytes = self.moved_ms = 0
        self.taken_bytes = CAUGHT_UP

    def unsent_bytes(self) -> int:
        """See `send_backlog.SlowReader`."""
        return 0 if self.transport is None else self.transport.get_write_buffer_size()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports do not derive from asyncio's classes, but have the interface of a Transport.
        transport = self.transport = cast(asyncio.Transport, transport)
        transport.set_write_buffer_limits(high=self._server.max_unsent_bytes // 4)
        self.number = self._server.opened(self, self.dialect, transport.get_extra_info("peername"))

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._server.receive_buffer

    def buffer_updated(self, nbytes: int) -> None:
        server = self._server
        server.received(Received(self.number, bytes(server.receive_buffer[:nbytes])))
        self.moved_ms = server.moment.monotonic_ms

    def eof_received(self) -> bool:
        """Keep a half-closed connection: the client may wait for its answers. TLS has no half-closed connections."""
        if self.transport is None or self.transport.get_extra_info("ssl_object") is not None:
            return False
        self._server.happen(Ended(self.number))
        return True

    def pause_writing(self) -> None:
        # A slow reader: read nothing more from it until it has read its replies.
        self.reads_slowly = True
        self.update_reading()

    def resume_writing(self) -> None:
        self.reads_slowly = False
        self.update_reading()

    def update_reading(self) -> None:
        """Read from the client unless the node has paused it or the client reads its replies too slowly."""
        if self.transport is None:
            return
        if self.paused_by_node or self.reads_slowly:
            self.transport.pause_reading()
        else:
            self.transport.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        self.transport = None
        self._server.lost(self.number)


MakeClient = Callable[[], ClientProtocol]


class Server:
    """Runs the node: `node` is set once the sockets are bound, since replies to clients contain the bound ports."""

    def __init__(self, disk: Disk, max_unsent_bytes: int, max_total_unsent_bytes: int) -> None:
        keep_large_buffers()
        self.disk = disk
        self.max_unsent_bytes = max_unsent_bytes
        self.receive_buffer = memoryview(bytearray(_RECEIVE_BYTES))
        self.node: AnyNode
        self.limited_log = RateLimitedLog()
        self._loop = asyncio.get_running_loop()
        self._clients: dict[int, ClientProtocol] = {}
        self.calls = Calls(self.happen)
        self._next_number = _FIRST_CONNECTION
        self._timer: asyncio.TimerHandle | asyncio.Handle | None = None
        self._timer_ms: int | None = None
        self.moment = read_clock()
        self._clock: ActiveClock
        self._unstepped: list[Event] = []
        self._unstepped_bytes = 0
        self._flushing, self._working = FlushRunner(self._loop), JobThreadRunner("checkpoint", self._loop)
        self._jobs = DiskJobs(patient(disk), self._flushing, self._working, self._done)
        self._loaded = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._under_way = 0
        self._flush_began_ns = 0
        self._lag: LoopLag
        self._is_stopping = False
        self._unsent = SendBacklog(max_total_unsent_bytes)
        self._handed_bytes = 0
        self._next_check: asyncio.TimerHandle | None = None
        self._listeners: list[tuple[str, asyncio.Server]] = []
        self._effects: dict[type[Effect], Callable[[Any], None]] = {
            Send: self._send,
            Close: self._close,
            Pause: self._pause,
            Resume: self._resume,
            Flush: self._flush,
            RunJob: self._run_job,
            LogError: self._log_error,
            LogNote: lambda effect: self.limited_log.write(effect.kind, effect.cause, **effect.details),
            Return: self.calls.answer,
        }

    async def listen(
        self, dialect: str, host: str, port: int, tls: ListeningTls | None = None, make: MakeClient | None = None
    ) -> tuple[str, int]:
        """Bind without accepting yet; `make` makes the clients' protocols. Return the bound host and port."""
        listener = await listen_at(make or partial(ClientProtocol, self, dialect), host, port, tls, starts=False)
        self._listeners.append((dialect, listener))
        return cast(tuple[str, int], listener.sockets[0].getsockname()[:2])

    async def shut(self, dialect: str) -> None:
        """Close the listeners of the dialect, and its connections."""
        for spoken, one in self._listeners:
            if spoken == dialect:
                one.close()
        for client in list(self._clients.values()):
            if client.dialect == dialect and client.transport is not None:
                client.transport.abort()

    def carry_out(self, kind: type[Effect], how: Callable[[Any], None]) -> None:
        """Set the function that carries out effects of this kind."""
        self._effects[kind] = how

    async def start(self, node: AnyNode) -> None:
        """Serve with this node."""
        self.node = node
        self._clock = ActiveClock(read_clock().monotonic_ms, self._stalled)
        for _, one in self._listeners:
            await one.start_serving()
        self._lag = LoopLag(node.core.timings.loop_lag.add)
        self._lag.start()
        self._wake_node()

    async def until_loaded(self) -> None:
        """Wait until every shard serves its groups. Clients that connect earlier get a retriable error."""
        await self._loaded.wait()

    async def stop(self) -> None:
        """Stop accepting, answer waiting requests, flush everything and close the logs."""
        for _, one in self._listeners:
            one.close()
        self._is_stopping = True
        self._lag.stop()
        for client in self._clients.values():
            client.paused_by_node = True  # a client that continues to send must not keep the daemon alive
            client.update_reading()
        self.happen(Stopping())
        await self._until_idle()
        while self.node.core.outbox:
            self.happen(Woke())
        for client in list(self._clients.values()):
            if client.transport is not None:
                client.transport.close()
        # Closing first sends the written bytes; a client that reads nothing must not keep the daemon alive.
        patience_s = _LAST_BYTES_S
        while self._clients and patience_s > 0:
            await asyncio.sleep(_POLL_S)
            patience_s -= _POLL_S
        if self._timer is not None:
            self._timer.cancel()
        self._timer_ms = _NEVER_MS
        await self._until_idle()  # a checkpoint may have begun meanwhile
        self._flushing.finish()
        self._working.finish()
        self.limited_log.close()
        with exit_on_error("Stopping"):
            self.node.core.store.close(self.node.snapshots())

    async def _until_idle(self) -> None:
        while self._under_way:
            self._idle.clear()
            await self._idle.wait()

    # --- events in ---

    def opened(
        self, client: ClientProtocol, dialect: str, peer: tuple[str, int] | None, broker: int | None = None
    ) -> int:
        """Step the node with a new connection, and return the connection's number."""
        number = self._next_number = self._next_number + 1
        if self._is_stopping and client.transport is not None:  # its handshake was under way when the listeners closed
            client.transport.abort()
            return number
        self._clients[number] = client
        host, port = (peer[0], peer[1]) if peer else ("unknown", -1)
        self.happen(Opened(number, dialect, host, broker, port, *_certificate(client.transport)))
        client.moved_ms = self.moment.monotonic_ms
        return number

    def clients(self) -> Iterable[ClientProtocol]:
        """Return all connected clients."""
        return self._clients.values()

    def client(self, number: int) -> ClientProtocol | None:
        """Return the client of the connection with this number; None if it is closed."""
        return self._clients.get(number)

    def lost(self, number: int) -> None:
        """Step the node with the loss of a connection, unless the node closed it."""
        self._step_unstepped()
        if self._clients.pop(number, None) is not None:
            self.happen(Lost(number))

    def received(self, event: Received) -> None:
        """Step the node with received bytes, together with all others read in this turn of the loop: all readable
        sockets are read first, then one step serves them, with one check of deadlines and one flush."""
        unstepped = self._unstepped
        if not unstepped:
            self._read_clock()
            self._loop.call_soon(self._step_unstepped)
        unstepped.append(event)
        self._unstepped_bytes += len(event.data)
        if len(unstepped) >= READS_A_STEP or self._unstepped_bytes >= BYTES_A_STEP:
            self._step_unstepped()

    def _step_unstepped(self) -> None:
        if self._unstepped:
            events, self._unstepped, self._unstepped_bytes = self._unstepped, [], 0
            self._step(events)

    def happen(self, event: Event) -> None:
        """Step the node with the event, after all bytes read before it: replies to these are only sent at the end of a
        step, and the event may be the loss of their connection."""
        self._step_unstepped()
        self._step((event,))

    def _read_clock(self) -> None:
        now_ms = time.monotonic_ns() // 1_000_000
        if now_ms != self._clock.now_ms:  # one moment serves all steps of a millisecond
            active_ms = self._clock.read(now_ms, self.node.next_deadline_ms)
            self.moment = Moment(active_ms, time.time_ns() // 1_000_000, read_boot_ms())

    def _step(self, events: Sequence[Event]) -> None:
        """Step the node and carry out the effects. A step that fails ends the process."""
        node, carry_out = self.node, self._effects
        self._read_clock()
        try:
            for effect in node.step_many(events, self.moment):
                carry_out[type(effect)](effect)
            deadline_ms = node.next_deadline_ms
            if deadline_ms is not None:
                deadline_ms += self._clock.lost_ms
                if self._timer_ms is None or deadline_ms < self._timer_ms:
                    self._arm(deadline_ms)
        except BaseException as error:  # noqa: BLE001 - nothing is swallowed: the process ends
            exit_process(type(events[-1]).__name__, error)

    def _stalled(self, stall_ms: int) -> None:
        self.node.core.count("stalls")
        self.node.core.count("stalled_ms", stall_ms)
        if stall_ms >= _LONG_STALL_MS:
            log.warning("the process stood still: sessions and rebalances go on from where they were", ms=stall_ms)

    def _arm(self, deadline_ms: int) -> None:
        """Set the one timer to the deadline, on the monotonic clock. Waking too early is harmless."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer_ms = deadline_ms
        if deadline_ms * 1_000_000 <= time.monotonic_ns():
            self._timer = self._loop.call_soon(self._wake)
        else:
            # The loop's clock may have another origin: only differences agree. Half a millisecond more, since a timer
            # that fires a moment too early would only be armed again.
            delay_ms = deadline_ms - time.monotonic_ns() / 1_000_000
            self._timer = self._loop.call_later(max(delay_ms, 0) / 1000 + 0.0005, self._wake)

    def _wake(self) -> None:
        self._timer, self._timer_ms = None, None
        self._wake_node()

    def _wake_node(self) -> None:
        # A node that loads is woken after every step, so the end of loading is noticed here.
        self.happen(Woke())
        if self.node.is_loaded:
            self._loaded.set()

    # --- effects out ---

    def _send(self, effect: Send) -> None:
        client = self._clients.get(effect.connection)
        if client is None or client.transport is None:
            return
        client.transport.write(effect.data)
        size = len(effect.data)
        client.handed_bytes += size
        client.moved_ms = self.moment.monotonic_ms
        self._handed_bytes += size
        if self._handed_bytes > self._unsent.check_every_bytes:
            self._check_backlog()
        if client.reads_slowly and client.transport.get_write_buffer_size() > self.max_unsent_bytes:
            details: dict[str, Any] = {"connection": effect.connection, "unsent_bytes_max": self.max_unsent_bytes}
            self.limited_log.write("slow reader closed", level="warning", **details)
            client.transport.abort()

    def _check_backlog(self) -> None:
        """Close the slowest readers, and tell the node the size of the send backlog."""
        unsent, self._handed_bytes = self._unsent, 0
        for client in unsent.check(self._clients.values(), time.monotonic_ns() // 1_000_000):
            details: dict[str, Any] = {"connection": client.number, "unsent_bytes": client.unsent_bytes()}
            self.limited_log.write("slow reader closed, others need the room", level="warning", **details)
            if client.transport is not None:
                client.transport.abort()
        self.node.core.unsent_bytes = unsent.bytes
        if unsent.is_crowded and self._next_check is None:
            self._next_check = self._loop.call_later(_CHECK_SOON_S, self._check_again)

    def _check_again(self) -> None:
        self._next_check = None
        if not self._is_stopping:
            self._check_backlog()

    def _log_error(self, effect: LogError) -> None:
        if effect.kind:
            self.limited_log.write(effect.kind, effect.sentence)
        else:
            getattr(log, effect.level)(effect.sentence)

    def _close(self, effect: Close) -> None:
        client = self._clients.pop(effect.connection, None)
        if client is not None and client.transport is not None:
            if effect.reason:
                peer = client.transport.get_extra_info("peername")
                details = {"connection": effect.connection, "peer": peer and peer[0]}
                self.limited_log.write("connection closed", effect.reason, **details)
            # A client that does not read its last replies would keep its socket for ever, uncounted. A client that is
            # not closed for an error is given longer to read them.
            if effect.reason or client.unsent_bytes():
                self._loop.call_later(_LAST_BYTES_S if effect.reason else _LAST_ANSWERS_S, client.transport.abort)
            client.transport.close()

    def _pause(self, effect: Pause) -> None:
        if (client := self._clients.get(effect.connection)) is not None:
            client.paused_by_node = True
            client.update_reading()

    def _resume(self, effect: Resume) -> None:
        if (client := self._clients.get(effect.connection)) is not None:
            client.paused_by_node = self._is_stopping
            client.update_reading()

    def _flush(self, effect: Flush) -> None:
        self._under_way += 1
        self._flush_began_ns = time.monotonic_ns()
        self._jobs.flush(effect)

    def _run_job(self, effect: RunJob) -> None:
        self._under_way += 1
        self._jobs.run(effect)

    def _done(self, event: Event) -> None:
        self._under_way -= 1
        if type(event) is Flushed:
            self.node.core.timings.syncs.add((time.monotonic_ns() - self._flush_began_ns) / 1_000_000)
        self.happen(event)
        if not self._under_way:
            self._idle.set()
