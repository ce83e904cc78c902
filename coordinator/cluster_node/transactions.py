"""Offsets that clients commit in transactions of the cluster, in the state of one shard (docs/spec/shared-log.md#7).

In the table of offsets a commit stands under a handle in place of its producer's id: it is in the state before it is in
the log, and only there it is seen whether it still belongs to the transaction.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

from coordinator.cluster_log.cluster_shard import ClusterShard
from coordinator.cluster_log.entries import Pair, TransactionOffsets, pending_key, pending_pair
from coordinator.cluster_log.settings import BootMoment
from coordinator.cluster_log.transactions import PendingRecord, TransactionEnd
from coordinator.cluster_node.refusal import refusal_of
from coordinator.cluster_node.repair import present_values
from coordinator.records.codec import decode
from coordinator.records.records import CommittedOffset, OffsetTombstone, TransactionEnded
from coordinator.runtime.shard import Shard
from protocol.messages.offsets import TxnOffsetCommitReply
from protocol.session import RequestRef

_FIRST_HANDLE = 1 << 62
"""Handles of commits that were decided here follow it; those that were read are offsets of the log."""


class OpenTransaction(NamedTuple):
    """A transaction that its coordinator called open after the log had been read up to `open_at`."""

    producer_id: int
    producer_epoch: int
    open_at: int


class _UnreadCommit(NamedTuple):
    """A commit that was not yet found to count in the log, and the key of its record; empty before it is encoded."""

    transaction: OpenTransaction
    key: bytes = b""


class _AwaitedReply(NamedTuple):
    """Reply to a commit, sent once the log is durable up to `position`."""

    position: int
    handle: int
    ref: RequestRef
    reply: TxnOffsetCommitReply
    try_again: Callable[[], None] | None


class ShardTransactions:
    """Commits that are decided here, those that the log has, and what is to be written once they are decided."""

    def __init__(self, shard: Shard, protocol: ClusterShard) -> None:
        self._shard = shard
        self._protocol = protocol
        self._newest = _FIRST_HANDLE
        self._encoded = 0
        """Handle of the last commit that was encoded."""
        self._open: dict[int, OpenTransaction] = {}
        self._handles: dict[bytes, int] = {}
        """Handles by the key of the record: of commits that wait for the log, and of those that count there."""
        self._unread: dict[int, _UnreadCommit] = {}
        self._awaited: deque[_AwaitedReply] = deque()
        self._decided: dict[bytes, None] = {}

    # --- commits that are decided here ---

    def opened(self, transaction: OpenTransaction) -> None:
        """Note that a transaction is open."""
        self._open[transaction.producer_id] = transaction

    def begin(self, producer_id: int, producer_epoch: int) -> int | None:
        """Return a handle for a commit in the producer's transaction; None if that transaction is not known as open."""
        known = self._open.get(producer_id)
        if known is None or known.producer_epoch != producer_epoch:
            return None
        if not self._protocol.reader.tail.transactions.is_open_since(producer_id, known.open_at):
            del self._open[producer_id]
            return None
        self._newest += 1
        self._unread[self._newest] = _UnreadCommit(known)
        return self._newest

    def encode(self, handle: int, records: Sequence[Pair]) -> Pair:
        """Return the record of the log for a commit."""
        transaction, claim = self._unread[handle].transaction, self._protocol.claim
        key = pending_key(-1 if claim is None else claim.offset, handle - _FIRST_HANDLE)
        self._unread[handle] = _UnreadCommit(transaction, key)
        self._handles[key] = self._encoded = handle
        return pending_pair(key, TransactionOffsets(transaction.producer_id, transaction.open_at, tuple(records)))

    def has_encoded(self, handle: int) -> bool:
        """Return whether this newest commit was encoded: it has an offset to be stored."""
        return self._encoded == handle

    def hold(
        self,
        handle: int,
        position: int,
        ref: RequestRef,
        reply: TxnOffsetCommitReply,
        try_again: Callable[[], None] | None,
    ) -> None:
        """Send the reply when the log is durable up to the position, if the commit counts there; else try again or, if
        there is no `try_again`, refuse. Position 0: nothing was stored."""
        if position:
            self._awaited.append(_AwaitedReply(position, handle, ref, reply, try_again))
        else:
            self._unread.pop(handle)
            self._shard.outbox.send(ref, reply)

    @property
    def awaits(self) -> bool:
        """True while replies wait for the log."""
        return bool(self._awaited)

    def release(self, durable: int) -> None:
        """Answer the commits up to this position. A commit that does not count is dropped: its transaction has ended,
        or the previous one's marker was late. Clients wait long after an error, so the commit is retried first."""
        while self._awaited and self._awaited[0].position <= durable:
            done = self._awaited.popleft()
            unread = self._unread.pop(done.handle, None)
            if unread is None:
                self._shard.outbox.send(done.ref, done.reply)
                continue
            self._handles.pop(unread.key, None)
            self._shard.apply_marker(TransactionEnded(done.handle, 0, is_committed=False))
            if done.try_again is not None:
                done.try_again()
            else:
                self._shard.outbox.send(done.ref, refusal_of(done.reply))

    def lose(self) -> None:
        """Refuse the waiting commits: it is unknown which of them are in the log."""
        for lost in self._awaited:
            self._shard.outbox.send(lost.ref, refusal_of(lost.reply))
        self._awaited.clear()
        self._unread.clear()
        self._open.clear()

    # --- what the log says ---

    def read(self, record: PendingRecord) -> None:
        """Keep offsets that count until their transaction ends. Raises `LogCorrupt`."""
        own = self._handles.setdefault(record.key, record.offset)
        if self._unread.pop(own, None) is not None:
            return
        for key, value in record.offsets.records:
            offset = decode(key, value)
            if isinstance(offset, CommittedOffset):
                self._shard.apply(offset, None, own)

    def end(self, ended: TransactionEnd) -> None:
        """Make the offsets of a transaction valid, or drop them."""
        self._open.pop(ended.producer_id, None)
        for record in ended.records:
            handle = self._handles.pop(record.key)
            self._shard.apply_marker(TransactionEnded(handle, 0, ended.is_committed))
            self._decided[record.key] = None

    def drop(self) -> None:
        """Drop the offsets that were read, together with the state."""
        self._handles.clear()
        self._decided.clear()

    def settle(self, now: BootMoment) -> None:
        """Write the results of decided transactions: present values under the offsets' own keys, and tombstones of the
        pending records. An offset for which another transaction is pending must wait: a value after the pending one
        would count as newer. The pending record is the last to go: until then the rest is written again."""
        unsettled = self._protocol.reader.tail.transactions.unsettled
        for key in list(self._decided):
            offsets = unsettled.get(key)
            if offsets is not None:
                keys = [one for one, _ in offsets]
                if any(map(self._is_pending, keys)):
                    continue
                pairs = [*present_values(self._shard, keys), (key, None)]
                if self._protocol.append(pairs, now, in_parts=True) is None:
                    return
                self._protocol.reader.tail.transactions.settled(key)
            del self._decided[key]

    def _is_pending(self, key: bytes) -> bool:
        place = decode(key, None)
        assert isinstance(place, OffsetTombstone)
        return (place.topic, place.partition) in self._shard.offsets.pending.of(place.group_id)
