"""Batches: records of one partition that are sent together, and their bytes."""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from protocol.record_batch import HEADER_BYTES, TRANSACTIONAL, pack_batch
from protocol.record_compression import Compression, compress
from protocol.record_writing import varint

Headers = Sequence[tuple[str, bytes | None]]

_OVERHEAD_BYTES = 21  # largest overhead of a record: five numbers, and its length
_HEADER_OVERHEAD_BYTES = 10
_NULL = varint(-1)


class Pending(msgspec.Struct, frozen=True, gc=False):
    """A record, and its sender's handle for it."""

    key: bytes | None
    value: bytes | None
    headers: Headers
    timestamp_ms: int
    handle: object


class ProducerId(NamedTuple):
    """Producer id and epoch; -1 and -1: batches are not numbered."""

    number: int
    epoch: int


NOBODY = ProducerId(-1, -1)


def size_of(key: bytes | None, value: bytes | None, headers: Headers) -> int:
    """Return the largest size of a record in a batch, before compression."""
    size = _OVERHEAD_BYTES + (len(key) if key else 0) + (len(value) if value else 0)
    for name, content in headers:
        size += _HEADER_OVERHEAD_BYTES + 4 * len(name) + len(content or b"")
    return size


class ProducerBatch:
    """A batch, open until it is full, has lingered, or is flushed. It is encoded when it is sent, when its producer id
    and sequence are known.
    """

    __slots__ = (
        "attempts", "began_ms", "bytes", "call", "failure", "failures", "flush_round", "is_closed", "is_over",
        "may_be_stored", "payload", "records", "retry_at_ms", "sequence", "went_first",
    )  # fmt: skip

    def __init__(self, began_ms: int, flush_round: int) -> None:
        self.records: list[Pending] = []
        self.bytes = HEADER_BYTES
        self.began_ms = began_ms
        self.flush_round = flush_round
        self.is_closed = False
        self.is_over = False  # acknowledged or given up
        self.sequence = -1  # sequence of its first record; -1 before it was sent under the present epoch
        self.attempts = 0  # under the present epoch
        self.retry_at_ms = 0
        self.call: int | None = None
        self.went_first = False  # when last sent, all batches before it were answered
        self.may_be_stored = False  # a request was lost, or its reply does not show whether the batch is stored
        self.failures = 0
        self.failure = ""  # the last error
        self.payload: bytes | None = None

    def handles(self) -> tuple[object, ...]:
        return tuple([record.handle for record in self.records])

    def renew(self) -> None:
        """Reset a batch that is not stored, so that it is numbered again."""
        self.sequence, self.attempts = -1, 0
        self.went_first = self.may_be_stored = False

    def halves(self) -> tuple["ProducerBatch", "ProducerBatch"]:
        """Split the batch in two, with the same sequences."""
        middle = len(self.records) // 2
        return self._part(0, middle), self._part(middle, len(self.records))

    def _part(self, first: int, end: int) -> "ProducerBatch":
        part = ProducerBatch(self.began_ms, self.flush_round)
        for record in self.records[first:end]:
            part.records.append(record)
            part.bytes += size_of(record.key, record.value, record.headers)
        part.is_closed = True
        part.attempts, part.failure = self.attempts, self.failure
        part.may_be_stored = self.may_be_stored
        part.sequence = -1 if self.sequence < 0 else sequence_after(self.sequence, first)
        return part

    def encode(self, compression: Compression, producer: ProducerId, *, transactional: bool = False) -> bytes:
        """Encode the batch as it is sent and stored."""
        records = self.records
        base_ms = records[0].timestamp_ms
        if self.payload is None:
            self.payload = compress(compression, _payload(records, base_ms))
        return pack_batch(
            self.payload,
            base_offset=0,
            attributes=compression | (TRANSACTIONAL if transactional else 0),
            last_offset_delta=len(records) - 1,
            base_timestamp_ms=base_ms,
            max_timestamp_ms=max([record.timestamp_ms for record in records]),
            record_count=len(records),
            producer=(*producer, self.sequence),
        )


def sequence_after(sequence: int, count: int) -> int:
    """Return the sequence after `count` records; sequences go from 0 to 2^31-1 and wrap around."""
    return (sequence + count) & 0x7FFFFFFF


def _payload(records: list[Pending], base_ms: int) -> bytes:
    parts: list[bytes] = []
    for delta, record in enumerate(records):
        key, value = record.key, record.value
        body = b"".join(
            (
                b"\0",
                varint(record.timestamp_ms - base_ms),
                varint(delta),
                _NULL if key is None else varint(len(key)) + key,
                _NULL if value is None else varint(len(value)) + value,
                _headers(record.headers) if record.headers else b"\0",
            )
        )
        parts += (varint(len(body)), body)
    return b"".join(parts)


def _headers(headers: Headers) -> bytes:
    parts = [varint(len(headers))]
    for name, content in headers:
        raw = name.encode()
        parts += (varint(len(raw)), raw, _NULL if content is None else varint(len(content)) + content)
    return b"".join(parts)
