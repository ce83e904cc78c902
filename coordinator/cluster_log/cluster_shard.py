"""A shard whose log is a partition in the cluster: claim, replay, write, acknowledge, keep alive, hand over.

docs/spec/shared-log.md has the protocol, its observations and its proof; comments here give the numbers of its steps.
In short: the partition's leader accepts no batch with an epoch below that of the newest claim. So every batch that was
acknowledged to an owner lies before the next claim, whose owner reads everything before it.
"""

from collections.abc import Callable, Sequence
from typing import Any

from coordinator.cluster_log.answers import WriteVerdict, verdict_on
from coordinator.cluster_log.claim import ClaimAttempt, ClaimPhase, error_name
from coordinator.cluster_log.effects import (
    ShardEffect,
    ShardHandedOver,
    ShardLost,
    ShardOwned,
)
from coordinator.cluster_log.entries import ClaimedEpoch, Pair
from coordinator.cluster_log.events import (
    BatchAnswered,
    FollowingWanted,
    LogRead,
    OwnershipGiven,
    OwnershipLost,
    OwnershipRevoked,
    ProducerIdAnswered,
    ShardEvent,
)
from coordinator.cluster_log.lease import Lease
from coordinator.cluster_log.reader import LogReader, ReadOutcome
from coordinator.cluster_log.requests import ShardRequests
from coordinator.cluster_log.settings import BootMoment, ClusterLogSettings
from coordinator.cluster_log.turns import ReadTurns
from coordinator.cluster_log.writer import ShardWriter
from protocol.errors import ErrorCode
from protocol.record_batch import CorruptBatch, stamp

NEVER = 2**62


class ClusterShard:
    """One shard at one node. The node must call `take_effects` after events and appends, and by `next_deadline_ms`."""

    attempt: type[ClaimAttempt] = ClaimAttempt
    """Class of its attempts to claim."""

    def __init__(
        self, index: int, settings: ClusterLogSettings, lease: Lease, turns: ReadTurns, now: BootMoment
    ) -> None:
        self.index = index
        self.claim: ClaimedEpoch | None = None
        """The claim under which the shard is served; None if it is not served."""
        self.problem = ""
        """Reason for which it is not served, for the operator."""
        self._settings, self._lease = settings, lease
        self._seen_ms = now.boot_ms
        self._is_wanted = False
        self._leaves_by_ms: int | None = None  # when a hand-over gives its last write up
        self._requests = ShardRequests(index, settings.retry_ms, settings.node_id)
        self.reader = LogReader(index, self._requests, turns)
        self._writer = ShardWriter(settings.max_batch_bytes)
        self._attempt: ClaimAttempt | None = None
        self._gap_end: int | None = None
        self._expected = self._written_ms = self._renew_ms = self._barrier = 0
        self._handlers: dict[type[ShardEvent], Callable[[Any, BootMoment], None]] = {
            OwnershipGiven: self._given,
            OwnershipRevoked: self._revoked,
            OwnershipLost: self._ownership_lost,
            FollowingWanted: self._following,
            ProducerIdAnswered: self._producer_given,
            BatchAnswered: self._batch_answered,
            LogRead: self._log_read,
        }

    # --- the node's side ---

    def happen(self, event: ShardEvent, now: BootMoment) -> None:
        """Handle the event. Answers to abandoned requests are ignored."""
        self._see(now)
        self._handlers[type(event)](event, now)

    @property
    def is_serving(self) -> bool:
        """True while appends are accepted and reads answered."""
        return self.claim is not None and self._leaves_by_ms is None

    def append(self, pairs: Sequence[Pair], now: BootMoment, *, in_parts: bool = False) -> int | None:
        """Append records, `in_parts` or in one batch; return where they are durable, or None if they are refused."""
        self._see(now)
        append = self._writer.append_in_parts if in_parts else self._writer.append
        return append(pairs) if self.is_serving else None

    def read_position(self, now: BootMoment) -> int | None:
        """Return the position that the answer to a read must wait for, or 0; None if the shard is not served. Without a
        lease it is that of a no-op: if it is accepted, no other node had claimed the shard when it was sent (#5)."""
        self._see(now)
        if not self.is_serving:
            return None
        if self._lease.holds(now.boot_ms):
            return 0
        if not self._writer.is_unsent(self._barrier):
            self._barrier = self._writer.append_no_op()
        return self._barrier

    def take_effects(self, now: BootMoment) -> list[ShardEffect]:
        """Run the steps that are due, and return the effects since the last call."""
        self._see(now)
        self._requests.run_due(now)
        self._note_attempt(now)
        self.reader.note_claim(is_under_way=self._attempt is not None and self.claim is None)
        if self.claim is not None:
            self.reader.look_for_markers(now.boot_ms + self._settings.marker_ms)
        self.reader.run_due(now)
        if self.claim is not None and self._attempt is None and self._writer.in_flight is None:
            self._write_what_is_due(self.claim, now)
        return self._requests.take_effects()

    @property
    def next_deadline_ms(self) -> int:
        """Boot time by which `take_effects` must be called."""
        dues = [due for due in (self._requests.due_ms, self.reader.due_ms, self._leaves_by_ms) if due is not None]
        if self.claim is not None or self._attempt is not None or self._is_wanted:
            dues.append(self._seen_ms + self._settings.session_ms // 3)
        return min(dues, default=NEVER)

    def _see(self, now: BootMoment) -> None:
        """Check the clock. A process that was suspended longer than a session claims again before it writes, so that no
        zombie writes after the leader has forgotten its producer (docs/spec/shared-log.md#Recommended.6). An owner that
        cannot reach the nodes' group for long redirects its clients (docs/spec/shared-log.md#Recommended.9)."""
        slept_ms, self._seen_ms = now.boot_ms - self._seen_ms, now.boot_ms
        if slept_ms > self._settings.session_ms and (self.claim is not None or self._attempt is not None):
            self._slept(slept_ms, now)
        if self.claim is not None and self._lease.is_unanswered(now.boot_ms):
            self._lose("the node does not hear of the nodes' group", now)
        if self._leaves_by_ms is not None and now.boot_ms >= self._leaves_by_ms:
            self._lose("the last writes were not answered within a session", now)

    def _slept(self, slept_ms: int, now: BootMoment) -> None:
        self._lose(f"the process slept for {slept_ms} ms", now)

    # --- ownership: given and revoked by the nodes' group ---

    def _given(self, event: OwnershipGiven, now: BootMoment) -> None:
        self._is_wanted, self._leaves_by_ms = True, None
        if self.claim is None and self._attempt is None:
            self._begin_claim(now)

    def _revoked(self, event: OwnershipRevoked, now: BootMoment) -> None:
        """Accept no more requests, and wait a session for those in flight (docs/spec/shared-log.md#Recommended.7)."""
        self._is_wanted = False
        if self.claim is None:
            self._hand_over(now)
        elif self._leaves_by_ms is None:
            self._leaves_by_ms = now.boot_ms + self._settings.session_ms

    def _ownership_lost(self, event: OwnershipLost, now: BootMoment) -> None:
        self._is_wanted = False
        self._lose("the node is no member of the nodes' group", now)

    def _following(self, event: FollowingWanted, now: BootMoment) -> None:
        self.reader.follow(is_wanted=event.is_wanted)
        if self.claim is None and self._attempt is None:
            self.reader.rest(now.boot_ms)

    def _lose(self, reason: str, now: BootMoment) -> None:
        """Stop, and acknowledge no write in flight (docs/spec/shared-log.md#Recommended.5). Claim again if owned."""
        self.problem = reason
        was_leaving = self._leaves_by_ms is not None
        if self.claim is not None:
            self._writer.drop()
            self._requests.effects.append(ShardLost(self.index, reason))
        tag = self._end_claim(now)
        if was_leaving:
            self._requests.effects.append(ShardHandedOver(self.index, tag))
        if self._is_wanted:
            self._requests.failed(now, self._begin_claim)

    def _hand_over(self, now: BootMoment) -> None:
        self._requests.effects.append(ShardHandedOver(self.index, self._end_claim(now)))

    def _end_claim(self, now: BootMoment) -> int:
        """End the claim, and abandon its requests. Return its offset, or -1 if there is none."""
        tag, self._leaves_by_ms = -1, None
        if self.claim is not None:
            tag, self.claim = self.claim.offset, None
            self.reader.restart()  # memory may have changes that are not in the log
        self._rest(now)
        return tag

    def _rest(self, now: BootMoment) -> None:
        """Abandon the requests in flight; continue reading if the shard is followed."""
        self._attempt, self._gap_end = None, None
        self._requests.forget()
        self.reader.rest(now.boot_ms)

    # --- 1. claim and 2. replay (docs/spec/shared-log.md#Recommended.1, #Recommended.2) ---

    def _begin_claim(self, now: BootMoment) -> None:
        self._requests.forget()
        if not self._lease.holds(now.boot_ms):
            # A node that was suspended or is cut off does not know whether it is still a member.
            self._requests.later(now, self._begin_claim)
            return
        self._attempt = self.attempt(self._requests, self.reader, self._settings.session_ms, now)
        self._attempt.begin(self.claim)

    def _producer_given(self, event: ProducerIdAnswered, now: BootMoment) -> None:
        if self._requests.take_answer(event.number) and self._attempt is not None:
            if event.error is not ErrorCode.NONE and self.claim is not None:
                # The next write shows whether another node has claimed the shard.
                self._attempt = None
                self._renew_ms = now.boot_ms + self._settings.session_ms
                return
            self._attempt.producer_given(event)
            self._note_attempt(now)

    def _note_attempt(self, now: BootMoment) -> None:
        """End the attempt if it has won or failed."""
        attempt = self._attempt
        if attempt is not None and attempt.phase is ClaimPhase.WON:
            self._attempt = None
            self._own(attempt, now)
        elif attempt is not None and attempt.phase is ClaimPhase.FAILED:
            self._lose(attempt.reason, now)

    def _own(self, attempt: ClaimAttempt, now: BootMoment) -> None:
        is_new = self.claim is None
        self.claim = ClaimedEpoch(attempt.offset, *attempt.producer)
        self._expected = self.reader.tail.next_offset
        self._writer.begin(self.claim)
        self.problem, self._written_ms = "", now.boot_ms
        self._renew_ms = now.boot_ms + self._settings.renew_ms
        if is_new:
            self._requests.effects.append(ShardOwned(self.index, self.claim.offset, *self.reader.tail.before))
        self.reader.repair()

    def _log_read(self, event: LogRead, now: BootMoment) -> None:
        try:
            outcome = self.reader.answered(event, -1 if self.claim is None else self.claim.offset)
        except CorruptBatch as damaged:
            self._lose(f"the log cannot be read: {damaged}", now)
            outcome = ReadOutcome.UNANSWERED
        if outcome is ReadOutcome.CUT:
            self._lose("the log ends before what was read of it", now)
            self.reader.restart(event.log_start_offset)
        if outcome is None or self._has_read_enough(now, is_end=outcome is ReadOutcome.END):
            return
        wait_ms = self._settings.retry_ms if self.claim or self._attempt else self._settings.follow_ms
        self.reader.read_at(now.boot_ms + (0 if outcome is ReadOutcome.READ else wait_ms))

    def _has_read_enough(self, now: BootMoment, *, is_end: bool) -> bool:
        """Continue the step that waited for the read. Return true if no more is to be read now."""
        if self._attempt is not None:
            enough = self._attempt.log_read(now, is_end=is_end)
            self._note_attempt(now)
            return enough
        if self._gap_end is not None:
            if self.reader.tail.next_offset < self._gap_end:
                return False
            self._close_gap(now)
            return True
        if self.claim is not None:
            self._have_read_between(self.claim, now)
            return not self.reader.is_end_wanted
        return not self.reader.follows

    def _have_read_between(self, claim: ClaimedEpoch, now: BootMoment) -> None:
        """Check records that were read while no gap was being closed: markers of transactions lie between the owner's
        batches."""
        if self.reader.tail.claim != claim:
            self._lose("another node claimed the shard", now)
        elif self._writer.in_flight is None:
            self._expected = self.reader.tail.next_offset

    # --- 3. write and 4. acknowledge (docs/spec/shared-log.md#Recommended.3, #Recommended.4) ---

    def _write_what_is_due(self, claim: ClaimedEpoch, now: BootMoment) -> None:
        if self._leaves_by_ms is not None and self._writer.is_idle:
            self._hand_over(now)
        elif now.boot_ms >= self._renew_ms and self._leaves_by_ms is None and self._lease.holds(now.boot_ms):
            self._begin_claim(now)
        else:
            if self._is_keep_alive_due(now):
                self._writer.append_no_op()
            if self._writer.has_unsent:
                self._written_ms = now.boot_ms
                self._requests.write(self._writer.send(now.wall_ms).batch)

    def _is_keep_alive_due(self, now: BootMoment) -> bool:
        """Return true if a no-op must keep the producer alive (docs/spec/shared-log.md#Recommended.6)."""
        return now.boot_ms - self._written_ms >= self._settings.keep_alive_ms

    def _batch_answered(self, event: BatchAnswered, now: BootMoment) -> None:
        if not self._requests.take_answer(event.number):
            return
        if self._attempt is not None:
            self._attempt.batch_answered(event, now)
            self._note_attempt(now)
            return
        verdict = verdict_on(event.error)
        if verdict is WriteVerdict.AGAIN:
            is_slow = event.error in {None, ErrorCode.REQUEST_TIMED_OUT}
            self._requests.later(now, lambda _: self._requests.write_again(alone=is_slow))
        elif verdict is not WriteVerdict.TAKEN:
            self._lose(f"a write was answered {error_name(event.error)}", now)
        else:
            self._written(event.base_offset, now)

    def _written(self, base_offset: int, now: BootMoment) -> None:
        assert self._writer.in_flight is not None and self.claim is not None
        end = base_offset + self._writer.in_flight.records
        if self._is_in_place(base_offset):
            if self._writer.in_flight.has_pending:
                self.reader.take(stamp(self._writer.in_flight.batch, base_offset), self.claim.offset)
            self._acknowledge(end)
        elif base_offset > self._expected:
            self._gap_end = end
            self.reader.read_anew()
        else:
            self._lose(f"a write was answered with offset {base_offset}, which is another's", now)

    def _is_in_place(self, base_offset: int) -> bool:
        """Return true if no other producer has written in between: the second fence (docs/spec/shared-log.md#4)."""
        return base_offset == self._expected

    def _acknowledge(self, end: int) -> None:
        self._expected = max(end, self.reader.tail.next_offset)
        durable = self._writer.acknowledge()
        self.reader.tail.skip_own(end, self._writer.sequence)
        self._requests.acknowledge(durable)

    def _close_gap(self, now: BootMoment) -> None:
        """Acknowledge if only innocent records, like markers and fences, lie in between; request repair of stale
        ones."""
        self._gap_end = None
        if self.reader.tail.claim != self.claim:
            self._lose("another node claimed the shard", now)
            return
        self._acknowledge(self.reader.tail.next_offset)
        self.reader.repair()
