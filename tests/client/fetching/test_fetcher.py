"""Fetching: which node is asked for what, and what becomes of the answers (docs/spec/consumer-client.md#B2 to #B6)."""

import pytest

from muster.errors import CorruptRecords, OffsetOutOfRange, Refused
from muster.subscription import OffsetReset, Subscription
from protocol.errors import ErrorCode
from protocol.messages.data import Fetch, FetchPartition, FetchPartitionReply, FetchReply, FetchTopic, FetchTopicReply
from protocol.messages.offsets import (
    ListOffsets,
    ListOffsetsPartition,
    ListOffsetsPartitionReply,
    ListOffsetsReply,
    ListOffsetsTopic,
    ListOffsetsTopicReply,
)
from protocol.messages.topics import (
    Metadata,
    MetadataReply,
    MetadataTopic,
)
from protocol.record_batch import encode_batch
from tests.client.fetching.stage import NODES, P0, P1, P2, Stage, asked, fetched, ready


def test_leaders_are_learnt_first_then_each_node_is_asked_once_for_all_it_has() -> None:
    stage = Stage({P0: 5, P1: 6, P2: 7}).wake()
    assert stage.new() == [(None, Metadata((MetadataTopic("t"),)))]
    stage.leaders(0, 1, 0)
    first, second = stage.new()
    both = (FetchPartition(0, 5, current_leader_epoch=0), FetchPartition(2, 7, current_leader_epoch=0))
    assert first == (NODES[0], Fetch((FetchTopic("t", both),), session_epoch=0))
    other = (FetchPartition(1, 6, current_leader_epoch=0),)
    assert second == (NODES[1], Fetch((FetchTopic("t", other),), session_epoch=0))


def test_a_node_is_not_asked_again_before_it_answered() -> None:
    stage = ready({P0: 0}, 0)
    stage.new()
    for _ in range(20):
        stage.wake(10)
    assert stage.new() == []


def test_records_move_the_position_only_when_handed_out() -> None:
    stage = ready({P0: 5}, 0).answer(Fetch, fetched(P0, 5, 3))
    assert stage.subscription.positions() == {P0: 5}
    assert stage.taken() == [(0, 5), (0, 6), (0, 7)]
    assert stage.subscription.positions() == {P0: 8}


def test_a_partition_is_not_fetched_again_until_its_records_are_handed_out() -> None:
    stage = ready({P0: 0}, 0).answer(Fetch, fetched(P0, 0, 95))
    stage.new()
    offsets = []
    for _ in range(9):
        offsets += stage.taken(10)
        assert stage.wake().new() == []
    offsets += stage.taken(10)
    assert offsets == [(0, n) for n in range(95)]
    ((_, message),) = stage.wake().new()
    assert asked(message) == {0: 95}


def test_records_before_the_position_are_not_handed_out() -> None:
    stage = ready({P0: 7}, 0).answer(Fetch, fetched(P0, 5, 4))
    assert stage.taken() == [(0, 7), (0, 8)]


def test_a_seek_outdates_the_answer_under_way_and_the_records_ready() -> None:
    stage = ready({P0: 0}, 0)
    stage.subscription.seek(P0, 50)
    stage.answer(Fetch, fetched(P0, 0, 3))
    assert stage.taken() == []
    stage.answer(Fetch, fetched(P0, 50, 2))
    stage.subscription.seek(P0, 9)
    assert stage.taken() == []
    stage.wake().answer(Fetch, fetched(P0, 9, 1))
    assert stage.taken() == [(0, 9)]


def test_a_partition_taken_away_hands_out_nothing_even_if_it_comes_back() -> None:
    stage = ready({P0: 0}, 0).answer(Fetch, fetched(P0, 0, 3))
    stage.subscription.assign([])
    stage.subscription.assign([P0])
    stage.subscription.seek(P0, 2)
    assert stage.taken() == []


def test_an_answer_from_an_old_leader_after_the_new_ones_is_dropped() -> None:
    stage = ready({P0: 0, P1: 0}, 0, 1)
    stage.answer(Fetch, fetched(P0, error=ErrorCode.NOT_LEADER_OR_FOLLOWER), 0).leaders(1, 1)
    stage.answer(Fetch, fetched(P1, 0, 1), 1).wake(100)
    stage.answer(Fetch, fetched(P0, 0, 2), 1)
    assert stage.taken() == [(1, 0), (0, 0), (0, 1)]
    assert stage.taken() == []


@pytest.mark.parametrize(("reset", "timestamp"), [(OffsetReset.EARLIEST, -2), (OffsetReset.LATEST, -1)])
def test_without_an_offset_its_leader_is_asked_where_to_begin(reset: OffsetReset, timestamp: int) -> None:
    stage = Stage({P0: 0})
    stage.subscription.await_reset(P0, reset)
    stage.wake().leaders(0)
    assert stage.new()[-1] == (
        NODES[0],
        ListOffsets((ListOffsetsTopic("t", (ListOffsetsPartition(0, timestamp, 0),)),)),
    )
    offsets = ListOffsetsTopicReply("t", (ListOffsetsPartitionReply(0, offset=40),))
    stage.answer(ListOffsets, ListOffsetsReply((offsets,)))
    assert asked(stage.new()[-1][1]) == {0: 40}


def test_the_answer_to_a_reset_comes_too_late_after_a_seek() -> None:
    stage = Stage({P0: 0})
    stage.subscription.await_reset(P0, OffsetReset.EARLIEST)
    stage.wake().leaders(0)
    stage.subscription.seek(P0, 77)
    stage.answer(
        ListOffsets, ListOffsetsReply((ListOffsetsTopicReply("t", (ListOffsetsPartitionReply(0, offset=1),)),))
    )
    assert stage.subscription.positions() == {P0: 77}


def test_a_position_out_of_range_is_reset_by_the_policy() -> None:
    stage = ready({P0: 900}, 0, reset=OffsetReset.EARLIEST)
    stage.answer(Fetch, fetched(P0, error=ErrorCode.OFFSET_OUT_OF_RANGE))
    assert isinstance(stage.new()[-1][1], ListOffsets)


def test_a_position_out_of_range_without_a_policy_is_the_applications_to_mend() -> None:
    stage = ready({P0: 900}, 0, reset=OffsetReset.NONE)
    stage.answer(Fetch, fetched(P0, error=ErrorCode.OFFSET_OUT_OF_RANGE))
    with pytest.raises(OffsetOutOfRange, match="offset 900 of t-0 is out of range") as raised:
        stage.taken()
    assert (raised.value.partition, raised.value.position) == (P0, 900)
    stage.subscription.seek(P0, 10)
    assert asked(stage.wake().new()[-1][1]) == {0: 10}


def test_an_error_of_one_partition_waits_for_the_records_of_another() -> None:
    stage = ready({P0: 0, P1: 0}, 0, 1)
    stage.answer(Fetch, fetched(P0, error=ErrorCode.TOPIC_AUTHORIZATION_FAILED), 0)
    stage.answer(Fetch, fetched(P1, 0, 1), 1)
    assert stage.taken() == [(1, 0)]
    with pytest.raises(Refused, match="t-0 cannot be read: TOPIC_AUTHORIZATION_FAILED"):
        stage.taken()


def test_a_partition_whose_file_cannot_be_read_is_a_trouble_until_it_can_be() -> None:
    stage = ready({P0: 0, P1: 5}, 0, 1)
    stage.answer(Fetch, fetched(P0, 0, 1), 0)
    stage.answer(Fetch, fetched(P1, error=ErrorCode.KAFKA_STORAGE_ERROR), 1)
    assert stage.taken() == [(0, 0)]
    assert stage.subscription.troubles() == {P1: (5, ErrorCode.KAFKA_STORAGE_ERROR)}

    stage.leaders(0, 1).wake(100).answer(Fetch, fetched(P1, 5, 1), 1)

    assert stage.taken() == [(1, 5)]
    assert stage.subscription.troubles() == {}


def test_a_leader_that_moved_is_no_trouble() -> None:
    stage = ready({P0: 0}, 0).answer(Fetch, fetched(P0, error=ErrorCode.NOT_LEADER_OR_FOLLOWER), 0)
    assert stage.subscription.troubles() == {}


def test_a_corrupt_batch_is_reported_after_the_sound_records_before_it_until_sought_past() -> None:
    sound = encode_batch([(None, b"a")], timestamp_ms=1, base_offset=0)
    broken = bytearray(encode_batch([(None, b"b")], timestamp_ms=1, base_offset=1))
    broken[-1] ^= 1
    stage = ready({P0: 0}, 0)
    reply = FetchPartitionReply(0, records=sound + bytes(broken))
    stage.answer(Fetch, FetchReply(responses=(FetchTopicReply("t", (reply,)),)))
    assert stage.taken() == [(0, 0)]
    for _ in range(2):
        with pytest.raises(CorruptRecords, match="t-0 at offset 1 cannot be read"):
            stage.taken()
    stage.subscription.seek(P0, 2)
    assert stage.taken() == []


def test_control_batches_are_passed_over_in_silence() -> None:
    control = encode_batch([(b"\0\0\0\0", b"")], timestamp_ms=1, base_offset=3, control=True)
    stage = ready({P0: 3}, 0)
    stage.answer(Fetch, FetchReply(responses=(FetchTopicReply("t", (FetchPartitionReply(0, records=control),)),)))
    assert stage.taken() == []
    assert stage.subscription.positions() == {P0: 4}


def test_a_lost_connection_looks_for_leaders_again_after_a_pause() -> None:
    stage = ready({P0: 4}, 0)
    stage.new()
    stage.cut(Fetch).leaders(1)
    assert [type(message) for _, message in stage.new()] == [Metadata]
    (again,) = stage.wake(100).new()
    assert again[0] == NODES[1]
    assert asked(again[1]) == {0: 4}


def test_a_node_that_does_not_answer_is_hung_up_on() -> None:
    stage = ready({P0: 4}, 0)
    assert stage.fetcher.next_deadline_ms == 30_500
    stage.wake(30_500)
    assert stage.hung_up == [NODES[0]]


def test_a_topic_nobody_leads_is_looked_for_with_growing_pauses() -> None:
    stage = Stage({P0: 4}).wake()
    pauses = []
    for _ in range(5):
        stage.answer(Metadata, MetadataReply())
        due = stage.fetcher.next_deadline_ms
        assert due is not None
        pauses.append(due - stage.now_ms)
        stage.wake(due - stage.now_ms)
    assert pauses == [100, 200, 400, 800, 1_000]


def test_positions_can_be_set_for_what_is_assigned_alone() -> None:
    subscription = Subscription()
    subscription.assign([P0])
    with pytest.raises(ValueError, match="t-1 is not assigned"):
        subscription.seek(P1, 0)
    with pytest.raises(ValueError, match="cannot seek to -5"):
        subscription.seek(P0, -5)


def test_partitions_kept_keep_their_position() -> None:
    subscription = Subscription()
    subscription.assign([P0, P1])
    subscription.seek(P0, 9)
    subscription.assign([P0, P2])
    assert subscription.positions() == {P0: 9}
    assert subscription.missing() == [P2]
