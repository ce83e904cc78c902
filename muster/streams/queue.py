"""The queues between the fetcher and the application, one for each stream (docs/spec/consumer-client.md#D2 to #D4).

Nothing here waits or locks. The caller holds the connector's lock, which all its streams share.
"""

import enum
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from membership.topic_partition import TopicPartition
from muster.core.fetching.records import ConsumerRecord
from muster.errors import MusterError, OffsetGap


@dataclass(slots=True, eq=False)
class PartitionInfo:
    """A partition owned by one grant; another grant makes another object. `consumed` is the next offset that the
    application has not processed, `fetched` the next one that is not queued; None until known.
    """

    partition: TopicPartition
    thread: int
    epoch: int
    consumed: int | None = None
    fetched: int | None = None
    waiting: int = 0
    """Number of queued chunks that are not used up."""
    is_failed: bool = False
    """True if the queue has a record that cannot be read; nothing follows it until the application has got the
    error."""


@dataclass(slots=True, eq=False)
class Chunk:
    """The records of a partition in one fetch: messages from `offset` up to `next_offset`, and the error of one that
    cannot be read.
    """

    info: PartitionInfo
    epoch: int
    offset: int
    next_offset: int
    records: list[ConsumerRecord]
    error: MusterError | None = None
    is_elsewhere: bool = False
    """True if it does not continue at the end of the previous chunk, since the offset was out of range."""


class DeliveryLease:
    """Decides whether messages may be returned: those of the present `epoch` may, during the lease
    (docs/spec/consumer-client.md#E4.V4, #E4.V10). `lease_from_ms` returns its start; it ends when the coordinator may
    give this member's partitions to others.
    """

    def __init__(self, lease_from_ms: Callable[[], int | None], session_timeout_ms: int) -> None:
        self.epoch = 0
        self._lease_from_ms = lease_from_ms
        self._session_timeout_ms = session_timeout_ms

    def is_valid(self, now_ms: int) -> bool:
        from_ms = self._lease_from_ms()
        return from_ms is not None and now_ms - from_ms < self._session_timeout_ms


class NoMessage(enum.Enum):
    """The reason why a stream has no message."""

    NOTHING = "nothing"
    LEASE_OVER = "lease over"
    ENDED = "ended"


class StreamQueue:
    """The queue of one stream, and its present chunk. `report` is called with gaps."""

    def __init__(
        self, lease: DeliveryLease, most_chunks: int, *, consumed_on_return: bool, report: Callable[[MusterError], None]
    ) -> None:
        self._lease = lease
        self._most = most_chunks
        self._consumed_on_return = consumed_on_return
        self._report = report
        self._chunks: deque[Chunk] = deque()
        self._chunk: Chunk | None = None
        self._at = 0
        self._in_hand: tuple[PartitionInfo, int] | None = None
        self.is_ended = False
        self.wake: Callable[[], None] = _nothing
        """Called when something was added."""

    # -- the fetcher's side

    @property
    def is_full(self) -> bool:
        return len(self._chunks) >= self._most

    def put(self, chunk: Chunk) -> None:
        if not self.is_ended:
            self._chunks.append(chunk)
            self.wake()

    def clear(self) -> None:
        """Drop all chunks, including the present one."""
        self._chunks.clear()
        self._chunk = None

    def end(self) -> None:
        """Add the end marker, after which nothing follows."""
        self.clear()
        self.is_ended = True
        self.wake()

    # -- the application's side

    @property
    def in_hand(self) -> PartitionInfo | None:
        """Return the partition whose message the application is processing."""
        return None if self._in_hand is None else self._in_hand[0]

    def finish(self) -> None:
        """Note that the application has processed the last message."""
        if self._in_hand is not None:
            (info, next_offset), self._in_hand = self._in_hand, None
            info.consumed = max(info.consumed or 0, next_offset)

    def take(self, now_ms: int) -> ConsumerRecord | MusterError | NoMessage:
        """Return the next message, or the error in its place, or the reason why there is none. The previous message
        counts as processed."""
        self.finish()
        while not self.is_ended:
            chunk = self._chunk
            if chunk is None:
                if not self._chunks:
                    return NoMessage.NOTHING
                self._open(self._chunks.popleft())
            elif chunk.epoch != self._lease.epoch:
                self._chunk = None
            elif not self._lease.is_valid(now_ms):
                return NoMessage.LEASE_OVER
            elif self._at < len(chunk.records):
                record = chunk.records[self._at]
                self._at += 1
                if record.offset >= (chunk.info.consumed or 0):
                    return self._hand_out(chunk.info, record)
            else:
                self._chunk = None
                chunk.info.waiting -= 1
                chunk.info.consumed = max(chunk.info.consumed or 0, chunk.next_offset)
                if chunk.error is not None:
                    chunk.info.is_failed = False
                    return chunk.error
        return NoMessage.ENDED

    def _open(self, chunk: Chunk) -> None:
        self._chunk, self._at = chunk, 0
        if chunk.epoch != self._lease.epoch:
            return
        info = chunk.info
        if chunk.is_elsewhere and info.consumed is not None:
            if chunk.offset > info.consumed:
                self._report(OffsetGap(info.partition, info.consumed, chunk.offset))
            info.consumed = chunk.offset
        info.consumed = max(info.consumed or 0, chunk.offset)

    def _hand_out(self, info: PartitionInfo, record: ConsumerRecord) -> ConsumerRecord:
        if self._consumed_on_return:
            info.consumed = record.offset + 1
        else:
            self._in_hand = info, record.offset + 1
        return record


def _nothing() -> None:
    """Do nothing: no thread waits."""
