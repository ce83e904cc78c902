"""A partition of the cluster's log as clients of its leader see it: producers' epochs and sequence numbers, replication
that lags, leaders that move, producers that are forgotten, and the cleaner. As observed in docs/spec/shared-log.md#1 to
#4."""

from bisect import bisect_right
from dataclasses import dataclass, field
from itertools import islice
from random import Random

from coordinator.cluster_log.entries import EntryKind, LogEntry, entries_of
from protocol.errors import ErrorCode
from protocol.record_batch import decode_records, pack_batch, read_header, record_bytes, stamp
from protocol.record_writing import encode_record_with, varint

REMEMBERED = 5
NO_OFFSET = -1


@dataclass(slots=True)
class Batch:
    data: bytes
    base: int
    end: int
    appended_ms: int
    producer: tuple[int, int, int]
    entries: list[LogEntry]
    kept: set[int] = field(default_factory=set)
    """Offsets that the cleaner has kept."""


@dataclass(slots=True)
class Producer:
    epoch: int
    last: int
    recent: list[tuple[int, int, int]]
    heard_ms: int


def encoded(batch: Batch) -> bytes:
    """Return the batch as the cleaner has left it; without records if none is left."""
    if len(batch.kept) == batch.end - batch.base:
        return batch.data
    header = read_header(batch.data)
    records = [one for one in decode_records(record_bytes(header, batch.data), header) if one.offset in batch.kept]
    payload = b""
    for one in records:
        headers = varint(len(one.headers))
        for name, value in one.headers:
            headers += varint(len(name)) + name.encode() + varint(len(value or b"")) + (value or b"")
        payload += encode_record_with(varint(one.offset - batch.base), one.key, one.value, headers)
    return pack_batch(
        payload,
        base_offset=batch.base,
        attributes=header.attributes,
        last_offset_delta=header.last_offset_delta,
        base_timestamp_ms=header.base_timestamp_ms,
        max_timestamp_ms=header.max_timestamp_ms,
        record_count=len(records),
        producer=batch.producer,
    )


def _is_marker(batch: Batch) -> bool:
    return any(one.kind in {EntryKind.COMMIT, EntryKind.ABORT} for one in batch.entries)


class Partition:
    """`committed` is what all replicas have: acknowledged, and kept by each later leader."""

    def __init__(self, random: Random, memory_ms: int, lag_ms: int) -> None:
        self.batches: list[Batch] = []
        self._claims: list[LogEntry] = []
        self.producers: dict[int, Producer] = {}
        self.committed = 0
        self.high_watermark = 0
        self.away_until_ms = 0
        """There is no leader until then."""
        self.slow_until_ms = 0
        """Replicas do not replicate until then."""
        self.was_forgetful = False
        """True once the leader forgot producers before their expiration time."""
        self.forgets_at_claim = False
        """True if it will do that at the next claim."""
        self.leader = 0
        self._random = random
        self._memory_ms = memory_ms
        self._lag_ms = lag_ms

    @property
    def end(self) -> int:
        return self.batches[-1].end if self.batches else 0

    @property
    def newest_claim(self) -> LogEntry | None:
        return self._claims[-1] if self._claims else None

    def append(self, data: bytes, now_ms: int) -> tuple[ErrorCode, int, bool]:
        """Return the error, the base offset, and whether the batch was taken now (not found there)."""
        self._expire(now_ms)
        header = read_header(data)
        first = header.base_sequence
        last = first + header.last_offset_delta
        known = self.producers.get(header.producer_id) if header.producer_id >= 0 else None
        if known is not None:
            if known.epoch == header.producer_epoch:
                for one in known.recent:
                    if one[:2] == (first, last):
                        return ErrorCode.NONE, one[2], False
            if header.producer_epoch < known.epoch:
                return ErrorCode.INVALID_PRODUCER_EPOCH, NO_OFFSET, False
            expected = known.last + 1 if known.epoch == header.producer_epoch else 0
            if first != expected:
                return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, NO_OFFSET, False
        base = self.end
        stamped = stamp(data, base)
        ((end, entries),) = entries_of(stamped)
        producer = header.producer_id, header.producer_epoch, first
        batch = Batch(stamped, base, end, now_ms, producer, entries, set(range(base, end)))
        self.batches.append(batch)
        self._claims += [one for one in entries if one.kind is EntryKind.CLAIM]
        self._note(batch, now_ms)
        return ErrorCode.NONE, base, True

    def mark(self, marker: bytes, now_ms: int) -> None:
        """Append the marker of a client's transaction."""
        base = self.end
        stamped = stamp(marker, base)
        ((end, entries),) = entries_of(stamped)
        self.batches.append(Batch(stamped, base, end, now_ms, (-1, -1, -1), entries, {base}))

    def _note(self, batch: Batch, now_ms: int) -> None:
        producer_id, epoch, first = batch.producer
        if producer_id < 0:
            return
        known = self.producers.get(producer_id)
        recent = known.recent if known is not None and known.epoch == epoch else []
        last = first + batch.end - batch.base - 1
        self.producers[producer_id] = Producer(
            epoch, last, [*recent, (first, last, batch.base)][-REMEMBERED:], batch.appended_ms
        )

    def _expire(self, now_ms: int) -> None:
        for producer_id, one in list(self.producers.items()):
            if now_ms - one.heard_ms > self._memory_ms:
                del self.producers[producer_id]

    def forget(self) -> None:
        """Forget all producers, long before it is due."""
        self.producers.clear()
        self.was_forgetful = True

    def replicate(self, now_ms: int) -> None:
        if now_ms >= self.slow_until_ms and now_ms >= self.away_until_ms:
            self.committed = self.high_watermark = self.end

    def move(self, now_ms: int, away_ms: int) -> None:
        """Move the leader. What not all replicas have may go, and readers may see less for a while."""
        self.leader += 1
        self.away_until_ms = now_ms + away_ms
        ends = [one.end for one in self.batches if one.end >= self.committed] or [self.end]
        end = self._random.choice(ends)
        self.batches = [one for one in self.batches if one.end <= end]
        self._claims = [one for one in self._claims if one.offset < end]
        seen = [one.end for one in self.batches if one.end <= self.committed]
        self.high_watermark = self._random.choice(seen[-3:] or [0])
        self.producers.clear()
        for batch in self.batches:
            if batch.producer[0] >= 0:
                self._note(batch, now_ms)
        self._expire(now_ms)

    def fetch(self, offset: int, most: int) -> tuple[ErrorCode, bytes, int]:
        if offset > self.end:
            return ErrorCode.OFFSET_OUT_OF_RANGE, b"", self.high_watermark
        found: list[bytes] = []
        for batch in islice(self.batches, bisect_right(self.batches, offset, key=lambda one: one.end), None):
            if batch.end > self.high_watermark or len(found) == most:
                break
            found.append(encoded(batch))
        return ErrorCode.NONE, b"".join(found), self.high_watermark

    def clean(self, now_ms: int) -> int:
        """Keep the last record of each key among those older than the lag. Return how many were removed."""
        old = [one for one in self.batches if one.end <= self.committed and one.appended_ms < now_ms - self._lag_ms]
        old = [batch for batch in old if not _is_marker(batch)]
        newest = {entry.key: entry.offset for batch in old for entry in batch.entries if entry.offset in batch.kept}
        gone = 0
        for batch in old:
            going = {one.offset for one in batch.entries if one.offset in batch.kept and newest[one.key] != one.offset}
            gone += len(going)
            batch.kept -= going
        return gone
