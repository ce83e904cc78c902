"""Fetching: which node is asked for what, and what becomes of the answers (docs/spec/consumer-client.md#B2 to #B6)."""

import pytest

from muster.core.positions import ConsumerPositions, OffsetReset
from muster.errors import CorruptRecords, OffsetOutOfRange, Refused
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
from tests.client.fetching.rig import NODES, P0, P1, P2, FetcherRig, asked, fetched, ready


def test_leaders_are_learnt_first_then_each_node_is_asked_once_for_all_it_has() -> None:
    rig = FetcherRig({P0: 5, P1: 6, P2: 7}).wake()
    assert rig.new() == [(None, Metadata((MetadataTopic("t"),)))]
    rig.leaders(0, 1, 0)
    first, second = rig.new()
    both = (FetchPartition(0, 5, current_leader_epoch=0), FetchPartition(2, 7, current_leader_epoch=0))
    assert first == (NODES[0], Fetch((FetchTopic("t", both),), session_epoch=0))
    other = (FetchPartition(1, 6, current_leader_epoch=0),)
    assert second == (NODES[1], Fetch((FetchTopic("t", other),), session_epoch=0))


def test_a_node_is_not_asked_again_before_it_answered() -> None:
    rig = ready({P0: 0}, 0)
    rig.new()
    for _ in range(20):
        rig.wake(10)
    assert rig.new() == []


def test_records_move_the_position_only_when_handed_out() -> None:
    rig = ready({P0: 5}, 0).answer(Fetch, fetched(P0, 5, 3))
    assert rig.subscription.positions() == {P0: 5}
    assert rig.taken() == [(0, 5), (0, 6), (0, 7)]
    assert rig.subscription.positions() == {P0: 8}


def test_a_partition_is_not_fetched_again_until_its_records_are_handed_out() -> None:
    rig = ready({P0: 0}, 0).answer(Fetch, fetched(P0, 0, 95))
    rig.new()
    offsets = []
    for _ in range(9):
        offsets += rig.taken(10)
        assert rig.wake().new() == []
    offsets += rig.taken(10)
    assert offsets == [(0, n) for n in range(95)]
    ((_, message),) = rig.wake().new()
    assert asked(message) == {0: 95}


def test_records_before_the_position_are_not_handed_out() -> None:
    rig = ready({P0: 7}, 0).answer(Fetch, fetched(P0, 5, 4))
    assert rig.taken() == [(0, 7), (0, 8)]


def test_a_seek_outdates_the_answer_under_way_and_the_records_ready() -> None:
    rig = ready({P0: 0}, 0)
    rig.subscription.seek(P0, 50)
    rig.answer(Fetch, fetched(P0, 0, 3))
    assert rig.taken() == []
    rig.answer(Fetch, fetched(P0, 50, 2))
    rig.subscription.seek(P0, 9)
    assert rig.taken() == []
    rig.wake().answer(Fetch, fetched(P0, 9, 1))
    assert rig.taken() == [(0, 9)]


def test_a_partition_taken_away_hands_out_nothing_even_if_it_comes_back() -> None:
    rig = ready({P0: 0}, 0).answer(Fetch, fetched(P0, 0, 3))
    rig.subscription.assign([])
    rig.subscription.assign([P0])
    rig.subscription.seek(P0, 2)
    assert rig.taken() == []


def test_an_answer_from_an_old_leader_after_the_new_ones_is_dropped() -> None:
    rig = ready({P0: 0, P1: 0}, 0, 1)
    rig.answer(Fetch, fetched(P0, error=ErrorCode.NOT_LEADER_OR_FOLLOWER), 0).leaders(1, 1)
    rig.answer(Fetch, fetched(P1, 0, 1), 1).wake(100)
    rig.answer(Fetch, fetched(P0, 0, 2), 1)
    assert rig.taken() == [(1, 0), (0, 0), (0, 1)]
    assert rig.taken() == []


@pytest.mark.parametrize(("reset", "timestamp"), [(OffsetReset.EARLIEST, -2), (OffsetReset.LATEST, -1)])
def test_without_an_offset_its_leader_is_asked_where_to_begin(reset: OffsetReset, timestamp: int) -> None:
    rig = FetcherRig({P0: 0})
    rig.subscription.await_reset(P0, reset)
    rig.wake().leaders(0)
    assert rig.new()[-1] == (
        NODES[0],
        ListOffsets((ListOffsetsTopic("t", (ListOffsetsPartition(0, timestamp, 0),)),)),
    )
    offsets = ListOffsetsTopicReply("t", (ListOffsetsPartitionReply(0, offset=40),))
    rig.answer(ListOffsets, ListOffsetsReply((offsets,)))
    assert asked(rig.new()[-1][1]) == {0: 40}


def test_the_answer_to_a_reset_comes_too_late_after_a_seek() -> None:
    rig = FetcherRig({P0: 0})
    rig.subscription.await_reset(P0, OffsetReset.EARLIEST)
    rig.wake().leaders(0)
    rig.subscription.seek(P0, 77)
    rig.answer(ListOffsets, ListOffsetsReply((ListOffsetsTopicReply("t", (ListOffsetsPartitionReply(0, offset=1),)),)))
    assert rig.subscription.positions() == {P0: 77}


def test_a_position_out_of_range_is_reset_by_the_policy() -> None:
    rig = ready({P0: 900}, 0, reset=OffsetReset.EARLIEST)
    rig.answer(Fetch, fetched(P0, error=ErrorCode.OFFSET_OUT_OF_RANGE))
    assert isinstance(rig.new()[-1][1], ListOffsets)


def test_a_position_out_of_range_without_a_policy_is_the_applications_to_mend() -> None:
    rig = ready({P0: 900}, 0, reset=OffsetReset.NONE)
    rig.answer(Fetch, fetched(P0, error=ErrorCode.OFFSET_OUT_OF_RANGE))
    with pytest.raises(OffsetOutOfRange, match="offset 900 of t-0 is out of range") as raised:
        rig.taken()
    assert (raised.value.partition, raised.value.position) == (P0, 900)
    rig.subscription.seek(P0, 10)
    assert asked(rig.wake().new()[-1][1]) == {0: 10}


def test_an_error_of_one_partition_waits_for_the_records_of_another() -> None:
    rig = ready({P0: 0, P1: 0}, 0, 1)
    rig.answer(Fetch, fetched(P0, error=ErrorCode.TOPIC_AUTHORIZATION_FAILED), 0)
    rig.answer(Fetch, fetched(P1, 0, 1), 1)
    assert rig.taken() == [(1, 0)]
    with pytest.raises(Refused, match="t-0 cannot be read: TOPIC_AUTHORIZATION_FAILED"):
        rig.taken()


def test_a_partition_whose_file_cannot_be_read_is_a_trouble_until_it_can_be() -> None:
    rig = ready({P0: 0, P1: 5}, 0, 1)
    rig.answer(Fetch, fetched(P0, 0, 1), 0)
    rig.answer(Fetch, fetched(P1, error=ErrorCode.KAFKA_STORAGE_ERROR), 1)
    assert rig.taken() == [(0, 0)]
    assert rig.subscription.troubles() == {P1: (5, ErrorCode.KAFKA_STORAGE_ERROR)}

    rig.leaders(0, 1).wake(100).answer(Fetch, fetched(P1, 5, 1), 1)

    assert rig.taken() == [(1, 5)]
    assert rig.subscription.troubles() == {}


def test_a_leader_that_moved_is_no_trouble() -> None:
    rig = ready({P0: 0}, 0).answer(Fetch, fetched(P0, error=ErrorCode.NOT_LEADER_OR_FOLLOWER), 0)
    assert rig.subscription.troubles() == {}


def test_a_corrupt_batch_is_reported_after_the_sound_records_before_it_until_sought_past() -> None:
    sound = encode_batch([(None, b"a")], timestamp_ms=1, base_offset=0)
    broken = bytearray(encode_batch([(None, b"b")], timestamp_ms=1, base_offset=1))
    broken[-1] ^= 1
    rig = ready({P0: 0}, 0)
    reply = FetchPartitionReply(0, records=sound + bytes(broken))
    rig.answer(Fetch, FetchReply(responses=(FetchTopicReply("t", (reply,)),)))
    assert rig.taken() == [(0, 0)]
    for _ in range(2):
        with pytest.raises(CorruptRecords, match="t-0 at offset 1 cannot be read"):
            rig.taken()
    rig.subscription.seek(P0, 2)
    assert rig.taken() == []


def test_control_batches_are_passed_over_in_silence() -> None:
    control = encode_batch([(b"\0\0\0\0", b"")], timestamp_ms=1, base_offset=3, control=True)
    rig = ready({P0: 3}, 0)
    rig.answer(Fetch, FetchReply(responses=(FetchTopicReply("t", (FetchPartitionReply(0, records=control),)),)))
    assert rig.taken() == []
    assert rig.subscription.positions() == {P0: 4}


def test_a_lost_connection_looks_for_leaders_again_after_a_pause() -> None:
    rig = ready({P0: 4}, 0)
    rig.new()
    rig.cut(Fetch).leaders(1)
    assert [type(message) for _, message in rig.new()] == [Metadata]
    (again,) = rig.wake(100).new()
    assert again[0] == NODES[1]
    assert asked(again[1]) == {0: 4}


def test_a_node_that_does_not_answer_is_hung_up_on() -> None:
    rig = ready({P0: 4}, 0)
    assert rig.fetcher.next_deadline_ms == 30_500
    rig.wake(30_500)
    assert rig.hung_up == [NODES[0]]


def test_a_topic_nobody_leads_is_looked_for_with_growing_pauses() -> None:
    rig = FetcherRig({P0: 4}).wake()
    pauses = []
    for _ in range(5):
        rig.answer(Metadata, MetadataReply())
        due = rig.fetcher.next_deadline_ms
        assert due is not None
        pauses.append(due - rig.now_ms)
        rig.wake(due - rig.now_ms)
    assert pauses == [100, 200, 400, 800, 1_000]


def test_positions_can_be_set_for_what_is_assigned_alone() -> None:
    subscription = ConsumerPositions()
    subscription.assign([P0])
    with pytest.raises(ValueError, match="t-1 is not assigned"):
        subscription.seek(P1, 0)
    with pytest.raises(ValueError, match="cannot seek to -5"):
        subscription.seek(P0, -5)


def test_partitions_kept_keep_their_position() -> None:
    subscription = ConsumerPositions()
    subscription.assign([P0, P1])
    subscription.seek(P0, 9)
    subscription.assign([P0, P2])
    assert subscription.positions() == {P0: 9}
    assert subscription.missing() == [P2]
