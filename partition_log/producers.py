"""What a log knows of its idempotent producers, so that a batch sent again is not stored again (KIP-98, KIP-360).

The log is the truth: this is what its batches' headers say, kept in memory. So that a start need not read them all, it
is also written beside the log at checkpoints, as

    00000000000000001234.producers     a crc32c in hexadecimal, a line end, and a `Snapshot` of the log up to offset
                                       1234 as JSON

A snapshot that is missing, of an older end, or damaged costs a walk over the headers that follow it. A log without
idempotent producers has none. What a snapshot tells and the log does not any more (its old segments went) stays known
until it expires, as in Kafka.
"""

import enum
from collections.abc import Sequence
from itertools import islice
from struct import Struct
from typing import NamedTuple

import msgspec
from crc32c import crc32c

from partition_log.disk import Disk
from partition_log.errors import LogDamaged
from partition_log.recovery import read_file, write_file

REMEMBERED = 5
"""Batches of a producer that are recognised when they come again: no client has more on their way to a partition."""
NO_EPOCH = -1
PROTECTED_MS = 5 * 60_000
"""So long after it was heard nobody else's writing makes a producer forgotten: what it sends again comes within two
minutes (`delivery.timeout.ms`)."""

_MARK = Struct(">23xi16xqhi").unpack_from  # last offset delta, producer id, epoch, base sequence
_OF_TRANSACTIONS = 0x30  # transactional, control: in the lower byte of the attributes
_KIND = "producers"
_SEQUENCES = 1 << 31


class Mark(NamedTuple):
    """What a batch's header says of its producer. Sequences go from 0 to 2^31-1 and begin again."""

    producer_id: int
    epoch: int
    first: int
    last: int


class Stored(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A batch in the log: its first and last sequence, and the offset of its first record."""

    first: int
    last: int
    base_offset: int


class Known(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A producer: its newest epoch, that epoch's last batches, and when it was last heard. 0 is "just now": an append
    knows no time, the next `Producers.expire` does."""

    epoch: int
    heard_ms: int
    batches: tuple[Stored, ...]


class Snapshot(msgspec.Struct, frozen=True):
    """All producers of a log when it ended at `end`, the one not heard for the longest time first."""

    end: int
    producers: tuple[tuple[int, Known], ...]


class Objection(enum.Enum):
    """Why a batch must not be stored."""

    OLD_EPOCH = "a producer of a newer epoch has this id"
    OUT_OF_ORDER = "its first sequence does not follow the last one stored"
    TOO_MANY = "too many other producers have written to this partition in the last minutes"


_UNKNOWN = Known(NO_EPOCH, 0, ())


def mark_of(batch: bytes | memoryview) -> Mark | None:
    """None for a batch whose producer is not idempotent, and for those of transactions: what is kept in them (offsets
    and their markers) has its own ways to be there once."""
    if batch[43] >= 0x80 or batch[22] & _OF_TRANSACTIONS:  # the id is negative: one byte tells
        return None
    last_offset_delta, producer_id, epoch, first = _MARK(batch)
    if first < 0:
        return None
    return Mark(producer_id, epoch, first, (first + last_offset_delta) % _SEQUENCES)


class Producers:
    """At most `most`: a new one takes the place of the one not heard for the longest time, if that has been silent for
    `PROTECTED_MS`, and has none else. A forgotten one is taken at its word when it comes back, whatever its sequence
    (KIP-360)."""

    __slots__ = ("_known", "_most", "_now_ms", "kept_at")

    def __init__(self, most: int) -> None:
        self._now_ms = 0  # of the last `expire`
        self._known: dict[int, Known] = {}  # in the order in which they were last heard
        self._most = most
        self.kept_at: int | None = None  # the end that the snapshot on disk stands for

    def __len__(self) -> int:
        return len(self._known)

    def get(self, producer_id: int) -> Known:
        """Of one that is not known: no epoch, no batches."""
        return self._known.get(producer_id, _UNKNOWN)

    def has_room(self, new: int) -> bool:
        """Whether so many that are not known may be."""
        excess = len(self._known) + new - self._most
        if excess <= 0:
            return True
        last = next(islice(self._known.values(), excess - 1, None), None)
        return last is not None and 0 < last.heard_ms <= self._now_ms - PROTECTED_MS

    def appended(self, mark: Mark, base_offset: int) -> None:
        """What the log holds is never refused: `judge` is asked before."""
        self._known[mark.producer_id] = _with(self._known.pop(mark.producer_id, _UNKNOWN), mark, base_offset)
        if len(self._known) > self._most:
            del self._known[next(iter(self._known))]

    def expire(self, now_ms: int, after_ms: int) -> None:
        """Forget those that were last heard so long ago. Costs what was appended or expires since the last time."""
        self._now_ms = now_ms
        fresh = []
        for producer_id, known in reversed(self._known.items()):
            if known.heard_ms:
                break
            fresh.append(producer_id)
        for producer_id in fresh:
            known = self._known[producer_id]
            self._known[producer_id] = Known(known.epoch, now_ms, known.batches)
        gone = []
        for producer_id, known in self._known.items():
            if now_ms - known.heard_ms < after_ms:
                break
            gone.append(producer_id)
        for producer_id in gone:
            del self._known[producer_id]

    def snapshot(self, end: int) -> Snapshot:
        return Snapshot(end, tuple(self._known.items()))

    def restore(self, snapshot: Snapshot) -> None:
        self._known = dict(snapshot.producers[-self._most :])
        self.kept_at = snapshot.end


def _with(known: Known, mark: Mark, base_offset: int) -> Known:
    stored = Stored(mark.first, mark.last, base_offset)
    if known.epoch != mark.epoch:
        return Known(mark.epoch, 0, (stored,))
    return Known(mark.epoch, 0, (*known.batches[1 - REMEMBERED :], stored))


# --------------------------------------------------------------------------------------------------------- judging


def judge(producers: Producers | None, batches: Sequence[bytes], next_offset: int) -> list[int | None] | Objection:
    """For each of the batches that one request brings, in order: None if it is to be appended, or the base offset it
    was stored at before. An objection to one is one to all. `producers` is what the log has, `next_offset` its end."""
    ahead: dict[int, Known] = {}
    strangers = 0
    verdicts: list[int | None] = []
    for batch in batches:
        verdict: int | None = None
        mark = mark_of(batch)
        if mark is not None:
            known = ahead.get(mark.producer_id) or (_UNKNOWN if producers is None else producers.get(mark.producer_id))
            strangers += known is _UNKNOWN
            verdict = _stored_at(known, mark)
            if verdict is None:
                objection = _objection(known, mark)
                if objection is not None:
                    return objection
                ahead[mark.producer_id] = _with(known, mark, next_offset)
        if verdict is None:
            next_offset += int.from_bytes(batch[23:27], "big") + 1
        verdicts.append(verdict)
    if strangers and producers is not None and not producers.has_room(strangers):
        return Objection.TOO_MANY
    return verdicts


def _stored_at(known: Known, mark: Mark) -> int | None:
    if known.epoch == mark.epoch:
        for stored in known.batches:
            if stored.first == mark.first and stored.last == mark.last:
                return stored.base_offset
    return None


def _objection(known: Known, mark: Mark) -> Objection | None:
    """In Kafka's order. One that is not known, or has no epoch, may begin anywhere (KIP-360)."""
    if mark.epoch < known.epoch:
        return Objection.OLD_EPOCH
    if known.epoch == NO_EPOCH:
        return None
    expected = 0 if mark.epoch > known.epoch else (known.batches[-1].last + 1) % _SEQUENCES
    return None if mark.first == expected else Objection.OUT_OF_ORDER


# ----------------------------------------------------------------------------------------------------- the snapshots


def snapshot_name(end: int) -> str:
    return f"{end:020d}.{_KIND}"


def is_snapshot_file(name: str) -> bool:
    """Also one that was never finished."""
    stem, _, kind = name.partition(".")
    return len(stem) == 20 and stem.isdecimal() and kind in (_KIND, f"{_KIND}.new")


def write_snapshot(disk: Disk, folder: str, snapshot: Snapshot) -> None:
    """Durable on return."""
    body = msgspec.json.encode(snapshot)
    write_file(disk, folder, f"{folder}/{snapshot_name(snapshot.end)}", b"%08x\n" % crc32c(body) + body)


def remove_snapshots(disk: Disk, folder: str, *, but: int | None) -> bool:
    """All but the one of that end; whether there were any."""
    stale = [name for name in disk.list(folder) if is_snapshot_file(name)]
    if but is not None and snapshot_name(but) in stale:
        stale.remove(snapshot_name(but))
    for name in stale:
        disk.remove(f"{folder}/{name}")
    return bool(stale)


def newest_snapshot(disk: Disk, folder: str, end: int) -> Snapshot | None:
    """The newest sound one that says nothing of what lies beyond `end`."""
    ends = [int(name[:20]) for name in disk.list(folder) if is_snapshot_file(name) and name.endswith(_KIND)]
    for told in sorted(ends, reverse=True):
        if told <= end:
            snapshot = _read(disk, f"{folder}/{snapshot_name(told)}")
            if snapshot is not None and snapshot.end == told:
                return snapshot
    return None


def _read(disk: Disk, path: str) -> Snapshot | None:
    try:
        crc, _, body = read_file(disk, path).partition(b"\n")
    except LogDamaged:
        return None
    return _decode(body) if crc == b"%08x" % crc32c(body) else None


def _decode(body: bytes) -> Snapshot | None:
    try:
        return msgspec.json.decode(body, type=Snapshot)
    except msgspec.MsgspecError:
        return None
