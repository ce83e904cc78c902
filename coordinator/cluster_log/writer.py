"""Writing to a shard's partition: one idempotent batch at a time, with everything that was appended meanwhile."""

from collections import deque
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from coordinator.cluster_log.entries import SEQUENCES, ClaimedEpoch, Pair, is_pending_key, no_op, tagged_batch

_RECORD_BYTES = 60  # overhead of a record beside its key and value


class SentBatch(NamedTuple):
    """A batch in flight. A repetition has the same bytes and the same sequence
    (docs/spec/shared-log.md#Recommended.5)."""

    batch: bytes
    records: int
    position: int
    """Position of the last append in it."""
    has_pending: bool
    """True if an append in it begins with offsets of a transaction; the tail decides whether they count."""


class ShardWriter:
    """Appends under one claim. Positions count appends, from 1."""

    def __init__(self, max_batch_bytes: int) -> None:
        self._most = max_batch_bytes
        self._queue: deque[tuple[int, Sequence[Pair]]] = deque()
        self._claim = ClaimedEpoch(-1, -1, -1)
        self.sequence = 0
        """Sequence of the next record."""
        self.position = 0
        """Position of the last append."""
        self.durable = 0
        """Position up to which appends are in the log."""
        self.in_flight: SentBatch | None = None

    def begin(self, claim: ClaimedEpoch) -> None:
        """Write under this claim from now on: it took sequence 0 of its epoch."""
        assert self.in_flight is None
        self._claim, self.sequence = claim, 1

    def append(self, pairs: Sequence[Pair]) -> int:
        """Add records, which are sent in one batch, and return the position at which they are durable."""
        self.position += 1
        self._queue.append((self.position, pairs))
        return self.position

    def append_in_parts(self, pairs: Iterable[Pair]) -> int:
        """Add records that need not be in one batch, in parts that fit, and return the position of the last."""
        part: list[Pair] = []
        room = self._most
        for pair in pairs:
            room -= _size_of(pair)
            if part and room < 0:
                self.append(part)
                part, room = [], self._most - _size_of(pair)
            part.append(pair)
        return self.append(part) if part else self.position

    def append_no_op(self) -> int:
        """Append a record without effect."""
        return self.append([no_op(self._claim.producer_id)])

    def is_unsent(self, position: int) -> bool:
        """Return true if the append of that position has not been sent."""
        return position > (self.durable if self.in_flight is None else self.in_flight.position) and self.has_unsent

    def drop(self) -> None:
        """Drop everything that is not known to be durable. No reply may wait for its positions any more."""
        self._queue.clear()
        self.in_flight = None

    @property
    def is_idle(self) -> bool:
        """True if everything appended is durable."""
        return self.in_flight is None and not self._queue

    @property
    def has_unsent(self) -> bool:
        """True if appends wait for the batch in flight, or for `send`."""
        return bool(self._queue)

    def send(self, wall_ms: int) -> SentBatch:
        """Make a batch of the unsent appends, in order, as many as fit."""
        assert self.in_flight is None and self._queue
        pairs: list[Pair] = []
        room, position, has_pending = self._most, 0, False
        while self._queue:
            size = sum(map(_size_of, self._queue[0][1]))
            if pairs and size > room:
                break
            position, more = self._queue.popleft()
            pairs.extend(more)
            has_pending = has_pending or is_pending_key(more[0][0])
            room -= size
        producer = self._claim.producer_id, self._claim.producer_epoch, self.sequence
        batch = tagged_batch(pairs, self._claim.offset, producer, wall_ms)
        self.in_flight = SentBatch(batch, len(pairs), position, has_pending)
        return self.in_flight

    def acknowledge(self) -> int:
        """Complete the batch in flight, which is in the log at its expected offset. Return `durable`."""
        assert self.in_flight is not None
        self.sequence = (self.sequence + self.in_flight.records) % SEQUENCES
        self.durable = self.in_flight.position
        self.in_flight = None
        return self.durable


def _size_of(pair: Pair) -> int:
    key, value = pair
    return _RECORD_BYTES + len(key) + len(value or b"")
