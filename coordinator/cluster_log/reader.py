"""Reading a shard's partition: one request at a time, as long as the shard needs more."""

import enum

from coordinator.cluster_log.effects import (
    KeysToRepair,
    LogEndRead,
    LogReplayed,
    OffsetsPending,
    ShardCaughtUp,
    StateDropped,
    TransactionDecided,
)
from coordinator.cluster_log.entries import Pair
from coordinator.cluster_log.events import LogRead
from coordinator.cluster_log.requests import ShardRequests
from coordinator.cluster_log.settings import BootMoment
from coordinator.cluster_log.tail import ShardTail
from coordinator.cluster_log.transactions import PendingRecord, TransactionEnd
from coordinator.cluster_log.turns import ReadTurns
from protocol.errors import ErrorCode


class ReadOutcome(enum.Enum):
    """Outcome of a read."""

    UNANSWERED = "no answer, or none that helps now"
    READ = "the log goes on"
    END = "read up to the end that readers may see"
    CUT = "the log does not reach as far as was read of it before"


class LogReader:
    """A tail, and the reads that move it. `follows`: the log is read while another node owns the shard."""

    def __init__(self, index: int, requests: ShardRequests, turns: ReadTurns) -> None:
        self.tail = ShardTail()
        self.due_ms: int | None = None
        """Boot time of the next read."""
        self.is_end_wanted = False
        """True while the shard waits for a read to the end of the log."""
        self.follows = False
        self._is_behind = False
        """True from when the log is followed until its end is reached."""
        self._is_stuck = False
        """True if the last read brought nothing: other shards need not wait for a claim then."""
        self._index = index
        self._requests = requests
        self._turns = turns
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

    def follow(self, *, is_wanted: bool) -> None:
        """Follow the log from the next `rest` on, or stop."""
        self.follows = is_wanted
        if not is_wanted:
            self._is_behind = False
            self._turns.end(self._index)

    def note_claim(self, *, is_under_way: bool) -> None:
        """Note whether the node claims the shard, which it does not serve yet: that waits for no other shard."""
        self._turns.note_claim(self._index, is_under_way=is_under_way and not self._is_stuck)
        self._is_behind = self._is_behind and not is_under_way

    def rest(self, boot_ms: int) -> None:
        """Read at that time, and on, if the log is followed: the shard needs nothing else."""
        self._is_behind = self.follows
        if self.follows:
            self.read_at(boot_ms)

    def hasten(self) -> None:
        """Send the scheduled read at the next `run_due`."""
        if self.due_ms is not None:
            self.due_ms = 0

    def look_for_markers(self, boot_ms: int) -> None:
        """Read at that time if offsets of transactions are pending."""
        if self.tail.transactions.open and not self.is_reading:
            self.due_ms = boot_ms

    def run_due(self, now: BootMoment) -> None:
        """Send the scheduled read if it is due; later if other shards are first."""
        if self.due_ms is None or self.due_ms > now.boot_ms:
            return
        if self._is_behind and not self._turns.take(self._index):
            self.due_ms = now.boot_ms + self._requests.retry_ms
        else:
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
        outcome = ReadOutcome.UNANSWERED
        try:
            outcome = self._outcome(event, own_tag)
        finally:
            self._is_stuck = outcome is ReadOutcome.UNANSWERED
            if outcome is not ReadOutcome.READ:
                self._turns.end(self._index)
        if outcome is ReadOutcome.END:
            self._at_end()
        return outcome

    def _outcome(self, event: LogRead, own_tag: int) -> ReadOutcome:
        if event.error is ErrorCode.OFFSET_OUT_OF_RANGE:
            return ReadOutcome.CUT
        if event.error is not ErrorCode.NONE:
            return ReadOutcome.UNANSWERED
        before = self.tail.next_offset
        self.take(event.data, own_tag)
        if self.tail.next_offset >= event.high_watermark:
            return ReadOutcome.END
        return ReadOutcome.READ if self.tail.next_offset > before else ReadOutcome.UNANSWERED

    def _at_end(self) -> None:
        if self.is_end_wanted:
            self.is_end_wanted = False
            self._requests.effects.append(LogEndRead(self._index))
        if self._is_behind:
            self._is_behind = False
            self._requests.effects.append(ShardCaughtUp(self._index))

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
