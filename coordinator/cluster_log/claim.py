"""One attempt to claim a shard: get an epoch, read to the end of the log, fence the former owner if necessary, write
the claim, and check that it is valid."""

import enum

from coordinator.cluster_log.answers import WriteVerdict, verdict_on
from coordinator.cluster_log.entries import ClaimedEpoch, claim_batch, fence_batch
from coordinator.cluster_log.events import BatchAnswered, ProducerIdAnswered
from coordinator.cluster_log.reader import LogReader
from coordinator.cluster_log.requests import ShardRequests
from coordinator.cluster_log.settings import BootMoment
from protocol.errors import ErrorCode


class ClaimPhase(enum.Enum):
    """Phases of an attempt."""

    ASKING = "asking for a producer id"
    READING = "reading the log up to its end"
    FENCING = "fencing the producer id of the claim before"
    CLAIMING = "writing the claim"
    CHECKING = "reading the log up to the claim"
    WON = "the claim stands"
    FAILED = "to be begun anew, if at all"


class ClaimAttempt:
    """Steps 1 and 2 of docs/spec/shared-log.md#Recommended. At the end `phase` is WON or FAILED, with a `reason`."""

    def __init__(self, requests: ShardRequests, reader: LogReader, patience_ms: int, now: BootMoment) -> None:
        """`patience_ms`: a session."""
        self.phase = ClaimPhase.ASKING
        self.reason = ""
        self.producer = (-1, -1)
        self.offset = -1
        """Base offset of the claim: the tag."""
        self.replaces: ClaimedEpoch | None = None
        self._requests = requests
        self._reader = reader
        self._patience_ms = patience_ms
        self._asked_ms = now.boot_ms
        self._fenced = (-1, -1)

    def begin(self, replaces: ClaimedEpoch | None) -> None:
        """Ask for an epoch. An owner that claims again passes its claim as `replaces`, which must be the newest one,
        and asks for the epoch after its own."""
        self.replaces = replaces
        self._requests.ask(*((-1, -1) if replaces is None else replaces[1:]))

    def _fail(self, reason: str) -> None:
        self.phase, self.reason = ClaimPhase.FAILED, reason

    def producer_given(self, event: ProducerIdAnswered) -> None:
        """Continue with reading to the end of the log."""
        if event.error is not ErrorCode.NONE:
            self._fail(f"InitProducerId was answered {error_name(event.error)}")
            return
        self.producer = event.producer_id, event.producer_epoch
        self.phase = ClaimPhase.READING
        self._reader.read_on()

    def log_read(self, now: BootMoment, *, is_end: bool) -> bool:
        """Continue after a read. Return true if no more is to be read now."""
        if self.phase is ClaimPhase.READING and is_end:
            self._fence_or_claim(now)
        elif self.phase is ClaimPhase.CHECKING and self._reader.tail.next_offset > self.offset:
            self._check()
        return self.phase not in {ClaimPhase.READING, ClaimPhase.CHECKING}

    def _is_late(self, now: BootMoment) -> bool:
        # A claimer that was suspended would fence a rightful owner (docs/spec/shared-log.md#Recommended.1).
        return now.boot_ms - self._asked_ms > self._patience_ms

    def _is_below(self, claim: ClaimedEpoch) -> bool:
        """Return true if nothing can be written under that claim after this attempt's own: its epoch is an older one of
        the same producer id, or is fenced."""
        return any(
            claim.producer_id == producer_id and claim.producer_epoch < epoch
            for producer_id, epoch in (self.producer, self._fenced)
        )

    def _fence_or_claim(self, now: BootMoment) -> None:
        claim = self._reader.tail.claim
        if self._is_late(now):
            self._fail("the log could not be read within a session")
        elif claim is None or self._is_below(claim):
            self.phase = ClaimPhase.CLAIMING
            self._requests.write(claim_batch((*self.producer, 0), now.wall_ms, self._requests.node_id))
        else:
            self.phase = ClaimPhase.FENCING
            self._requests.write(fence_batch((claim.producer_id, claim.producer_epoch + 1, 0), now.wall_ms))

    def batch_answered(self, event: BatchAnswered, now: BootMoment) -> None:
        """Continue after the fence or the claim."""
        verdict = verdict_on(event.error)
        if verdict is WriteVerdict.AGAIN:
            self._requests.later(now, self._write_again)
        elif verdict is not WriteVerdict.TAKEN:
            self._fail(f"another was faster: {self.phase.value} was answered {error_name(event.error)}")
        elif self.phase is ClaimPhase.FENCING:
            claim = self._reader.tail.claim
            assert claim is not None
            self._fenced = claim.producer_id, claim.producer_epoch + 1
            self._fence_or_claim(now)
        else:
            self.offset = event.base_offset
            self.phase = ClaimPhase.CHECKING
            if self._reader.tail.next_offset > self.offset:
                self._check()
            else:
                self._reader.read_on()

    def _write_again(self, now: BootMoment) -> None:
        if self._is_late(now):
            self._fail("no broker answered within a session")
        else:
            self._requests.write_again(alone=True)

    def _check(self) -> None:
        """Win if the claim is in the log, is the newest one there, and no former owner can write any more. The record
        itself is compared, since an answer may have the offset of another node's batch with the same epoch and
        sequence."""
        tail = self._reader.tail
        earlier = tail.earlier_claim
        if tail.claim != ClaimedEpoch(self.offset, *self.producer):
            self._fail("another node claimed the shard")
        elif self.replaces is not None and earlier != self.replaces:
            self._fail("another node claimed the shard between two claims of this one")
        elif earlier is not None and not self._is_below(earlier):
            self._fail("a claim of a producer id that is not fenced came between")
        else:
            self.phase = ClaimPhase.WON


def error_name(error: ErrorCode | None) -> str:
    """Return the name of an error in an answer."""
    return "nothing" if error is None else error.name
