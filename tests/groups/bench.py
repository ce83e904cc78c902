"""A rig for a shard: real groups, purgatory, outbox and record bytes over a log in memory. Requests become the same
events as in the node; replies are kept, and a second reply to one request is an error. `check` verifies invariants
after every step.
"""

from collections.abc import Iterator
from typing import Any, cast
from unittest.mock import patch

from coordinator.clock import Moment
from coordinator.groups.classic import applying
from coordinator.groups.classic.events import Client, GroupEvent, Leave, Sync, joined
from coordinator.groups.classic.group_states import GroupSettings, GroupState
from coordinator.groups.classic.state import ClassicGroup
from coordinator.groups.classic.table import answer
from coordinator.handlers.offset_commit import refused_topics
from coordinator.records.records import TransactionEnded
from coordinator.runtime.group import Group
from coordinator.runtime.journal import Journal
from coordinator.runtime.loader import load
from coordinator.runtime.outbox import Outbox
from coordinator.runtime.shard import Shard, ShardState, ShardTools
from partition_log.errors import AppendError
from partition_log.store.log_store import Appended
from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.messages.groups import Heartbeat, JoinGroup, JoinProtocol, LeaveGroup, SyncGroup
from protocol.messages.offsets import OffsetCommit, OffsetCommitReply, TxnOffsetCommit, TxnOffsetCommitReply
from protocol.record_batch import check_batch, read_header, stamp
from protocol.session import RequestRef
from purgatory.purgatory import DelayedOperationPurgatory
from tests.groups.checks import CountingIds, check_counts, check_expirations, check_kinds, check_same

WALL_MS = 1_700_000_000_000
RANGE = (JoinProtocol("range", b"r"),)


class MemoryLog:
    """The part of a `ShardLog` that a shard uses."""

    start_offset = size_bytes = 0
    name = "__consumer_offsets-0"

    def __init__(self) -> None:
        self.batches: list[bytes] = []
        self.next_offset = 0
        self.position = 0
        self.fails: AppendError | None = None
        """Refusal of the next append."""

    def append(self, batch: bytes) -> Appended | AppendError:
        if self.fails is not None:
            failed, self.fails = self.fails, None
            return failed
        self.batches.append(stamp(batch, self.next_offset))
        base_offset, self.next_offset = self.next_offset, read_header(self.batches[-1]).next_offset
        self.position += len(batch)
        return Appended(base_offset, self.next_offset, self.position)

    def newest_state_snapshot(self) -> None:
        return None

    def batches_from(self, offset: int) -> Iterator[tuple[Any, bytes]]:
        for batch in self.batches:
            yield read_header(batch), batch


class Bench:
    def __init__(self, settings: GroupSettings | None = None) -> None:
        self.settings = settings or GroupSettings(initial_rebalance_delay_ms=3_000)
        self.now_ms = 0
        self.log = MemoryLog()
        self.ids = CountingIds()
        self.journal = Journal(10_000)
        self.outbox = Outbox(2**62)
        self.purgatory: DelayedOperationPurgatory[Any] = DelayedOperationPurgatory(0)
        self.rebalances = 0
        self.moves: list[tuple[GroupState, GroupState]] = []
        self.waiting: dict[RequestRef, Message] = {}
        self.replies: dict[RequestRef, Message] = {}
        self.pushes: list[tuple[int, Message]] = []
        self._number = 0
        self.shard = self._load()

    def _load(self) -> Shard:
        tools = ShardTools(
            purgatory=self.purgatory,
            journal=self.journal,
            notes_log=cast(Any, MemoryLog()),
            outbox=self.outbox,
            ids=self.ids,
            settings=self.settings,
            max_batch_bytes=1 << 20,
            directory={},
        )
        shard = Shard(0, cast(Any, self.log), tools)
        with self._watching():
            for _ in load(shard, self.moment):
                pass
        assert shard.state is ShardState.ACTIVE, shard.failure
        return shard

    def crash(self) -> None:
        """Crash: everything except the log is lost, including pending requests."""
        self.waiting.clear()
        self.purgatory = DelayedOperationPurgatory(self.now_ms)
        self.shard = self._load()
        self.check()

    @property
    def moment(self) -> Moment:
        return Moment(self.now_ms, WALL_MS + self.now_ms)

    @property
    def group(self) -> ClassicGroup:
        return self.shard.groups["g"].classic

    # --- requests ---

    def ask(self, message: Message, connection: int = 1) -> RequestRef:
        """Send a request to group `g`, which a JoinGroup or a commit creates if necessary."""
        self._number += 1
        ref = RequestRef(connection, self._number)
        self.waiting[ref] = message
        group = self.shard.groups.get("g")
        if group is None:
            if isinstance(message, OffsetCommit | TxnOffsetCommit):
                group = self.shard.new_group("g")
            else:
                made = self.shard.create("g", self.moment)
                if isinstance(made, ErrorCode):
                    del self.waiting[ref]
                    return ref
                group = made
        if isinstance(message, OffsetCommit | TxnOffsetCommit):
            self._store(group, ref, message)
        else:
            self.happen(_event(group.classic, ref, message), group)
        return ref

    def _store(self, group: Group, ref: RequestRef, message: OffsetCommit | TxnOffsetCommit) -> None:
        stored = self.shard.store(group, message, self.moment)
        if isinstance(stored, ErrorCode):
            kind = OffsetCommitReply if isinstance(message, OffsetCommit) else TxnOffsetCommitReply
            stored = kind(refused_topics(message.topics, stored))
        self.outbox.hold(self.shard.outbox.position_of(group.group_id), ref, stored)
        self._drain()
        self.check()

    def end_transaction(self, producer_id: int, *, is_committed: bool) -> int | ErrorCode:
        ended = self.shard.end_transaction(TransactionEnded(producer_id, 0, is_committed), self.moment)
        self.check()
        return ended if isinstance(ended, ErrorCode) else ended.position

    def heartbeat(self, member_id: str, generation_id: int, instance: str | None = None) -> ErrorCode:
        heard = answer(self.group, Heartbeat("g", generation_id, member_id, instance), self.now_ms)
        self.check()
        return heard

    def happen(self, event: GroupEvent, group: Group | None = None) -> None:
        with self._watching():
            self.shard.process(group or self.shard.groups["g"], event, self.moment)
        self._drain()
        self.check()

    def wait(self, duration_ms: int) -> None:
        """Let time pass, and run overdue operations at their deadlines."""
        until_ms = self.now_ms + duration_ms
        while (deadline_ms := self.purgatory.next_deadline_ms) is not None and deadline_ms <= until_ms:
            self.now_ms = max(self.now_ms, deadline_ms)
            while (events := self.purgatory.pop_overdue(self.now_ms)) is not None:
                for event in events:
                    if event.group_id in self.shard.groups:
                        self.happen(event, self.shard.groups[event.group_id])
        self.now_ms = until_ms
        self.check()

    def _drain(self) -> None:
        while self.outbox.ready:
            ref, reply = self.outbox.ready.popleft()
            assert self.waiting.pop(ref, None) is not None, f"{ref} is answered twice, or was never asked: {reply}"
            self.replies[ref] = reply
        while self.outbox.pushes:
            self.pushes.append(self.outbox.pushes.popleft())

    def reply(self, ref: RequestRef) -> Any:
        """Return the reply to a request; None while it waits."""
        return self.replies.get(ref)

    # --- checks ---

    def _watching(self) -> Any:
        """Record every change of a group's state, and count every rebalance."""
        become = ClassicGroup.become

        def watched(group: ClassicGroup, state: GroupState, wall_ms: int) -> None:
            self.moves.append((group.state, state))
            self.rebalances += state is GroupState.PREPARING
            become(group, state, wall_ms)

        apply = applying.apply

        def applied(group: ClassicGroup, record: Any, *, live: bool) -> None:
            before = group.state
            apply(group, record, live=live)
            if live:
                self.moves.append((before, group.state))

        return _Both(patch.object(ClassicGroup, "become", watched), patch.object(applying, "apply", applied))

    def check(self) -> None:
        check_counts(self.shard)
        check_expirations(self.shard)
        for group in self.shard.groups.values():
            check_kinds(group, self.purgatory)
        noted = sum(note.times for note in self.journal.notes() if note.kind == "rebalance")
        assert self.rebalances == noted, "each rebalance has one note"
        self._check_waiting()

    def _check_waiting(self) -> None:
        """Check that every unanswered request is parked, so that some event answers it."""
        parked = {
            ref
            for group in self.shard.groups.values()
            for member in group.classic.members.values()
            for ref in (member.join_ref, member.sync_ref)
            if ref is not None
        }
        assert self.waiting.keys() == parked, "a request is lost, or answered and still parked"

    def check_replay(self) -> None:
        """Check that a second shard that loads the log gets the same hard state."""
        for batch in self.log.batches:
            check_batch(batch)
        purgatory, self.purgatory = self.purgatory, DelayedOperationPurgatory(self.now_ms)
        outbox, self.outbox = self.outbox, Outbox(2**62)
        journal, self.journal = self.journal, Journal(1)
        rebalances, moves = self.rebalances, list(self.moves)
        try:
            check_same(self.shard, self._load())
        finally:
            self.purgatory, self.outbox, self.journal = purgatory, outbox, journal
            self.rebalances, self.moves = rebalances, moves


class _Both:
    def __init__(self, *contexts: Any) -> None:
        self._contexts = contexts

    def __enter__(self) -> None:
        for context in self._contexts:
            context.__enter__()

    def __exit__(self, *exc: object) -> None:
        for context in reversed(self._contexts):
            context.__exit__(*cast(Any, exc))


def _event(group: ClassicGroup, ref: RequestRef, message: Message) -> GroupEvent:
    match message:
        case JoinGroup():
            return joined(group, ref, message, Client(f"c{ref.connection}", "/10.0.0.1"))
        case SyncGroup():
            return Sync(ref, message)
        case LeaveGroup():
            return Leave(ref, message)
    raise AssertionError(f"{type(message).__name__} is not for here")


def join(member_id: str = "", **fields: Any) -> JoinGroup:
    """Return a JoinGroup, by default one of an old client, which is parked at once."""
    given = {
        "session_timeout_ms": 10_000,
        "rebalance_timeout_ms": 20_000,
        "protocol_type": "consumer",
        "protocols": RANGE,
        "wants_member_id_first": False,
    }
    return JoinGroup("g", member_id=member_id, **cast(Any, given | fields))
