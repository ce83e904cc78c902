"""Offsets that clients commit in transactions of the cluster, replayed from a shard's log (docs/spec/shared-log.md#7).

They count if no transaction of their producer has ended between the offset at which theirs was seen open and their own
offset: then the next marker of the producer decides them. Decided records without a tombstone are still unsettled.
"""

from collections.abc import Mapping
from typing import NamedTuple

from coordinator.cluster_log.entries import EntryKind, LogEntry, Pair, TransactionOffsets, read_pending


class PendingRecord(NamedTuple):
    """Valid offsets of a transaction, and their offset in the log."""

    offset: int
    key: bytes
    offsets: TransactionOffsets


class TransactionEnd(NamedTuple):
    """A producer's transaction has ended: it decides these records, in their order."""

    producer_id: int
    is_committed: bool
    records: tuple[PendingRecord, ...]


class ClientTransactions:
    """Transactions of clients, as of the last record read."""

    def __init__(self) -> None:
        self._open: dict[int, list[PendingRecord]] = {}
        self._ends: dict[int, int] = {}
        self._claimed_at = -1
        self.unsettled: dict[bytes, tuple[Pair, ...]] = {}
        """Decided records by key, each with the offset records that it makes valid: none after an abort."""

    @property
    def open(self) -> Mapping[int, list[PendingRecord]]:
        """Return the records that no marker has decided, by producer."""
        return self._open

    def claimed(self, offset: int) -> None:
        """Note a claim. Offsets after it count only if their transaction was seen open after it too."""
        self._claimed_at = offset
        self._ends.clear()

    def is_open_since(self, producer_id: int, offset: int) -> bool:
        """Return true if no transaction of the producer has ended at that offset or later."""
        return self._claimed_at < offset and self._ends.get(producer_id, -1) < offset

    def take(self, entry: LogEntry) -> PendingRecord | None:
        """Store offsets; return them if they count. Raises `CorruptBatch`."""
        offsets = read_pending(entry)
        if not self.is_open_since(offsets.producer_id, offsets.open_at):
            return None
        record = PendingRecord(entry.offset, entry.key, offsets)
        self._open.setdefault(offsets.producer_id, []).append(record)
        return record

    def end(self, marker: LogEntry) -> TransactionEnd:
        """Apply a marker."""
        producer_id, is_committed = marker.producer[0], marker.kind is EntryKind.COMMIT
        self._ends[producer_id] = marker.offset
        decided = tuple(self._open.pop(producer_id, ()))
        for record in decided:
            self.unsettled[record.key] = record.offsets.records if is_committed else ()
        return TransactionEnd(producer_id, is_committed, decided)

    def settled(self, key: bytes) -> None:
        """Note that the outcome of a record is in the log."""
        self.unsettled.pop(key, None)
