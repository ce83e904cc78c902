"""The batches of one partition in their order: the next one to send, and its sequence number.

Never allowed are an unreported gap, a duplicate record, and records out of order. The broker refuses a batch whose
sequence is not the next one, and recognizes the last five that it has stored. So at most five batches are in flight,
counted from the oldest without a reply and including those acknowledged meanwhile, and a retried batch is sent alone,
as the oldest. (Kafka's clients count batches in flight.) A broker without state of a producer, or no longer with it,
accepts any first sequence (KIP-360): so a first batch is sent alone too, and one after a long pause.

If sequences cannot continue, the epoch is raised and they restart at 0 (KIP-360), for this partition alone, since
brokers keep them by partition. That happens once no batch of it is in flight. A batch that may be in the log under its
old number is not renumbered: it fails, and says so. (Kafka's clients renumber it.)
"""

from collections import deque
from itertools import islice

from membership.topic_partition import TopicPartition
from muster.core.producing.batch import NOBODY, ProducerBatch, ProducerId, sequence_after

_MOST_EPOCH = 32_767
_KNOWN_MS = 60_000
"""Time after an acknowledgement for which a broker certainly knows the producer: brokers forget producers after
minutes, Kafka's after a day."""


class Queue:
    """Batches in the order of their records: sent ones first, the open one last. A finished batch stays until all
    before it are finished.
    """

    __slots__ = (
        "_acknowledged_end", "_gap", "_is_certain", "_known_until_ms", "_next_sequence", "_wants_id", "_window",
        "batches", "in_flight", "is_renewing", "producer", "topic_partition",
    )  # fmt: skip

    def __init__(self, topic_partition: TopicPartition, window: int) -> None:
        self.topic_partition = topic_partition
        self.batches: deque[ProducerBatch] = deque()
        self.producer = NOBODY
        self.in_flight = 0
        self.is_renewing = False
        self._window = window
        self._next_sequence = 0
        self._acknowledged_end = 0
        self._known_until_ms = -1
        self._gap = 0  # while renewing: batches from here on are not sent under their old sequences
        self._is_certain = True
        self._wants_id = False

    def open_batch(self) -> ProducerBatch | None:
        """Return the batch to which a record can be added."""
        if not self.batches:
            return None
        last = self.batches[-1]
        return None if last.is_closed or last.is_over else last

    def next_to_send(self, now_ms: int) -> ProducerBatch | None:
        """Return the batch to send next, ready or not."""
        is_known = self.producer is NOBODY or now_ms < self._known_until_ms
        for place, batch in enumerate(islice(self.batches, self._window if is_known else 1)):
            if batch.is_over or batch.call is not None:
                continue
            if self.is_renewing and not self._is_before_gap(batch):
                return None
            return batch if place == 0 or not batch.attempts else None
        return None

    def send(self, batch: ProducerBatch, call: int) -> None:
        """Note that `batch`, the one from `next_to_send`, is sent. It gets a sequence if the queue has a producer
        id."""
        batch.call = call
        batch.attempts += 1
        batch.is_closed = True
        batch.went_first = batch is self.batches[0]
        self.in_flight += 1
        if batch.sequence < 0 and self.producer is not NOBODY:
            batch.sequence = self._next_sequence
            self._next_sequence = sequence_after(batch.sequence, len(batch.records))

    def answered(self, batch: ProducerBatch) -> None:
        """Note that a reply came, of any kind, or will not come."""
        batch.call = None
        self.in_flight -= 1

    def acknowledged(self, batch: ProducerBatch, now_ms: int) -> None:
        """Note a stored batch, which may have been given up before; all batches with lower sequences are stored,
        too."""
        if batch.sequence >= 0:
            self._known_until_ms = now_ms + _KNOWN_MS
            end = sequence_after(batch.sequence, len(batch.records))
            if _is_before(self._acknowledged_end, end):
                self._acknowledged_end = end
        self.finish(batch)

    def finish(self, batch: ProducerBatch) -> None:
        batch.is_over = True
        while self.batches and self.batches[0].is_over:
            self.batches.popleft()

    def give_up(self, batch: ProducerBatch) -> None:
        """Note a failed batch: later ones must be numbered again, unless the batch turns out to be stored."""
        if batch.sequence >= 0:
            self._begin_gap(batch, is_certain=not (batch.may_be_stored or batch.call is not None))
        self.finish(batch)

    def want_epoch(self, batch: ProducerBatch, *, wants_id: bool) -> None:
        """Request a new epoch for `batch`, which is not stored, and the later ones; `wants_id`: a new producer id as
        well."""
        self._wants_id = self._wants_id or wants_id
        self._begin_gap(batch, is_certain=True)

    def _begin_gap(self, batch: ProducerBatch, *, is_certain: bool) -> None:
        """Begin to renew from this batch on. `is_certain`: it is not stored under its sequence, and so no later one
        is."""
        if not self.is_renewing or _is_before(batch.sequence, self._gap):
            self._gap = batch.sequence
        self._is_certain = self._is_certain and is_certain
        self.is_renewing = True

    def split(self, batch: ProducerBatch) -> tuple[ProducerBatch, ProducerBatch]:
        """Replace the batch by its halves."""
        place = self.batches.index(batch)
        del self.batches[place]
        halves = batch.halves()
        for half in reversed(halves):
            self.batches.insert(place, half)
        return halves

    @property
    def can_renew(self) -> bool:
        """True if all batches before the gap have ended, and none is in flight."""
        if not self.is_renewing or self.in_flight:
            return False
        return all(batch.is_over or not self._is_before_gap(batch) for batch in self.batches)

    def doubtful(self) -> list[ProducerBatch]:
        """Return the batches that must fail before sequences can restart, since they may be in the log under their old
        ones."""
        if self._is_certain or self._is_resolved():
            return []
        return [batch for batch in self.batches if batch.may_be_stored and not batch.is_over]

    def renew(self) -> bool:
        """Restart the sequences, when `can_renew` and no batch is `doubtful`. Return true if this needs another
        producer id."""
        wants_id = False
        if not self._is_resolved():
            wants_id = self._wants_id or self.producer.epoch >= _MOST_EPOCH
            self.producer = NOBODY if wants_id else ProducerId(self.producer.number, self.producer.epoch + 1)
            self._next_sequence = self._acknowledged_end = 0
            self._known_until_ms = -1
            for batch in self.batches:
                batch.renew()
        self.is_renewing, self._is_certain, self._wants_id = False, True, False
        return wants_id

    def adopt(self, producer: ProducerId) -> None:
        """Restart under a new epoch of a transactional producer, which fences everything sent before."""
        self.producer = producer
        self._next_sequence = self._acknowledged_end = 0
        self._known_until_ms = -1
        self.is_renewing, self._is_certain, self._wants_id = False, True, False

    def _is_before_gap(self, batch: ProducerBatch) -> bool:
        return batch.sequence >= 0 and _is_before(batch.sequence, self._gap)

    def _is_resolved(self) -> bool:
        """Return true if the given-up batch is known to be stored, since it or a later one was acknowledged."""
        if self._is_certain:
            return False
        numbers = (batch.sequence for batch in self.batches if batch.sequence >= 0)
        behind = (number for number in numbers if not _is_before(number, self._acknowledged_end))
        return next(behind, self._next_sequence) == self._acknowledged_end


def _is_before(one: int, other: int) -> bool:
    """Compare sequences, which wrap around at 2^31; two compared ones are never far apart."""
    return one != other and (other - one) & 0x7FFFFFFF < 1 << 30
