"""Bodies written by hand, of versions that Kafka has dropped and no judge knows: from the protocol guide of Kafka 3."""

from typing import NamedTuple

from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.messages.configs import (
    DescribeConfigs,
    DescribeConfigsReply,
    DescribeConfigsResource,
    DescribedConfig,
    DescribedConfigs,
)
from protocol.messages.data import (
    EpochEndOffset,
    EpochPartition,
    EpochTopic,
    EpochTopicReply,
    OffsetForLeaderEpoch,
    OffsetForLeaderEpochReply,
    Produce,
    ProducePartition,
    ProducePartitionReply,
    ProduceReply,
    ProduceTopic,
    ProduceTopicReply,
)
from protocol.messages.offsets import (
    OffsetCommit,
    OffsetCommitPartition,
    OffsetCommitPartitionReply,
    OffsetCommitReply,
    OffsetCommitTopic,
    OffsetCommitTopicReply,
)
from protocol.messages.topics import (
    CreatableTopic,
    CreatedTopic,
    CreateTopics,
    CreateTopicsReply,
    DeletableTopic,
    DeletedTopic,
    DeleteTopics,
    DeleteTopicsReply,
    ReplicaAssignment,
    TopicConfig,
)


class Golden(NamedTuple):
    version: int
    message: Message
    data: bytes

    def __str__(self) -> str:
        return f"{type(self.message).__name__}-v{self.version}"


ONE = b"\0\0\0\1"
"""An array of one element, and other ones of 32 bits."""
TWO = b"\0\0\0\2"
NULL_TEXT = b"\xff\xff"

_PRODUCE = Produce(
    (ProduceTopic("tö", (ProducePartition(1, b"abc"), ProducePartition(2, b""))),), acks=-1, timeout_ms=1_500
)
_PRODUCE_DATA = (
    b"\xff\xff"  # acks
    b"\x00\x00\x05\xdc"  # timeout
    + ONE
    + b"\x00\x03t\xc3\xb6"
    + TWO
    + b"\x00\x00\x00\x01" + b"\x00\x00\x00\x03abc"
    + b"\x00\x00\x00\x02" + b"\x00\x00\x00\x00"
)  # fmt: skip


def _produced(log_append_time_ms: int = -1, throttle_time_ms: int = 0) -> ProduceReply:
    part = ProducePartitionReply(
        1, ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, base_offset=258, log_append_time_ms=log_append_time_ms
    )
    return ProduceReply((ProduceTopicReply("t", (part,)),), throttle_time_ms)


_PRODUCED_HEAD = ONE + b"\x00\x01t" + ONE + b"\x00\x00\x00\x01" + b"\x00\x2b" + b"\0\0\0\0\0\0\x01\x02"

_COMMIT = OffsetCommit(
    "g",
    (
        OffsetCommitTopic(
            "t",
            (
                OffsetCommitPartition(3, 5, committed_metadata="m", commit_timestamp_ms=-1),
                OffsetCommitPartition(4, 6, committed_metadata=None, commit_timestamp_ms=1_000),
            ),
        ),
    ),
    generation_id=7,
    member_id="me",
    absent_group_error=ErrorCode.ILLEGAL_GENERATION,
    knows_member_epochs=False,
)
_COMMIT_DATA = (
    b"\x00\x01g"
    b"\x00\x00\x00\x07"  # generation
    b"\x00\x02me"
    + ONE + b"\x00\x01t"
    + TWO
    + b"\x00\x00\x00\x03" + b"\0\0\0\0\0\0\0\5" + b"\xff\xff\xff\xff\xff\xff\xff\xff" + b"\x00\x01m"
    + b"\x00\x00\x00\x04" + b"\0\0\0\0\0\0\0\6" + b"\0\0\0\0\0\0\x03\xe8" + NULL_TEXT
)  # fmt: skip


def _created(topic: CreatableTopic, *, validate_only: bool = False) -> CreateTopics:
    return CreateTopics((topic,), timeout_ms=60_000, validate_only=validate_only)


_TOPIC = CreatableTopic(
    "t", 3, 1, configs=(TopicConfig("k", "v"), TopicConfig("n", None)), assignments=(ReplicaAssignment(2, (0, 9)),)
)
_TOPIC_DATA = (
    ONE + b"\x00\x01t"
    b"\x00\x00\x00\x03"  # partitions
    b"\x00\x01"  # replicas
    + ONE + b"\x00\x00\x00\x02" + TWO + b"\x00\x00\x00\x00" + b"\x00\x00\x00\x09"
    + TWO + b"\x00\x01k" + b"\x00\x01v" + b"\x00\x01n" + NULL_TEXT
    + b"\x00\x00\xea\x60"  # timeout
)  # fmt: skip

_EPOCHS = OffsetForLeaderEpoch((EpochTopic("t", (EpochPartition(1, 4), EpochPartition(2, 5))),))
_EPOCHS_DATA = (
    ONE + b"\x00\x01t" + TWO + b"\x00\x00\x00\x01\x00\x00\x00\x04" + b"\x00\x00\x00\x02\x00\x00\x00\x05"
)  # fmt: skip

GOLDENS = [
    Golden(0, _PRODUCE, _PRODUCE_DATA),
    Golden(1, _PRODUCE, _PRODUCE_DATA),
    Golden(2, _PRODUCE, _PRODUCE_DATA),
    Golden(0, _produced(), _PRODUCED_HEAD),
    Golden(1, _produced(throttle_time_ms=9), _PRODUCED_HEAD + b"\x00\x00\x00\x09"),
    Golden(
        2,
        _produced(log_append_time_ms=1_000, throttle_time_ms=9),
        _PRODUCED_HEAD + b"\0\0\0\0\0\0\x03\xe8" + b"\x00\x00\x00\x09",
    ),
    Golden(1, _COMMIT, _COMMIT_DATA),
    Golden(
        1,
        OffsetCommitReply(
            (OffsetCommitTopicReply("t", (OffsetCommitPartitionReply(3, ErrorCode.ILLEGAL_GENERATION),)),)
        ),
        ONE + b"\x00\x01t" + ONE + b"\x00\x00\x00\x03" + b"\x00\x16",
    ),
    Golden(0, _created(_TOPIC), _TOPIC_DATA),
    Golden(1, _created(_TOPIC, validate_only=True), _TOPIC_DATA + b"\x01"),
    Golden(
        0,
        CreateTopicsReply((CreatedTopic("t", error_code=ErrorCode.TOPIC_ALREADY_EXISTS),)),
        ONE + b"\x00\x01t" + b"\x00\x24",
    ),
    Golden(
        1,
        CreateTopicsReply(
            (
                CreatedTopic("t", error_code=ErrorCode.TOPIC_ALREADY_EXISTS, error_message="is there"),
                CreatedTopic("u"),
            )
        ),
        TWO + b"\x00\x01t" + b"\x00\x24" + b"\x00\x08is there" + b"\x00\x01u" + b"\x00\x00" + NULL_TEXT,
    ),
    Golden(
        0,
        DeleteTopics((DeletableTopic("t"), DeletableTopic("uv")), timeout_ms=60_000),
        TWO + b"\x00\x01t" + b"\x00\x02uv" + b"\x00\x00\xea\x60",
    ),
    Golden(
        0,
        DeleteTopicsReply((DeletedTopic("t"), DeletedTopic("uv", error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))),
        TWO + b"\x00\x01t" + b"\x00\x00" + b"\x00\x02uv" + b"\x00\x03",
    ),
    Golden(
        0,
        DescribeConfigs((DescribeConfigsResource(2, "t", ("k", "l")), DescribeConfigsResource(4, "0", None))),
        TWO + b"\x02\x00\x01t" + TWO + b"\x00\x01k" + b"\x00\x01l" + b"\x04\x00\x010" + b"\xff\xff\xff\xff",
    ),
    Golden(
        0,
        DescribeConfigsReply(
            (
                DescribedConfigs(
                    2,
                    "t",
                    configs=(
                        DescribedConfig("k", "v", read_only=True, is_default=False, is_sensitive=True),
                        DescribedConfig("l", None, read_only=False, is_default=True, is_sensitive=False),
                    ),
                ),
                DescribedConfigs(4, "9", ErrorCode.INVALID_REQUEST, "no"),
            ),
            throttle_time_ms=8,
        ),
        b"\x00\x00\x00\x08"  # throttle time
        + TWO
        + b"\x00\x00" + NULL_TEXT + b"\x02\x00\x01t"
        + TWO
        + b"\x00\x01k" + b"\x00\x01v" + b"\x01\x00\x01"
        + b"\x00\x01l" + NULL_TEXT + b"\x00\x01\x00"
        + b"\x00\x2a" + b"\x00\x02no" + b"\x04\x00\x019" + b"\0\0\0\0",
    ),
    Golden(0, _EPOCHS, _EPOCHS_DATA),
    Golden(1, _EPOCHS, _EPOCHS_DATA),
    Golden(
        0,
        OffsetForLeaderEpochReply((EpochTopicReply("t", (EpochEndOffset(1, end_offset=258),)),)),
        ONE + b"\x00\x01t" + ONE + b"\x00\x00" + b"\x00\x00\x00\x01" + b"\0\0\0\0\0\0\x01\x02",
    ),
    Golden(
        1,
        OffsetForLeaderEpochReply(
            (EpochTopicReply("t", (EpochEndOffset(1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 4, 258),)),)
        ),
        ONE
        + b"\x00\x01t"
        + ONE
        + b"\x00\x03"
        + b"\x00\x00\x00\x01"
        + b"\x00\x00\x00\x04"
        + b"\0\0\0\0\0\0\x01\x02",
    ),
]  # fmt: skip
