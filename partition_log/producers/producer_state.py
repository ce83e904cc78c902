"""State of a log's idempotent producers, so that a retried batch is not stored twice (KIP-98, KIP-360).

The log is authoritative: the state follows from the headers of its batches. So that a start need not read them all,
checkpoints write the state beside the log, as

    00000000000000001234.producers     a crc32c in hexadecimal, a line end, and a `ProducersSnapshot` of the log up to
                                       offset 1234 as JSON

If the snapshot is missing, older or damaged, a start reads the headers after it. A log without idempotent producers
has no snapshot. A producer whose segments were deleted is kept until it expires, as in Kafka.
"""

from itertools import islice
from struct import Struct
from typing import NamedTuple

import msgspec

REMEMBERED = 5
"""Number of a producer's last batches whose retries are recognised: no client has more in flight to a partition."""
NO_EPOCH = -1
PROTECTED_MS = 5 * 60_000
"""Time after its last batch during which a producer is not replaced by another one: retries arrive within two minutes
(`delivery.timeout.ms`)."""

_MARK = Struct(">23xi16xqhi").unpack_from  # last offset delta, producer id, epoch, base sequence
_OF_TRANSACTIONS = 0x30  # transactional, control: in the lower byte of the attributes
SEQUENCES = 1 << 31


class BatchSequence(NamedTuple):
    """Producer, epoch and sequences of a batch's header. Sequences go from 0 to 2^31-1 and begin again."""

    producer_id: int
    epoch: int
    first: int
    last: int


class StoredBatch(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A batch in the log: its first and last sequence, and the offset of its first record."""

    first: int
    last: int
    base_offset: int


class ProducerEntry(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A producer: its newest epoch, that epoch's last batches, and the time of its last append. 0 means "just now": an
    append knows no time, the next `ProducerExpiration.run` sets it."""

    epoch: int
    heard_ms: int
    batches: tuple[StoredBatch, ...]


class ProducersSnapshot(msgspec.Struct, frozen=True):
    """Producers of a log that ended at `end`, the one with the oldest last append first."""

    end: int
    producers: tuple[tuple[int, ProducerEntry], ...]


UNKNOWN_PRODUCER = ProducerEntry(NO_EPOCH, 0, ())


def sequence_of(batch: bytes | memoryview) -> BatchSequence | None:
    """Return the producer and sequences of a batch; None if its producer is not idempotent, or it is a transaction's.

    Duplicates of transactional records (offsets and their markers) are prevented in other ways.
    """
    if batch[43] >= 0x80 or batch[22] & _OF_TRANSACTIONS:  # the top bit of the id: it is negative
        return None
    last_offset_delta, producer_id, epoch, first = _MARK(batch)
    if first < 0:
        return None
    return BatchSequence(producer_id, epoch, first, (first + last_offset_delta) % SEQUENCES)


class ProducerClock:
    """Time of the last expiration, and the logs whose producers have appended since."""

    __slots__ = ("fresh", "now_ms")

    def __init__(self) -> None:
        self.now_ms = 0
        self.fresh: dict[Producers, None] = {}


class Producers:
    """Idempotent producers of one log, at most `most`.

    A new producer replaces the one with the oldest last append, if that was `PROTECTED_MS` ago or earlier; else it is
    refused. A forgotten producer may continue with any sequence (KIP-360).
    """

    __slots__ = ("_clock", "_known", "_most", "kept_at", "oldest_ms")

    def __init__(self, most: int, clock: ProducerClock) -> None:
        self._clock = clock
        self._known: dict[int, ProducerEntry] = {}  # in the order of their last appends
        self._most = most
        self.oldest_ms = 0  # time of the oldest last append
        self.kept_at: int | None = None  # end of the log in the snapshot on disk

    def __len__(self) -> int:
        return len(self._known)

    def get(self, producer_id: int) -> ProducerEntry:
        """Return a producer's entry; that of an unknown one has no epoch and no batches."""
        return self._known.get(producer_id, UNKNOWN_PRODUCER)

    def has_room(self, new: int) -> bool:
        """Return true if `new` more producers may be added."""
        excess = len(self._known) + new - self._most
        if excess <= 0:
            return True
        last = next(islice(self._known.values(), excess - 1, None), None)
        return last is not None and 0 < last.heard_ms <= self._clock.now_ms - PROTECTED_MS

    def appended(self, mark: BatchSequence, base_offset: int) -> None:
        """Add a batch of the log. It is never refused here: `validate_sequences` comes first."""
        self._known[mark.producer_id] = with_batch(
            self._known.pop(mark.producer_id, UNKNOWN_PRODUCER), mark, base_offset
        )
        if len(self._known) > self._most:
            del self._known[next(iter(self._known))]
        self._clock.fresh[self] = None

    def stamp(self, now_ms: int) -> None:
        """Set the time of producers that have appended since the last call, at a cost proportional to their number."""
        fresh = []
        for producer_id, known in reversed(self._known.items()):
            if known.heard_ms:
                break
            fresh.append(producer_id)
        for producer_id in fresh:
            known = self._known[producer_id]
            self._known[producer_id] = ProducerEntry(known.epoch, now_ms, known.batches)
        self._note_oldest()

    def expire(self, until_ms: int) -> None:
        """Forget producers whose last append is not after that time. The cost is proportional to their number."""
        expired = []
        for producer_id, known in self._known.items():
            if known.heard_ms > until_ms:
                break
            expired.append(producer_id)
        for producer_id in expired:
            del self._known[producer_id]
        self._note_oldest()

    def _note_oldest(self) -> None:
        oldest = next(iter(self._known.values()), None)
        self.oldest_ms = 0 if oldest is None else oldest.heard_ms

    def snapshot(self, end: int) -> ProducersSnapshot:
        return ProducersSnapshot(end, tuple(self._known.items()))

    def restore(self, snapshot: ProducersSnapshot) -> None:
        self._known = dict(snapshot.producers[-self._most :])
        self.kept_at = snapshot.end
        self._clock.fresh[self] = None


def with_batch(known: ProducerEntry, mark: BatchSequence, base_offset: int) -> ProducerEntry:
    stored = StoredBatch(mark.first, mark.last, base_offset)
    if known.epoch != mark.epoch:
        return ProducerEntry(mark.epoch, 0, (stored,))
    return ProducerEntry(mark.epoch, 0, (*known.batches[1 - REMEMBERED :], stored))
