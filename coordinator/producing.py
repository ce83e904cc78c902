"""What a producer's bytes must be before they are stored: whole batches that say the truth about their records, and,
of an idempotent producer, the ones that come next (KIP-98).

They are checked to the last record, compressed or not: a batch that cannot be read would stop everyone who comes to it.
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from crc32c import crc32c

from partition_log.log import PartitionLog
from partition_log.producers import Objection, judge
from protocol.errors import ErrorCode
from protocol.record_batch import (
    HEADER_BYTES,
    BatchHeader,
    Compression,
    CorruptBatch,
    UnsupportedMagic,
    check_batch,
    record_bytes,
)
from protocol.record_walk import newest_timestamp

_LOG_APPEND_TIME = 0x08
_LZ4_FLAGS = HEADER_BYTES + 4  # of the frame, behind its magic number
_LZ4_INDEPENDENT = 0x20
_OBJECTIONS = {
    Objection.OLD_EPOCH: ErrorCode.INVALID_PRODUCER_EPOCH,
    Objection.OUT_OF_ORDER: ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
}


class ProducerIdSource(Protocol):
    """Where the ids of idempotent producers come from; seeded in tests."""

    def producer_id(self) -> int:
        """From 0 to 2^63-1, and nobody's yet."""


class Bad(NamedTuple):
    """Why nothing of it was stored."""

    error: ErrorCode
    message: str


class Allowance:
    """How much work the records of one request may be: they are walked one by one while everyone else waits, and a few
    bytes compressed may be very many of them."""

    __slots__ = ("bytes", "is_whole", "records")

    def __init__(self, decompressed_bytes: int, records: int) -> None:
        self.bytes = decompressed_bytes
        self.records = records
        self.is_whole = True

    def take_records(self, count: int) -> None:
        self.records -= count
        self.is_whole = False


class _Refused(Exception):
    def __init__(self, error: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.bad = Bad(error, message)


def check_records(data: bytes, max_batch_bytes: int, allowance: Allowance) -> list[bytes] | Bad:
    """The batches of `data`, each sound and no larger than `max_batch_bytes`, or what is wrong with the first that is
    not. What others of the request have left of the allowance must do: REQUEST_TIMED_OUT where it does not, which
    producers try again."""
    found: list[bytes] = []
    position = 0
    try:
        while position < len(data) or not found:
            header = _check_frame(data, position, max_batch_bytes)
            batch = data if header.size == len(data) else data[position : position + header.size]
            _check_claims(header)
            found.append(_check_contents(batch, header, allowance))
            position += header.size
    except _Refused as refused:
        return refused.bad
    return found


def check_sequences(log: PartitionLog, batches: Sequence[bytes]) -> list[int | None] | Bad:
    """Of each batch, None if it is to be appended, or the base offset that it was stored at when it first came. A
    batch that its producer sent out of order, or before it lost its epoch, and nothing may be stored."""
    verdicts = judge(log.producers, batches, log.next_offset)
    return Bad(_OBJECTIONS[verdicts], verdicts.value) if isinstance(verdicts, Objection) else verdicts


def _check_frame(data: bytes, position: int, max_batch_bytes: int) -> BatchHeader:
    if not data:
        raise _Refused(ErrorCode.INVALID_RECORD, "no records")
    # Said before the checksum: of a batch that is refused for its size nothing more need be known.
    size = int.from_bytes(data[position + 8 : position + 12], "big", signed=True) + 12
    if max_batch_bytes < size <= len(data) - position:
        raise _Refused(ErrorCode.MESSAGE_TOO_LARGE, f"a batch of {size} bytes, at most {max_batch_bytes} are allowed")
    if size > len(data) - position:
        # Not damage on the way, after which a producer would try again: it says something that is not so.
        raise _Refused(ErrorCode.INVALID_RECORD, f"a batch of {size} bytes, of which {len(data) - position} are there")
    try:
        return check_batch(data, position)
    except UnsupportedMagic as error:
        raise _Refused(ErrorCode.INVALID_RECORD, str(error)) from None
    except CorruptBatch as error:
        raise _Refused(ErrorCode.CORRUPT_MESSAGE, str(error)) from None


def _check_claims(header: BatchHeader) -> None:
    """What a batch says of itself, and only brokers may, or nobody."""
    if header.is_control:
        raise _Refused(ErrorCode.INVALID_RECORD, "control batches are not for clients to write")
    if header.is_transactional:
        raise _Refused(ErrorCode.INVALID_TXN_STATE, "a batch of a transaction, and transactions are not served")
    if header.attributes & _LOG_APPEND_TIME:
        raise _Refused(ErrorCode.INVALID_TIMESTAMP, "a producer does not set the time of append")
    if header.producer_id >= 0 and header.base_sequence < 0:
        reason = f"sequence {header.base_sequence} of producer {header.producer_id}"
        raise _Refused(ErrorCode.INVALID_RECORD, reason)
    if header.compression > Compression.ZSTD:
        raise _Refused(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"compression {header.compression} has no meaning")
    if header.record_count < 1 or header.record_count != header.last_offset_delta + 1:
        reason = f"{header.record_count} records that span {header.last_offset_delta + 1} offsets"
        raise _Refused(ErrorCode.INVALID_RECORD, reason)


def _check_contents(batch: bytes, header: BatchHeader, allowance: Allowance) -> bytes:
    """The batch, with a largest timestamp that is true: searches by time believe it. (Kafka corrects it too.)"""
    if header.record_count > allowance.records:
        if not allowance.is_whole:
            raise _Refused(ErrorCode.REQUEST_TIMED_OUT, "the request has too many records; send these by themselves")
        reason = f"{header.record_count} records, at most {allowance.records} are allowed"
        raise _Refused(ErrorCode.MESSAGE_TOO_LARGE, reason)
    code = ErrorCode.INVALID_RECORD
    if header.compression == Compression.LZ4 and _is_linked(batch):
        # Our own reader could, but Java's consumers cannot, and would never come past it. (Kafka fails on it.)
        raise _Refused(code, "lz4 blocks that depend on each other, which not every consumer can read")
    try:
        if header.compression:
            code = ErrorCode.INVALID_RECORD if allowance.is_whole else ErrorCode.REQUEST_TIMED_OUT
            payload = _decompressed(batch, header, allowance)
            code = ErrorCode.INVALID_RECORD
            allowance.take_records(header.record_count)
        else:
            payload = record_bytes(header, batch)
            allowance.take_records(header.record_count)
        newest = newest_timestamp(payload, header)
    except CorruptBatch as error:
        raise _Refused(code, str(error)) from None
    if newest == header.max_timestamp_ms:
        return batch
    if not -(2**63) <= newest < 2**63:
        raise _Refused(ErrorCode.INVALID_TIMESTAMP, f"a record of {newest} ms")
    return _with_newest(batch, newest)


def _is_linked(lz4_batch: bytes) -> bool:
    flags = lz4_batch[_LZ4_FLAGS : _LZ4_FLAGS + 1]
    return bool(flags) and not flags[0] & _LZ4_INDEPENDENT


def _decompressed(batch: bytes, header: BatchHeader, allowance: Allowance) -> bytes:
    # One that fails may have filled all that was left: it takes all, so that a thousand bombs are opened once.
    left, allowance.bytes = allowance.bytes, 0
    payload = record_bytes(header, batch, max_bytes=left)
    allowance.bytes = left - len(payload)
    return payload


def _with_newest(batch: bytes, newest_ms: int) -> bytes:
    covered = batch[21:35] + newest_ms.to_bytes(8, "big", signed=True) + batch[43:]
    return batch[:17] + crc32c(covered).to_bytes(4, "big") + covered
