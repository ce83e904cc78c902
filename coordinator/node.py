"""`Node`: the whole service minus its I/O. `step(event, moment) -> effects` is the one method that matters.

It never awaits, reads no clock and opens no socket; a step runs to completion and nothing interleaves. That sentence
replaces the group lock and the class of races in which expiry and heartbeat meet.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

from coordinator import upkeep
from coordinator.chores import Chore, ChoreDue
from coordinator.config import Config
from coordinator.core import ASKED, Connection, Core
from coordinator.dialects import make_dialects
from coordinator.effects import Ask, Close, Effect, Flush, Pause, Replied, Resume, Send
from coordinator.events import Answered, Asked, Event, Flushed, Lost, Opened, Received, Stopping, Woke
from coordinator.gates import entries_of, size_gate
from coordinator.group_configs import GroupConfigs
from coordinator.group_requests import heartbeat
from coordinator.groups.classic.events import Unloaded
from coordinator.groups.classic.state import Group
from coordinator.groups.outcome import IdSource
from coordinator.journal import Journal, decode_note
from coordinator.moment import Moment
from coordinator.outbox import Outbox
from coordinator.placement import Placement
from coordinator.produce_requests import produce_waiting
from coordinator.producing import ProducerIdSource
from coordinator.retention import Retention
from coordinator.routes import INSIDE, ROUTES
from coordinator.shard import Shard, ShardState, ShardTools
from coordinator.topics import EmbeddedTopics, FetchReady, TopicIdSource
from coordinator.topics import settings_from as topic_settings_from
from partition_log.cleaning import Compact, Retain
from partition_log.store import CheckpointJob, LogStore
from protocol.errors import ErrorCode, ProtocolViolation
from protocol.messages import Message
from protocol.messages.groups import Heartbeat
from protocol.messages.node import Refused
from protocol.record_batch import decode_batch
from protocol.session import Request, RequestRef
from purgatory.purgatory import DelayedOperationPurgatory

_REPLIES_A_STEP = 256
_BYTES_A_STEP = 256 * 1024
_OVERDUE_A_STEP = 256
_WORK_A_STEP = 5_000
"""Entries (see `sizes`) that are served of one connection, or of all that wait, before others have their turn."""
_REPLIES_IN_WAITING = 16_384
"""Replies made and not yet encoded; beyond them no requests are served."""
_CHECKPOINT, _CHECKPOINT_EVERY_MS = "checkpoint", 1_000
_NOTES_LOG = "__muster_notes-0"
_OFFSETS_LOG = "__consumer_offsets"


class Ids(IdSource, TopicIdSource, ProducerIdSource, Protocol):
    """All sources of unguessable ids."""


class Node:
    """One process's share of the service. `addresses` says where clients of each dialect reach it; `store` must be
    open."""

    def __init__(
        self,
        config: Config,
        store: LogStore,
        ids: Ids,
        addresses: Mapping[str, tuple[str, int]],
        started: Moment,
    ) -> None:
        purgatory: DelayedOperationPurgatory[Any] = DelayedOperationPurgatory(started.monotonic_ms)
        journal = Journal(config.journal_notes_per_group, config.max_groups)
        outbox = Outbox(store.flushed)
        notes_log = store.log(_NOTES_LOG, Retain())
        directory: dict[str, tuple[Shard, Group]] = {}
        group_configs = GroupConfigs(store, config)
        group_configs.load()
        tools = ShardTools(
            store=store,
            purgatory=purgatory,
            journal=journal,
            notes_log=notes_log,
            outbox=outbox,
            ids=ids,
            settings=group_configs.settings,
            overrides=group_configs.overrides,
            max_batch_bytes=config.offsets_topic_max_message_bytes,
            directory=directory,
        )
        shards = [
            Shard(
                index,
                store.log(f"{_OFFSETS_LOG}-{index}", Compact(segment_bytes=config.offsets_topic_segment_bytes)),
                tools,
            )
            for index in range(config.offsets_topic_num_partitions)
        ]
        placement = Placement(config.node_id, len(shards), dict(addresses))
        self.core = Core(
            config=config,
            placement=placement,
            store=store,
            topics=EmbeddedTopics(store, topic_settings_from(config), ids, placement),
            purgatory=purgatory,
            journal=journal,
            outbox=outbox,
            shards=shards,
            cluster_id=store.identity.cluster_id,
            started=started,
            directory=directory,
            producer_ids=ids,
            group_configs=group_configs,
            retention=Retention(config.log_retention_check_interval_ms),
        )
        self.core.topics.load()
        for _header, data in notes_log.batches_from(notes_log.start_offset):
            for entry in decode_batch(bytes(data)):
                if entry.value is not None:
                    journal.add(decode_note(entry.value), live=False)
        self._dialects = make_dialects(config)
        self._loads: list[Iterator[None]] = [shard.load(started) for shard in shards]
        self._effects: list[Effect] = []
        self._touched: dict[int, Connection] = {}
        self._handlers: dict[type, Callable[[Any, Moment], None]] = {
            Received: self._received,
            Woke: self._woke,
            Flushed: self._flushed,
            Opened: self._opened,
            Lost: self._lost,
            Answered: self._answered,
            Asked: self._asked,
            Stopping: self._stopping,
        }
        # Connections that sent more than one step may serve; nothing is read from them meanwhile.
        self._waiting: dict[int, Connection] = {}
        self._work_left = 0
        self._next_call = 0
        self._watch_chore(started)
        upkeep.begin(self.core, started)
        self._wants_step = True

    @property
    def next_deadline_ms(self) -> int | None:
        """When the node wants to be woken (`Woke`) if nothing else happens; a time already past means at once."""
        outbox = self.core.outbox
        if self._wants_step or self._waiting or outbox.ready or outbox.pushes:
            return -(2**62)
        return self.core.purgatory.next_deadline_ms

    @property
    def is_loaded(self) -> bool:
        """Whether every shard has been loaded, or has failed to."""
        return not self._loads

    def step(self, event: Event, moment: Moment) -> list[Effect]:
        """Let the event happen; what the world should do about it, in order."""
        self._work_left = _WORK_A_STEP if len(self.core.outbox.ready) < _REPLIES_IN_WAITING else 0
        self._handlers[type(event)](event, moment)
        self._wants_step = False
        self._run_overdue(moment)
        if self._loads:
            self._load_on(moment)
        if self._waiting:
            self._serve_waiting(moment)
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
        session = self._dialects[event.dialect].open()
        connection = Connection(event.connection, event.dialect, event.peer_host, session)
        if len(core.connections) >= core.config.max_connections:
            core.count("connections_refused")
            self._effects.append(Close(event.connection, f"more than {core.config.max_connections} connections"))
            return
        core.connections[event.connection] = connection
        core.count("connections_opened")

    def _lost(self, event: Lost, moment: Moment) -> None:
        # Members live on until their sessions end, as in Kafka: the client may be back on another connection.
        self.core.connections.pop(event.connection, None)
        self._touched.pop(event.connection, None)
        self._waiting.pop(event.connection, None)

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
        self._serve_on(connection, moment)

    def _close(self, connection: Connection, reason: str) -> None:
        self.core.count("connections_violating")
        self._flush_connection(connection)
        self.core.connections.pop(connection.number, None)
        self._waiting.pop(connection.number, None)
        self._effects.append(Close(connection.number, reason))

    def _serve_on(self, connection: Connection, moment: Moment) -> None:
        """Serve what the connection has sent. What is too much for this step waits for the next ones, and nothing more
        is read meanwhile: others come in between, and no flood fills the memory."""
        try:
            self._serve_requests(connection, moment)
        except ProtocolViolation as violation:
            self._close(connection, str(violation))
            return
        number = connection.number
        if self._work_left <= 0:
            self._waiting[number] = connection
        elif self._waiting:
            self._waiting.pop(number, None)
        should_pause = number in self._waiting or connection.session.is_behind
        if should_pause != connection.is_paused:
            connection.is_paused = should_pause
            self._effects.append(Pause(number) if should_pause else Resume(number))

    def _serve_waiting(self, moment: Moment) -> None:
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
        entries = entries_of(core, request.message)
        self._work_left -= entries
        if entries > core.config.max_entries_per_request and (refused := size_gate(core, request.message)):
            core.outbox.send(ref, refused)
            return
        ROUTES[type(request.message)](core, ref, request.message, moment)

    def _asked(self, event: Asked, moment: Moment) -> None:
        ref = RequestRef(ASKED, event.call_id)
        handler = ROUTES.get(type(event.message)) or INSIDE.get(type(event.message))
        if handler is None:
            text = f"{type(event.message).__name__} is not served"
            self.core.outbox.send(ref, Refused(ErrorCode.UNSUPPORTED_VERSION, text))
        elif (refused := size_gate(self.core, event.message)) is not None:
            self.core.outbox.send(ref, refused)
        else:
            handler(self.core, ref, event.message, moment)

    def _flushed(self, event: Flushed, moment: Moment) -> None:
        core = self.core
        core.store.finish_flush(event.up_to)
        core.outbox.release(core.store.flushed)
        for key in core.topics.advanced():
            for ready in core.purgatory.check_and_complete(key):
                self._happen(ready, moment)
        self._checkpoint(force=False)

    def _checkpoint(self, *, force: bool) -> None:
        job = self.core.store.begin_checkpoint(force=force)
        if job is not None:
            self._next_call += 1
            self._effects.append(Ask(self._next_call, job))

    def _answered(self, event: Answered, moment: Moment) -> None:
        assert isinstance(event.reply, CheckpointJob)
        self.core.store.finish_checkpoint(event.reply)
        if self.core.waiting_produces.waiting:
            produce_waiting(self.core, moment)
            self._checkpoint(force=False)

    def _stopping(self, event: Stopping, moment: Moment) -> None:
        """Nobody is left waiting for a group: parked joins and syncs, and whoever asks from now on, are told to look
        elsewhere. Fetches that wait end with their connections."""
        for shard, group in list(self.core.directory.values()):
            shard.process(group, Unloaded(group.group_id), moment)
        for shard in self.core.shards:
            shard.state = ShardState.UNLOADED
        self._loads.clear()

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
        self._wants_step = True

    def _happen(self, event: Any, moment: Moment) -> None:
        """What a delayed operation turned into goes where requests go."""
        if isinstance(event, FetchReady):
            if event.ref.connection not in self.core.connections and event.ref.connection != ASKED:
                return  # nobody is there to read what would be read
            self.core.outbox.send(event.ref, self.core.topics.fetch_now(event.message))
            return
        if isinstance(event, ChoreDue) and event.name != _CHECKPOINT:
            upkeep.run_chore(self.core, event.name, moment)
            return
        if isinstance(event, ChoreDue):
            # A full disk is tried again from time to time: a checkpoint that succeeds ends it.
            self._checkpoint(force=self.core.store.disk_full)
            self.core.store.expire_producers(moment.wall_ms, self.core.config.producer_id_expiration_ms)
            self._watch_chore(moment)
            return
        shard, group = self.core.find(event.group_id)
        if group is not None:
            shard.process(group, event, moment)

    def _watch_chore(self, moment: Moment) -> None:
        self.core.purgatory.try_complete_else_watch(Chore(_CHECKPOINT, moment.monotonic_ms + _CHECKPOINT_EVERY_MS))

    def _load_on(self, moment: Moment) -> None:
        if next(self._loads[-1], self) is self:
            self._loads.pop()
        self._wants_step = bool(self._loads)

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
        for connection in self._touched.values():
            self._flush_connection(connection)
        self._touched.clear()

    def _encode(self, ref: RequestRef, reply: Message, moment: Moment) -> int:
        if ref.connection == ASKED:
            self._effects.append(Replied(ref.number, reply))
            return 0
        connection = self.core.connections.get(ref.connection)
        if connection is None:
            return 0
        data = connection.session.encode_reply(ref.number, reply)
        connection.out.append(data)
        self._touched[ref.connection] = connection
        if connection.session.buffered_bytes or connection.is_paused:
            self._serve_on(connection, moment)
        return len(data)

    def _flush_connection(self, connection: Connection) -> None:
        own = connection.session.take_data()
        if own:
            connection.out.append(own)
        if connection.out:
            data = connection.out[0] if len(connection.out) == 1 else b"".join(connection.out)
            connection.out.clear()
            if data:
                self._effects.append(Send(connection.number, data))
