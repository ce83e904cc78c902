"""Reading from partition logs by offset, and delayed fetches (long polls).

Readers see durable records: those below the high watermark, which is the end of what the write-ahead log has synced.
"""

from collections.abc import Hashable, Iterable, Sequence

import msgspec

from coordinator.keys import FetchKey
from partition_log.errors import LogDamaged, OffsetOutsideLog
from partition_log.log.partition_log import PartitionLog
from protocol.errors import ErrorCode
from protocol.messages.balanced import FetchRegistered
from protocol.messages.data import Fetch, FetchPartition, FetchPartitionReply, FetchTopic
from protocol.record_batch import HEADER_BYTES, extent
from protocol.session import RequestRef
from purgatory.purgatory import DelayedOperation

_PEEK_BELOW_BYTES = 1 << 20
"""Space below which the next batch's size is looked up before it is read: most batches are smaller."""
LEADER_EPOCH = 0
"""Leader epoch of every embedded partition: its leader never changes."""


def epoch_error(current_leader_epoch: int) -> ErrorCode:
    """Check the client's leader epoch: a later one than ours is an error (KIP-320)."""
    return ErrorCode.UNKNOWN_LEADER_EPOCH if current_leader_epoch > LEADER_EPOCH else ErrorCode.NONE


# --------------------------------------------------------------------------------------------------- reading by offset


class ReplyBudget:
    """Bytes that one reply may still get. The first partition with data returns at least one batch, so that a batch
    larger than the limits does not stop a reader (KIP-74)."""

    __slots__ = ("gave", "left")

    def __init__(self, max_bytes: int) -> None:
        self.left = max_bytes
        self.gave = False


def read(log: PartitionLog, wanted: FetchPartition, budget: ReplyBudget) -> FetchPartitionReply:
    """Read whole batches from the one that holds the offset. A batch damaged on disk is a storage error of its
    partition alone."""
    error, data = ErrorCode.NONE, b""
    try:
        data = _read(log, wanted, budget)
    except OffsetOutsideLog:
        error = ErrorCode.OFFSET_OUT_OF_RANGE
    except LogDamaged as damage:
        log.note_damage(damage)
        error = ErrorCode.KAFKA_STORAGE_ERROR
    budget.left -= len(data)
    budget.gave = budget.gave or bool(data)
    flushed = log.flushed_offset
    return FetchPartitionReply(
        partition_index=wanted.partition,
        error_code=error,
        high_watermark=flushed,
        last_stable_offset=flushed,
        log_start_offset=log.start_offset,
        records=data,
    )


def _read(log: PartitionLog, wanted: FetchPartition, budget: ReplyBudget) -> bytes:
    limit = max(min(wanted.partition_max_bytes, budget.left), 0)
    if budget.gave and limit < _PEEK_BELOW_BYTES and limit < _next_size(log, wanted.fetch_offset):
        return b""
    data = log.read(wanted.fetch_offset, limit, up_to=log.flushed_offset)
    return b"" if budget.gave and len(data) > limit else data


def _next_size(log: PartitionLog, offset: int) -> int:
    """Return the size of the batch that holds the offset, or of the next one; 0 if there is none, or if the offset is
    out of range."""
    if not log.start_offset <= offset < log.flushed_offset:
        return 0
    for segment in log.segments.starting_at(offset):
        header = segment.read_at(segment.find(offset), HEADER_BYTES)
        if len(header) == HEADER_BYTES:
            return extent(header)[2]
    return 0


def _bytes_between(log: PartitionLog, offset: int, end: int) -> int:
    """Return the size of the batches from the one that holds `offset` to those that begin below `end`, without reading
    them."""
    found = 0
    for segment in log.segments.starting_at(offset):
        if segment.base_offset >= end:
            break
        last = segment.size if end >= log.next_offset else segment.find(end)
        found += last - segment.find(offset)
    return found


# ------------------------------------------------------------------------------------------------- requested partitions


def each_once(message: Fetch) -> Fetch:
    """Return the fetch with each partition once, as in Kafka: the last entry counts, at the place of the first."""
    topics = message.topics
    if len({(topic.topic, topic.topic_id) for topic in topics}) == len(topics) and all(map(_has_each_once, topics)):
        return message
    found: dict[tuple[str, bytes], dict[int, FetchPartition]] = {}
    for topic in topics:
        found.setdefault((topic.topic, topic.topic_id), {}).update((part.partition, part) for part in topic.partitions)
    once = tuple(FetchTopic(name, tuple(parts.values()), topic_id) for (name, topic_id), parts in found.items())
    return msgspec.structs.replace(message, topics=once)


def _has_each_once(topic: FetchTopic) -> bool:
    parts = topic.partitions
    return len(parts) < 2 or len({part.partition for part in parts}) == len(parts)


# ---------------------------------------------------------------------------------------------------------- waiting


class FetchReady(msgspec.Struct, frozen=True, gc=False):
    """The fetch can be answered: there are enough bytes, or its deadline has come."""

    ref: RequestRef
    message: Fetch | FetchRegistered


class _Watch:
    """One partition of a delayed fetch. `counted` bytes lie between the fetch offset and `counted_to`."""

    __slots__ = ("counted", "counted_to", "log", "offset")

    def __init__(self, log: PartitionLog, offset: int) -> None:
        self.log = log
        self.offset = self.counted_to = offset
        self.counted = 0

    @property
    def is_lost(self) -> bool:
        """True if the offset is outside the log or the log is deleted, which completes the fetch with an error."""
        return self.log.is_removed or not self.log.start_offset <= self.offset <= self.log.next_offset

    def count(self, enough: int) -> int:
        """Return the number of readable bytes, or a part of it that is at least `enough`. No byte is counted twice,
        over all calls."""
        log = self.log
        try:
            if self.counted < enough and self.counted_to < log.flushed_offset:
                self.counted += _bytes_between(log, self.counted_to, log.flushed_offset)
                self.counted_to = log.flushed_offset
        except LogDamaged:
            return enough  # so that the error is answered
        return self.counted


class WaitingFetches:
    """Delayed fetches by connection, since they end with it. `watched` is the number of partitions of all of them
    together."""

    __slots__ = ("_of", "watched")

    def __init__(self) -> None:
        self._of: dict[int, dict[int, int]] = {}
        self.watched = 0

    def add(self, ref: RequestRef, partitions: int) -> None:
        self._of.setdefault(ref.connection, {})[ref.number] = partitions
        self.watched += partitions

    def remove(self, ref: RequestRef) -> None:
        """Remove the fetch; one that is not delayed is ignored."""
        own = self._of.get(ref.connection)
        if own is not None:
            self.watched -= own.pop(ref.number, 0)
            if not own:
                del self._of[ref.connection]

    def leave(self, connection: int) -> Iterable[Hashable]:
        """Remove the connection's fetches and return their keys."""
        own = self._of.pop(connection, None)
        if own is None:
            return ()
        self.watched -= sum(own.values())
        return [FetchKey(connection, number) for number in own]


class DelayedFetch(DelayedOperation[FetchReady]):
    """A fetch that waits for `min_bytes` below the high watermarks of its partitions. `notified_by` names them."""

    __slots__ = ("_enough", "_message", "_ref", "_watches", "deadline_ms", "key", "notified_by")
    kind = "fetch"

    def __init__(
        self,
        ref: RequestRef,
        message: Fetch,
        deadline_ms: int,
        partitions: Sequence[tuple[Hashable, PartitionLog, int]],
        enough: int,
    ) -> None:
        """Begin to wait. `partitions`: notification key, log and offset of each."""
        self.key = FetchKey(ref.connection, ref.number)
        self.deadline_ms = deadline_ms
        self.notified_by: tuple[Hashable, ...] = tuple(key for key, _log, _offset in partitions)
        self._ref = ref
        self._message: Fetch | FetchRegistered = message
        self._enough = enough
        self._watches = [_Watch(log, offset) for _key, log, offset in partitions]

    def replace_request(self, message: FetchRegistered) -> None:
        """Replace the request to answer."""
        self._message = message

    def is_satisfied(self) -> bool:
        enough, found = self._enough, 0
        for watch in self._watches:
            if watch.log.flushed_offset > watch.offset:
                found += 1 if enough <= 1 else watch.count(enough)
            if found >= enough or watch.is_lost:
                return True
        return found >= enough

    def completed(self) -> FetchReady:
        return FetchReady(self._ref, self._message)
