"""Bodies of ConsumerGroupHeartbeat and ConsumerGroupDescribe, written by hand: only one of the two judges knows these
APIs (docs/spec/consumer-group-protocol.md#16.2). `tags` stands at the end of every struct."""

from protocol.errors import ErrorCode
from protocol.messages.consumer_groups import (
    ConsumerGroupDescribe,
    ConsumerGroupDescribeReply,
    ConsumerGroupHeartbeat,
    ConsumerGroupHeartbeatReply,
    DescribedAssignment,
    DescribedConsumer,
    DescribedConsumerGroup,
    DescribedTopicPartitions,
    MemberAssignment,
    TopicIdPartitions,
)
from tests.protocol.kafka.goldens import Golden

NO_TAGS = b"\x00"
UNKNOWN_TAGS = b"\x02" + b"\x7d\x03abc" + b"\x7e\x00"
"""Two tagged fields that nobody knows."""

T, U = bytes(range(16)), bytes(15) + b"\x07"


def _heartbeat_body(tags: bytes, regex: bytes = b"") -> bytes:
    return (
        b"\x02g" + b"\x02m"
        + b"\x00\x00\x00\x05"  # epoch
        + b"\x02i" + b"\x02r"
        + b"\x00\x00\x03\xe8"  # rebalance timeout
        + b"\x03" + b"\x02t" + b"\x03uv"
        + regex
        + b"\x06range"
        + b"\x03" + T + b"\x03\x00\x00\x00\x00\x00\x00\x00\x02" + tags + U + b"\x01" + tags
        + tags
    )  # fmt: skip


def _heartbeat(regex: str | None, *, is_oldest: bool) -> ConsumerGroupHeartbeat:
    return ConsumerGroupHeartbeat(
        "g",
        "m",
        5,
        instance_id="i",
        rack_id="r",
        rebalance_timeout_ms=1_000,
        subscribed_topic_names=("t", "uv"),
        subscribed_topic_regex=regex,
        server_assignor="range",
        topic_partitions=(TopicIdPartitions(T, (0, 2)), TopicIdPartitions(U, ())),
        may_lack_member_id=is_oldest,
    )


def _bare_body(tags: bytes, regex: bytes = b"") -> bytes:
    """Return a heartbeat that has only ids and the epoch."""
    head = b"\x02g" + b"\x02m" + b"\xff\xff\xff\xfe" + b"\x00\x00" + b"\xff\xff\xff\xff"
    return head + b"\x00" + regex + b"\x00\x00" + tags


_BARE = ConsumerGroupHeartbeat("g", "m", -2)
_ASSIGNED = ConsumerGroupHeartbeatReply(
    member_id="m",
    member_epoch=3,
    heartbeat_interval_ms=5_000,
    assignment=MemberAssignment((TopicIdPartitions(T, (2, 3)),)),
    throttle_time_ms=9,
)
_FENCED = ConsumerGroupHeartbeatReply(ErrorCode.FENCED_MEMBER_EPOCH, "why")


def _assigned_body(tags: bytes) -> bytes:
    return (
        b"\x00\x00\x00\x09"  # throttle time
         b"\x00\x00" + b"\x00"  # no error, no message
        + b"\x02m"
        + b"\x00\x00\x00\x03"  # epoch
        + b"\x00\x00\x13\x88"  # interval
        + b"\x01"  # an assignment
        + b"\x02" + T + b"\x03\x00\x00\x00\x02\x00\x00\x00\x03" + tags + tags
        + tags
    )  # fmt: skip


def _fenced_body(tags: bytes) -> bytes:
    return bytes(4) + b"\x00\x6e" + b"\x04why" + b"\x00" + bytes(4) + bytes(4) + b"\xff" + tags


_DESCRIBE = ConsumerGroupDescribe(("g", "h"), include_authorized_operations=True)


def _describe_body(tags: bytes) -> bytes:
    return b"\x03\x02g\x02h" + b"\x01" + tags


def _described(member_type: int) -> ConsumerGroupDescribeReply:
    member = DescribedConsumer(
        "m",
        "i",
        None,
        member_epoch=4,
        client_id="c",
        client_host="/h",
        subscribed_topic_names=("t",),
        subscribed_topic_regex="",
        assignment=DescribedAssignment((DescribedTopicPartitions(T, "t", (0, 1)),)),
        target_assignment=DescribedAssignment(),
        member_type=member_type,
    )
    groups = (
        DescribedConsumerGroup(
            "g", group_state="Stable", group_epoch=4, assignment_epoch=4, assignor_name="uniform", members=(member,)
        ),
        DescribedConsumerGroup("h", ErrorCode.GROUP_ID_NOT_FOUND, "no", authorized_operations=7),
    )
    return ConsumerGroupDescribeReply(groups)


def _described_body(tags: bytes, member_type: bytes) -> bytes:
    return (
        bytes(4)  # throttle time
        + b"\x03"
        + b"\x00\x00" + b"\x00" + b"\x02g" + b"\x07Stable" + b"\x00\x00\x00\x04" + b"\x00\x00\x00\x04" + b"\x08uniform"
        + b"\x02"
        + b"\x02m" + b"\x02i" + b"\x00" + b"\x00\x00\x00\x04" + b"\x02c" + b"\x03/h" + b"\x02\x02t" + b"\x01"
        + b"\x02" + T + b"\x02t" + b"\x03\x00\x00\x00\x00\x00\x00\x00\x01" + tags + tags  # assignment
        + b"\x01" + tags  # target
        + member_type + tags
        + b"\x80\x00\x00\x00" + tags
        + b"\x00\x45" + b"\x03no" + b"\x02h" + b"\x01" + bytes(4) + bytes(4) + b"\x01" + b"\x01"
        + b"\x00\x00\x00\x07" + tags
        + tags
    )  # fmt: skip


def goldens(tags: bytes) -> list[Golden]:
    """Return every message in every version, with these tagged fields in every struct."""
    return [
        Golden(0, _heartbeat(None, is_oldest=True), _heartbeat_body(tags)),
        Golden(1, _heartbeat("a.*", is_oldest=False), _heartbeat_body(tags, b"\x04a.*")),
        Golden(0, ConsumerGroupHeartbeat("g", "m", -2, may_lack_member_id=True), _bare_body(tags)),
        Golden(1, _BARE, _bare_body(tags, b"\x00")),
        *(Golden(version, _ASSIGNED, _assigned_body(tags)) for version in (0, 1)),
        *(Golden(version, _FENCED, _fenced_body(tags)) for version in (0, 1)),
        *(Golden(version, _DESCRIBE, _describe_body(tags)) for version in (0, 1)),
        Golden(0, _described(-1), _described_body(tags, b"")),
        Golden(1, _described(1), _described_body(tags, b"\x01")),
    ]


GOLDENS = goldens(NO_TAGS)
