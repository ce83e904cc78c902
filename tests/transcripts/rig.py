"""The real node on a simulated disk and a clock that only tests move, with everything that it does logged.

Requests travel as bytes of the native dialect. After every step the checkers run (`check`).
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any, Self
from unittest.mock import patch

from coordinator.clock import Moment
from coordinator.config.config import Config
from coordinator.groups.classic import applying
from coordinator.groups.classic.delayed import GroupOperation
from coordinator.groups.classic.events import GroupEvent, Unloaded
from coordinator.groups.classic.group_states import GroupState
from coordinator.groups.classic.state import ClassicGroup
from coordinator.groups.outcome import Outcome
from coordinator.node.effects import Close, Effect, Flush, LogError, LogNote, Return, RunJob, Send
from coordinator.node.events import Call, Event, Flushed, JobDone, Lost, Opened, Received, Stopping, Woke
from coordinator.node.node import Node
from coordinator.records.codec import decode, decode_marker
from coordinator.records.records import Note
from coordinator.runtime import shard as shard_module
from coordinator.runtime.group import Group
from coordinator.runtime.kinds.group_kinds import handle
from coordinator.runtime.loader import load
from coordinator.runtime.outbox import Outbox
from coordinator.runtime.shard import Shard, ShardState, ShardTools
from coordinator.runtime.shard_log import ShardLog
from partition_log.errors import AppendError
from partition_log.store.log_store import LogStore, StoreLimits
from protocol.messages import Message
from protocol.messages.topics import CreatableTopic, CreateTopics
from protocol.native.client import NativeClient, Push
from protocol.record_batch import decode_batch, encode_batch, read_header
from purgatory.purgatory import DelayedOperation, DelayedOperationPurgatory
from tests.groups.checks import CountingIds, check_kinds, check_same
from tests.simulation.disk import SimDisk
from tests.transcripts import lines

WALL_MS = 1_700_000_000_000
TOPICS = {"t": 4, "foo": 2, "bar": 2}


class Link:
    """One connection's client side."""

    def __init__(self, number: int) -> None:
        self.number = number
        self._client = NativeClient(1 << 24)
        self._asked: dict[int, Message] = {}

    def request(self, message: Message) -> bytes:
        number, data = self._client.encode_request(message)
        self._asked[number] = message
        return data

    def received(self, data: bytes) -> Iterator[tuple[Message | None, Message]]:
        """(request, its reply), or (None, a push). An answer to no request, or a second one, raises."""
        for said in self._client.receive_data(data):
            if isinstance(said, Push):
                yield None, said.message
            else:
                yield self._asked.pop(said.number), said.reply


class Rig:
    """`told` takes each line of output; `answered` each reply and push with its connection."""

    def __init__(
        self,
        config: Config,
        told: Callable[[str], None],
        answered: Callable[[int, Message | None, Message], None],
    ) -> None:
        self.config = config
        self.now_ms = 0
        self.wall_ms = WALL_MS
        """Wall time at `now_ms` 0."""
        self.holds_disk = False
        self.fails: AppendError | None = None
        self._told, self._answered = told, answered
        self._disk = SimDisk(1)
        self._ids = CountingIds()
        self._links: dict[int, Link] = {}
        self._flush: Flush | None = None
        self._rebalances = 0
        self._notes = 0
        self._calls = 0
        self._opened = 0
        self._quiet = True
        self._patches = ExitStack()
        self.node = self._boot()
        self.ask(CreateTopics(tuple(CreatableTopic(name, count) for name, count in TOPICS.items())))
        self._quiet = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self._patches.close()

    # --- the world ---

    @property
    def moment(self) -> Moment:
        return Moment(self.now_ms, self.wall_ms + self.now_ms)

    def open_link(self) -> Link:
        self._opened += 1
        link = Link(self._opened)
        self._links[link.number] = link
        self.feed(Opened(link.number, "native", f"10.0.0.{link.number}"))
        return link

    def send(self, link: Link, message: Message) -> None:
        self.feed(Received(link.number, link.request(message)))

    def lose(self, link: Link) -> None:
        del self._links[link.number]
        self.feed(Lost(link.number))

    def ask(self, message: Message) -> None:
        self._calls += 1
        self.feed(Call(self._calls, message))

    def wait(self, duration_ms: int) -> None:
        """Let time pass; the node is woken when it asked to be."""
        until_ms = self.now_ms + duration_ms
        start_ms = self.now_ms
        while (deadline_ms := self.node.next_deadline_ms) is not None and deadline_ms <= until_ms:
            self.now_ms = max(self.now_ms, deadline_ms)
            self._passed(start_ms)
            self.feed(Woke())
        self.now_ms = until_ms
        self._passed(start_ms)
        self.feed(Woke())

    def stall(self, duration_ms: int) -> None:
        """Let time pass without waking the node: it reads what arrives next before any deadline expires."""
        self.now_ms += duration_ms

    def _passed(self, start_ms: int) -> None:
        self._tell(f"-- after {lines.duration(self.now_ms - start_ms)}")

    def feed(self, event: Event) -> None:
        """Step the node with an event, and with all that follows from it at the same time."""
        self._step(event)
        while not self.holds_disk and self._flush is not None:
            self._run_flush()
        while (deadline_ms := self.node.next_deadline_ms) is not None and deadline_ms <= self.now_ms:
            self._step(Woke())
            while not self.holds_disk and self._flush is not None:
                self._run_flush()

    def release_disk(self) -> None:
        self.holds_disk = False
        self.feed(Woke())

    def crash(self) -> None:
        """Stop the machine: data not synced is lost, and so are all connections."""
        self._disk.crash()
        self._start_again()

    def restart(self) -> None:
        """Stop the daemon cleanly, and start it again."""
        self.feed(Stopping())
        while self._flush is not None:
            self._run_flush()
        self.node.core.store.close()
        self._start_again()

    def stop(self) -> None:
        self.feed(Stopping())

    def unload(self) -> None:
        """Every group is dead, in the moment before its shard is known to be served elsewhere."""
        for group in list(self.node.core.directory.values()):
            group.shard.process(group, Unloaded(group.group_id), self.moment)
        self.feed(Woke())

    def _start_again(self) -> None:
        self._patches.close()
        self._links.clear()
        self._opened, self._flush = 0, None
        quiet, self._quiet = self._quiet, True
        self.node = self._boot()
        self._quiet = quiet
        for shard in self.node.core.shards:
            for group in shard.groups.values():
                self._tell(f"loaded {lines.group(group.classic)}")

    def _boot(self) -> Node:
        limits = StoreLimits(wal_segment_bytes=1 << 18, checkpoint_bytes=1 << 17, max_batch_bytes=1 << 16)
        store = LogStore(self._disk, "data", limits)
        store.open()
        node = self.node = Node(self.config, store, self._ids, {"native": ("muster", 9390)}, self.moment)
        self._listen(node)
        while not node.is_loaded:
            self.feed(Woke())
        return node

    # --- the node's effects ---

    def _step(self, event: Event) -> None:
        for effect in self.node.step(event, self.moment):
            self._carry_out(effect)
        self.check()

    def _carry_out(self, effect: Effect) -> None:
        match effect:
            case Send():
                link = self._links.get(effect.connection)
                for request, message in link.received(effect.data) if link is not None else ():
                    self._answered(effect.connection, request, message)
            case Flush():
                assert self._flush is None
                self._flush = effect
            case RunJob():
                effect.job.run(self._disk)
                self._step(JobDone(effect.call_id, effect.job))
            case Close():
                self._tell(f"connection {effect.connection} closed: {effect.reason}")
                self._links.pop(effect.connection, None)
            case LogError():
                self._tell(effect.sentence)
            case LogNote():
                pass  # the notes themselves are told
            case Return():
                if not self._quiet:
                    self._answered(-1, None, effect.reply)
            case _:
                raise AssertionError(f"not expected: {effect}")

    def _run_flush(self) -> None:
        assert self._flush is not None
        job, self._flush = self._flush.job, None
        job.run(self._disk)
        self._step(Flushed(job.up_to))

    # --- what is written down ---

    def _tell(self, line: str) -> None:
        if not self._quiet:
            self._told(line)

    def _listen(self, node: Node) -> None:
        """Every transition, watched and cancelled operation, appended record, note."""
        enter = self._patches.enter_context
        enter(patch.object(shard_module, "handle", self._handle))
        enter(patch.object(applying, "apply", self._telling_state(applying.apply)))
        enter(patch.object(ClassicGroup, "become", self._counting_rebalances(ClassicGroup.become)))
        self._listen_to_purgatory(node.core.purgatory)
        for shard in node.core.shards:
            self._listen_to_log(shard.log)
        add = node.core.journal.add

        def added(note: Note) -> Note | None:
            self._notes += note.kind == "rebalance"
            self._tell(lines.note(note))
            return add(note)

        enter(patch.object(node.core.journal, "add", added))

    def _handle(self, group: Group, event: Any, out: Outcome) -> None:
        self._telling_state(lambda _classic: handle(group, event, out))(group.classic)

    def _telling_state(self, function: Callable[..., None]) -> Callable[..., None]:
        def tell(group: ClassicGroup, *arguments: Any, **named: Any) -> None:
            before = group.state
            function(group, *arguments, **named)
            if group.state is not before:
                self._tell(f"{before.title} -> {group.state.title}")

        return tell

    def _counting_rebalances(self, become: Callable[..., None]) -> Callable[..., None]:
        def counted(group: ClassicGroup, state: GroupState, wall_ms: int) -> None:
            self._rebalances += state is GroupState.PREPARING
            become(group, state, wall_ms)

        return counted

    def _listen_to_purgatory(self, purgatory: DelayedOperationPurgatory[Any]) -> None:
        enter = self._patches.enter_context
        watch, notify, overdue, cancel = (
            purgatory.try_complete_else_watch,
            purgatory.check_and_complete,
            purgatory.pop_overdue,
            purgatory.cancel,
        )

        def watched(operation: DelayedOperation[Any], notified_by: Any = ()) -> list[Any]:
            cancel(operation.key)
            events = watch(operation, notified_by)
            if operation.key in purgatory and isinstance(operation, GroupOperation):
                self._tell(lines.watched(operation, self.now_ms))
            return events

        def cancelled(key: Any) -> Any:
            operation = cancel(key)
            if isinstance(operation, GroupOperation):
                self._tell(f"cancel {lines.operation(operation)}")
            return operation

        def notified(key: Any) -> list[Any]:
            operation = purgatory.get(key)
            events = notify(key)
            if isinstance(operation, GroupOperation) and key not in purgatory:
                self._tell(f"satisfied {lines.operation(operation)}")
            return events

        def came_due(now_ms: int) -> list[Any] | None:
            events = overdue(now_ms)
            for event in events or ():
                if not isinstance(event, GroupEvent):
                    continue
                self._tell(f"overdue {lines.event(event)}")
            return events

        enter(patch.object(purgatory, "try_complete_else_watch", watched))
        enter(patch.object(purgatory, "cancel", cancelled))
        enter(patch.object(purgatory, "check_and_complete", notified))
        enter(patch.object(purgatory, "pop_overdue", came_due))

    def _listen_to_log(self, log: ShardLog) -> None:
        append = log.append

        def appended(batch: bytes, **options: Any) -> Any:
            if self.fails is not None:
                failed, self.fails = self.fails, None
                self._tell(f"append fails: {failed.name}")
                return failed
            result = append(batch, **options)
            if not self._quiet:
                header = read_header(batch)
                pending = f", pending of producer {header.producer_id}" if header.is_transactional else ""
                for entry in decode_batch(batch):
                    if header.is_control:
                        self._tell(lines.marker(decode_marker(header, entry.key, entry.value)))
                    else:
                        self._tell(lines.record(decode(entry.key, entry.value)) + pending)
            return result

        self._patches.enter_context(patch.object(log, "append", appended))

    def append_unlisted(self, group_id: str, pairs: list[tuple[bytes, bytes | None]]) -> None:
        """Put records into the log that the group's shard reads when it starts."""
        core = self.node.core
        log = core.shard_of(group_id).log
        batch = encode_batch(pairs, timestamp_ms=self.moment.wall_ms)
        with patch.object(self, "_quiet", True):
            log.append(batch)
            self.feed(Woke())

    # --- the checkers ---

    def check(self) -> None:
        """Check the invariants after a step."""
        core = self.node.core
        for shard in core.shards:
            for group in shard.groups.values():
                check_kinds(group, core.purgatory)
        assert self._notes == self._rebalances, "each rebalance has exactly one note"

    def check_replay(self) -> None:
        """Check that loading the present log gives the live durable state."""
        core = self.node.core
        for live in core.shards:
            tools = ShardTools(
                DelayedOperationPurgatory(0),
                core.journal,
                live.log,
                Outbox(0),
                self._ids,
                live._tools.settings,
                1 << 24,
                {},
            )
            with patch.object(self, "_quiet", True), patch.object(self, "_rebalances", 0):
                loaded = Shard(live.index, live.log, tools)
                for _ in load(loaded, self.moment):
                    pass
            if live.state is ShardState.ACTIVE:
                assert loaded.state is ShardState.ACTIVE, loaded.failure
                check_same(live, loaded)
