"""`Node`: the whole service minus its I/O. `step(event, moment) -> effects` is the one method that matters.

It never awaits, reads no clock and opens no socket; a step runs to completion and nothing interleaves. That sentence
replaces the group lock and the class of races in which expiry and heartbeat meet.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from coordinator.clock import Moment
from coordinator.config.config import Config
from coordinator.groups.client_balanced.events import LeaseOverdue
from coordinator.handlers.admission import admit_size, cost_of
from coordinator.handlers.core import INTERNAL, Connection
from coordinator.handlers.fetch_completion import WokenFetches, fetch_ready
from coordinator.handlers.heartbeat import heartbeat
from coordinator.handlers.produce import FLUSHED, ProduceAnswered, answer_produces, produce_waiting
from coordinator.handlers.table import INSIDE, ROUTES
from coordinator.node import scheduled_tasks
from coordinator.node.build import Ids, make_core
from coordinator.node.dialects import make_dialects
from coordinator.node.disk_news import DiskNews
from coordinator.node.effects import Close, Effect, Flush, Pause, Resume, Return, RunJob, Send
from coordinator.node.events import Call, Ended, Event, Flushed, Idle, JobDone, Lost, Opened, Received, Stopping, Woke
from coordinator.node.receive_backlog import largest_backlogs
from coordinator.node.unloading import unload
from coordinator.runtime.snapshot import to_keep
from coordinator.tasks.scheduled_task import ScheduledTask, TaskDue
from coordinator.topics.embedded import FetchReady
from coordinator.topics.offsets_topic import advanced
from partition_log.aids import NewAid
from partition_log.store import CheckpointJob, LogStore
from protocol.errors import ErrorCode, ProtocolViolation
from protocol.messages import Message
from protocol.messages.data import Produce
from protocol.messages.groups import Heartbeat
from protocol.messages.node import Refused
from protocol.session import Request, RequestRef, Session

_REPLIES_A_STEP = 256
_BYTES_A_STEP = 256 * 1024
"""Of answers encoded, and of records read: whatever goes beyond is the last of its step."""
_OVERDUE_A_STEP = 256
_WORK_A_STEP = 5_000
"""Entries (see `sizes`) that are served of one connection, or of all that wait, before others have their turn."""
_LOOKS_A_LIMIT = 16
"""How often, while as many bytes arrive as may be unfinished, it is looked at who holds how many."""
_REPLIES_IN_WAITING = 16_384
"""Replies made and not yet encoded; beyond them no requests are served."""
_CHECKPOINT, _CHECKPOINT_EVERY_MS = "checkpoint", 1_000


class Node:
    """One process's share of the service. `addresses` says where clients of each dialect reach it; `store` must be
    open."""

    def __init__(
        self, config: Config, store: LogStore, ids: Ids, addresses: Mapping[str, tuple[str, int]], started: Moment
    ) -> None:
        self.core = make_core(config, store, ids, addresses, started)
        self._dialects = make_dialects(config)
        self._routes = ROUTES
        self.loads = self.core.loads
        self._effects: list[Effect] = []
        self._touched: dict[int, Connection] = {}
        self._handlers: dict[type, Callable[[Any, Moment], None]] = {
            Received: self._received,
            Woke: self._woke,
            Flushed: self._flushed,
            Opened: self._opened,
            Ended: self._ended,
            Idle: self._idle,
            Lost: self._lost,
            JobDone: self._answered,
            Call: self._asked,
            Stopping: self._stopping,
        }
        # Connections that sent more than one step may serve; nothing is read from them meanwhile.
        self._waiting: dict[int, Connection] = {}
        # Fetches that wait for partitions with new records, and are yet to be looked at.
        self._nudged = WokenFetches()
        self._bytes_to_look = self._look_every_bytes = config.max_unfinished_bytes // _LOOKS_A_LIMIT
        self._work_left = self._next_call = 0
        self._disk_news = DiskNews(store, config.data_dir)
        self._watch_chore(started)
        scheduled_tasks.begin(self.core, started)
        self._wants_step = True

    @property
    def next_deadline_ms(self) -> int | None:
        """When the node wants to be woken (`Woke`) if nothing else happens; a time already past means at once."""
        core = self.core
        if self._wants_step or self._waiting or self._nudged or core.outbox or core.slices.is_ready:
            return -(2**62)
        return core.purgatory.next_deadline_ms

    @property
    def is_loaded(self) -> bool:
        """Whether every shard has been loaded, or has failed to."""
        return not self.loads

    def step(self, event: Event, moment: Moment) -> list[Effect]:
        """Let the event happen; what the world should do about it, in order."""
        self._work_left = _WORK_A_STEP if len(self.core.outbox.ready) < _REPLIES_IN_WAITING else 0
        self.core.read_bytes = 0
        self._handlers[type(event)](event, moment)
        self._wants_step = False
        self._run_overdue(moment)
        if self._nudged:
            self._nudged.go_on(self.core, _WORK_A_STEP, _BYTES_A_STEP)
        if type(event) is Woke:
            self._continue(moment)
        self._wants_step |= bool(self.loads)
        self._send_out(moment)
        job = self.core.store.begin_flush()
        if job is not None:
            self._effects.append(Flush(job))
        effects, self._effects = self._effects, []
        return effects

    # --- events ---

    def _woke(self, event: Woke, moment: Moment) -> None:
        """Time has passed; `step` sees to what is overdue."""

    def _opened(self, event: Opened, moment: Moment) -> None:
        core = self.core
        session = self._open_session(event)
        connection = Connection(event.connection, event.dialect, event.peer_host, session, event.broker)
        if len(core.connections) >= core.config.max_connections:
            core.count("connections_refused")
            self._effects.append(Close(event.connection, f"more than {core.config.max_connections} connections"))
            return
        core.connections[event.connection] = connection
        core.count("connections_opened")

    def _open_session(self, event: Opened) -> Session:
        return self._dialects[event.dialect].open()

    def _ended(self, event: Ended, moment: Moment) -> None:
        if (connection := self.core.connections.get(event.connection)) is not None:
            connection.has_ended = True
            self._touched[event.connection] = connection

    def _idle(self, event: Idle, moment: Moment) -> None:
        """A connection that waits for an answer is not idle, however long the answer takes."""
        connection = self.core.connections.get(event.connection)
        if connection is not None and connection.session.is_idle and event.connection not in self._waiting:
            self.core.count("connections_idle_closed")
            self._forget(event.connection)
            self._effects.append(Close(event.connection))

    def _lost(self, event: Lost, moment: Moment) -> None:
        # Members live on until their sessions end, as in Kafka: the client may be back on another connection.
        self._touched.pop(event.connection, None)
        self._forget(event.connection)

    def _forget(self, number: int) -> None:
        core = self.core
        core.connections.pop(number, None)
        core.slices.leave(number)
        self._waiting.pop(number, None)
        for key in core.fetches.leave(number):
            core.purgatory.cancel(key)

    def _received(self, event: Received, moment: Moment) -> None:
        connection = self.core.connections.get(event.connection)
        if connection is None:
            return
        self._touched[event.connection] = connection
        try:
            connection.session.receive_data(event.data)
        except ProtocolViolation as violation:
            self._close(connection, str(violation))
            return
        self._bytes_to_look -= len(event.data)
        if self._bytes_to_look < 0:
            self._bytes_to_look = self._look_every_bytes
            for one in largest_backlogs(self.core):
                self._close(one, f"all unfinished requests are above {self.core.config.max_unfinished_bytes} bytes")
            if event.connection not in self.core.connections:
                return
        if connection.is_heavy and connection.session.buffered_bytes:
            self._waiting.setdefault(connection.number, connection)
            self._pause_or_resume(connection)
        else:
            self._serve_on(connection, moment)

    def _close(self, connection: Connection, reason: str) -> None:
        self.core.count("connections_violating")
        self._flush_connection(connection)
        self._forget(connection.number)
        self._effects.append(Close(connection.number, reason))

    def _serve_on(self, connection: Connection, moment: Moment) -> None:
        """Serve what the connection has sent. What is too much for this step waits for the next ones, and nothing more
        is read meanwhile: others come in between, and no flood fills the memory."""
        try:
            self._serve_requests(connection, moment)
        except ProtocolViolation as violation:
            self._close(connection, str(violation))
            return
        if self._waiting:
            self._waiting.pop(connection.number, None)
        if self._work_left <= 0 and connection.session.buffered_bytes:
            self._waiting[connection.number] = connection  # behind the others
        self._pause_or_resume(connection)

    def _pause_or_resume(self, connection: Connection) -> None:
        number = connection.number
        should_pause = number in self._waiting or connection.session.is_behind
        if should_pause != connection.is_paused:
            connection.is_paused = should_pause
            self._effects.append(Pause(number) if should_pause else Resume(number))

    def _continue(self, moment: Moment) -> None:
        """Continue what takes many steps, once a round, whatever is asked for in between."""
        if self.loads:
            self.loads.go_on(moment)
        if self.core.slices.is_ready:
            self.core.slices.go_on(self.core.outbox, moment)
        for number, connection in list(self._waiting.items()):
            if self._work_left <= 0:
                break
            self._touched[number] = connection
            self._serve_on(connection, moment)

    def _serve_requests(self, connection: Connection, moment: Moment) -> None:
        """The requests that may be served now. A heartbeat is answered on the spot."""
        session, now_ms = connection.session, moment.monotonic_ms
        while self._work_left > 0 and (request := session.next_request()) is not None:
            number, message = request
            if type(message) is Heartbeat:
                connection.out.append(session.encode_reply(number, heartbeat(self.core, message, now_ms)))
            else:
                self._serve(connection, request, moment)

    def _serve(self, connection: Connection, request: Request, moment: Moment) -> None:
        core = self.core
        ref = RequestRef(connection.number, request.number)
        if connection.session.unanswered > core.config.max_requests_per_connection:
            text = f"more than {core.config.max_requests_per_connection} requests of this connection wait"
            core.outbox.send(ref, Refused(ErrorCode.THROTTLING_QUOTA_EXCEEDED, text))
            return
        entries = cost_of(core, request.message)
        self._work_left -= entries
        connection.is_heavy = entries > _WORK_A_STEP and type(request.message) is not Produce
        if entries > core.config.max_entries_per_request and (refused := admit_size(core, request.message)):
            core.outbox.send(ref, refused)
            return
        self._routes[type(request.message)](core, ref, request.message, moment)
        if core.read_bytes >= _BYTES_A_STEP:
            self._work_left = 0

    def _asked(self, event: Call, moment: Moment) -> None:
        ref = RequestRef(INTERNAL, event.call_id)
        handler = self._routes.get(type(event.message)) or INSIDE.get(type(event.message))
        if handler is None:
            text = f"{type(event.message).__name__} is not served"
            self.core.outbox.send(ref, Refused(ErrorCode.UNSUPPORTED_VERSION, text))
        elif (refused := admit_size(self.core, event.message)) is not None:
            self.core.outbox.send(ref, refused)
        else:
            handler(self.core, ref, event.message, moment)

    def _flushed(self, event: Flushed, moment: Moment) -> None:
        core = self.core
        flushed = core.store.finish_flush(event.up_to)
        self._effects += self._disk_news.told()
        core.outbox.release(core.store.flushed)
        core.slices.unblock()
        answer_produces(core, core.purgatory.check_and_complete(FLUSHED))
        if core.fetches.watched:
            for key in advanced(flushed):
                self._nudged.add(core.purgatory.listening_to(key))
        for key in core.topics.advanced():
            self._nudged.add(core.purgatory.listening_to(key))
        self._checkpoint(force=False)

    def _checkpoint(self, *, force: bool) -> None:
        job = self.core.store.begin_checkpoint(force=force)
        if job is not None:
            self._next_call += 1
            self._effects.append(RunJob(self._next_call, job))

    def _answered(self, event: JobDone, moment: Moment) -> None:
        assert isinstance(event.reply, CheckpointJob)
        self.core.store.finish_checkpoint(event.reply)
        self.core.slices.unblock()
        self._effects += self._disk_news.told()
        if self.core.waiting_produces.waiting:
            produce_waiting(self.core, moment)
            self._checkpoint(force=False)

    def _stopping(self, event: Stopping, moment: Moment) -> None:
        unload(self.core, moment)

    # --- what follows from any event ---

    def _run_overdue(self, moment: Moment) -> None:
        purgatory = self.core.purgatory
        deadline_ms = purgatory.next_deadline_ms
        if deadline_ms is None or deadline_ms > moment.monotonic_ms:
            return
        for _ in range(_OVERDUE_A_STEP):
            events = purgatory.pop_overdue(moment.monotonic_ms)
            if events is None:
                return
            for event in events:
                self._happen(event, moment)
            if self.core.read_bytes >= _BYTES_A_STEP:
                break
        self._wants_step = True

    def _happen(self, event: Any, moment: Moment) -> None:
        """What a delayed operation turned into goes where requests go."""
        if isinstance(event, FetchReady):
            fetch_ready(self.core, event)
            return
        if isinstance(event, ProduceAnswered):
            answer_produces(self.core, (event,))
            return
        if isinstance(event, TaskDue) and event.name != _CHECKPOINT:
            scheduled_tasks.run_task(self.core, event.name, moment)
            self._checkpoint(force=False)  # cleaning may have something for it
            return
        if isinstance(event, TaskDue):
            # A full disk is tried again from time to time: a checkpoint that succeeds ends it.
            self._checkpoint(force=self.core.store.disk_full)
            self._effects += self._disk_news.told()
            self.core.store.expire_producers(moment.wall_ms, self.core.config.producer_id_expiration_ms)
            self._watch_chore(moment)
            return
        shard, group = self.core.find(event.group_id)
        if isinstance(event, LeaseOverdue):
            balanced = shard.balanced.get(event.group_id)
            if balanced is not None:
                shard.process(balanced, event, moment)
        elif group is not None:
            shard.process(group, event, moment)

    def _watch_chore(self, moment: Moment) -> None:
        self.core.purgatory.try_complete_else_watch(
            ScheduledTask(_CHECKPOINT, moment.monotonic_ms + _CHECKPOINT_EVERY_MS)
        )

    def snapshots(self) -> Iterator[NewAid]:
        """What the next start should find beside the logs, once this one has stopped and its logs are whole."""
        return to_keep(self.core.shards)

    def _send_out(self, moment: Moment) -> None:
        """Encode what is ready, a slice a step; replies may release further requests of their connection."""
        outbox, budget, encoded = self.core.outbox, _REPLIES_A_STEP, 0
        while outbox.ready and budget and encoded < _BYTES_A_STEP:
            ref, reply = outbox.ready.popleft()
            encoded += self._encode(ref, reply, moment)
            budget -= 1
        last: tuple[Message | None, str] = (None, "")  # a whole group is told the same: encoded once
        data = b""
        while outbox.pushes and budget and encoded < _BYTES_A_STEP:
            number, message = outbox.pushes.popleft()
            connection = self.core.connections.get(number)
            if connection is not None:
                if message is not last[0] or connection.dialect != last[1]:
                    last, data = (message, connection.dialect), connection.session.encode_push(message)
                connection.out.append(data)
                self._touched[number] = connection
                encoded += len(data)
            budget -= 1
        for number, connection in self._touched.items():
            self._flush_connection(connection)
            if connection.has_ended and connection.session.is_idle and number not in self._waiting:
                self._forget(number)
                self._effects.append(Close(number))
        self._touched.clear()

    def _encode(self, ref: RequestRef, reply: Message, moment: Moment) -> int:
        if ref.connection == INTERNAL:
            self._effects.append(Return(ref.number, reply))
            return 0
        if (connection := self.core.connections.get(ref.connection)) is None:
            return 0
        data = connection.session.encode_reply(ref.number, reply)
        connection.out.append(data)
        self._touched[ref.connection] = connection
        if connection.session.buffered_bytes or connection.is_paused:
            self._serve_on(connection, moment)
        return len(data)

    def _flush_connection(self, connection: Connection) -> None:
        if own := connection.session.take_data():
            connection.out.append(own)
        if connection.out:
            data = connection.out[0] if len(connection.out) == 1 else b"".join(connection.out)
            connection.out.clear()
            if data:
                self._effects.append(Send(connection.number, data))
