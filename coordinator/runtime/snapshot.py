"""Snapshot of a shard's hard state, for the next start to read in place of the log it came from.

Written at a clean stop, in pieces (`partition_log.log.state_snapshots` keeps all of them or none), each of which is
read in a few milliseconds at most. The content is that of the log: groups as their own records (Kafka's schema),
offsets, and offsets pending in a transaction. The order of the log is kept.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

import msgspec

from coordinator.groups.consumer.record_builders import records_of
from coordinator.records.codec import decode, encode
from coordinator.records.consumer_records import ConsumerRecord
from coordinator.records.records import BalancedMetadata, GroupMetadata, LogCorrupt, Ownership
from coordinator.runtime.offset_and_metadata import OffsetAndMetadata
from coordinator.runtime.offset_table import PendingPartition, PendingProducer
from coordinator.runtime.shard import Shard
from partition_log.log.state_snapshots import NewStateSnapshot

FORMAT = 1
_OFFSETS_A_PIECE = 2_000
_GROUPS_A_PIECE_BYTES = 64 * 1024
_PENDING_A_PIECE = 1_000
_GRANTS_A_PIECE = 500


class SnapshotUnknown(Exception):
    """The pieces are not those of a snapshot of this format."""


class HeadPiece(msgspec.Struct, frozen=True, array_like=True, tag="head"):
    format: int
    end: int


class GroupsPiece(msgspec.Struct, frozen=True, array_like=True, tag="groups"):
    """Key and value of each group's record; the id alone for a group that exists for its offsets."""

    groups: list[tuple[bytes, bytes] | str]


class OwnershipPiece(msgspec.Struct, frozen=True, array_like=True, tag="registries"):
    """Key and value of each grant's record, ended ones too."""

    grants: list[tuple[bytes, bytes]]


class BalancedPiece(msgspec.Struct, frozen=True, array_like=True, tag="balanced"):
    """Key and value of each client-balanced group's record."""

    groups: list[tuple[bytes, bytes]]


class ConsumersPiece(msgspec.Struct, frozen=True, array_like=True, tag="consumers"):
    """Keys and values of the records of server-driven groups. Those of one group are in order, over several pieces if
    it is large."""

    records: list[tuple[bytes, bytes]]


class OffsetsPiece(msgspec.Struct, frozen=True, array_like=True, tag="offsets"):
    """Group, topic, and offsets by partition. A topic with very many partitions is split into several pieces."""

    offsets: list[tuple[str, str, dict[int, OffsetAndMetadata]]]


class PendingPiece(msgspec.Struct, frozen=True, array_like=True, tag="pending"):
    places: list[PendingPartition]
    producers: list[PendingProducer]


class EndPiece(msgspec.Struct, frozen=True, array_like=True, tag="end"):
    offsets: int


_Piece = (
    HeadPiece | GroupsPiece | OwnershipPiece | BalancedPiece | ConsumersPiece | OffsetsPiece | PendingPiece | EndPiece
)
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Piece).decode


def pieces_of(shard: Shard) -> Iterator[bytes]:
    """Encode the shard, which must not change before the last piece is consumed."""
    yield _encode(HeadPiece(FORMAT, shard.log.next_offset))
    yield from map(_encode, _groups(shard))
    yield from map(_encode, _registries(shard))
    for balanced in [group.balanced for group in shard.groups.values()]:
        if balanced is not None and balanced.stored is not None:
            key, value = encode(balanced.stored)
            yield _encode(BalancedPiece([(key, value or b"")]))
    yield from map(_encode, _consumers(shard))
    yield from map(_encode, _offsets(shard))
    places, producers = shard.offsets.pending.dump()
    for first in range(0, len(places), _PENDING_A_PIECE):
        yield _encode(PendingPiece(places[first : first + _PENDING_A_PIECE], []))
    for producer_id, own in producers:
        for first in range(0, len(own), _PENDING_A_PIECE):
            yield _encode(PendingPiece([], [(producer_id, own[first : first + _PENDING_A_PIECE])]))
    yield _encode(EndPiece(shard.offsets.count))


def to_keep(shards: Iterable[Shard]) -> Iterator[NewStateSnapshot]:
    """Build the snapshots of the shards that need a new one: all recorded state is in memory, and differs from the
    snapshot loaded. Raises `OSError`."""
    for shard in shards:
        log = shard.log.files
        if log is None or shard.is_replaying or shard.failure or not log.next_offset:
            continue
        known = log.newest_state_snapshot()
        if known is None or not known.end == shard.snapshot_end == log.next_offset:
            yield NewStateSnapshot(log.folder, log.next_offset, pieces_of(shard))


def _groups(shard: Shard) -> Iterator[GroupsPiece]:
    some: list[tuple[bytes, bytes] | str] = []
    size = 0
    for group in shard.groups.values():
        stored = group.classic.stored
        if stored is None:
            if not shard.offsets.holds(group.group_id) and not group.classic.owners:
                continue  # no record was ever appended
            some.append(group.group_id)
            size += len(group.group_id)
        else:
            key, value = encode(stored)
            some.append((key, value or b""))
            size += len(key) + len(value or b"")
        if size >= _GROUPS_A_PIECE_BYTES:
            yield GroupsPiece(some)
            some, size = [], 0
    if some:
        yield GroupsPiece(some)


def _registries(shard: Shard) -> Iterator[OwnershipPiece]:
    for group in shard.groups.values():
        owners = group.classic.owners
        grants = owners.entries if owners is not None else []
        for first in range(0, len(grants), _GRANTS_A_PIECE):
            some = map(encode, grants[first : first + _GRANTS_A_PIECE])
            yield OwnershipPiece([(key, value or b"") for key, value in some])


def _consumers(shard: Shard) -> Iterator[ConsumersPiece]:
    for group in shard.groups.values():
        if group.consumer is None:
            continue
        some: list[tuple[bytes, bytes]] = []
        size = 0
        for key, value in map(encode, records_of(group.consumer)):
            some.append((key, value or b""))
            size += len(key) + len(value or b"")
            if size >= _GROUPS_A_PIECE_BYTES:
                yield ConsumersPiece(some)
                some, size = [], 0
        yield ConsumersPiece(some)


def _offsets(shard: Shard) -> Iterator[OffsetsPiece]:
    some: list[tuple[str, str, dict[int, OffsetAndMetadata]]] = []
    room = _OFFSETS_A_PIECE
    for group_id in shard.offsets.groups():
        for topic, partitions in shard.offsets.topics(group_id).items():
            for part in _parts(partitions, room):
                some.append((group_id, topic, part))
                room -= len(part)
                if room <= 0:
                    yield OffsetsPiece(some)
                    some, room = [], _OFFSETS_A_PIECE
    if some:
        yield OffsetsPiece(some)


def _parts(partitions: Mapping[int, OffsetAndMetadata], room: int) -> Iterator[dict[int, OffsetAndMetadata]]:
    rest = iter(partitions.items())
    while part := {index: kept.recorded() for index, kept in islice(rest, room)}:
        yield part
        room = _OFFSETS_A_PIECE


def restore(shard: Shard, end: int, pieces: Iterator[bytes]) -> Iterator[int]:
    """Restore an empty shard from the snapshot up to `end`; yield the size of each piece. Raises `SnapshotUnknown`, or
    the errors of `pieces`: then the shard is incomplete, and must be emptied."""
    ended: EndPiece | None = None
    is_first = True
    for piece in pieces:
        read = _read(piece)
        if isinstance(read, HeadPiece) is not is_first or ended is not None:
            raise SnapshotUnknown("its pieces are not in order")
        is_first = False
        if isinstance(read, HeadPiece):
            if (read.format, read.end) != (FORMAT, end):
                raise SnapshotUnknown(f"it is of format {read.format} up to {read.end}, not {FORMAT} up to {end}")
        elif isinstance(read, EndPiece):
            ended = read
        else:
            _take(shard, read)
        yield len(piece)
    if ended is None or ended.offsets != shard.offsets.count:
        raise SnapshotUnknown("it does not hold as many offsets as it says")


def _read(piece: bytes) -> _Piece:
    try:
        read: _Piece = _decode(piece)
    except msgspec.MsgspecError as error:
        raise SnapshotUnknown(str(error)) from None
    return read


def _take(shard: Shard, read: Any) -> None:
    if isinstance(read, OffsetsPiece):
        for group_id, topic, partitions in read.offsets:
            group = shard.groups.get(group_id)
            shard.offsets.restore(group_id if group is None else group.group_id, topic, partitions)
            shard.loaded_records += len(partitions)
    elif isinstance(read, GroupsPiece):
        for one in read.groups:
            _take_group(shard, one)
        shard.loaded_records += len(read.groups)
    elif isinstance(read, OwnershipPiece):
        _take_records(shard, read.grants, Ownership)
    elif isinstance(read, BalancedPiece):
        _take_records(shard, read.groups, BalancedMetadata)
    elif isinstance(read, ConsumersPiece):
        _take_records(shard, read.records, ConsumerRecord)
    elif isinstance(read, PendingPiece):
        for place in read.places:
            shard.offsets.pending.restore_partition(place)
            shard.loaded_records += len(place[3])
        for producer in read.producers:
            shard.offsets.pending.restore_producer(producer)


def _take_records(shard: Shard, records: list[tuple[bytes, bytes]], kind: Any) -> None:
    for key, value in records:
        shard.apply(_decoded(key, value, kind))
    shard.loaded_records += len(records)


def _take_group(shard: Shard, one: tuple[bytes, bytes] | str) -> None:
    if isinstance(one, str):
        shard.adopt(shard.new_group(one))
        return
    shard.apply(_decoded(*one, GroupMetadata))


def _decoded(key: bytes, value: bytes, kind: Any) -> Any:
    try:
        record = decode(key, value)
    except LogCorrupt as error:
        raise SnapshotUnknown(str(error)) from None
    if not isinstance(record, kind):
        raise SnapshotUnknown(f"what should be a {getattr(kind, '__name__', kind)} is none")
    return record
