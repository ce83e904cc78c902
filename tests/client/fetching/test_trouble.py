"""Errors, resets and what is left out: docs/spec/consumer-client.md#H.58 to #H.64."""

from typing import Any

import pytest

from muster.core.fetching.settings import Isolation
from muster.core.positions import OffsetReset
from muster.errors import CannotDeserialize, CorruptRecords, NoOffset, OffsetOutOfRange, Refused
from protocol.errors import ErrorCode
from protocol.messages.data import AbortedTransaction, Fetch
from protocol.messages.offsets import ListOffsets
from protocol.record_batch import pack_batch, seal_batch
from protocol.record_writing import encode_record, varint
from tests.client.fetching.nodes import batch
from tests.client.fetching.rig import fetched, fetched_bytes, ready
from tests.client.fetching.world import P0, P1, World


@pytest.mark.parametrize(
    ("reset", "expected"),
    [
        (OffsetReset.EARLIEST, [5, 6]),
        (OffsetReset.LATEST, [7]),
        (OffsetReset.NONE, "offset 900 of t-0 is out of range"),
    ],
)
def test_h58_a_position_out_of_range_goes_on_where_the_policy_says(
    reset: OffsetReset, expected: list[int] | str
) -> None:
    world = World(0, offsets=[900], reset=reset)
    world.logs[P0].start = 5
    world.append(P0, 2)
    if isinstance(expected, str):
        with pytest.raises(OffsetOutOfRange, match=expected) as raised:
            world.offsets()
        assert (raised.value.partition, raised.value.position) == (P0, 900)
        return
    world.after(100, lambda: world.append(P0, 1))
    offsets = world.offsets()
    assert offsets[: len(expected)] == expected


@pytest.mark.parametrize("reset", [OffsetReset.LATEST, OffsetReset.NONE])
def test_h59_a_position_out_of_range_that_was_sought_away_from_is_none(reset: OffsetReset) -> None:
    world = World(0, offsets=[900], reset=reset)
    world.append(P0, 2)
    world.poll(0)
    world.run(world.now_ms + 3)
    assert len(world.requests) == 1
    world.subscription.seek(P0, 1)
    assert world.offsets() == [1]


def test_an_error_that_is_buffered_already_dies_with_a_seek() -> None:
    rig = ready({P0: 900}, 0, reset=OffsetReset.NONE)
    rig.answer(Fetch, fetched(P0, error=ErrorCode.OFFSET_OUT_OF_RANGE))
    rig.subscription.seek(P0, 3)
    assert rig.taken() == []


@pytest.mark.parametrize(
    ("reset", "expected"), [(OffsetReset.EARLIEST, [5, 6]), (OffsetReset.LATEST, [7]), (OffsetReset.NONE, None)]
)
def test_h60_without_a_committed_offset_the_policy_says_where_to_begin(
    reset: OffsetReset, expected: list[int] | None
) -> None:
    world = World(0, 0, reset=reset)
    world.logs[P0].start = 5
    world.append(P0, 2)
    world.fetcher.assign([])
    world.fetcher.assign([P0, P1])
    if expected is None:
        with pytest.raises(NoOffset, match="no offset is committed for t-0, and"):
            world.fetcher.begin({P0: None, P1: 0})
        assert world.subscription.positions() == {P1: 0}
        return
    world.fetcher.begin({P0: None, P1: 0})
    assert world.subscription.position(P0) is None
    world.after(100, lambda: world.append(P0, 1))
    assert world.offsets()[: len(expected)] == expected


def test_committed_offsets_come_too_late_for_what_was_sought_meanwhile() -> None:
    world = World(0, 0)
    world.fetcher.begin({P0: 40, P1: None})
    assert world.subscription.positions() == {P0: 0, P1: 0}


def test_h61_an_answer_to_a_reset_comes_too_late_after_a_seek() -> None:
    world = World(0)
    world.append(P0, 9)
    world.subscription.seek_to_beginning()
    world.run(10, until=lambda: any(isinstance(one, ListOffsets) for one in world.others))
    world.poll(0)
    world.run(10, until=lambda: any(isinstance(one, ListOffsets) for one in world.others))
    world.subscription.seek(P0, 7)
    assert world.offsets() == [7, 8]


def test_an_answer_to_a_reset_of_another_strategy_is_not_applied() -> None:
    world = World(0)
    world.append(P0, 9)
    world.subscription.seek_to_beginning([P0])
    world.poll(0)
    world.run(10, until=lambda: any(isinstance(one, ListOffsets) for one in world.others))
    world.subscription.seek_to_end([P0])
    world.after(100, lambda: world.append(P0, 1))
    assert world.offsets() == [9]


def test_h62_a_batch_of_control_records_alone_moves_the_position_past_it() -> None:
    world = World(0)
    world.logs[P0].control(producer_id=7)
    assert world.offsets(400) == []
    assert world.now_ms < 400
    assert world.subscription.positions() == {P0: 1}
    world.logs[P0].compacted_away(3)
    world.append(P0, 1)
    assert world.offsets() == [4]


def test_what_compaction_took_from_the_end_of_a_batch_is_passed() -> None:
    world = World(0)
    records = b"".join(encode_record(varint(number), None, b"v") for number in range(2))
    tail_gone = pack_batch(
        records,
        base_offset=0,
        attributes=0,
        last_offset_delta=9,
        base_timestamp_ms=1,
        max_timestamp_ms=1,
        record_count=2,
    )
    world.logs[P0].batches.append(tail_gone)
    assert world.offsets() == [0, 1]
    assert world.subscription.positions() == {P0: 10}


def broken_in_the_middle() -> bytes:
    """Five records with a sound checksum, of which the third is none."""
    records = [encode_record(varint(number), None, b"%d" % number) for number in range(5)]
    records[2] = varint(6) + b"\0\0" + varint(2) + b"\x7f\x7f\x7f"
    return seal_batch(b"".join(records), 5, 1)


def test_h63_an_undecodable_record_stops_the_partition_until_it_is_sought_past() -> None:
    world = World(0)
    world.logs[P0].batches.append(broken_in_the_middle())
    world.append(P0, 2)
    assert world.offsets() == [0, 1]
    for _ in range(3):
        with pytest.raises(CorruptRecords, match=r"t-0 at offset 2 cannot be read: .*; seek to 3 to go on") as raised:
            world.offsets()
        assert (raised.value.partition, raised.value.offset) == (P0, 2)
        assert world.subscription.positions() == {P0: 2}
    world.subscription.seek(P0, 3)
    assert world.offsets() + world.offsets(10) == [3, 4, 5, 6]


def test_a_deserializer_that_refuses_a_record_stops_the_partition_until_it_is_sought_past() -> None:
    world = World(0, value_deserializer=lambda data: 1 // (int(data) - 3))
    world.append(P0, 5)
    assert world.offsets() == [0, 1, 2]
    for _ in range(3):
        with pytest.raises(CannotDeserialize, match="the value of t-0 at offset 3 cannot be deserialized") as raised:
            world.offsets()
        assert (raised.value.partition, raised.value.offset, raised.value.part) == (P0, 3, "value")
        assert isinstance(raised.value.__cause__, ZeroDivisionError)
    world.subscription.seek(P0, 4)
    (record,) = world.poll(1_000)
    assert (record.offset, record.key, record.value) == (4, None, 1)


def test_an_error_that_stands_does_not_reach_a_paused_partition() -> None:
    world = World(0, 1, value_deserializer=lambda data: 1 // int(data))
    world.append(P0, 2)
    with pytest.raises(CannotDeserialize):
        world.offsets()
    world.subscription.pause([P0])
    assert world.offsets(10) == []
    world.subscription.resume([P0])
    with pytest.raises(CannotDeserialize):
        world.offsets()


def test_a_damaged_batch_names_the_offset_to_go_on_from() -> None:
    world = World(0)
    damaged = bytearray(batch(0, 4))
    damaged[-1] ^= 1
    world.logs[P0].batches.append(bytes(damaged))
    world.append(P0, 1)
    with pytest.raises(CorruptRecords, match=r"t-0 at offset 0 cannot be read: .*; seek to 4 to go on"):
        world.offsets()
    world.subscription.seek(P0, 4)
    assert world.offsets() == [4]


def test_an_answer_without_a_whole_batch_is_reported() -> None:
    rig = ready({P0: 0}, 0)
    reply = fetched(P0, 0, 3)
    cut = reply.responses[0].partitions[0].records[:70]
    rig.answer(Fetch, fetched_bytes(P0, cut))
    with pytest.raises(CorruptRecords, match="no whole batch"):
        rig.taken()


def test_h64_records_of_another_partition_pass_an_error_once() -> None:
    world = World(0, 0)
    world.logs[P0].error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    world.append(P1, 2)
    assert [(one.partition, one.offset) for one in world.poll(1_000, most=1)] == [(1, 0)]
    with pytest.raises(Refused, match="t-0 cannot be read: TOPIC_AUTHORIZATION_FAILED"):
        world.poll(0)
    assert [(one.partition, one.offset) for one in world.poll(0)] == [(1, 1)]


@pytest.mark.parametrize("code", [ErrorCode.UNKNOWN_LEADER_EPOCH, ErrorCode.UNKNOWN_SERVER_ERROR])
def test_what_may_pass_by_itself_is_asked_again_of_the_same_leader(code: ErrorCode) -> None:
    world = World(0)
    world.append(P0, 1)
    world.logs[P0].error = code
    world.after(150, lambda: setattr(world.logs[P0], "error", ErrorCode.NONE))
    asked_for_metadata = len(world.others)
    assert world.offsets(5_000) == [0]
    assert len(world.others) == asked_for_metadata + 1


def test_a_reset_that_is_refused_for_good_is_reported_and_tried_again() -> None:
    world = World(0)
    world.subscription.seek_to_beginning()
    world.logs[P0].error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    with pytest.raises(Refused, match="TOPIC_AUTHORIZATION_FAILED"):
        world.offsets()
    world.logs[P0].error = ErrorCode.NONE
    world.append(P0, 1)
    assert world.offsets() == [0]


def transactions(**settings: Any) -> World:
    """Offsets 0 to 2 of producer 1, aborted; 3 and 4 of 2, committed; 6 to 8 of 1, committed; 9 of nobody."""
    world = World(0, **settings)
    log = world.logs[P0]
    log.append(3, producer_id=1, producer_epoch=0, base_sequence=0, transactional=True)
    log.append(2, producer_id=2, producer_epoch=0, base_sequence=0, transactional=True)
    log.control(producer_id=1, commits=False)
    log.append(3, producer_id=1, producer_epoch=0, base_sequence=3, transactional=True)
    log.control(producer_id=1)
    log.control(producer_id=2)
    log.append(1)
    log.aborted.append(AbortedTransaction(1, 0))
    return world


def test_aborted_records_are_left_out_when_only_committed_ones_are_wanted() -> None:
    world = transactions(isolation=Isolation.READ_COMMITTED)
    assert world.offsets() == [3, 4, 6, 7, 8, 11]
    assert world.requests[0][2].isolation_level == 1


def test_all_records_are_handed_out_when_uncommitted_ones_are_wanted_too() -> None:
    assert transactions().offsets() == [0, 1, 2, 3, 4, 6, 7, 8, 11]


def test_lag_is_known_from_fetches_or_asked_for_in_the_background() -> None:
    world = World(0, 1)
    world.append(P0, 10)
    assert world.fetcher.current_lag(P0) is None
    world.subscription.pause([P0])
    world.rest(20)
    world.poll(20)
    assert world.fetcher.current_lag(P0) == 10
    assert [one for one in world.others if isinstance(one, ListOffsets)]
    world.subscription.resume([P0])
    world.poll(1_000, most=4)
    assert world.fetcher.current_lag(P0) == 6
    world.fetcher.assign([P1])
    with pytest.raises(ValueError, match="t-0 is not assigned"):
        world.fetcher.current_lag(P0)
