"""The embedded consumer protocol, with kafka-python and aiokafka as judges."""

import aiokafka.coordinator.protocol as aiokafka_protocol
import kafka.protocol.consumer.metadata as kafka_protocol
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from membership.consumer_protocol import (
    ConsumerAssignment,
    ConsumerSubscription,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from membership.topic_partition import TopicPartition
from protocol.errors import ProtocolViolation

partitions = st.lists(
    st.tuples(st.text(min_size=1, max_size=8), st.integers(0, 2**31 - 1)).map(lambda pair: TopicPartition(*pair)),
    unique=True,
    max_size=6,
).map(lambda ones: tuple(sorted(ones)))
subscriptions = st.builds(
    ConsumerSubscription,
    topics=st.lists(st.text(max_size=8), max_size=5).map(lambda ones: tuple(sorted(ones))),
    user_data=st.none() | st.binary(max_size=8),
    owned=partitions,
    generation_id=st.integers(-1, 2**31 - 1),
    rack_id=st.none() | st.text(max_size=4),
)
assignments = st.builds(ConsumerAssignment, partitions=partitions, user_data=st.none() | st.binary(max_size=8))


def test_a_subscription_is_version_3_with_sorted_topics() -> None:
    written = encode_subscription(ConsumerSubscription(("b", "a"), owned=(TopicPartition("a", 1),), generation_id=7))
    assert written == bytes.fromhex("000300000002000161000162ffffffff00000001000161000000010000000100000007ffff")


def test_an_assignment_groups_partitions_by_topic() -> None:
    written = encode_assignment(
        ConsumerAssignment((TopicPartition("a", 2), TopicPartition("b", 0), TopicPartition("a", 1)))
    )
    assert written == bytes.fromhex("0003000000020001610000000200000001000000020001620000000100000000ffffffff")


@settings(deadline=None)
@given(subscription=subscriptions)
def test_a_subscription_survives_the_round_trip(subscription: ConsumerSubscription) -> None:
    assert decode_subscription(encode_subscription(subscription)) == subscription


@settings(deadline=None)
@given(assignment=assignments)
def test_an_assignment_survives_the_round_trip(assignment: ConsumerAssignment) -> None:
    assert decode_assignment(encode_assignment(assignment)) == assignment


@settings(deadline=None)
@given(data=st.binary(max_size=60))
def test_any_bytes_are_read_or_called_malformed(data: bytes) -> None:
    for decode in (decode_subscription, decode_assignment):
        try:
            decode(data)
        except ProtocolViolation:
            continue


@settings(deadline=None)
@given(subscription=subscriptions)
def test_every_truncation_of_a_subscription_is_malformed(subscription: ConsumerSubscription) -> None:
    written = encode_subscription(subscription)
    for length in range(len(written)):
        with pytest.raises(ProtocolViolation):
            decode_subscription(written[:length])


def test_no_bytes_are_an_empty_assignment() -> None:
    assert decode_assignment(b"") == ConsumerAssignment()


def test_a_newer_version_is_read_as_the_newest_known() -> None:
    written = encode_subscription(ConsumerSubscription(("t",), generation_id=3))
    assert decode_subscription(b"\x00\x09" + written[2:] + b"appended") == ConsumerSubscription(("t",), generation_id=3)


def test_the_old_members_of_aiokafka_are_understood() -> None:
    judge = aiokafka_protocol.ConsumerProtocolMemberMetadata(0, ["t1", "t2"], b"data")
    assert decode_subscription(judge.encode()) == ConsumerSubscription(("t1", "t2"), b"data")


def test_aiokafka_understands_what_we_write() -> None:
    ours = encode_subscription(ConsumerSubscription(("t1", "t2"), b"data"))
    judge = aiokafka_protocol.ConsumerProtocolMemberMetadata.decode(ours)
    assert (list(judge.subscription), judge.user_data) == (["t1", "t2"], b"data")
    assigned = aiokafka_protocol.ConsumerProtocolMemberAssignment.decode(
        encode_assignment(ConsumerAssignment((TopicPartition("t", 0), TopicPartition("t", 4))))
    )
    assert [(topic, list(numbers)) for topic, numbers in assigned.assignment] == [("t", [0, 4])]


def judge_partitions(kind: type, ones: tuple[TopicPartition, ...]) -> list:
    topics = sorted({one.topic for one in ones})
    return [kind(topic=name, partitions=[one.partition for one in ones if one.topic == name]) for name in topics]


@settings(deadline=None)
@given(subscription=subscriptions)
def test_kafka_python_writes_the_same_subscription(subscription: ConsumerSubscription) -> None:
    judge = kafka_protocol.ConsumerProtocolSubscription(
        version=3,
        topics=list(subscription.topics),
        user_data=subscription.user_data,
        owned_partitions=judge_partitions(
            kafka_protocol.ConsumerProtocolSubscription.TopicPartition, subscription.owned
        ),
        generation_id=subscription.generation_id,
        rack_id=subscription.rack_id,
    )
    assert encode_subscription(subscription) == judge.encode()


@settings(deadline=None)
@given(assignment=assignments)
def test_kafka_python_writes_the_same_assignment(assignment: ConsumerAssignment) -> None:
    judge = kafka_protocol.ConsumerProtocolAssignment(
        version=3,
        assigned_partitions=judge_partitions(
            kafka_protocol.ConsumerProtocolAssignment.TopicPartition, assignment.partitions
        ),
        user_data=assignment.user_data,
    )
    assert encode_assignment(assignment) == judge.encode()
