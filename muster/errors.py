"""Errors for applications: one family, each with a sentence that says what to do."""

from membership.topic_partition import TopicPartition
from protocol.errors import ErrorCode


class MusterError(Exception):
    """Base class of the errors of `muster`."""


class ClientFailed(MusterError):
    """A client's background work raised an unexpected exception: its `__cause__`. The client is closed."""


class CannotConnect(MusterError):
    """No node could be reached."""


class AuthenticationFailed(MusterError):
    """A server refuses the client's name, password or certificate, or its own certificate is not trusted. The client
    retries about every second while a call needs the server."""


class RequestTimedOut(MusterError):
    """No answer came in the time allowed. The request may have been carried out nevertheless."""


class Refused(MusterError):
    """A node refused the request; `error_code` is Kafka's."""

    def __init__(self, error_code: ErrorCode, sentence: str) -> None:
        super().__init__(sentence)
        self.error_code = error_code


class GroupRefused(Refused):
    """The coordinator refuses this member with its present settings."""


class Fenced(GroupRefused):
    """Another member has taken over this one's instance id. Close it."""


class CommitRefused(Refused):
    """Nothing was committed. REBALANCE_IN_PROGRESS: poll, then commit again. UNKNOWN_MEMBER_ID or ILLEGAL_GENERATION:
    other members own the partitions by now, and will read uncommitted records again."""


class TransactionFailed(Refused):
    """The open transaction cannot be committed: `abort` it, and begin again."""


class ProducerFenced(Refused):
    """Another producer has begun with this one's `transactional_id`, or the transaction took longer than
    `transaction_timeout_ms`. The transaction is aborted. Close this producer."""


class OffsetOutOfRange(Refused):
    """The log of `partition` does not reach to `position` (it was trimmed, or never was so long)."""

    def __init__(self, partition: TopicPartition, position: int, sentence: str) -> None:
        super().__init__(ErrorCode.OFFSET_OUT_OF_RANGE, sentence)
        self.partition = partition
        self.position = position


class NoOffset(MusterError):
    """Nothing is committed for these partitions, and `auto_offset_reset` is "none"."""


class LogTruncated(OffsetOutOfRange):
    """The leader's log differs from the records read from `divergent_offset` on, before `position`; None: the offset is
    not known. The records read from there on are no longer in the log (KIP-320)."""

    def __init__(self, partition: TopicPartition, position: int, divergent_offset: int | None, sentence: str) -> None:
        super().__init__(partition, position, sentence)
        self.divergent_offset = divergent_offset


class CorruptRecords(MusterError):
    """Bytes of a partition are no records; seek past them to continue. `partition` and `offset` are their position, if
    known."""

    def __init__(self, sentence: str, partition: TopicPartition | None = None, offset: int | None = None) -> None:
        super().__init__(sentence)
        self.partition = partition
        self.offset = offset


class MessageTooLarge(CorruptRecords):
    """Not even one batch of a partition fits into a fetch of `fetch_bytes`: what begins at `offset` can be read with a
    larger fetch size.
    """

    def __init__(self, partition: TopicPartition, offset: int, fetch_bytes: int) -> None:
        super().__init__(
            f"{partition} at offset {offset} cannot be read: a fetch of {fetch_bytes} bytes holds no whole batch; "
            "fetch more, or seek past it to go on",
            partition,
            offset,
        )
        self.fetch_bytes = fetch_bytes


class CannotDeserialize(MusterError):
    """A deserializer refused the `part` ("key" or "value") of the record at `offset` of `partition`: seek past it to
    continue. `__cause__` is the deserializer's exception."""

    def __init__(self, partition: TopicPartition, offset: int, part: str, cause: Exception) -> None:
        reason = f"{type(cause).__name__}: {cause}"
        super().__init__(
            f"the {part} of {partition} at offset {offset} cannot be deserialized ({reason}); seek to {offset + 1} "
            "to go on"
        )
        self.partition = partition
        self.offset = offset
        self.part = part
        self.__cause__ = cause


class RebalanceFailed(MusterError):
    """A streams connector was assigned partitions that others did not let go of, again and again."""


class StreamsExist(MusterError):
    """A connector makes its streams once, and is told its listener before."""


class ConsumerTimeout(MusterError):
    """A stream had nothing for `consumer_timeout_ms`. It can be iterated again."""


class OffsetGap(MusterError):
    """Messages of `partition` from `expected` on, up to `found`, are not in its log any more: they were not read."""

    def __init__(self, partition: TopicPartition, expected: int, found: int) -> None:
        super().__init__(f"{partition} goes on at offset {found}, {expected} was next: what was between is gone")
        self.partition = partition
        self.expected = expected
        self.found = found


class WokenUp(MusterError):
    """`wakeup` was called: the pending operation was not ended, and the next call continues it."""


class WrongSubscription(MusterError):
    """Topics, a pattern and partitions chosen by hand exclude each other: `unsubscribe` first."""


class ConcurrentUse(MusterError):
    """A second thread entered a client that belongs to one thread at a time."""


class BufferFull(MusterError):
    """The producer's buffer had no room for `max_block_ms`. The record was not taken."""


class ClientClosed(MusterError):
    """The client was closed before."""
