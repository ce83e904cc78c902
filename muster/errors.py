"""What can go wrong for an application: one family, each with a sentence that says what to do."""

from muster.topic_partition import TopicPartition
from protocol.errors import ErrorCode


class MusterError(Exception):
    """Base of everything `muster` raises on purpose."""


class CannotConnect(MusterError):
    """No node could be reached."""


class RequestTimedOut(MusterError):
    """No answer came in the time allowed. The request may have been carried out nevertheless."""


class Refused(MusterError):
    """A node understood and said no; `error_code` is Kafka's."""

    def __init__(self, error_code: ErrorCode, sentence: str) -> None:
        super().__init__(sentence)
        self.error_code = error_code


class GroupRefused(Refused):
    """The coordinator does not admit this member as it is."""


class Fenced(GroupRefused):
    """Another member has taken over this one's instance id. Close it."""


class CommitRefused(Refused):
    """Nothing was committed. REBALANCE_IN_PROGRESS: poll, then commit again. UNKNOWN_MEMBER_ID or
    ILLEGAL_GENERATION: others have the partitions by now, and will repeat what was not committed.
    """


class OffsetOutOfRange(Refused):
    """The log of `partition` does not reach to `position` (it was trimmed, or never was so long)."""

    def __init__(self, partition: TopicPartition, position: int, sentence: str) -> None:
        super().__init__(ErrorCode.OFFSET_OUT_OF_RANGE, sentence)
        self.partition = partition
        self.position = position


class NoOffset(MusterError):
    """Nothing is committed for these partitions, and `auto_offset_reset` is "none"."""


class LogTruncated(OffsetOutOfRange):
    """The leader's log parts from what was read at `divergent_offset`, before `position`; None: nobody knows where.
    What was read from there on is in no log any more (KIP-320).
    """

    def __init__(self, partition: TopicPartition, position: int, divergent_offset: int | None, sentence: str) -> None:
        super().__init__(partition, position, sentence)
        self.divergent_offset = divergent_offset


class CorruptRecords(MusterError):
    """Bytes of a partition are no records; seek past them to go on. `partition` and `offset` say where, if known."""

    def __init__(self, sentence: str, partition: TopicPartition | None = None, offset: int | None = None) -> None:
        super().__init__(sentence)
        self.partition = partition
        self.offset = offset


class CannotDeserialize(MusterError):
    """A deserializer refused the `part` ("key" or "value") of the record at `offset` of `partition`: seek past it to go
    on. What it raised is the cause.
    """

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


class WokenUp(MusterError):
    """`wakeup` was called: what was under way was left where it was, and the next call goes on with it."""


class WrongSubscription(MusterError):
    """Topics, a pattern and partitions chosen by hand exclude each other: `unsubscribe` first."""


class ConcurrentUse(MusterError):
    """A second thread entered a client that belongs to one thread at a time."""


class BufferFull(MusterError):
    """A producer has had no room for another record for `max_block_ms`. It was not taken."""


class ClientClosed(MusterError):
    """The client was closed before."""
