"""ListOffsets: first, last, newest, and by time."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.topics.find_offset import EARLIEST, LATEST, NEWEST
from protocol.errors import ErrorCode
from protocol.messages.offsets import ListOffsets, ListOffsetsPartition, ListOffsetsTopic
from tests.topics.topic_rig import TopicRig, batch


@pytest.fixture
def rig() -> TopicRig:
    rig = TopicRig()
    rig.made("flights", 2)
    return rig


def found(rig: TopicRig, timestamp_ms: int) -> tuple[int, int]:
    answer = rig.find(timestamp_ms)
    assert answer.error_code is ErrorCode.NONE
    assert answer.leader_epoch == (-1 if answer.offset < 0 else 0)
    return answer.offset, answer.timestamp


def test_an_empty_partition_begins_and_ends_at_zero_and_has_nothing_of_any_time(rig: TopicRig) -> None:
    assert (found(rig, EARLIEST), found(rig, LATEST)) == ((0, -1), (0, -1))
    assert (found(rig, NEWEST), found(rig, 0)) == ((-1, -1), (-1, -1))


def test_a_time_gives_the_first_record_as_new_as_it(rig: TopicRig) -> None:
    for at_ms in (1_000, 2_000, 2_000, 3_000):
        rig.store_now("x", at_ms=at_ms)
    assert [found(rig, at) for at in (0, 1_000, 1_001, 2_000, 3_000)] == [
        (0, 1_000),
        (0, 1_000),
        (1, 2_000),
        (1, 2_000),
        (3, 3_000),
    ]
    assert found(rig, 3_001) == (-1, -1)


def test_the_newest_record_is_not_always_the_last(rig: TopicRig) -> None:
    for at_ms in (1_000, 9_000, 9_000, 5_000):
        rig.store_now("x", at_ms=at_ms)
    assert found(rig, NEWEST) == (1, 9_000)


def test_what_is_not_durable_is_found_and_told_when_it_is(rig: TopicRig) -> None:
    def waits_for(partition: int) -> int:
        wanted = (ListOffsetsPartition(partition),)
        return rig.topics.list_offsets(ListOffsets((ListOffsetsTopic("flights", wanted),)))[1]

    rig.store_now("durable", at_ms=1_000)
    assert waits_for(0) == 0
    rig.send(batch("not yet", at_ms=2_000))
    assert (found(rig, LATEST), found(rig, 2_000)) == ((2, -1), (1, 2_000))
    assert waits_for(0) == rig.store.position > rig.store.flushed
    assert waits_for(1) == 0, "another partition's records are none of its concern"
    rig.flush()
    assert (found(rig, LATEST), found(rig, 2_000), found(rig, NEWEST)) == ((2, -1), (1, 2_000), (1, 2_000))
    assert waits_for(0) == 0


def test_what_is_found_is_the_same_after_a_restart(rig: TopicRig) -> None:
    for at_ms in (1_000, 3_000, 2_000):
        rig.store_now("x", at_ms=at_ms)
    rig.store.close()
    rig._open()
    assert (found(rig, EARLIEST), found(rig, LATEST)) == ((0, -1), (3, -1))
    assert (found(rig, NEWEST), found(rig, 1_500)) == ((1, 3_000), (1, 3_000))


def test_refusals_are_of_one_partition(rig: TopicRig) -> None:
    wanted = (
        ListOffsetsPartition(0),
        ListOffsetsPartition(2),
        ListOffsetsPartition(-1),
        ListOffsetsPartition(1, -7),
        ListOffsetsPartition(1, -1, current_leader_epoch=3),
    )
    message = ListOffsets((ListOffsetsTopic("flights", wanted), ListOffsetsTopic("nowhere", wanted[:1])))
    flights, nowhere = rig.topics.list_offsets(message)[0].topics
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert [(part.partition_index, part.error_code) for part in flights.partitions] == [
        (0, ErrorCode.NONE),
        (2, unknown),
        (-1, unknown),
        (1, ErrorCode.UNSUPPORTED_VERSION),
        (1, ErrorCode.UNKNOWN_LEADER_EPOCH),
    ]
    assert [part.error_code for part in nowhere.partitions] == [unknown]


@given(st.lists(st.integers(0, 50), max_size=12), st.integers(0, 51))
def test_searches_agree_with_looking_at_every_record(times: list[int], wanted: int) -> None:
    rig = TopicRig()
    rig.made("flights", 1)
    for at_ms in times:
        rig.store_now("x", at_ms=at_ms)
    pairs = list(enumerate(times))
    assert found(rig, wanted) == next(((offset, at) for offset, at in pairs if at >= wanted), (-1, -1))
    newest = max(times, default=-1)
    assert found(rig, NEWEST) == next(((offset, at) for offset, at in pairs if at == newest), (-1, -1))
