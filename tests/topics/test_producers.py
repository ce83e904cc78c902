"""Idempotent producers: what is stored once however often it is sent, and what is refused."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator.handlers.init_producer_id import init_producer_id
from coordinator.handlers.table import HANDLERS
from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.messages.data import (
    InitProducerId,
    InitProducerIdReply,
    Produce,
    ProducePartition,
    ProducePartitionReply,
    ProduceReply,
    ProduceTopic,
)
from protocol.record_batch import encode_batch
from tests.enumerations import share_of
from tests.node.node_rig import WALL_MS as NODE_MS
from tests.node.node_rig import NodeRig
from tests.topics.topic_rig import WALL_MS, TopicRig, batch, producing


@pytest.fixture
def rig() -> TopicRig:
    rig = TopicRig()
    rig.made("flights", 2)
    return rig


def of(producer_id: int, first: int, *values: str, epoch: int = 0, at_ms: int = WALL_MS) -> bytes:
    """A batch of that producer, its values its numbers unless others are given."""
    pairs = [(None, value.encode()) for value in values or (str(first),)]
    return encode_batch(pairs, timestamp_ms=at_ms, producer_id=producer_id, producer_epoch=epoch, base_sequence=first)


# --- stored once ---


def test_a_batch_sent_again_is_answered_as_the_first_time_and_not_stored_again(rig: TopicRig) -> None:
    rig.send(batch("before"))
    first = rig.send(of(9, 0, "a", "b"))
    again = rig.send(of(9, 0, "a", "b"))
    assert (first.error_code, first.base_offset) == (again.error_code, again.base_offset) == (ErrorCode.NONE, 1)
    assert rig.send(of(9, 2, "c")).base_offset == 3
    rig.flush()
    assert rig.values() == ["before", "a", "b", "c"]


def test_who_sends_a_batch_again_waits_until_the_first_one_is_durable(rig: TopicRig) -> None:
    rig.topics.produce(producing(of(9, 0), acks=1), rig.moment)
    _reply, position = rig.topics.produce(producing(of(9, 0)), rig.moment)
    assert position == rig.store.position > rig.store.flushed
    _reply, position = rig.topics.produce(producing(of(9, 0), acks=1), rig.moment)
    assert position == 0


def test_each_partition_counts_for_itself(rig: TopicRig) -> None:
    assert rig.send(of(9, 0)).base_offset == 0
    assert rig.send(of(9, 0), partition=1).base_offset == 0
    assert rig.send(of(9, 1), partition=1).base_offset == 1


def test_what_was_stored_before_is_skipped_among_what_is_new(rig: TopicRig) -> None:
    rig.send(of(9, 0))
    answer = rig.send(of(9, 0) + of(9, 1))
    assert (answer.error_code, answer.base_offset) == (ErrorCode.NONE, 0)
    rig.flush()
    assert rig.values() == ["0", "1"]


# --- refused ---


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (of(9, 5, epoch=1), ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
        (of(9, 1, epoch=1), ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
        (of(9, 2, epoch=0), ErrorCode.INVALID_PRODUCER_EPOCH),
        (of(9, 2, epoch=2), ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
        (of(9, -1), ErrorCode.INVALID_RECORD),
        (of(8, -7, epoch=3), ErrorCode.INVALID_RECORD),
        (of(8, 0, epoch=-2), ErrorCode.INVALID_PRODUCER_EPOCH),
        (of(9, 2, epoch=1) + of(9, 4, epoch=1), ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
    ],
)
def test_what_does_not_come_next_is_refused_and_nothing_is_stored(rig: TopicRig, data: bytes, error: ErrorCode) -> None:
    rig.send(of(9, 1))
    rig.send(of(9, 0, "x", "y", epoch=1))
    end = rig.store.position
    answer = rig.send(data)
    assert (answer.error_code, answer.base_offset) == (error, -1)
    assert answer.error_message
    assert rig.store.position == end


def test_one_partition_is_refused_and_the_others_are_stored(rig: TopicRig) -> None:
    rig.send(of(9, 0))
    parts = (ProducePartition(0, of(9, 7)), ProducePartition(1, of(9, 0)))
    reply, position = rig.topics.produce(Produce((ProduceTopic("flights", parts),)), rig.moment)
    assert [part.error_code for part in reply.responses[0].partition_responses] == [
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.NONE,
    ]
    assert position == rig.store.position


# --- crashes ---


def test_after_a_crash_the_producer_goes_on_where_the_log_ends(rig: TopicRig) -> None:
    rig.send(of(9, 0))
    rig.flush()
    rig.send(of(9, 1))  # never acknowledged, never durable
    rig.crash()
    assert rig.send(of(9, 0)).base_offset == 0
    assert rig.send(of(9, 2)).error_code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert rig.send(of(9, 1)).base_offset == 1
    rig.flush()
    assert rig.values() == ["0", "1"]


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("send"), st.integers(0, 2), st.integers(0, 4)),
        st.tuples(st.sampled_from(["flush", "checkpoint", "crash"]), st.just(0), st.just(0)),
    ),
    max_size=40,
)


@settings(deadline=None, max_examples=share_of(60))
@given(STEPS)
def test_whatever_is_sent_again_and_whenever_the_node_crashes_each_batch_is_there_once(
    steps: list[tuple[str, int, int]],
) -> None:
    """Each producer sends its next batch, or one of its last four again; a batch counts as sent when it was answered
    and is durable."""
    rig = TopicRig()
    rig.made()
    following, durable = [0, 0, 0], [0, 0, 0]
    for what, producer_id, back in steps:
        if what == "send":
            number = max(0, following[producer_id] - back)
            answer = rig.send(of(producer_id, number, f"{producer_id}:{number}"))
            assert answer.error_code is ErrorCode.NONE
            following[producer_id] = max(following[producer_id], number + 1)
        elif what == "flush":
            rig.flush()
            durable = list(following)
        elif what == "checkpoint":
            job = rig.store.begin_checkpoint(force=True)
            assert job is not None
            job.run(rig.disk)
            rig.store.finish_checkpoint(job)
        else:
            rig.crash()
            kept = rig.values()
            following = [sum(value.startswith(f"{one}:") for value in kept) for one in range(3)]
            assert all(has >= had for has, had in zip(following, durable, strict=True))
    rig.flush()
    found = rig.values()
    for one in range(3):
        assert [value for value in found if value.startswith(f"{one}:")] == [
            f"{one}:{number}" for number in range(following[one])
        ]


# --- ids ---


@pytest.fixture
def node_rig() -> NodeRig:
    return NodeRig()


def init(node_rig: NodeRig, message: Message) -> InitProducerIdReply:
    assert HANDLERS[InitProducerId] is init_producer_id
    reply = node_rig.ask_inside(message, call=5)
    assert isinstance(reply, InitProducerIdReply)
    return reply


def test_every_producer_gets_an_id_of_its_own_with_epoch_zero(node_rig: NodeRig) -> None:
    replies = [init(node_rig, InitProducerId()) for _ in range(3)]
    assert len({reply.producer_id for reply in replies}) == 3
    assert {(reply.error_code, reply.producer_epoch) for reply in replies} == {(ErrorCode.NONE, 0)}


def test_a_producer_that_wants_a_clean_start_gets_another_id(node_rig: NodeRig) -> None:
    first = init(node_rig, InitProducerId())
    second = init(node_rig, InitProducerId(producer_id=first.producer_id, producer_epoch=first.producer_epoch))
    assert second.error_code is ErrorCode.NONE
    assert second.producer_id not in (-1, first.producer_id)
    assert second.producer_epoch == 0


@pytest.mark.parametrize(
    ("message", "error"),
    [
        (InitProducerId("transfers"), ErrorCode.UNSUPPORTED_VERSION),
        (InitProducerId(""), ErrorCode.INVALID_REQUEST),
        (InitProducerId(producer_id=9), ErrorCode.INVALID_REQUEST),
        (InitProducerId(producer_epoch=0), ErrorCode.INVALID_REQUEST),
    ],
)
def test_what_cannot_be_had_is_refused_for_good(node_rig: NodeRig, message: InitProducerId, error: ErrorCode) -> None:
    assert init(node_rig, message) == InitProducerIdReply(error)


# --- through the node ---


def produce(node_rig: NodeRig, data: bytes, acks: int = -1) -> ProducePartitionReply:
    (reply,) = node_rig.ask(1, Produce((ProduceTopic("orders", (ProducePartition(0, data),)),), acks))
    assert isinstance(reply, ProduceReply)
    return reply.responses[0].partition_responses[0]


def test_a_producer_is_known_after_the_node_was_killed_and_started_again(node_rig: NodeRig) -> None:
    node_rig.make_topic()
    node_rig.connect(1)
    producer_id = init(node_rig, InitProducerId()).producer_id
    assert produce(node_rig, of(producer_id, 0, at_ms=NODE_MS)).base_offset == 0
    assert produce(node_rig, of(producer_id, 1, at_ms=NODE_MS)).base_offset == 1
    node_rig.disk.crash()
    node_rig = NodeRig(node_rig.disk)
    node_rig.connect(1)
    assert produce(node_rig, of(producer_id, 1, at_ms=NODE_MS)).base_offset == 1
    assert produce(node_rig, of(producer_id, 3)).error_code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert produce(node_rig, of(producer_id, 2)).base_offset == 2


def test_a_batch_sent_again_is_not_answered_before_the_first_is_durable(node_rig: NodeRig) -> None:
    node_rig.make_topic()
    node_rig.connect(1)
    node_rig.holds_disk = True
    message = Produce((ProduceTopic("orders", (ProducePartition(0, of(9, 0)),)),))
    assert node_rig.ask(1, message) == []
    assert node_rig.ask(1, message) == []
    while node_rig.flushes:
        node_rig.flush()
    first, second = node_rig.heard(1)
    assert first == second


def test_a_producer_that_wrote_nothing_for_long_is_forgotten() -> None:
    node_rig = NodeRig(producer_id_expiration_ms=60_000)
    node_rig.make_topic()
    node_rig.connect(1)
    produce(node_rig, of(9, 0))
    node_rig.wait(1_000)
    produce(node_rig, of(8, 0))
    node_rig.wait(60_000)
    assert produce(node_rig, of(9, 7)).base_offset == 2, "taken at its word"
    assert produce(node_rig, of(8, 7)).error_code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
