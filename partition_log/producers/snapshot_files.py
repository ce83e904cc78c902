"""Snapshots of a log's producers, beside its segments."""

import msgspec
from crc32c import crc32c

from partition_log.disk.atomic_file import read_file, write_file
from partition_log.disk.disk import Disk
from partition_log.errors import LogDamaged
from partition_log.producers.producer_state import ProducersSnapshot

_KIND = "producers"


def snapshot_name(end: int) -> str:
    return f"{end:020d}.{_KIND}"


def is_snapshot_file(name: str) -> bool:
    """Return true for the file of a snapshot, complete or not."""
    stem, _, kind = name.partition(".")
    return len(stem) == 20 and stem.isdecimal() and kind in (_KIND, f"{_KIND}.new")


def write_snapshot(disk: Disk, folder: str, snapshot: ProducersSnapshot) -> None:
    """Write a snapshot, durable on return."""
    body = msgspec.json.encode(snapshot)
    write_file(disk, folder, f"{folder}/{snapshot_name(snapshot.end)}", b"%08x\n" % crc32c(body) + body)


def remove_snapshots(disk: Disk, folder: str, *, but: int | None) -> bool:
    """Remove all snapshots except the one for the end `but`. Return true if any was removed."""
    stale = [name for name in disk.list(folder) if is_snapshot_file(name)]
    if but is not None and snapshot_name(but) in stale:
        stale.remove(snapshot_name(but))
    for name in stale:
        disk.remove(f"{folder}/{name}")
    return bool(stale)


def newest_snapshot(disk: Disk, folder: str, end: int) -> ProducersSnapshot | None:
    """Return the newest valid snapshot that does not reach beyond `end`."""
    ends = [int(name[:20]) for name in disk.list(folder) if is_snapshot_file(name) and name.endswith(_KIND)]
    for told in sorted(ends, reverse=True):
        if told <= end:
            snapshot = _read(disk, f"{folder}/{snapshot_name(told)}")
            if snapshot is not None and snapshot.end == told:
                return snapshot
    return None


def _read(disk: Disk, path: str) -> ProducersSnapshot | None:
    try:
        crc, _, body = read_file(disk, path).partition(b"\n")
    except LogDamaged:
        return None
    return _decode(body) if crc == b"%08x" % crc32c(body) else None


def _decode(body: bytes) -> ProducersSnapshot | None:
    try:
        return msgspec.json.decode(body, type=ProducersSnapshot)
    except msgspec.MsgspecError:
        return None
