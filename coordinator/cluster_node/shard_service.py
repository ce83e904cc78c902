"""One shard at one node: its log is applied to the state, and its groups are served while this node owns it."""

from collections.abc import Callable, Iterator
from functools import partial

import msgspec

from coordinator.clock import Moment
from coordinator.cluster_log.effects import (
    KeysToRepair,
    LogEndRead,
    LogReplayed,
    OffsetsPending,
    ShardEffect,
    ShardHandedOver,
    ShardLost,
    ShardOwned,
    StateDropped,
    TransactionDecided,
    WritesDurable,
)
from coordinator.cluster_log.events import OwnershipRevoked, ShardEvent
from coordinator.cluster_node.repair import present_values
from coordinator.cluster_node.replay import Replay
from coordinator.cluster_node.shard_log import ClusterLog, LogClock, ServedGroups
from coordinator.cluster_node.transactions import ShardTransactions
from coordinator.core.core import Core
from coordinator.handlers.offset_commit import commit_what_exists
from coordinator.node.unloading import unload_shard
from coordinator.runtime.loader import settle
from coordinator.runtime.outbox import LeasedOutbox
from coordinator.runtime.shard import Shard, ShardState
from coordinator.runtime.slices import SlicedRequests
from protocol.messages.offsets import TxnOffsetCommit, TxnOffsetCommitReply
from protocol.session import RequestRef


class ShardService:
    """The shard, its log, the replies that wait for the log, and the state of the service."""

    def __init__(
        self,
        shard: Shard,
        log: ClusterLog,
        outbox: LeasedOutbox,
        groups: ServedGroups,
        slices: SlicedRequests,
        clock: LogClock,
        note_move: Callable[[Shard, ShardOwned, Moment], Iterator[int]],
    ) -> None:
        self.shard = shard
        self.log = log
        self.owned_since_ms = -1
        """Clock reading when the shard was last claimed."""
        self._outbox = outbox
        self._groups = groups
        self._replay = Replay(shard, slices, self._fail)
        self._clock = clock
        self._note_move = note_move
        self.transactions = ShardTransactions(shard, log.protocol)
        log.encode_pending = self.transactions.encode
        self._at_end: list[Callable[[Moment], None]] = []
        shard.state = ShardState.UNLOADED

    def happen(self, event: ShardEvent, moment: Moment) -> None:
        """Pass the event to the protocol. If the shard must be handed over, requests are refused at once."""
        if isinstance(event, OwnershipRevoked):
            self._stop(moment)
        self.log.protocol.happen(event, self._clock.now)
        self._clock.changed[self.shard.index] = None

    def take(self, news: ShardEffect, moment: Moment) -> None:
        """Carry out an effect of the protocol on state and service."""
        match news:
            case LogReplayed(records=records):
                self._replay.feed(records)
            case StateDropped():
                self._replay.drop()
                self.transactions.drop()
            case OffsetsPending(record=record):
                self._in_order(partial(self.transactions.read, record))
            case TransactionDecided(end=end):
                self._in_order(partial(self.transactions.end, end))
            case LogEndRead():
                self._go_on(moment)
            case ShardOwned():
                self.owned_since_ms = moment.monotonic_ms
                if self.shard.failure:
                    self.shard.state = ShardState.FAILED
                self._replay.then(partial(self._begin, news))
            case KeysToRepair(keys=keys):
                self._replay.then(lambda: self._repair(keys))
            case WritesDurable(position=position):
                self.log.written(position)
                self._outbox.release(position)
                if self.transactions.awaits:
                    self._in_order(partial(self.transactions.release, position))
            case ShardLost() | ShardHandedOver():
                self._stop(moment)
                self._outbox.lose(self.log.last)
                self.log.written(self.log.last)
                self.transactions.lose()
                self._go_on(moment)

    def commit(
        self,
        core: Core,
        ref: RequestRef,
        message: TxnOffsetCommit,
        moment: Moment,
        try_again: Callable[[], None] | None = None,
    ) -> bool:
        """Commit in a transaction; return false if the transaction is not known to be open. `try_again` is called in
        place of a refusal if it had ended earlier."""
        handle = self.transactions.begin(message.producer_id, message.producer_epoch)
        if handle is None:
            return False
        topics, position = commit_what_exists(core, ref, msgspec.structs.replace(message, producer_id=handle), moment)
        # The position is that of another commit of the group where all of this one is refused.
        is_stored = position and self.transactions.has_encoded(handle)
        self.transactions.hold(handle, self.log.last if is_stored else 0, ref, TxnOffsetCommitReply(topics), try_again)
        return True

    def at_log_end(self, go_on: Callable[[Moment], None]) -> None:
        """Call `go_on` when the log was read to its present end, or when the shard is lost."""
        self._at_end.append(go_on)
        self.log.protocol.reader.read_to_end()
        self._clock.changed[self.shard.index] = None

    def when_applied(self, steps: Callable[[], Iterator[int]]) -> None:
        """Run the steps once all records read so far have been applied."""
        self._replay.then(steps)

    def _go_on(self, moment: Moment) -> None:
        waiting, self._at_end = self._at_end, []
        for go_on in waiting:
            go_on(moment)

    def _in_order(self, happen: Callable[[], None]) -> None:
        """Call `happen` after all earlier records were applied, then settle transactions if the shard is served."""

        def steps() -> Iterator[int]:
            happen()
            if self.shard.state is ShardState.ACTIVE:
                self._settle()
            yield 1

        self._replay.then(steps)

    def _settle(self) -> None:
        self.transactions.settle(self._clock.now)
        self._clock.changed[self.shard.index] = None

    def _begin(self, owned: ShardOwned) -> Iterator[int]:
        """Serve: the state is that of the log. Until then clients get an error after which all of them retry: many
        treat COORDINATOR_LOAD_IN_PROGRESS as the failure of a commit."""
        shard = self.shard
        self._groups.serve(shard.groups)
        shard.is_replaying = False
        yield from settle(shard, lambda: self._replay.moment)
        shard.state = ShardState.ACTIVE
        self._settle()
        yield from self._note_move(shard, owned, self._replay.moment)

    def _repair(self, keys: tuple[bytes, ...]) -> Iterator[int]:
        self.log.protocol.append(list(present_values(self.shard, keys)), self._clock.now, in_parts=True)
        self._clock.changed[self.shard.index] = None
        yield len(keys)

    def _fail(self, why: str) -> None:
        """Stop serving: a partly applied log must not be served."""
        is_owned = self.log.protocol.claim is not None
        self._stop(self._replay.moment)
        self._replay.drop()
        self.shard.failure = why
        if is_owned:
            self.shard.state = ShardState.FAILED

    def _stop(self, moment: Moment) -> None:
        """Answer all requests that wait in groups, and accept no more."""
        if self._groups.is_served:
            unload_shard(self.shard, moment)
            self._groups.withdraw(self.shard.groups)
        self.shard.state = ShardState.UNLOADED
