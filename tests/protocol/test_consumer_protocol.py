"""kafka-python is the judge of the bytes."""

from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.protocol.consumer.metadata import ConsumerProtocolAssignment, ConsumerProtocolSubscription

from protocol.consumer_protocol import (
    Assignment,
    Subscription,
    TopicPartitions,
    decode_assigned_topics,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from protocol.errors import ProtocolViolation
from tests.enumerations import share_of

INT32 = st.integers(-(2**31), 2**31 - 1)
TOPIC_PARTITIONS = st.lists(
    st.builds(TopicPartitions, st.text(max_size=12), st.lists(INT32, max_size=4).map(tuple)), max_size=4
).map(tuple)
SUBSCRIPTIONS = st.builds(
    Subscription,
    topics=st.lists(st.text(max_size=12), max_size=4).map(tuple),
    user_data=st.none() | st.binary(max_size=12),
    owned_partitions=TOPIC_PARTITIONS,
    generation_id=INT32,
    rack_id=st.none() | st.text(max_size=6),
)
ASSIGNMENTS = st.builds(Assignment, TOPIC_PARTITIONS, st.none() | st.binary(max_size=12))
VERSIONS = st.integers(0, 3)

FULL = Subscription(
    topics=("flights", "größe"),
    user_data=b"\x00mine",
    owned_partitions=(TopicPartitions("flights", (0, 3)), TopicPartitions("größe", ())),
    generation_id=7,
    rack_id="r1",
)


def as_judged(topics: tuple[TopicPartitions, ...], container: type) -> list[object]:
    return [container(topic=topic.topic, partitions=list(topic.partitions)) for topic in topics]


def judged_subscription(subscription: Subscription, version: int) -> bytes:
    fields: dict[str, object] = {"topics": list(subscription.topics), "user_data": subscription.user_data}
    if version >= 1:
        container = ConsumerProtocolSubscription.TopicPartition
        fields["owned_partitions"] = as_judged(subscription.owned_partitions, container)
    if version >= 2:
        fields["generation_id"] = subscription.generation_id
    if version >= 3:
        fields["rack_id"] = subscription.rack_id
    return bytes(ConsumerProtocolSubscription(version=version, **fields).encode())


@settings(deadline=None, max_examples=share_of(150))
@given(SUBSCRIPTIONS, VERSIONS)
def test_a_subscription_has_the_bytes_kafka_python_gives_it(subscription: Subscription, version: int) -> None:
    assert encode_subscription(subscription, version) == judged_subscription(subscription, version)


@settings(deadline=None, max_examples=share_of(150))
@given(ASSIGNMENTS, VERSIONS)
def test_an_assignment_has_the_bytes_kafka_python_gives_it(assignment: Assignment, version: int) -> None:
    judged = ConsumerProtocolAssignment(
        version=version,
        assigned_partitions=as_judged(assignment.partitions, ConsumerProtocolAssignment.TopicPartition),
        user_data=assignment.user_data,
    )
    assert encode_assignment(assignment, version) == judged.encode()


@settings(deadline=None)
@given(SUBSCRIPTIONS)
def test_a_subscription_survives_the_round_trip(subscription: Subscription) -> None:
    assert decode_subscription(encode_subscription(subscription)) == subscription


@settings(deadline=None)
@given(ASSIGNMENTS)
def test_an_assignment_survives_the_round_trip(assignment: Assignment) -> None:
    assert decode_assignment(encode_assignment(assignment)) == assignment


def test_an_older_version_leaves_out_what_it_does_not_know() -> None:
    assert decode_subscription(encode_subscription(FULL, version=0)) == Subscription(FULL.topics, FULL.user_data)
    assert decode_subscription(encode_subscription(FULL, version=1)).generation_id == -1
    assert decode_subscription(encode_subscription(FULL, version=2)).rack_id is None


def test_a_newer_version_is_read_with_the_newest_layout_known() -> None:
    newer = b"\x00\x09" + encode_subscription(FULL)[2:] + b"what a later client appends"

    assert decode_subscription(newer) == FULL


def test_a_negative_version_is_read_as_version_0() -> None:
    assert decode_subscription(b"\xff\xfe" + encode_subscription(FULL)[2:]) == Subscription(FULL.topics, FULL.user_data)


def test_text_that_is_no_utf8_reads_as_replacement_characters() -> None:
    assert decode_subscription(b"\0\0\0\0\0\1\0\2\xff\xfe\0\0\0\0").topics == ("��",)


def test_no_bytes_are_an_empty_assignment_but_no_subscription() -> None:
    assert decode_assignment(b"") == Assignment()
    with pytest.raises(ProtocolViolation):
        decode_subscription(b"")


def test_every_truncation_is_a_violation() -> None:
    whole = encode_subscription(FULL)
    assignment = encode_assignment(Assignment(FULL.owned_partitions, b"x"))

    for length in range(len(whole)):
        with pytest.raises(ProtocolViolation):
            decode_subscription(whole[:length])
    for length in range(1, len(assignment)):
        with pytest.raises(ProtocolViolation):
            decode_assignment(assignment[:length])


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"\0\0\x7f\xff\xff\xff", id="two thousand million topics"),
        pytest.param(b"\0\0\xff\xff\xff\xff", id="minus one topics"),
        pytest.param(b"\0\0\0\0\0\1\xff\xff\0\0\0\0", id="null topic"),
        pytest.param(b"\0\0\0\0\0\0\x7f\xff\xff\xff", id="user data beyond the end"),
    ],
)
def test_a_lie_about_sizes_is_a_violation(data: bytes) -> None:
    with pytest.raises(ProtocolViolation):
        decode_subscription(data)


@settings(deadline=None)
@given(st.binary(max_size=64))
def test_garbage_is_read_or_a_violation_and_nothing_else(data: bytes) -> None:
    for decode in (decode_subscription, decode_assignment):
        try:
            decoded = decode(data)
        except ProtocolViolation:
            continue
        assert isinstance(decoded, Subscription | Assignment)


@settings(deadline=None)
@given(st.lists(st.tuples(st.text(max_size=9), st.lists(st.integers(0, 2**31 - 1), max_size=4).map(tuple))))
def test_topics_of_an_assignment_are_read_as_those_of_the_whole(pairs: list[tuple[str, tuple[int, ...]]]) -> None:
    data = encode_assignment(Assignment(tuple(TopicPartitions(*pair) for pair in pairs)))
    assert decode_assigned_topics(data) == [one.topic for one in decode_assignment(data).partitions]
    for length in range(1, len(data) - 4):  # without what comes after the topics
        with pytest.raises(ProtocolViolation):
            decode_assigned_topics(data[:length])


@settings(deadline=None)
@given(st.binary(max_size=64))
def test_topics_of_garbage_are_read_or_a_violation_and_nothing_else(data: bytes) -> None:
    try:
        found = decode_assignment(data)
    except ProtocolViolation:
        with suppress(ProtocolViolation):
            decode_assigned_topics(data)
    else:
        assert decode_assigned_topics(data) == [one.topic for one in found.partitions]
