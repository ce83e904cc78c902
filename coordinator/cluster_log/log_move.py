"""Moving the records of a shard into the cluster's log, or reading them out of it, while no node serves it.

Both claim the shard, so that a node that still runs is fenced (docs/spec/shared-log.md#Recommended.1). An incomplete
move does no harm: all its records belong to the records to be moved, and the next move writes the others.
"""

import enum
from collections.abc import Iterable, Mapping

from coordinator.cluster_log.cluster_shard import NEVER, ClusterShard
from coordinator.cluster_log.effects import (
    AskProducerId,
    KeysToRepair,
    LogReplayed,
    ReadLog,
    ShardEffect,
    ShardLost,
    ShardOwned,
    StateDropped,
    WriteBatch,
    WritesDurable,
)
from coordinator.cluster_log.entries import ClaimedEpoch, Pair, no_op
from coordinator.cluster_log.events import LogRead, OwnershipGiven, ShardEvent
from coordinator.cluster_log.lease import Lease
from coordinator.cluster_log.reader import LogReader, ReadOutcome
from coordinator.cluster_log.requests import ShardRequests
from coordinator.cluster_log.settings import BootMoment, ClusterLogSettings
from coordinator.cluster_log.turns import ReadTurns

Records = dict[bytes, bytes]
"""The newest value of each key, in the order in which they were written."""
Request = AskProducerId | WriteBatch | ReadLog


def apply(records: Records, pairs: Iterable[Pair]) -> None:
    """Replace older values of keys by newer ones, which come after all others."""
    for key, value in pairs:
        records.pop(key, None)
        if value is not None:
            records[key] = value


class LogSurvey:
    """Reads a shard's partition from its start to its end, and claims nothing."""

    def __init__(self, index: int, settings: ClusterLogSettings, at_least: int = 0) -> None:
        """`at_least`: offset that the end must have reached; a new leader may return a lower end for a moment."""
        self.index = index
        self.records: Records = {}
        self.is_done = False
        self._settings = settings
        self._at_least = at_least
        self._requests = ShardRequests(index, settings.retry_ms, settings.node_id)
        self._reader = LogReader(index, self._requests, ReadTurns())
        self._reader.read_on()

    @property
    def claim(self) -> ClaimedEpoch | None:
        """The newest claim read."""
        return self._reader.tail.claim

    def happen(self, event: ShardEvent, now: BootMoment) -> None:
        """Handle an answer; answers to other requests change nothing. Raises `CorruptBatch`."""
        outcome = self._reader.answered(event, -1) if isinstance(event, LogRead) else None
        if outcome is None:
            return
        self._note_records()
        is_short = self._reader.tail.next_offset < self._at_least
        if outcome is ReadOutcome.CUT:
            assert isinstance(event, LogRead)
            self._reader.restart(event.log_start_offset)
            self.records.clear()
            self._reader.read_at(now.boot_ms + self._settings.retry_ms)
        elif outcome is ReadOutcome.END and not is_short:
            self.is_done = True
        else:
            is_more = outcome is ReadOutcome.READ
            self._reader.read_at(now.boot_ms + (0 if is_more else self._settings.retry_ms))

    def take_effects(self, now: BootMoment) -> list[Request]:
        """Return the requests to be sent."""
        self._reader.run_due(now)
        return [one for one in self._requests.take_effects() if isinstance(one, ReadLog)]

    def _note_records(self) -> None:
        for effect in self._requests.effects:
            if isinstance(effect, LogReplayed):
                apply(self.records, effect.records)
        self._requests.effects.clear()

    @property
    def next_deadline_ms(self) -> int:
        """Boot time by which `take_effects` must be called."""
        return NEVER if self._reader.due_ms is None else self._reader.due_ms


class MovePhase(enum.Enum):
    """Phases of a shard's move."""

    CLAIMING = "claiming"
    CLAIMED = "claimed"
    """Only in a move out of the cluster's log: its records are known, and the move waits for `confirm`."""
    WRITING = "writing"
    READING_BACK = "reading back"
    DONE = "done"
    FAILED = "failed"


class _NoNodes(Lease):
    """A move answers no reads from memory, and its operator has verified that the nodes' group has no members."""

    def holds(self, boot_ms: int) -> bool:
        return True

    def is_unanswered(self, boot_ms: int) -> bool:
        return False


class ShardMove:
    """One shard, from its claim to the proof of what stands in its log. `records`: those that the log had when it was
    claimed."""

    def __init__(
        self, index: int, settings: ClusterLogSettings, now: BootMoment, wanted: Mapping[bytes, bytes] | None
    ) -> None:
        """`wanted`: records that the log must contain in the end; None: it is only read."""
        self.index = index
        self.phase = MovePhase.CLAIMING
        self.reason = ""
        self.written = 0
        self.records: Records = {}
        self._settings = settings
        self._wanted = wanted
        self._shard = ClusterShard(index, settings, _NoNodes(settings), ReadTurns(), now)
        self._back: LogSurvey | None = None
        self._last = 0
        self._shard.happen(OwnershipGiven(), now)

    @property
    def problem(self) -> str:
        """Reason of the failure, or of the last attempt that failed."""
        return self.reason or self._shard.problem

    @property
    def is_settled(self) -> bool:
        """True once no further step follows without a call."""
        return self.phase in {MovePhase.CLAIMED, MovePhase.DONE, MovePhase.FAILED}

    def happen(self, event: ShardEvent, now: BootMoment) -> None:
        """Handle an answer to a request. Raises `CorruptBatch`."""
        if self._back is None:
            self._shard.happen(event, now)
            return
        self._back.happen(event, now)
        if self._back.is_done:
            self._compare(self._back)

    def take_effects(self, now: BootMoment) -> list[Request]:
        """Do what is due; return the requests to be sent."""
        found: list[Request] = []
        effects: list[ShardEffect] = [] if self.phase is MovePhase.FAILED else self._shard.take_effects(now)
        while effects:
            for effect in effects:
                if isinstance(effect, AskProducerId | WriteBatch | ReadLog):
                    found.append(effect)
                else:
                    self._take(effect, now)
            effects = [] if self.phase is MovePhase.FAILED else self._shard.take_effects(now)
        if self._back is not None and self.phase is MovePhase.READING_BACK:
            found += self._back.take_effects(now)
        return found

    @property
    def next_deadline_ms(self) -> int:
        """Boot time by which `take_effects` must be called."""
        if self.phase is MovePhase.FAILED:
            return NEVER
        back_ms = NEVER if self._back is None else self._back.next_deadline_ms
        return min(self._shard.next_deadline_ms, back_ms)

    def confirm(self, now: BootMoment) -> None:
        """End a move out of the log by a no-op record: if it is accepted, no node has claimed the shard since, or
        written to it. The move fails if the claim was lost before."""
        if self.phase is MovePhase.FAILED:
            return
        assert self.phase is MovePhase.CLAIMED
        claim = self._shard.claim
        if self._append([no_op(-1 if claim is None else claim.producer_id)], now):
            self.phase = MovePhase.WRITING

    def _take(self, effect: ShardEffect, now: BootMoment) -> None:
        match effect:
            case LogReplayed(records=records):
                apply(self.records, records)
            case StateDropped() if self.phase is not MovePhase.FAILED:
                # After a failure the records stay, since another thread may be writing them to a folder.
                self.records.clear()
            case ShardOwned():
                self._owned(now)
            case KeysToRepair(keys=keys) if self.phase is not MovePhase.FAILED:
                present = self.records if self._wanted is None else self._wanted
                self._append([(key, present.get(key)) for key in keys], now)
            case WritesDurable(position=position) if self.phase is MovePhase.WRITING and position >= self._last:
                self._all_written()
            case ShardLost(reason=reason):
                self._lost(reason)

    def _lost(self, reason: str) -> None:
        self._fail(f"it was lost while it was moved: {reason}")

    def _fail(self, reason: str) -> None:
        self.phase, self.reason = MovePhase.FAILED, reason

    def _owned(self, now: BootMoment) -> None:
        transactions = self._shard.reader.tail.transactions
        if transactions.open or transactions.unsettled:
            self._fail(
                "offsets of a transaction are pending there: let a node serve it until the transaction has ended"
            )
            return
        if self._wanted is None:
            self.phase = MovePhase.CLAIMED
            return
        if why := refusal(self.records, self._wanted):
            self._fail(why)
            return
        missing = [pair for pair in self._wanted.items() if pair[0] not in self.records]
        self.written = len(missing)
        for pair in missing:
            if not self._append([pair], now):
                return
        if not missing:
            self._read_back()

    def _append(self, pairs: list[Pair], now: BootMoment) -> bool:
        """Append records. Return false if the claim was lost, which ends the move."""
        position = self._shard.append(pairs, now, in_parts=True)
        if position is None:
            self._lost(self._shard.problem)
            return False
        self._last, self._back = position, None
        if self._wanted is not None:
            self.phase = MovePhase.WRITING
        return True

    def _all_written(self) -> None:
        if self._wanted is None:
            self.phase = MovePhase.DONE
        else:
            self._read_back()

    def _read_back(self) -> None:
        self.phase = MovePhase.READING_BACK
        self._back = LogSurvey(self.index, self._settings, self._shard.reader.tail.next_offset)

    def _compare(self, back: LogSurvey) -> None:
        if back.claim != self._shard.claim:
            self._fail("another node claimed it meanwhile")
        elif back.records != self._wanted:
            self._fail("what was read back is not what was written")
        else:
            self.phase = MovePhase.DONE


def refusal(found: Mapping[bytes, bytes], wanted: Mapping[bytes, bytes]) -> str:
    """Return why records must not be moved to a shard that has these; empty if it has none, or some of them."""
    others = sum(wanted.get(key) != value for key, value in found.items())
    return f"{others} of the {len(found)} records there are not those to be moved" if others else ""
