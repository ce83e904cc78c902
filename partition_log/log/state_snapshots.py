"""State snapshots: files beside a log's segments that replace the part of the log before an offset in a replay.

The writer defines the content, which this module treats as pieces of bytes in a file `00000000000000001234.groups`. The
number is the offset up to which (not included) the snapshot replaces the log.

Only the log is authoritative. A snapshot that is missing, old, damaged or of an unknown format only costs time, so it
need only be complete or recognizably incomplete. It describes the records before cleaning: the snapshots of a log are
removed, durably, before cleaning changes its segments.
"""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from struct import Struct
from typing import NamedTuple

from crc32c import crc32c

from partition_log.disk.disk import Disk

_SUFFIX, _BESIDE = ".groups", ".groups.new"
_MAGIC = b"MUSTAID1"
_HEAD = Struct(">8sqI")  # magic, end, checksum of both
_PIECE = Struct(">II")  # checksum of everything up to the piece's end, length; the last one is empty
_CHUNK_BYTES = 256 * 1024
_NOBODY = 2**64  # beyond any end


class SnapshotDamaged(Exception):
    """The snapshot is damaged; the text says where. The log itself is intact."""


class StateSnapshot(NamedTuple):
    """Snapshot found beside a log.

    `pieces` may raise `SnapshotDamaged` at any piece, the first included: no piece may be relied on before the last has
    been read. It holds the file open until then, or until it is closed.
    """

    end: int
    path: str
    size: int
    pieces: Iterator[bytes]


class NewStateSnapshot(NamedTuple):
    """Snapshot to be written by `write_state_snapshot`."""

    folder: str
    end: int
    pieces: Iterable[bytes]


def write_state_snapshots(disk: Disk, snapshots: Iterable[NewStateSnapshot]) -> str:
    """Write snapshots until the first failure. Return the failure's text, empty if there was none."""
    try:
        for snapshot in snapshots:
            write_state_snapshot(disk, *snapshot)
    except OSError as error:
        return str(error)
    return ""


def write_state_snapshot(disk: Disk, folder: str, end: int, pieces: Iterable[bytes]) -> int:
    """Write one snapshot in place of all others: whole or not at all, durable on return. Return its size in bytes.

    After an `OSError` there is none, or the previous one. The log must be durable in its files up to `end`. No piece
    may be empty.
    """
    path, beside = _path(folder, end, _SUFFIX), _path(folder, end, _BESIDE)
    try:
        size = _write(disk, beside, end, pieces)
        disk.rename(beside, path)
    except OSError:
        with suppress(OSError):
            remove_state_snapshots(disk, folder, beyond=_NOBODY)
        raise
    disk.sync_folder(folder)
    remove_state_snapshots(disk, folder, but=end)
    return size


def _write(disk: Disk, path: str, end: int, pieces: Iterable[bytes]) -> int:
    handle = disk.open(path)
    try:
        disk.truncate(handle, 0)
        head = _MAGIC + end.to_bytes(8, "big")
        checksum = crc32c(head)
        chunk, position = [head + checksum.to_bytes(4, "big")], 0
        size = _HEAD.size
        for piece in pieces:
            checksum = _extend(checksum, piece)
            chunk += (_PIECE.pack(checksum, len(piece)), piece)
            size += _PIECE.size + len(piece)
            if size - position >= _CHUNK_BYTES:
                disk.write_at(handle, position, b"".join(chunk))
                chunk, position = [], size
        chunk.append(_PIECE.pack(_extend(checksum, b""), 0))
        disk.write_at(handle, position, b"".join(chunk))
        disk.sync(handle)
    finally:
        disk.close(handle)
    return size + _PIECE.size


def read_newest_state_snapshot(disk: Disk, folder: str) -> StateSnapshot | None:
    """Return the snapshot that reaches furthest, if there is any. Raises `OSError`."""
    ends = [int(name[:20]) for name in disk.list(folder) if is_state_snapshot_file(name) and name.endswith(_SUFFIX)]
    if not ends:
        return None
    path = _path(folder, max(ends), _SUFFIX)
    handle = disk.open_to_read(path)
    try:
        size = disk.size(handle)
    finally:
        disk.close(handle)
    return StateSnapshot(max(ends), path, size, _pieces(disk, path, max(ends)))


def _pieces(disk: Disk, path: str, end: int) -> Iterator[bytes]:
    handle = disk.open_to_read(path)
    try:
        size = disk.size(handle)
        head = disk.read_at(handle, 0, _HEAD.size + _PIECE.size)
        checksum = crc32c(head[:16])
        if len(head) != _HEAD.size + _PIECE.size or _HEAD.unpack_from(head) != (_MAGIC, end, checksum):
            raise SnapshotDamaged(f"{path}: its head is not that of a snapshot up to {end}")
        position, (wanted, length) = len(head), _PIECE.unpack_from(head, _HEAD.size)
        while length:
            if position + length + _PIECE.size > size:
                raise SnapshotDamaged(f"{path}: ends before the piece at {position} does")
            data = disk.read_at(handle, position, length + _PIECE.size)
            piece = data[:length]
            checksum = _extend(checksum, piece)
            if checksum != wanted or len(data) != length + _PIECE.size:
                raise SnapshotDamaged(f"{path}: the checksum of the piece at {position} does not hold")
            yield piece
            position += len(data)
            wanted, length = _PIECE.unpack_from(data, length)
        if wanted != _extend(checksum, b"") or position != size:
            raise SnapshotDamaged(f"{path}: does not end at {position}, as it should")
    finally:
        disk.close(handle)


def _extend(checksum: int, piece: bytes) -> int:
    """Extend the checksum. It covers the length too, so that cut, missing and moved pieces are noticed."""
    return crc32c(piece, crc32c(len(piece).to_bytes(4, "big"), checksum))


def remove_state_snapshots(disk: Disk, folder: str, *, but: int | None = None, beyond: int = -1) -> bool:
    """Remove snapshots that reach beyond `beyond`, except the one up to `but`, and files that a crash left incomplete.

    Return true if there was any: then the folder must be synced before anything relies on it.
    """
    found = False
    for name in disk.list(folder):
        if is_state_snapshot_file(name) and (
            name.endswith(_BESIDE) or (int(name[:20]) > beyond and int(name[:20]) != but)
        ):
            disk.remove(f"{folder}/{name}")
            found = True
    return found


def is_state_snapshot_file(name: str) -> bool:
    """Return true for the file of a snapshot, complete or not."""
    stem, dot, kind = name.partition(".")
    return len(stem) == 20 and stem.isdecimal() and dot + kind in (_SUFFIX, _BESIDE)


def _path(folder: str, end: int, kind: str) -> str:
    return f"{folder}/{end:020d}{kind}"
