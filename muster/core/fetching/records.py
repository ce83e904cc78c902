"""Decode the bytes of one partition in a reply into records for the application (docs/spec/consumer-client.md#B3)."""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

import msgspec

from membership.topic_partition import TopicPartition
from muster.core.fetching.settings import Deserializer, FetchSettings, Isolation
from muster.core.positions import Position
from muster.errors import CannotDeserialize, CorruptRecords, MessageTooLarge, MusterError
from protocol.messages.data import AbortedTransaction, FetchPartitionReply
from protocol.record_batch import (
    BatchHeader,
    CorruptBatch,
    batches,
    check_batch,
    decode_as,
    decode_records,
    record_bytes,
    record_slices,
)

_ABORT = b"\0\0"
"""Type in the key of a control record, after its version: an abort marker."""


class ConsumerRecord(msgspec.Struct, frozen=True, gc=False):
    """A record. `key` and `value` are bytes, None, or results of the deserializers."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: Any
    value: Any
    headers: tuple[tuple[str, bytes | None], ...] = ()


def group_by_partition(records: Iterable[ConsumerRecord]) -> dict[TopicPartition, list[ConsumerRecord]]:
    """Return the records by partition, each in its order."""
    grouped: dict[TopicPartition, list[ConsumerRecord]] = {}
    for record in records:
        grouped.setdefault(TopicPartition(record.topic, record.partition), []).append(record)
    return grouped


class FetchedRecords:
    """The records of one partition in one reply, decoded batch by batch on demand. `offset` is the next one to return,
    at first the requested one; the caller of `drain` must ensure that it is the position. Records before an unreadable
    one come first; then `error` is set, and no more follow.
    """

    def __init__(
        self,
        one: TopicPartition,
        position: Position,
        asked: int,
        answer: FetchPartitionReply,
        settings: FetchSettings,
    ) -> None:
        self.partition = one
        self.position = position
        self.offset = asked
        self.epoch = position.offset_epoch
        self.error: MusterError | None = None
        self.is_drained = False
        self._settings = settings
        self._make: Callable[..., ConsumerRecord] = partial(ConsumerRecord, one.topic, one.partition)
        self._batches = batches(answer.records)
        self._next: tuple[BatchHeader, memoryview] | None = None
        self._end_of_batch = asked
        self._records: list[ConsumerRecord] = []
        self._at = 0
        self._transactions = (
            AbortedBatches(answer.aborted_transactions or ())
            if settings.isolation == Isolation.READ_COMMITTED
            else None
        )
        self._has_batches = False
        self._failure: MusterError | None = None

    def drain(self, most: int) -> list[ConsumerRecord]:
        """Return the next records, at most `most`; fewer only if there are no more, or `error` follows."""
        taken: list[ConsumerRecord] = []
        while self.error is None:
            if self._at == len(self._records):
                self._end_batch()
                if self._next is None and not self._find():
                    break
                if len(taken) >= most:
                    break
                self._open()
            elif len(taken) >= most:
                break
            else:
                part = self._deserialized(self._records[self._at : self._at + most - len(taken)])
                taken += part
                self._at += len(part)
                if part:
                    self.offset = part[-1].offset + 1
        return taken

    def _end_batch(self) -> None:
        """Move the position past records that compaction removed from the end of a batch."""
        self._records, self._at = [], 0
        self.error, self._failure = self._failure, None
        if self.error is None:
            self.offset = max(self.offset, self._end_of_batch)

    def _find(self) -> bool:
        """Find the next batch with records to return; skip batches without. Return false if there is none."""
        if self.error is not None:
            return False
        next_offset = -1
        try:
            for header, batch in self._batches:
                self._has_batches = True
                if self._settings.check_crcs and header.next_offset > self.offset:
                    next_offset = header.next_offset
                    check_batch(batch)
                if not self._is_skipped(header, batch):
                    self._next = header, batch
                    return True
                self.offset = self._end_of_batch = max(self.offset, header.next_offset)
        except CorruptBatch as corrupt:
            self.error = self._corrupt(self.offset, next_offset, corrupt)
            return False
        if self._has_batches:
            self.is_drained = True
        else:
            self.error = MessageTooLarge(self.partition, self.offset, self._settings.partition_max_bytes)
        return False

    def _is_skipped(self, header: BatchHeader, batch: memoryview) -> bool:
        if header.next_offset <= self.offset:
            return True
        if self._transactions is not None and header.producer_id >= 0 and self._transactions.hide(header, batch):
            return True
        return header.is_control

    def _open(self) -> None:
        assert self._next is not None
        (header, batch), self._next = self._next, None
        self._end_of_batch = header.next_offset
        self.epoch = header.partition_leader_epoch
        try:
            payload = record_bytes(header, batch)
        except CorruptBatch as corrupt:
            self._failure = self._corrupt(max(self.offset, header.base_offset), header.next_offset, corrupt)
            return
        try:
            records = decode_as(self._make, payload, header)
        except CorruptBatch as corrupt:
            records = list(self._salvage(payload, header, corrupt))
        if header.base_offset < self.offset:
            records = [record for record in records if record.offset >= self.offset]
        self._records = records

    def _salvage(self, payload: bytes, header: BatchHeader, corrupt: CorruptBatch) -> Iterator[ConsumerRecord]:
        """Yield the records before the first unreadable one. Records before the position need not be readable, since
        the application has sought past them.
        """
        reached = header.base_offset
        try:
            for piece, of_one in record_slices(payload, header, 1):
                try:
                    (record,) = decode_as(self._make, piece, of_one)
                except CorruptBatch:
                    if reached >= self.offset:
                        raise
                    reached += 1
                    continue
                yield record
                reached = record.offset + 1
        except CorruptBatch:
            bad = max(reached, self.offset)
            self._failure = self._corrupt(bad, bad + 1, corrupt)

    def _corrupt(self, offset: int, next_offset: int, reason: object) -> CorruptRecords:
        past = f"seek to {next_offset}" if next_offset > offset else "seek past it"
        sentence = f"{self.partition} at offset {offset} cannot be read: {reason}; {past} to go on"
        return CorruptRecords(sentence, self.partition, offset)

    def _deserialized(self, records: list[ConsumerRecord]) -> list[ConsumerRecord]:
        """Deserialize records, up to the first one that raises."""
        of_key, of_value = self._settings.key_deserializer, self._settings.value_deserializer
        if of_key is None and of_value is None:
            return records
        made: list[ConsumerRecord] = []
        for record in records:
            part = "key"
            try:
                key = _apply(of_key, record.key)
                part = "value"
                value = _apply(of_value, record.value)
            except Exception as reason:  # noqa: BLE001  (whatever the application's own code raises)
                self.error = CannotDeserialize(self.partition, record.offset, part, reason)
                break
            made.append(self._make(record.offset, record.timestamp_ms, key, value, record.headers))
        return made


def _apply(deserializer: Deserializer | None, data: bytes | None) -> Any:
    return data if data is None or deserializer is None else deserializer(data)


class AbortedBatches:
    """Decides which transactional batches of a reply belong to aborted transactions, called for each batch in order
    (KIP-98): those from the first offset of an aborted transaction of their producer up to its abort marker.
    """

    def __init__(self, transactions: tuple[AbortedTransaction, ...]) -> None:
        self._coming = sorted(transactions, key=lambda one: one.first_offset, reverse=True)
        self._open: set[int] = set()

    def hide(self, header: BatchHeader, batch: memoryview) -> bool:
        while self._coming and self._coming[-1].first_offset < header.next_offset:
            self._open.add(self._coming.pop().producer_id)
        if header.is_control:
            if _is_abort_marker(header, batch):
                self._open.discard(header.producer_id)
            return True
        return header.is_transactional and header.producer_id in self._open


def _is_abort_marker(header: BatchHeader, batch: memoryview) -> bool:
    try:
        (marker, *_) = decode_records(record_bytes(header, batch), header)
    except (CorruptBatch, ValueError):
        return False  # has no records to return in either case
    return marker.key is not None and marker.key[2:4] == _ABORT
