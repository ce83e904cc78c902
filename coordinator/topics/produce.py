"""Checks of produced records before they are stored: whole batches with correct headers, and, of an idempotent
producer, in sequence (KIP-98).

Every record is checked, compressed or not: a batch that cannot be read would stop every consumer that reaches it.
"""

from collections.abc import Generator, Sequence
from typing import NamedTuple, Protocol

from crc32c import crc32c

from coordinator.clock import Moment
from coordinator.topics.configs import TopicConfigs
from partition_log.log.partition_log import PartitionLog
from partition_log.producers.sequence_check import SequenceRejection, validate_sequences
from protocol.errors import ErrorCode
from protocol.record_batch import (
    HEADER_BYTES,
    LOG_APPEND_TIME,
    BatchHeader,
    CorruptBatch,
    UnsupportedMagic,
    check_batch,
    record_bytes,
)
from protocol.record_compression import Compression
from protocol.record_walk import MOST_HEADERS, TooManyHeaders, oldest_timestamp, walk_records

_LZ4_FLAGS = HEADER_BYTES + 4  # flags of the frame, after its magic number
_LZ4_INDEPENDENT = 0x20
_REJECTIONS = {
    SequenceRejection.OLD_EPOCH: ErrorCode.INVALID_PRODUCER_EPOCH,
    SequenceRejection.OUT_OF_ORDER: ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    SequenceRejection.TOO_MANY: ErrorCode.THROTTLING_QUOTA_EXCEEDED,
}
MOST_BATCHES = 2_000
"""Largest number of batches of one partition in a request: they are appended at once. Kafka allows one."""
PARTITION_US = 5
_BATCH_US, _COMPRESSED_US, _IDEMPOTENT_US = 10, 10, 6
_BYTES_AN_US, _DECOMPRESSED_BYTES_AN_US = 2048, 512


class ProducerIdSource(Protocol):
    """Source of the ids of idempotent producers; seeded in tests."""

    def producer_id(self) -> int:
        """Return an unused id from 0 to 2^63-1."""


class BatchError(NamedTuple):
    """Error for which no batch of the partition was stored."""

    error: ErrorCode
    message: str


class Limits(NamedTuple):
    """Limits of one batch, which is checked in one piece, and may be much larger decompressed."""

    bytes: int
    decompressed_bytes: int
    records: int
    headers: int = MOST_HEADERS


class TimestampLimits(NamedTuple):
    """Limits of records' timestamps. (Kafka: -1 is "none", and is always allowed.)"""

    lowest_ms: int
    highest_ms: int


ANY_TIME = TimestampLimits(-(2**63), 2**63 - 1)


def allowed_times(configs: TopicConfigs, moment: Moment) -> TimestampLimits:
    """Return the limits of timestamps that producers set."""
    if configs.has_append_time:
        return ANY_TIME
    highest_ms = min(moment.wall_ms + configs.time_after_ms, ANY_TIME.highest_ms)
    return TimestampLimits(moment.wall_ms - configs.time_before_ms, highest_ms)


class Allowance:
    """Microseconds of work that the records of one request may take, estimated from counts. The batch that exceeds it
    is the last, so a single batch is always allowed."""

    __slots__ = ("left_us",)

    def __init__(self, left_us: int) -> None:
        self.left_us = left_us


class _BatchRejected(Exception):
    def __init__(self, error: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.bad = BatchError(error, message)


def check_records(
    data: bytes, limits: Limits, allowance: Allowance, times: TimestampLimits = ANY_TIME
) -> Generator[int, object, list[bytes] | BatchError]:
    """Return the batches of `data`, each sound and within the limits, or the error of the first that is not. The
    request's partitions share the allowance; once it is spent, the error is REQUEST_TIMED_OUT, after which producers
    retry.

    Since all other requests wait, the generator yields after each batch, with its cost in microseconds.
    """
    found: list[bytes] = []
    position = 0
    before_us = allowance.left_us
    try:
        while position < len(data) or not found:
            header = _check_frame(data, position, limits.bytes)
            batch = data if header.size == len(data) else data[position : position + header.size]
            _check_claims(header)
            if len(found) == MOST_BATCHES:
                raise _BatchRejected(ErrorCode.MESSAGE_TOO_LARGE, f"more than {MOST_BATCHES} batches of a partition")
            if allowance.left_us <= 0:
                raise _BatchRejected(ErrorCode.REQUEST_TIMED_OUT, "the request has too many records; send these later")
            found.append(_check_contents(batch, header, limits, allowance, times))
            position += header.size
            yield before_us - allowance.left_us
            before_us = allowance.left_us
    except _BatchRejected as refused:
        yield before_us - allowance.left_us
        return refused.bad
    return found


def check_sequences(log: PartitionLog, batches: Sequence[bytes]) -> list[int | None] | BatchError:
    """Return for each batch None if it is to be appended, or the base offset of its first copy if it is a duplicate. If
    a batch is out of sequence or has an old producer epoch, return its error: then no batch may be stored."""
    verdicts = validate_sequences(log.producers, batches, log.next_offset)
    return BatchError(_REJECTIONS[verdicts], verdicts.value) if isinstance(verdicts, SequenceRejection) else verdicts


def _check_frame(data: bytes, position: int, max_batch_bytes: int) -> BatchHeader:
    if not data:
        raise _BatchRejected(ErrorCode.INVALID_RECORD, "no records")
    # Checked before the checksum: a batch that is refused for its size need not be read.
    size = int.from_bytes(data[position + 8 : position + 12], "big", signed=True) + 12
    if max_batch_bytes < size <= len(data) - position:
        raise _BatchRejected(
            ErrorCode.MESSAGE_TOO_LARGE, f"a batch of {size} bytes, at most {max_batch_bytes} are allowed"
        )
    if size > len(data) - position:
        # Not CORRUPT_MESSAGE, after which a producer would retry: the header is wrong.
        raise _BatchRejected(
            ErrorCode.INVALID_RECORD, f"a batch of {size} bytes, of which {len(data) - position} are there"
        )
    try:
        return check_batch(data, position)
    except UnsupportedMagic as error:
        raise _BatchRejected(ErrorCode.INVALID_RECORD, str(error)) from None
    except CorruptBatch as error:
        raise _BatchRejected(ErrorCode.CORRUPT_MESSAGE, str(error)) from None


def _check_claims(header: BatchHeader) -> None:
    """Check the header fields that a producer must not set."""
    if header.is_control:
        raise _BatchRejected(ErrorCode.INVALID_RECORD, "control batches are not for clients to write")
    if header.is_transactional:
        raise _BatchRejected(ErrorCode.INVALID_TXN_STATE, "a batch of a transaction, and transactions are not served")
    if header.attributes & LOG_APPEND_TIME:
        raise _BatchRejected(ErrorCode.INVALID_TIMESTAMP, "a producer does not set the time of append")
    if header.producer_id >= 0 and header.base_sequence < 0:
        reason = f"sequence {header.base_sequence} of producer {header.producer_id}"
        raise _BatchRejected(ErrorCode.INVALID_RECORD, reason)
    if header.compression > Compression.ZSTD:
        raise _BatchRejected(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"compression {header.compression} has no meaning")
    if header.record_count < 1 or header.record_count != header.last_offset_delta + 1:
        reason = f"{header.record_count} records that span {header.last_offset_delta + 1} offsets"
        raise _BatchRejected(ErrorCode.INVALID_RECORD, reason)


def _check_contents(
    batch: bytes, header: BatchHeader, limits: Limits, allowance: Allowance, times: TimestampLimits
) -> bytes:
    """Return the batch with a correct largest timestamp: searches by time rely on it. (Kafka corrects it too.)"""
    allowance.left_us -= _BATCH_US + len(batch) // _BYTES_AN_US + (_IDEMPOTENT_US if header.producer_id >= 0 else 0)
    if header.record_count > limits.records:
        reason = f"{header.record_count} records, at most {limits.records} are allowed"
        raise _BatchRejected(ErrorCode.MESSAGE_TOO_LARGE, reason)
    if header.compression == Compression.LZ4 and _is_linked(batch):
        # Muster's reader could read it, but Java's consumers cannot, and would never get past it. (Kafka fails on it.)
        reason = "lz4 blocks that depend on each other, which not every consumer can read"
        raise _BatchRejected(ErrorCode.INVALID_RECORD, reason)
    try:
        if header.compression:
            payload = _decompressed(batch, header, limits.decompressed_bytes, allowance)
        else:
            payload = record_bytes(header, batch)
        newest, cost_us = _walked(payload, header, limits, allowance)
    except TooManyHeaders as error:
        raise _BatchRejected(ErrorCode.MESSAGE_TOO_LARGE, str(error)) from None
    except CorruptBatch as error:
        raise _BatchRejected(ErrorCode.INVALID_RECORD, str(error)) from None
    allowance.left_us -= cost_us
    _check_times(payload, header, newest, times)
    return batch if newest == header.max_timestamp_ms else _with_newest(batch, newest)


def _walked(payload: bytes, header: BatchHeader, limits: Limits, allowance: Allowance) -> tuple[int, int]:
    try:
        return walk_records(payload, header, limits.headers)
    except CorruptBatch:
        # The number of records read is unknown: charge for all of them, and for as many headers.
        allowance.left_us -= header.record_count + min(limits.headers, len(payload) // 2)
        raise


def _check_times(payload: bytes, header: BatchHeader, newest: int, times: TimestampLimits) -> None:
    oldest = oldest_timestamp(payload, header) if times.lowest_ms >= 0 else newest
    for timestamp in (newest, oldest):
        if timestamp != -1 and not times.lowest_ms <= timestamp <= times.highest_ms:
            allowed = f"from {times.lowest_ms} to {times.highest_ms} is allowed"
            raise _BatchRejected(ErrorCode.INVALID_TIMESTAMP, f"a record of {timestamp} ms; {allowed}")


def _is_linked(lz4_batch: bytes) -> bool:
    flags = lz4_batch[_LZ4_FLAGS : _LZ4_FLAGS + 1]
    return bool(flags) and not flags[0] & _LZ4_INDEPENDENT


def _decompressed(batch: bytes, header: BatchHeader, most_bytes: int, allowance: Allowance) -> bytes:
    # A batch that fails may have been decompressed up to the limit.
    all_us = most_bytes // _DECOMPRESSED_BYTES_AN_US
    allowance.left_us -= _COMPRESSED_US + all_us
    payload = record_bytes(header, batch, max_bytes=most_bytes)
    allowance.left_us += all_us - len(payload) // _DECOMPRESSED_BYTES_AN_US
    return payload


def _with_newest(batch: bytes, newest_ms: int) -> bytes:
    covered = batch[21:35] + newest_ms.to_bytes(8, "big", signed=True) + batch[43:]
    return batch[:17] + crc32c(covered).to_bytes(4, "big") + covered
