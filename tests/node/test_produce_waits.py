"""A producer that is faster than the disk waits for room to write ahead; commits go on in what is left."""

import pytest

from coordinator.produce_requests import size_of
from coordinator.room import WaitingProduces
from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.messages.data import Produce, ProducePartition, ProduceReply, ProduceTopic
from protocol.messages.offsets import OffsetCommit, OffsetCommitPartition, OffsetCommitReply, OffsetCommitTopic
from protocol.record_batch import encode_batch
from protocol.session import RequestRef
from tests.node.desk import WALL_MS, Desk

BATCH = encode_batch([(None, bytes(30_000))], timestamp_ms=WALL_MS)


def producing(partition: int = 0) -> Produce:
    return Produce((ProduceTopic("orders", (ProducePartition(partition, BATCH),)),))


def offset_of(reply: Message) -> int:
    assert isinstance(reply, ProduceReply)
    (part,) = reply.responses[0].partition_responses
    assert part.error_code is ErrorCode.NONE
    return part.base_offset


@pytest.fixture
def desk() -> Desk:
    """Nothing makes write-ahead segments."""
    desk = Desk()
    desk.make_topic()
    desk.connect(1)
    desk.connect(2)
    desk.holds_jobs = True
    return desk


def produced_until_it_waits(desk: Desk) -> int:
    for count in range(100):
        if not desk.ask(1, producing()):
            return count
    raise AssertionError("it never waited")


def end_jobs(desk: Desk) -> None:
    """The one that is under way, and those that follow from it."""
    while desk.jobs:
        desk.end_job()


def test_a_producer_waits_for_the_next_segment_and_is_told_no_error(desk: Desk) -> None:
    stored = produced_until_it_waits(desk)
    assert stored > 5
    assert desk.ask(1, producing(), producing()) == []
    assert len(desk.node.core.waiting_produces.waiting) == 3
    end_jobs(desk)
    assert [offset_of(reply) for reply in desk.heard(1)] == [stored, stored + 1, stored + 2]
    assert desk.node.core.waiting_produces.bytes == 0


def test_who_comes_later_does_not_overtake(desk: Desk) -> None:
    stored = produced_until_it_waits(desk)
    small = Produce((ProduceTopic("orders", (ProducePartition(0, encode_batch([(None, b"x")], timestamp_ms=1)),)),))
    assert desk.ask(2, small) == []
    end_jobs(desk)
    assert offset_of(desk.heard(1)[0]) == stored
    assert offset_of(desk.heard(2)[0]) == stored + 1


def test_commits_do_not_wait_with_it(desk: Desk) -> None:
    produced_until_it_waits(desk)
    (reply,) = desk.ask(2, OffsetCommit("g", (OffsetCommitTopic("orders", (OffsetCommitPartition(0, 7),)),)))
    assert isinstance(reply, OffsetCommitReply)
    assert reply.topics[0].partitions[0].error_code is ErrorCode.NONE


def test_a_full_disk_is_said_and_not_waited_for(desk: Desk) -> None:
    produced_until_it_waits(desk)
    desk.fill_disk()
    end_jobs(desk)
    (reply,) = desk.heard(1)
    assert isinstance(reply, ProduceReply)
    assert reply.responses[0].partition_responses[0].error_code is ErrorCode.KAFKA_STORAGE_ERROR


def test_what_waits_is_bounded() -> None:
    desk = Desk(max_unflushed_bytes=100_000)
    desk.make_topic()
    desk.connect(1)
    desk.holds_jobs = True
    produced_until_it_waits(desk)
    replies = desk.ask(1, *[producing()] * 4)
    assert [
        reply.responses[0].partition_responses[0].error_code for reply in replies if isinstance(reply, ProduceReply)
    ] == [ErrorCode.REQUEST_TIMED_OUT] * 2
    assert desk.node.core.waiting_produces.bytes == 3 * size_of(producing()) <= 100_000


def test_the_longest_waiting_comes_first() -> None:
    room = WaitingProduces()
    for number in (1, 2):
        room.add(RequestRef(1, number), producing(), number)
    assert room.bytes == 3
    assert room.take()[0].number == 1
    assert room.bytes == 2
