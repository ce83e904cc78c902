"""What a producer's bytes must be before they are stored: whole batches that say the truth about their records.

They are checked to the last record, compressed or not: a batch that cannot be read would stop everyone who comes to it.
Idempotent producers are not checked yet: their ids and sequences are stored as they come.
"""

from typing import NamedTuple

from crc32c import crc32c

from protocol.errors import ErrorCode
from protocol.record_batch import (
    BatchHeader,
    Compression,
    CorruptBatch,
    UnsupportedMagic,
    check_batch,
    decode_batch,
)

_LOG_APPEND_TIME = 0x08


class Bad(NamedTuple):
    """Why nothing of it was stored."""

    error: ErrorCode
    message: str


class _Refused(Exception):
    def __init__(self, error: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.bad = Bad(error, message)


def check_records(data: bytes, max_batch_bytes: int, max_decompressed_bytes: int) -> list[bytes] | Bad:
    """The batches of `data`, each sound and no larger than `max_batch_bytes`, or what is wrong with the first that is
    not."""
    found: list[bytes] = []
    position = 0
    try:
        while position < len(data) or not found:
            header = _check_frame(data, position, max_batch_bytes)
            batch = data if header.size == len(data) else data[position : position + header.size]
            _check_claims(header)
            found.append(_check_contents(batch, header, max_decompressed_bytes))
            position += header.size
    except _Refused as refused:
        return refused.bad
    return found


def _check_frame(data: bytes, position: int, max_batch_bytes: int) -> BatchHeader:
    if not data:
        raise _Refused(ErrorCode.INVALID_RECORD, "no records")
    # Said before the checksum: of a batch that is refused for its size nothing more need be known.
    size = int.from_bytes(data[position + 8 : position + 12], "big", signed=True) + 12
    if max_batch_bytes < size <= len(data) - position:
        raise _Refused(ErrorCode.MESSAGE_TOO_LARGE, f"a batch of {size} bytes, at most {max_batch_bytes} are allowed")
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
    if header.compression > Compression.ZSTD:
        raise _Refused(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"compression {header.compression} has no meaning")
    if header.record_count < 1 or header.record_count != header.last_offset_delta + 1:
        reason = f"{header.record_count} records that span {header.last_offset_delta + 1} offsets"
        raise _Refused(ErrorCode.INVALID_RECORD, reason)


def _check_contents(batch: bytes, header: BatchHeader, max_decompressed_bytes: int) -> bytes:
    """The batch, with a largest timestamp that is true: searches by time believe it. (Kafka corrects it too.)"""
    try:
        records = decode_batch(batch, max_bytes=max_decompressed_bytes)
    except CorruptBatch as error:
        raise _Refused(ErrorCode.INVALID_RECORD, str(error)) from None
    for offset, record in enumerate(records, header.base_offset):
        if record.offset != offset:
            raise _Refused(ErrorCode.INVALID_RECORD, f"record {offset} of its batch says it is {record.offset}")
    newest = max([record.timestamp_ms for record in records])
    if newest == header.max_timestamp_ms:
        return batch
    if not -(2**63) <= newest < 2**63:
        raise _Refused(ErrorCode.INVALID_TIMESTAMP, f"a record of {newest} ms")
    return _with_newest(batch, newest)


def _with_newest(batch: bytes, newest_ms: int) -> bytes:
    covered = batch[21:35] + newest_ms.to_bytes(8, "big", signed=True) + batch[43:]
    return batch[:17] + crc32c(covered).to_bytes(4, "big") + covered
