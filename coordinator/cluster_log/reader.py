"""Reading a shard's partition: one request at a time, as long as the shard needs more."""

import enum

from coordinator.cluster_log.effects import (
    KeysToRepair,
    LogEndRead,
    LogReplayed,
    OffsetsPending,
    StateDropped,
    TransactionDecided,
)
from coordinator.cluster_log.entries import Pair
from coordinator.cluster_log.events import LogRead
from coordinator.cluster_log.requests import ShardRequests
from coordinator.cluster_log.settings import BootMoment
from coordinator.cluster_log.tail import ShardTail
from coordinator.cluster_log.transactions import PendingRecord, TransactionEnd
from protocol.errors import ErrorCode


class ReadOutcome(enum.Enum):
    """Outcome of a read."""

    UNANSWERED = "no answer, or none that helps now"
    READ = "the log goes on"
    END = "read up to the end that readers may see"
    CUT = "the log does not reach as far as was read of it before"


class LogReader:
    """A tail, and the reads that move it."""

    def __init__(self, index: int, requests: ShardRequests) -> None:
        self.tail = ShardTail()
        self.due_ms: int | None = None
        """Boot time of the next read."""
        self.is_end_wanted = False
        """True while the shard waits for a read to the end of the log."""
        self._index = index
        self._requests = requests
        self._number = 0

    @property
    def is_reading(self) -> bool:
        """True while a read is in flight or scheduled."""
        return self._number > 0 or self.due_ms is not None

    def read_on(self) -> None:
        """Read from the tail's offset, unless such a read is in flight."""
        self.due_ms = None
        if not self._number:
            self._number = self._requests.read(self.tail.next_offset)

    def read_anew(self) -> None:
        """Read from the tail's offset, and ignore the answer to a read that was sent before."""
        self._number = 0
        self.read_on()

    def read_to_end(self) -> None:
        """Continue reading until `LogEndRead` reports that the present end was reached, unless the shard is lost
        before."""
        self.is_end_wanted = True
        self.read_anew()

    def read_at(self, boot_ms: int) -> None:
        """Read at that time, or when the read in flight is answered."""
        if not self._number:
            self.due_ms = boot_ms

    def look_for_markers(self, boot_ms: int) -> None:
        """Read at that time if offsets of transactions are pending."""
        if self.tail.transactions.open and not self.is_reading:
            self.due_ms = boot_ms

    def is_due(self, now: BootMoment) -> bool:
        """Return true if the scheduled read is due."""
        return self.due_ms is not None and self.due_ms <= now.boot_ms

    def run_due(self, now: BootMoment) -> None:
        """Send the scheduled read if it is due."""
        if self.is_due(now):
            self.read_on()

    def restart(self, start_offset: int = 0) -> None:
        """Begin again at the log's start, and drop the state read so far."""
        if self.tail.next_offset:
            self._requests.effects.append(StateDropped(self._index))
        self.tail = ShardTail()
        self.tail.skip_to(start_offset)
        self._number, self.due_ms, self.is_end_wanted = 0, None, False

    def answered(self, event: LogRead, own_tag: int) -> ReadOutcome | None:
        """Handle an answer: valid records are replayed, except those of `own_tag`. Return None if it does not answer
        the read in flight. Raises `CorruptBatch`."""
        if event.number != self._number:
            return None
        self._number = 0
        if event.error is ErrorCode.OFFSET_OUT_OF_RANGE:
            return ReadOutcome.CUT
        if event.error is not ErrorCode.NONE:
            return ReadOutcome.UNANSWERED
        before = self.tail.next_offset
        self.take(event.data, own_tag)
        if self.tail.next_offset >= event.high_watermark:
            if self.is_end_wanted:
                self.is_end_wanted = False
                self._requests.effects.append(LogEndRead(self._index))
            return ReadOutcome.END
        return ReadOutcome.READ if self.tail.next_offset > before else ReadOutcome.UNANSWERED

    def take(self, data: bytes, own_tag: int) -> None:
        """Replay the valid records in these batches. Raises `CorruptBatch`."""
        effects, pairs = self._requests.effects, list[Pair]()
        for one in self.tail.take(data, own_tag):
            match one:
                case PendingRecord():
                    pairs = self._replay(pairs)
                    effects.append(OffsetsPending(self._index, one))
                case TransactionEnd():
                    pairs = self._replay(pairs)
                    effects.append(TransactionDecided(self._index, one))
                case _ if own_tag < 0:
                    pairs.append(one)
        self._replay(pairs)

    def repair(self) -> None:
        """Request the repair of keys whose newest record is not valid."""
        if keys := self.tail.take_stale_keys():
            self._requests.effects.append(KeysToRepair(self._index, keys))

    def _replay(self, pairs: list[Pair]) -> list[Pair]:
        """Replay a run of records; return an empty one."""
        if pairs:
            self._requests.effects.append(LogReplayed(self._index, tuple(pairs)))
        return []
