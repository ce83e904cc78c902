"""Offsets that clients commit in transactions of the cluster, as a shard's log tells of them
(docs/spec/shared-log.md#7).

They count if no transaction of their producer has ended between the offset at which it was seen open and them: then the
next marker of the producer decides them. What is decided and has no tombstone yet is still to be settled.
"""

from collections.abc import Mapping
from typing import NamedTuple

from coordinator.cluster_log.entries import EntryKind, LogEntry, Pair, TransactionOffsets, read_pending


class PendingRecord(NamedTuple):
    """Offsets of a transaction that count, in the log at that offset."""

    offset: int
    key: bytes
    offsets: TransactionOffsets


class TransactionEnd(NamedTuple):
    """A producer's transaction has ended: it decides these records, in their order."""

    producer_id: int
    is_committed: bool
    records: tuple[PendingRecord, ...]


class ClientTransactions:
    """Transactions of clients up to where the log was read."""

    def __init__(self) -> None:
        self._open: dict[int, list[PendingRecord]] = {}
        self._ends: dict[int, int] = {}
        self._claimed_at = -1
        self.unsettled: dict[bytes, tuple[Pair, ...]] = {}
        """Decided records by key, each with those that are valid by it: none after an abort."""

    @property
    def open(self) -> Mapping[int, list[PendingRecord]]:
        """Records that no marker has decided, by producer."""
        return self._open

    def claimed(self, offset: int) -> None:
        """Note a claim. Offsets behind it count only if their transaction was open behind it too."""
        self._claimed_at = offset
        self._ends.clear()

    def is_open_since(self, producer_id: int, offset: int) -> bool:
        """Return true if no transaction of the producer has ended at that offset or behind it."""
        return self._claimed_at < offset and self._ends.get(producer_id, -1) < offset

    def take(self, entry: LogEntry) -> PendingRecord | None:
        """Take offsets; return them if they count. Raises `CorruptBatch`."""
        offsets = read_pending(entry)
        if not self.is_open_since(offsets.producer_id, offsets.open_at):
            return None
        record = PendingRecord(entry.offset, entry.key, offsets)
        self._open.setdefault(offsets.producer_id, []).append(record)
        return record

    def end(self, marker: LogEntry) -> TransactionEnd:
        """Take a marker."""
        producer_id, is_committed = marker.producer[0], marker.kind is EntryKind.COMMIT
        self._ends[producer_id] = marker.offset
        decided = tuple(self._open.pop(producer_id, ()))
        for record in decided:
            self.unsettled[record.key] = record.offsets.records if is_committed else ()
        return TransactionEnd(producer_id, is_committed, decided)

    def settled(self, key: bytes) -> None:
        """Note that what follows from a record is in the log."""
        self.unsettled.pop(key, None)
