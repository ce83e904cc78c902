"""Answer Produce: at once, or when the write-ahead log has room.

A producer that is faster than the disk reaches the end of the write-ahead log before its next segment is made. Then its
requests wait, in order and up to a limit, and its connection with them, since the producer would only retry after an
error. Commits and groups use the remaining space.

The reply to appended records waits in the purgatory until they are durable, or until the request's timeout.

The check of records must not delay other clients: a request that takes longer than a slice continues in later steps, in
turn with those of other connections.
"""

from collections.abc import Iterable

import msgspec

from coordinator.clock import Moment
from coordinator.core.admission import admit_operation, admit_write
from coordinator.core.core import Core
from coordinator.keys import FlushKey, ProduceKey
from coordinator.tasks.scheduled_task import ScheduledTask
from coordinator.topics.produce_queue import QueuedProduce
from partition_log.store.log_store import LogStore
from protocol.errors import ErrorCode
from protocol.messages.data import Produce, ProduceReply
from protocol.refusals import REFUSE
from protocol.session import RequestRef
from purgatory.purgatory import DelayedOperation

TASK = "produce"
FLUSHED = FlushKey()
_TURN_US = 10_000


class ProduceAnswered(msgspec.Struct, frozen=True, gc=False):
    """The records are durable, or the time to wait for that is over."""

    ref: RequestRef
    reply: ProduceReply


class DelayedProduce(DelayedOperation[ProduceAnswered]):
    """Records that wait to be durable, for as long as their request says. Overdue, they are stored all the same: an
    idempotent producer that sends them again is told where."""

    __slots__ = ("_message", "_position", "_ref", "_reply", "_store", "deadline_ms", "key")
    kind = "produce"

    def __init__(
        self, ref: RequestRef, message: Produce, reply: ProduceReply, position: int, store: LogStore, now_ms: int
    ) -> None:
        self.key = ProduceKey(ref.connection, ref.number)
        self.deadline_ms = now_ms + max(message.timeout_ms, 0)
        self._ref, self._message, self._reply = ref, message, reply
        self._position, self._store = position, store

    def is_satisfied(self) -> bool:
        return self._store.flushed >= self._position

    def completed(self) -> ProduceAnswered | None:
        return ProduceAnswered(self._ref, self._reply) if self.is_satisfied() else None

    def overdue(self) -> ProduceAnswered | None:
        refused = REFUSE[Produce](self._message, ErrorCode.REQUEST_TIMED_OUT, "not durable in time")
        assert isinstance(refused, ProduceReply)
        return ProduceAnswered(self._ref, refused)


def produce(core: Core, ref: RequestRef, message: Produce, moment: Moment) -> None:
    """Append records; with acks -1 they are durable when answered."""
    size = size_of(message)
    others = core.waiting_produces
    if admit_write(core) or admit_operation(core) or others.bytes + size > core.config.max_unflushed_bytes:
        core.outbox.send(ref, REFUSE[Produce](message, ErrorCode.REQUEST_TIMED_OUT, None))
        return
    work = core.embedded.producing(message)
    next(work)
    was_waiting = others.waiting
    others.add(QueuedProduce(ref, message, size, work))
    if not was_waiting:
        produce_waiting(core, moment)


def produce_waiting(core: Core, moment: Moment) -> None:
    """Serve queued requests as far as space and time allow; a checkpoint makes space, and the scheduled task continues
    after the pause."""
    others = core.waiting_produces
    others.refill(moment.monotonic_ms)
    while others.waiting and others.left_us > 0 and not core.store.should_wait(others.first().size):
        if _serve_turn(core, others.first(), moment):
            others.done()
        else:
            others.end_turn()
    if others.waiting and others.left_us <= 0:
        _wait(core, moment.monotonic_ms + others.wait_ms)


def produce_when_due(core: Core, moment: Moment) -> None:
    """Run the scheduled task of the produce queue."""
    others = core.waiting_produces
    rest_ms = others.overrun_ms(moment.monotonic_ms)
    if others.waiting and rest_ms:
        _wait(core, moment.monotonic_ms + rest_ms)
    else:
        produce_waiting(core, moment)


def _wait(core: Core, until_ms: int) -> None:
    if core.waiting_produces.due_ms is None:
        core.waiting_produces.due_ms = until_ms
        core.purgatory.try_complete_else_watch(ScheduledTask(TASK, until_ms))


def _serve_turn(core: Core, produce: QueuedProduce, moment: Moment) -> bool:
    """Serve one turn of the request; return true if it has been answered."""
    others = core.waiting_produces
    until_us = max(others.left_us - _TURN_US, 0)
    try:
        while others.left_us > until_us:
            others.left_us -= produce.work.send(moment)
    except StopIteration as done:
        reply, position = done.value
        delayed = DelayedProduce(produce.ref, produce.message, reply, position, core.store, moment.monotonic_ms)
        answer_produces(core, core.purgatory.try_complete_else_watch(delayed, (FLUSHED,)))
        return True
    return False


def answer_produces(core: Core, answered: Iterable[ProduceAnswered]) -> None:
    """Send the replies of completed produce operations."""
    for one in answered:
        core.outbox.send(one.ref, one.reply)


def size_of(message: Produce) -> int:
    """Size of the request's records in bytes."""
    return sum([len(part.records) for topic in message.topic_data for part in topic.partition_data])
