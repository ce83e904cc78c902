"""Reading a shard's partition in order: which records are valid, and under which claim."""

from collections.abc import Iterable

from coordinator.cluster_log.entries import (
    NOBODY,
    SEQUENCES,
    ClaimedEpoch,
    EntryKind,
    LogEntry,
    Pair,
    claiming_node,
    entries_of,
    is_pending_key,
)
from coordinator.cluster_log.transactions import ClientTransactions, PendingRecord, TransactionEnd

Counting = Pair | PendingRecord | TransactionEnd
"""A valid record."""


class ShardTail:
    """The log up to `next_offset`. A record counts if its tag is the newest claim before it: one that names an earlier
    claim was written by an owner that had been superseded, and is stale (docs/spec/shared-log.md#Recommended.2). So is
    one whose sequence does not follow those before it: a leader that has forgotten the producer takes a late repetition
    of an older batch, behind newer ones of the same owner.
    """

    def __init__(self) -> None:
        self.next_offset = 0
        self.claim: ClaimedEpoch | None = None
        """The newest claim."""
        self.earlier_claim: ClaimedEpoch | None = None
        """The claim before it."""
        self.owner = self.earlier_owner = NOBODY
        """Nodes of these claims, if they record one."""
        self._sequence = 0  # of the last record under the newest claim
        self.stale_keys: dict[bytes, None] = {}
        """Keys whose newest record is stale, in the order of the log."""
        self.transactions = ClientTransactions()

    @property
    def before(self) -> tuple[int, int]:
        """Return the node that owned the shard before the newest claim, and the offset of its claim; -1 if there is
        none."""
        return self.earlier_owner, -1 if self.earlier_claim is None else self.earlier_claim.offset

    def take(self, data: bytes, own_tag: int = -1) -> tuple[Counting, ...]:
        """Read whole batches; return the records that count. Those written under `own_tag` are omitted, since their
        writer knows them, except offsets of transactions, which may not count. Raises `CorruptBatch`."""
        counting: list[Counting] = []
        for next_offset, entries in entries_of(data):
            if next_offset > self.next_offset:
                # A fetch begins with the whole batch that holds its offset.
                counting.extend(self._read((one for one in entries if one.offset >= self.next_offset), own_tag))
                self.next_offset = next_offset
        return tuple(counting)

    def _read(self, entries: Iterable[LogEntry], own_tag: int) -> Iterable[Counting]:
        for entry in entries:
            if entry.kind is EntryKind.CLAIM:
                self.earlier_claim, self.claim = self.claim, ClaimedEpoch(entry.offset, *entry.producer)
                self.earlier_owner, self.owner = self.owner, claiming_node(entry)
                self._sequence = entry.sequence
                self.transactions.claimed(entry.offset)
            elif entry.kind in {EntryKind.COMMIT, EntryKind.ABORT}:
                yield self.transactions.end(entry)
            elif entry.kind is not EntryKind.INNOCENT:
                yield from self._read_tagged(entry, own_tag)

    def _read_tagged(self, entry: LogEntry, own_tag: int) -> Iterable[Counting]:
        if not self._counts(entry):
            self.stale_keys[entry.key] = None
            return
        self._sequence = entry.sequence
        if entry.kind is EntryKind.PENDING:
            pending = self.transactions.take(entry)
            if pending is not None:
                yield pending
            else:
                self.stale_keys[entry.key] = None
            return
        self.stale_keys.pop(entry.key, None)
        if is_pending_key(entry.key):
            self.transactions.settled(entry.key)
        elif entry.tag != own_tag:
            yield entry.key, entry.value

    def _counts(self, entry: LogEntry) -> bool:
        if self.claim is None:
            return entry.tag >= 0
        is_later = 0 < (entry.sequence - self._sequence) % SEQUENCES < SEQUENCES // 2
        return entry.tag == self.claim.offset and entry.producer == self.claim[1:] and is_later

    def skip_to(self, next_offset: int) -> None:
        """Begin at this offset."""
        self.next_offset = max(self.next_offset, next_offset)

    def skip_own(self, next_offset: int, next_sequence: int) -> None:
        """Continue after the owner's own records, which it has written up to `next_offset`."""
        self.skip_to(next_offset)
        self._sequence = (next_sequence - 1) % SEQUENCES

    def take_stale_keys(self) -> tuple[bytes, ...]:
        """Return the keys to repair, once."""
        keys = tuple(self.stale_keys)
        self.stale_keys.clear()
        return keys
