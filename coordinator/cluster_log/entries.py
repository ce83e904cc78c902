"""Records of a shard's partition in the cluster: the shard's own, each tagged with its owner's claim, and claims,
fences and no-ops, whose keys no record of groups or offsets has.

A tag is the base offset of the owner's claim, in a header of the record: a tombstone has no value to hold it.

The offsets that a client commits in a transaction are one record under a key of its own until the transaction has
ended, so that the cleaner cannot put it over an acknowledged one (docs/spec/shared-log.md#7).
"""

import enum
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec

from protocol.record_batch import BatchHeader, CorruptBatch, Record, batches, decode_records, record_bytes, seal_batch
from protocol.record_writing import encode_record_with, varint

Pair = tuple[bytes, bytes | None]
"""Key and value of a record; no value: a tombstone."""

SEQUENCES = 1 << 31
"""Number of a producer's sequence numbers, which wrap around."""
_TAG = "muster.claim"
_CLAIM, _FENCE, _NO_OP = b"claim|", b"fence|", b"noop|"
_PENDING = b"txn|"
_PRESENT = b"1"
_NODE = b"node "
"""Prefix of the value of a claim; the id of the claiming node follows."""
_NO_TAG = -1
NOBODY = -1
"""Node id of a claim that does not record its node."""


class EntryKind(enum.Enum):
    """Kinds of records in a shard's partition."""

    DATA = "data"
    CLAIM = "claim"
    PENDING = "pending"
    """Offsets of a client's transaction."""
    COMMIT = "commit"
    """A marker of the cluster: its producer's transaction is committed."""
    ABORT = "abort"
    """A marker of the cluster: its producer's transaction is aborted."""
    INNOCENT = "innocent"
    """A fence or a no-op: it changes no group, and gives no node ownership."""


_MARKERS = {b"\0\0\0\0": EntryKind.ABORT, b"\0\0\0\1": EntryKind.COMMIT}
"""Kinds of markers by the keys of their records: version and type (KIP-98)."""


class ClaimedEpoch(NamedTuple):
    """A claim in the log: its offset, and the producer id and epoch that it was written with."""

    offset: int
    producer_id: int
    producer_epoch: int


class LogEntry(NamedTuple):
    """A record read. `tag`: the claim it was written under; -1 if it has none. `sequence`: its producer's."""

    offset: int
    kind: EntryKind
    tag: int
    key: bytes
    value: bytes | None
    producer: tuple[int, int]
    sequence: int


class TransactionOffsets(msgspec.Struct, frozen=True, array_like=True):
    """Offsets of a client's transaction: the `records` that its commit makes valid. The transaction of the producer was
    open when the log had been read up to offset `open_at`."""

    producer_id: int
    open_at: int
    records: tuple[tuple[bytes, bytes | None], ...]


def _sealed(pairs: Sequence[Pair], headers: bytes, producer: tuple[int, int, int], wall_ms: int) -> bytes:
    payload = b"".join(
        [encode_record_with(varint(delta), key, value, headers) for delta, (key, value) in enumerate(pairs)]
    )
    return seal_batch(payload, len(pairs), wall_ms, 0, producer)


def _named(kind: bytes, producer: tuple[int, int, int]) -> Pair:
    # A key of its own for each claim: the cleaner keeps the last record of a key, and a claim must stay
    # (docs/spec/shared-log.md#4).
    return b"%b%d|%d" % (kind, producer[0], producer[1]), _PRESENT


def claim_batch(producer: tuple[int, int, int], wall_ms: int, node_id: int = NOBODY) -> bytes:
    """Encode the batch of a claim; `producer`: id, epoch and sequence, which is 0. `node_id`: the claiming node."""
    key, value = _named(_CLAIM, producer)
    return _sealed([(key, value if node_id < 0 else b"%b%d" % (_NODE, node_id))], b"\0", producer, wall_ms)


def claiming_node(claim: LogEntry) -> int:
    """Return the id of the node that made a claim; -1 if the claim does not record it."""
    number = (claim.value or b"").removeprefix(_NODE)
    return int(number) if number != claim.value and number.isdigit() else NOBODY


def fence_batch(producer: tuple[int, int, int], wall_ms: int) -> bytes:
    """Encode a batch of another owner's producer id, with an epoch above its own: it fences that owner."""
    return _sealed([_named(_FENCE, producer)], b"\0", producer, wall_ms)


def no_op(producer_id: int) -> Pair:
    """Return a record without effect, for a write that only proves ownership."""
    return b"%b%d" % (_NO_OP, producer_id), _PRESENT


def pending_key(tag: int, number: int) -> bytes:
    """Return the key of offsets of a transaction, `number` of those written under the claim at offset `tag`."""
    return b"%b%d|%d" % (_PENDING, tag, number)


def pending_pair(key: bytes, offsets: TransactionOffsets) -> Pair:
    """Return the record of offsets of a transaction; its tombstone says that the transaction's outcome is in the
    log."""
    return key, msgspec.msgpack.encode(offsets)


def is_pending_key(key: bytes) -> bool:
    """Return true for keys of offsets of transactions."""
    return key.startswith(_PENDING)


def read_pending(entry: LogEntry) -> TransactionOffsets:
    """Return the offsets of a PENDING entry. Raises `CorruptBatch`."""
    try:
        return msgspec.msgpack.decode(entry.value or b"", type=TransactionOffsets)
    except msgspec.DecodeError as error:
        raise CorruptBatch(0, f"the offsets of a transaction at {entry.offset} cannot be read: {error}") from None


def tagged_batch(pairs: Sequence[Pair], tag: int, producer: tuple[int, int, int], wall_ms: int) -> bytes:
    """Encode records written under the claim at offset `tag`. At least one."""
    name = _TAG.encode()
    headers = varint(1) + varint(len(name)) + name + varint(8) + tag.to_bytes(8, "big")
    return _sealed(pairs, headers, producer, wall_ms)


def entries_of(data: bytes) -> Iterator[tuple[int, list[LogEntry]]]:
    """Yield for each whole batch the offset after it and its records. There are none for batches that the cleaner has
    emptied, and for control records other than transaction markers. Raises `CorruptBatch`."""
    for header, batch in batches(data):
        found: list[LogEntry] = []
        if header.record_count:
            records = decode_records(record_bytes(header, batch), header)
            if header.is_control:
                found = [_marker(one, header) for one in records if one.key in _MARKERS]
            else:
                found = [_entry(one, header) for one in records]
        yield header.next_offset, found


def _marker(record: Record, header: BatchHeader) -> LogEntry:
    key = record.key or b""
    producer = header.producer_id, header.producer_epoch
    return LogEntry(record.offset, _MARKERS[key], _NO_TAG, key, record.value, producer, header.base_sequence)


def _entry(record: Record, header: BatchHeader) -> LogEntry:
    key = record.key or b""
    tag = next((int.from_bytes(value or b"", "big") for name, value in record.headers if name == _TAG), _NO_TAG)
    if key.startswith(_CLAIM):
        kind = EntryKind.CLAIM
    elif key.startswith((_FENCE, _NO_OP)):
        kind = EntryKind.INNOCENT
    elif is_pending_key(key) and record.value is not None:
        kind = EntryKind.PENDING
    else:
        kind = EntryKind.DATA
    producer = header.producer_id, header.producer_epoch
    sequence = (header.base_sequence + record.offset - header.base_offset) % SEQUENCES
    return LogEntry(record.offset, kind, tag, key, record.value, producer, sequence)
