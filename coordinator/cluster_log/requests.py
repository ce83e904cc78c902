"""Requests of one shard to the brokers: numbered, one of the claim or the writer at a time, retried after a pause."""

from collections.abc import Callable

from coordinator.cluster_log.effects import AskProducerId, ReadLog, ShardEffect, WriteBatch, WritesDurable
from coordinator.cluster_log.settings import BootMoment

Continue = Callable[[BootMoment], None]

LONGEST_PAUSE = 10
"""Longest pause between two attempts that failed, in pauses after the first one."""


class ShardRequests:
    """Effects of the shard so far, in order, and the request in flight."""

    def __init__(self, index: int, retry_ms: int, node_id: int) -> None:
        self.node_id = node_id
        """The node that claims; -1 if claims do not record it."""
        self.effects: list[ShardEffect] = []
        self.due_ms: int | None = None
        """Boot time of the postponed step."""
        self._index = index
        self.retry_ms = retry_ms
        self._number = 0
        self._awaited = 0
        self._batch = b""
        self._go_on: Continue | None = None
        self._failed = 0
        """Attempts that failed since the last one that succeeded."""

    def _next(self) -> int:
        self._number += 1
        return self._number

    def take_effects(self) -> list[ShardEffect]:
        """Return the effects since the last call."""
        effects, self.effects = self.effects, []
        return effects

    def ask(self, producer_id: int, producer_epoch: int) -> None:
        """Ask for an epoch of the shard's transactional id."""
        self._awaited = self._next()
        self.effects.append(AskProducerId(self._index, self._awaited, producer_id, producer_epoch))

    def write(self, batch: bytes, *, alone: bool = False) -> None:
        """Send a batch."""
        self._batch = batch
        self._awaited = self._next()
        self.effects.append(WriteBatch(self._index, self._awaited, batch, alone))

    def write_again(self, *, alone: bool) -> None:
        """Send the same bytes again (docs/spec/shared-log.md#Recommended.5)."""
        self.write(self._batch, alone=alone)

    def read(self, offset: int) -> int:
        """Read the log; return the number of the request, which is independent of the request in flight."""
        number = self._next()
        self.effects.append(ReadLog(self._index, number, offset))
        return number

    def take_answer(self, number: int) -> bool:
        """Return true if the answer belongs to the request in flight, which is then complete."""
        if number != self._awaited:
            return False
        self._awaited = 0
        return True

    def later(self, now: BootMoment, go_on: Continue) -> None:
        """Continue after a pause; this replaces any other postponed step."""
        self.due_ms, self._go_on = now.boot_ms + self.retry_ms, go_on

    def failed(self, now: BootMoment, go_on: Continue) -> None:
        """Continue after a pause, which doubles with each failure in a row: brokers that refuse for long are not asked
        ten times a second for each shard."""
        self.later(now, go_on)
        self.due_ms = now.boot_ms + self.retry_ms * min(2**self._failed, LONGEST_PAUSE)
        self._failed = min(self._failed + 1, LONGEST_PAUSE)

    def acknowledge(self, durable: int) -> None:
        """Report the durable position. The next failure is the first one in its row."""
        self._failed = 0
        self.effects.append(WritesDurable(self._index, durable))

    def forget(self) -> None:
        """Abandon the request in flight and the postponed step."""
        self._awaited, self.due_ms, self._go_on = 0, None, None

    def run_due(self, now: BootMoment) -> None:
        """Run the postponed step, if it is due."""
        if self.due_ms is not None and self.due_ms <= now.boot_ms:
            go_on = self._go_on
            self.due_ms, self._go_on = None, None
            if go_on is not None:
                go_on(now)
