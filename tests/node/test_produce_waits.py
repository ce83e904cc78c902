"""A producer that is faster than the disk waits for room to write ahead; commits go on in what is left."""

from collections.abc import Generator

import pytest
from msgspec import structs

from coordinator.clock import Moment
from coordinator.handlers.produce import size_of
from coordinator.topics.produce_queue import REST_MS_MAX, SLICE_US, ProduceQueue, QueuedProduce
from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.messages.data import Produce, ProducePartition, ProduceReply, ProduceTopic
from protocol.messages.groups import Heartbeat, HeartbeatReply
from protocol.messages.offsets import OffsetCommit, OffsetCommitPartition, OffsetCommitReply, OffsetCommitTopic
from protocol.record_batch import encode_batch
from protocol.session import RequestRef
from tests.node.node_rig import WALL_MS, NodeRig

BATCH = encode_batch([(None, bytes(30_000))], timestamp_ms=WALL_MS)


def producing(partition: int = 0) -> Produce:
    return Produce((ProduceTopic("orders", (ProducePartition(partition, BATCH),)),))


def offset_of(reply: Message) -> int:
    assert isinstance(reply, ProduceReply)
    (part,) = reply.responses[0].partition_responses
    assert part.error_code is ErrorCode.NONE
    return part.base_offset


@pytest.fixture
def rig() -> NodeRig:
    """Nothing makes write-ahead segments."""
    rig = NodeRig()
    rig.make_topic()
    rig.connect(1)
    rig.connect(2)
    rig.holds_jobs = True
    return rig


def produced_until_it_waits(rig: NodeRig) -> int:
    for count in range(100):
        if not rig.ask(1, producing()):
            return count
    raise AssertionError("it never waited")


def end_jobs(rig: NodeRig) -> None:
    """The one that is under way, and those that follow from it."""
    while rig.jobs:
        rig.end_job()


def test_a_producer_waits_for_the_next_segment_and_is_told_no_error(rig: NodeRig) -> None:
    stored = produced_until_it_waits(rig)
    assert stored > 5
    assert rig.ask(1, producing(), producing()) == []
    assert rig.node.core.waiting_produces.bytes == 3 * size_of(producing())
    end_jobs(rig)
    assert [offset_of(reply) for reply in rig.heard(1)] == [stored, stored + 1, stored + 2]
    assert rig.node.core.waiting_produces.bytes == 0


def test_who_comes_later_does_not_overtake(rig: NodeRig) -> None:
    stored = produced_until_it_waits(rig)
    small = Produce((ProduceTopic("orders", (ProducePartition(0, encode_batch([(None, b"x")], timestamp_ms=1)),)),))
    assert rig.ask(2, small) == []
    end_jobs(rig)
    assert offset_of(rig.heard(1)[0]) == stored
    assert offset_of(rig.heard(2)[0]) == stored + 1


def test_commits_do_not_wait_with_it(rig: NodeRig) -> None:
    produced_until_it_waits(rig)
    (reply,) = rig.ask(2, OffsetCommit("g", (OffsetCommitTopic("orders", (OffsetCommitPartition(0, 7),)),)))
    assert isinstance(reply, OffsetCommitReply)
    assert reply.topics[0].partitions[0].error_code is ErrorCode.NONE


def test_a_full_disk_is_said_and_not_waited_for(rig: NodeRig) -> None:
    produced_until_it_waits(rig)
    rig.fill_disk()
    end_jobs(rig)
    (reply,) = rig.heard(1)
    assert isinstance(reply, ProduceReply)
    assert reply.responses[0].partition_responses[0].error_code is ErrorCode.KAFKA_STORAGE_ERROR


def test_what_waits_is_bounded() -> None:
    rig = NodeRig(max_unflushed_bytes=100_000)
    rig.make_topic()
    rig.connect(1)
    rig.holds_jobs = True
    produced_until_it_waits(rig)
    replies = rig.ask(1, *[producing()] * 4)
    assert [
        reply.responses[0].partition_responses[0].error_code for reply in replies if isinstance(reply, ProduceReply)
    ] == [ErrorCode.REQUEST_TIMED_OUT] * 2
    assert rig.node.core.waiting_produces.bytes == 3 * size_of(producing()) <= 100_000


def waiting(connection: int, number: int, size: int) -> QueuedProduce:
    def work() -> Generator[int, Moment, tuple[ProduceReply, int]]:
        yield 0
        return ProduceReply(()), 0

    return QueuedProduce(RequestRef(connection, number), producing(), size, work())


def test_the_longest_waiting_of_a_connection_comes_first_and_connections_take_turns() -> None:
    room = ProduceQueue()
    for connection, number in ((1, 1), (1, 2), (2, 3)):
        room.add(waiting(connection, number, 10))
    assert room.bytes == 30
    seen = [room.first().ref.number]
    room.end_turn()
    seen.append(room.first().ref.number)
    room.end_turn()
    seen.append(room.first().ref.number)
    room.done()
    seen.append(room.first().ref.number)
    room.done()
    seen.append(room.first().ref.number)
    assert seen == [1, 3, 1, 3, 2]
    assert room.bytes == 10
    room.done()
    assert (room.waiting, room.bytes) == (False, 0)


def test_half_of_the_time_that_passes_may_be_spent() -> None:
    room = ProduceQueue()
    room.refill(1_000)
    room.left_us = -10_000
    assert room.wait_ms == (10_000 + SLICE_US // 2) // 500
    room.refill(1_000 + room.wait_ms)
    assert room.left_us == SLICE_US // 2
    room.refill(10_000)
    assert room.left_us == SLICE_US


def costly() -> Produce:
    """Several slices of work in one request: each record has to be looked at by itself."""
    ragged = [(b"k" * (1 + n % 5), b"v" * (n % 7)) for n in range(3_000)]
    records = encode_batch(ragged, timestamp_ms=1)
    return Produce((ProduceTopic("orders", tuple(ProducePartition(n % 2, records) for n in range(60))),))


def test_a_costly_request_is_done_in_slices_and_others_come_in_between() -> None:
    rig = NodeRig()
    rig.make_topic()
    rig.connect(1)
    rig.connect(2)
    assert rig.ask(1, costly()) == []
    (beat,) = rig.ask(2, Heartbeat("g", 1, "m"))
    assert isinstance(beat, HeartbeatReply)
    small = Produce((ProduceTopic("orders", (ProducePartition(0, encode_batch([(None, b"x")], timestamp_ms=1)),)),))
    assert rig.ask(2, small) == [], "it waits for its turn"
    steps = 0
    while not (replies := rig.heard(1)) and steps < 100:
        rig.wait(40)
        steps += 1
    assert 2 <= steps < 20
    assert isinstance(replies[0], ProduceReply)
    assert {part.error_code for part in replies[0].responses[0].partition_responses} == {ErrorCode.NONE}
    assert isinstance(rig.heard(2)[0], ProduceReply)


def test_a_slice_that_took_longer_than_was_thought_is_followed_by_a_rest() -> None:
    room = ProduceQueue()
    room.due_ms = 1_000
    assert room.overrun_ms(1_300) == REST_MS_MAX
    room.due_ms = 2_000
    assert room.overrun_ms(2_300) == 0, "one rest is enough"
    room.due_ms = 3_000
    assert room.overrun_ms(3_080) == 80
    room.due_ms = 4_000
    assert room.overrun_ms(4_005) == 0


# --- to be durable ---


@pytest.fixture
def held() -> NodeRig:
    """A disk that syncs nothing until it is told to."""
    rig = NodeRig()
    rig.make_topic()
    rig.connect(1)
    rig.holds_disk = True
    return rig


def errors_of(reply: Message) -> list[ErrorCode]:
    assert isinstance(reply, ProduceReply)
    return [part.error_code for topic in reply.responses for part in topic.partition_responses]


def waiting_to_be_durable(rig: NodeRig) -> int:
    return rig.node.core.purgatory.by_kind.get("produce", 0)


def test_records_wait_in_the_purgatory_until_they_are_durable(held: NodeRig) -> None:
    assert held.ask(1, producing()) == []
    assert waiting_to_be_durable(held) == 1
    held.flush()
    assert [offset_of(reply) for reply in held.heard(1)] == [0]
    assert waiting_to_be_durable(held) == 0


def test_a_flush_answers_only_those_that_it_covers(held: NodeRig) -> None:
    held.ask(1, producing(0))
    held.ask(1, producing(1))
    held.flush()
    assert [offset_of(reply) for reply in held.heard(1)] == [0]
    assert waiting_to_be_durable(held) == 1
    held.flush()
    assert [offset_of(reply) for reply in held.heard(1)] == [0]


def test_records_that_are_not_durable_in_time_are_told_so_once_and_stored_all_the_same(held: NodeRig) -> None:
    assert held.ask(1, structs.replace(producing(), timeout_ms=2_000)) == []
    held.wait(1_999)
    assert held.heard(1) == []
    held.wait(1)
    (reply,) = held.heard(1)
    assert errors_of(reply) == [ErrorCode.REQUEST_TIMED_OUT]
    held.flush()
    assert held.heard(1) == [] and waiting_to_be_durable(held) == 0
    held.holds_disk = False
    assert [offset_of(reply) for reply in held.ask(1, producing())] == [1]


@pytest.mark.parametrize("acks", [0, 1])
def test_without_acks_of_all_nothing_waits_for_the_disk(held: NodeRig, acks: int) -> None:
    held.ask(1, structs.replace(producing(), acks=acks))
    assert waiting_to_be_durable(held) == 0
