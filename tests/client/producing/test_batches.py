"""Contents of a batch, the moment it is sent, and how its bytes read."""

from typing import Any

import pytest

from membership.events import CallFailed, Departed, NodeAddress, Replied, SendRequest
from muster.core.producing import NO_ROOM, NOT_KNOWN, Delivered, ProducerSettings
from muster.core.producing.batch import Pending, ProducerBatch, ProducerId, size_of
from muster.errors import Refused, RequestTimedOut
from protocol.errors import ErrorCode
from protocol.messages.data import InitProducerId, InitProducerIdReply, Produce
from protocol.messages.topics import Metadata, MetadataBroker, MetadataPartitionReply, MetadataReply, MetadataTopicReply
from protocol.record_batch import check_batch, decode_batch
from protocol.record_compression import Compression
from tests.client.producing.rig import NODES, ProducerRig, batches


def ready(**settings: Any) -> ProducerRig:
    """The first batch of each of three partitions is stored: what comes next need not go alone."""
    rig = ProducerRig(**settings).ready()
    for partition in range(3):
        rig.send(f"first of {partition}", partition=partition)
    rig.flush()
    while rig.waiting():
        rig.answer()
    assert len(rig.offsets) == 3
    return rig


def test_nothing_is_sent_before_it_lingered_long_enough() -> None:
    rig = ready(linger_ms=5)
    rig.send("a")
    rig.wake()
    assert rig.core.next_deadline_ms == 5
    rig.wake(4)
    assert not rig.waiting()
    rig.send("b")
    rig.wake(1)
    assert batches(rig.waiting()[0]) == {0: (0, 1, 2)}


def test_a_full_batch_does_not_wait() -> None:
    rig = ready(linger_ms=1_000, batch_bytes=200)
    rig.send("a" * 40, "b" * 40)
    rig.wake()
    assert not rig.waiting()
    rig.send("c" * 40)
    assert rig.core.wants_step
    rig.wake()
    assert [batches(call) for call in rig.waiting()] == [{0: (0, 1, 2)}]


def test_a_record_larger_than_a_batch_goes_alone() -> None:
    rig = ready(linger_ms=1_000, batch_bytes=100)
    rig.send("a", "b" * 500, "c")
    rig.flush().settle()
    assert rig.values() == ["first of 0", "a", "b" * 500, "c"]


def test_what_is_ready_at_one_node_goes_in_one_request() -> None:
    rig = ready(linger_ms=0)
    for partition in range(3):
        rig.send("x", partition=partition)
    rig.wake()
    assert [sorted(batches(call)) for call in rig.waiting()] == [[0, 1, 2]]


def test_a_request_has_no_more_bytes_than_it_may() -> None:
    rig = ready(linger_ms=0, max_request_bytes=1_000)
    for partition in range(3):
        rig.send("x" * 400, partition=partition)
    rig.wake()
    assert [len(batches(call)) for call in rig.waiting()] == [2, 1]


def test_five_requests_are_under_way_to_a_node_and_no_more() -> None:
    rig = ready(linger_ms=0)
    for number in range(7):
        rig.send(f"{number}")
        rig.core.close_batches()
    rig.wake()
    assert [batches(call)[0][1] for call in rig.waiting()] == [1, 2, 3, 4, 5]
    rig.answer()
    assert [batches(call)[0][1] for call in rig.waiting()] == [2, 3, 4, 5, 6]
    assert rig.settle().values() == ["first of 0", *"0123456"]


def test_without_sequences_one_batch_of_a_partition_is_under_way() -> None:
    rig = ProducerRig(linger_ms=0, acks=1, is_idempotent=False).ready()
    for number in range(3):
        rig.send(f"{number}")
        rig.core.close_batches()
    rig.wake()
    assert [batches(call) for call in rig.waiting()] == [{0: (-1, -1, 1)}]
    assert rig.settle().values() == ["0", "1", "2"]


def test_the_first_batch_of_a_partition_goes_alone_since_a_broker_takes_whatever_comes_first() -> None:
    rig = ProducerRig(linger_ms=0).ready()
    for number in range(3):
        rig.send(f"{number}")
        rig.core.close_batches()
    rig.wake().answer(InitProducerId)
    assert len(rig.waiting()) == 1
    rig.answer()
    assert len(rig.waiting()) == 2


def test_beside_brokers_it_is_they_who_give_ids_one_after_the_other() -> None:
    rig = ProducerRig(linger_ms=0)
    rig.brokers.speaks = "kafka"
    rig.ready().send("0")
    rig.core.close_batches()
    asked = rig.wake().take(InitProducerId)
    assert asked.node == NODES[0]._replace(speaks="kafka")
    again = rig.feed(CallFailed(asked.call)).wake(1_000).take(InitProducerId)
    assert again.node == NODES[1]._replace(speaks="kafka")
    assert rig.hung_up == [asked.node]
    rig.feed(Replied(again.call, InitProducerIdReply(producer_id=7, producer_epoch=0)))
    assert {call.node for call in rig.waiting()} == {asked.node}
    assert rig.settle().values() == ["0"]


def test_after_a_minute_of_silence_a_batch_goes_alone_again() -> None:
    rig = ready(linger_ms=0).wake(60_001)
    for number in range(3):
        rig.send(f"{number}")
        rig.core.close_batches()
    rig.wake()
    assert len(rig.waiting()) == 1


def without_acks(**settings: Any) -> ProducerRig:
    return ProducerRig(acks=0, is_idempotent=False, **settings).ready()


def depart(rig: ProducerRig, place: int = 0) -> None:
    """The edge has written it all."""
    call = rig.take(Produce, place)
    assert call.node is not None
    rig.brokers.answer(call.node.port, call.message)
    rig.feed(Departed(call.call))


def test_without_acks_records_are_over_when_they_have_left_and_nobody_knows_where_they_are() -> None:
    rig = without_acks(linger_ms=0)
    for number in range(9):
        rig.send(f"{number}")
        rig.core.close_batches()
    rig.wake()
    round_ = rig.core.close_batches()
    assert (len(rig.waiting()), rig.offsets) == (5, {})
    assert not rig.core.is_flushed(round_)
    while rig.waiting():
        depart(rig)
    assert rig.offsets == {f"{number}": -1 for number in range(9)}
    assert rig.core.is_flushed(round_)
    assert rig.values() == [f"{number}" for number in range(9)]


def test_without_acks_a_connection_that_takes_nothing_fills_the_buffer() -> None:
    rig = without_acks(linger_ms=0, buffer_memory_bytes=400)
    rig.send("a" * 200)
    rig.wake()
    record = Pending(None, b"b" * 200, (), 0, "b")
    assert rig.core.append("t", 0, record, rig.now_ms) == NO_ROOM
    depart(rig)
    assert rig.core.append("t", 0, record, rig.now_ms) == 0


def test_without_acks_what_was_lost_before_it_left_is_sent_again_in_its_order() -> None:
    rig = without_acks(linger_ms=0)
    for number in range(3):
        rig.send(f"{number}")
        rig.core.close_batches()
    rig.wake()
    depart(rig)
    rig.lose(stored=False).lose(stored=False)
    rig.send("3")
    rig.flush().answer(Metadata)
    for _ in range(20):
        rig.wake(100)
        while rig.waiting():
            depart(rig)
    assert rig.values() == ["0", "1", "2", "3"]


def test_a_buffer_that_is_full_takes_nothing_and_sends_what_lingers() -> None:
    rig = ready(linger_ms=10_000, buffer_memory_bytes=400)
    rig.send("a" * 200)
    rig.wake()
    record = Pending(None, b"b" * 200, (), 0, "b")
    assert rig.core.append("t", 0, record, rig.now_ms) == NO_ROOM
    assert rig.core.wants_step
    rig.wake()
    assert len(rig.waiting()) == 1
    assert rig.core.append("t", 0, record, rig.now_ms) == NO_ROOM
    rig.answer()
    assert rig.core.append("t", 0, record, rig.now_ms) == 0


def test_a_record_that_no_request_could_carry_is_refused_at_once() -> None:
    rig = ready(max_request_bytes=1_000)
    sentence = r"a record of 1021 bytes for topic 't', and a request has at most 1000 \(max_request_bytes"
    with pytest.raises(Refused, match=sentence):
        rig.send("x" * 1_000)
    with pytest.raises(ValueError, match="partitions 0 to 2, not 3"):
        rig.send("x", partition=3)


def test_a_flush_waits_for_what_was_sent_before_it_alone() -> None:
    rig = ready(linger_ms=1_000)
    rig.send("before")
    number = rig.core.close_batches()
    rig.wake()
    rig.send("after")
    assert not rig.core.is_flushed(number)
    rig.answer()
    assert rig.core.is_flushed(number)
    assert not rig.core.is_flushed(rig.core.close_batches())


# --- where records go ---


def test_a_key_decides_and_else_a_partition_keeps_its_turn_for_a_batch() -> None:
    rig = ready(batch_bytes=150, linger_ms=1_000)
    assert rig.send("a", "b", partition=None, key=b"k") == [rig.send("c", partition=None, key=b"k")[0]] * 2
    placed = rig.send(*("x" * 50 for _ in range(12)), partition=None)
    assert placed == [0, 0, 0, 1, 1, 1, 2, 2, 2, 0, 0, 0]


def test_a_partition_without_a_leader_is_passed_over() -> None:
    rig = ProducerRig(batch_bytes=100, linger_ms=1_000)
    assert rig.core.append("t", None, Pending(None, b"", (), 0, 0), 0) == NOT_KNOWN
    rig.wake()
    partitions = (MetadataPartitionReply(0, 0), MetadataPartitionReply(1, -1), MetadataPartitionReply(2, 0))
    topics = (MetadataTopicReply("t", partitions=partitions),)
    rig.feed(Replied(rig.take(Metadata).call, MetadataReply((MetadataBroker(0, "host", 0),), topics=topics)))
    assert rig.send(*("x" * 100 for _ in range(4)), partition=None) == [0, 2, 0, 2]


@pytest.mark.parametrize("topics", [(), (MetadataTopicReply("t"),)])
def test_an_answer_that_does_not_say_where_a_topic_is_is_asked_for_again_and_not_at_once(
    topics: tuple[MetadataTopicReply, ...],
) -> None:
    rig = ProducerRig()
    assert rig.core.append("t", None, Pending(b"k", b"", (), 0, 0), 0) == NOT_KNOWN
    rig.wake()
    for _ in range(3):
        asked = rig.take(Metadata).call
        rig.feed(Replied(asked, MetadataReply((MetadataBroker(0, "host", 0),), topics=topics)))
        assert rig.core.append("t", None, Pending(b"k", b"", (), 0, 0), rig.now_ms) == NOT_KNOWN
        assert not rig.waiting(Metadata)
        rig.wake(400)
    rig.answer(Metadata)
    assert rig.core.append("t", 1, Pending(b"k", b"", (), 0, 0), rig.now_ms) == 1


def test_a_topic_that_nobody_knows_is_asked_for_for_a_second_and_then_refused() -> None:
    rig = ProducerRig()
    record = Pending(None, b"", (), 0, 0)
    for at_ms in (0, 100, 300, 700, 1_500):
        rig.now_ms = at_ms
        assert rig.core.append("nowhere", None, record, rig.now_ms) == NOT_KNOWN
        rig.wake().answer(Metadata)
    with pytest.raises(Refused, match="there is no topic 'nowhere': create it"):
        rig.core.append("nowhere", None, record, rig.now_ms)
    assert rig.core.append("nowhere", None, record, rig.now_ms) == NOT_KNOWN, "asked for anew"


def test_a_topic_that_has_no_leader_yet_is_waited_for() -> None:
    rig = ProducerRig()
    record = Pending(None, b"", (), 0, None)
    reply = MetadataReply(topics=(MetadataTopicReply("t", error_code=ErrorCode.LEADER_NOT_AVAILABLE),))
    refused: list[Refused] = []

    def append() -> int | None:
        try:
            return rig.core.append("t", 0, record, rig.now_ms)
        except Refused as given_up:
            refused.append(given_up)
            return None

    append()
    rig.wake()
    for _ in range(5):
        rig.feed(Replied(rig.take(Metadata).call, reply)).wake(2_000)
        append()
        assert not refused
    rig.answer(Metadata)
    assert append() == 0


def test_a_topic_that_was_deleted_is_asked_for_only_while_something_is_left_for_it() -> None:
    rig = ready(linger_ms=0, delivery_timeout_ms=60_000)
    rig.brokers.has_topic = False
    rig.send("lost")
    rig.wake().refuse(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    asked = 0
    while rig.core.next_deadline_ms is not None:
        rig.wake(max(0, rig.core.next_deadline_ms - rig.now_ms))
        while rig.waiting(Metadata):
            asked += 1
            rig.answer(Metadata)
    assert 50 < asked < 100, "once a second, by and by"
    assert isinstance(rig.errors["lost"], RequestTimedOut)
    assert 60_000 <= rig.now_ms <= 61_000, "and then no more"


def test_calls_are_made_before_anybody_is_told() -> None:
    rig = ready(linger_ms=0)
    for number in range(6):
        rig.send(f"{number}")
        rig.core.close_batches()
    rig.wake()
    call = rig.take(Produce)
    effects = rig.core.step(Replied(call.call, rig.brokers.answer(0, call.message)), rig.now_ms)
    assert [type(effect) for effect in effects] == [SendRequest, Delivered]


# --- bytes ---


@pytest.mark.parametrize("compression", Compression)
def test_a_batch_reads_as_it_was_written(compression: Compression) -> None:
    batch = ProducerBatch(0, 0)
    long = (("name", b"x" * 300), ("empty", b""), ("none", None), ("ä", b"1"))
    records = [
        Pending(None, None, (), 1_000, 0),
        Pending(b"k", b"v" * 3_000, long, 990, 0),
        Pending(b"", b"", (), 5_000_000, 0),
    ]
    batch.records += records
    batch.sequence = 17
    data = batch.encode(compression, ProducerId(2**40, 3))
    header = check_batch(data)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (2**40, 3, 17)
    assert (header.base_timestamp_ms, header.max_timestamp_ms, header.compression) == (1_000, 5_000_000, compression)
    assert [(one.key, one.value, tuple(one.headers), one.timestamp_ms) for one in records] == [
        (one.key, one.value, one.headers, one.timestamp_ms) for one in decode_batch(data)
    ]
    if compression is Compression.NONE:
        assert len(data) <= 61 + sum(size_of(one.key, one.value, one.headers) for one in records)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"acks": 2}, "acks is 2"),
        ({"acks": 1}, "only with acks=-1"),
        ({"batch_bytes": 0}, "batch_bytes is 0"),
        ({"linger_ms": -1}, "linger_ms is -1"),
        ({"delivery_timeout_ms": 30_004}, "delivery_timeout_ms is 30004, less than"),
    ],
)
def test_settings_that_cannot_work_are_refused(settings: dict[str, int], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        ProducerSettings(**settings)  # type: ignore[arg-type]


def test_the_node_asked_is_the_leader() -> None:
    rig = ProducerRig(linger_ms=0)
    list(rig.brokers.logs.values())[1].leader = 2
    rig.ready()
    rig.send("x", partition=1)
    rig.flush()
    (call,) = rig.waiting(Produce)
    assert call.node == NodeAddress("host", 2, 2)
    rig.refuse(ErrorCode.INVALID_RECORD)
    assert list(rig.errors) == ["x"]
