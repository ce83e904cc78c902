"""Aids: files beside a log's segments that spare whoever replays it the part before an offset. What stands in them is
the business of who writes them; here they are pieces of bytes under a name, `00000000000000001234.groups`, that says
up to which offset (not included) they speak for the log.

The log alone is the truth. An aid that is missing, old, damaged or not understood costs time and nothing else; so it is
enough that it is whole or recognisably not. It speaks for records as they stand: before cleaning changes segments, the
aids of the log are removed, durably.
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


class AidDamaged(Exception):
    """The aid is not what was written; the sentence says where. The log itself is none the worse."""


class Aid(NamedTuple):
    """`pieces` may raise `AidDamaged` at any piece, the first included: nothing is to be believed of an aid before it
    has ended. It holds the file open until then, or until it is closed."""

    end: int
    path: str
    size: int
    pieces: Iterator[bytes]


class NewAid(NamedTuple):
    """One to be written: see `write_aid`."""

    folder: str
    end: int
    pieces: Iterable[bytes]


def write_aids(disk: Disk, aids: Iterable[NewAid]) -> str:
    """All of them, or those before the first that failed: the sentence of the failure, empty if there was none."""
    try:
        for aid in aids:
            write_aid(disk, *aid)
    except OSError as error:
        return str(error)
    return ""


def write_aid(disk: Disk, folder: str, end: int, pieces: Iterable[bytes]) -> int:
    """One aid in the place of all others: whole or not at all, durable on return. Its size in bytes. `OSError`: there
    is none, or it is the one before. The log must be durable in its files up to `end`. No piece may be empty.
    """
    path, beside = _path(folder, end, _SUFFIX), _path(folder, end, _BESIDE)
    try:
        size = _write(disk, beside, end, pieces)
        disk.rename(beside, path)
    except OSError:
        with suppress(OSError):
            remove_aids(disk, folder, beyond=_NOBODY)
        raise
    disk.sync_folder(folder)
    remove_aids(disk, folder, but=end)
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


def read_newest_aid(disk: Disk, folder: str) -> Aid | None:
    """The one that speaks for most of the log, if there is any. Raises `OSError`."""
    ends = [int(name[:20]) for name in disk.list(folder) if is_aid_file(name) and name.endswith(_SUFFIX)]
    if not ends:
        return None
    path = _path(folder, max(ends), _SUFFIX)
    handle = disk.open_to_read(path)
    try:
        size = disk.size(handle)
    finally:
        disk.close(handle)
    return Aid(max(ends), path, size, _pieces(disk, path, max(ends)))


def _pieces(disk: Disk, path: str, end: int) -> Iterator[bytes]:
    handle = disk.open_to_read(path)
    try:
        size = disk.size(handle)
        head = disk.read_at(handle, 0, _HEAD.size + _PIECE.size)
        checksum = crc32c(head[:16])
        if len(head) != _HEAD.size + _PIECE.size or _HEAD.unpack_from(head) != (_MAGIC, end, checksum):
            raise AidDamaged(f"{path}: its head is not that of an aid up to {end}")
        position, (wanted, length) = len(head), _PIECE.unpack_from(head, _HEAD.size)
        while length:
            if position + length + _PIECE.size > size:
                raise AidDamaged(f"{path}: ends before the piece at {position} does")
            data = disk.read_at(handle, position, length + _PIECE.size)
            piece = data[:length]
            checksum = _extend(checksum, piece)
            if checksum != wanted or len(data) != length + _PIECE.size:
                raise AidDamaged(f"{path}: the checksum of the piece at {position} does not hold")
            yield piece
            position += len(data)
            wanted, length = _PIECE.unpack_from(data, length)
        if wanted != _extend(checksum, b"") or position != size:
            raise AidDamaged(f"{path}: does not end at {position}, as it should")
    finally:
        disk.close(handle)


def _extend(checksum: int, piece: bytes) -> int:
    """The length counts too: a piece can be neither cut nor left out nor moved unseen."""
    return crc32c(piece, crc32c(len(piece).to_bytes(4, "big"), checksum))


def remove_aids(disk: Disk, folder: str, *, but: int | None = None, beyond: int = -1) -> bool:
    """Remove those that speak for more than `beyond`, except that up to `but`, and what a crash left of writing one.
    Whether any was there: then the folder is to be synced before anything relies on it.
    """
    found = False
    for name in disk.list(folder):
        if is_aid_file(name) and (name.endswith(_BESIDE) or (int(name[:20]) > beyond and int(name[:20]) != but)):
            disk.remove(f"{folder}/{name}")
            found = True
    return found


def is_aid_file(name: str) -> bool:
    """Whether the file is an aid, or the beginning of one."""
    stem, dot, kind = name.partition(".")
    return len(stem) == 20 and stem.isdecimal() and dot + kind in (_SUFFIX, _BESIDE)


def _path(folder: str, end: int, kind: str) -> str:
    return f"{folder}/{end:020d}{kind}"
