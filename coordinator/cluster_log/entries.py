"""Records of a shard's partition in the cluster: the shard's own, each tagged with its owner's claim, and claims,
fences and no-ops, whose keys no record of groups or offsets has.

A tag is the base offset of the owner's claim, in a header of the record: a tombstone has no value to hold it.
"""

import enum
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from protocol.record_batch import BatchHeader, Record, batches, decode_records, record_bytes, seal_batch
from protocol.record_writing import encode_record_with, varint

Pair = tuple[bytes, bytes | None]
"""Key and value of a record; no value: a tombstone."""

SEQUENCES = 1 << 31
"""Sequence numbers of a producer, which begin again behind the last."""
_TAG = "muster.claim"
_CLAIM, _FENCE, _NO_OP = b"claim|", b"fence|", b"noop|"
_PRESENT = b"1"
_NO_TAG = -1


class EntryKind(enum.Enum):
    """Kinds of records in a shard's partition."""

    DATA = "data"
    CLAIM = "claim"
    INNOCENT = "innocent"
    """A fence or a no-op: it says nothing about groups, and nobody's right follows from it."""


class ClaimedEpoch(NamedTuple):
    """A claim in the log: its offset, and the producer id and epoch that it was written with."""

    offset: int
    producer_id: int
    producer_epoch: int


class LogEntry(NamedTuple):
    """A record read. `tag`: the claim it was written under; -1 if it names none. `sequence`: its producer's."""

    offset: int
    kind: EntryKind
    tag: int
    key: bytes
    value: bytes | None
    producer: tuple[int, int]
    sequence: int


def _sealed(pairs: Sequence[Pair], headers: bytes, producer: tuple[int, int, int], wall_ms: int) -> bytes:
    payload = b"".join(
        [encode_record_with(varint(delta), key, value, headers) for delta, (key, value) in enumerate(pairs)]
    )
    return seal_batch(payload, len(pairs), wall_ms, 0, producer)


def _named(kind: bytes, producer: tuple[int, int, int]) -> Pair:
    # Each of its own: the cleaner keeps the last record of a key, and a claim must stay (docs/spec/shared-log.md#4).
    return b"%b%d|%d" % (kind, producer[0], producer[1]), _PRESENT


def claim_batch(producer: tuple[int, int, int], wall_ms: int) -> bytes:
    """Encode the batch of a claim; `producer`: id, epoch and sequence, which is 0."""
    return _sealed([_named(_CLAIM, producer)], b"\0", producer, wall_ms)


def fence_batch(producer: tuple[int, int, int], wall_ms: int) -> bytes:
    """Encode a batch of another owner's producer id, with an epoch above its own: it fences that owner."""
    return _sealed([_named(_FENCE, producer)], b"\0", producer, wall_ms)


def no_op(producer_id: int) -> Pair:
    """Return a record without a meaning, so that there is a write."""
    return b"%b%d" % (_NO_OP, producer_id), _PRESENT


def tagged_batch(pairs: Sequence[Pair], tag: int, producer: tuple[int, int, int], wall_ms: int) -> bytes:
    """Encode records written under the claim at offset `tag`. At least one."""
    name = _TAG.encode()
    headers = varint(1) + varint(len(name)) + name + varint(8) + tag.to_bytes(8, "big")
    return _sealed(pairs, headers, producer, wall_ms)


def entries_of(data: bytes) -> Iterator[tuple[int, list[LogEntry]]]:
    """Yield for each whole batch the offset behind it and its records. Markers of transactions, and batches that the
    cleaner has emptied, have none. Raises `CorruptBatch`."""
    for header, batch in batches(data):
        found: list[LogEntry] = []
        if not header.is_control and header.record_count:
            found = [_entry(one, header) for one in decode_records(record_bytes(header, batch), header)]
        yield header.next_offset, found


def _entry(record: Record, header: BatchHeader) -> LogEntry:
    key = record.key or b""
    tag = next((int.from_bytes(value or b"", "big") for name, value in record.headers if name == _TAG), _NO_TAG)
    if key.startswith(_CLAIM):
        kind = EntryKind.CLAIM
    elif key.startswith((_FENCE, _NO_OP)):
        kind = EntryKind.INNOCENT
    else:
        kind = EntryKind.DATA
    producer = header.producer_id, header.producer_epoch
    sequence = (header.base_sequence + record.offset - header.base_offset) % SEQUENCES
    return LogEntry(record.offset, kind, tag, key, record.value, producer, sequence)
