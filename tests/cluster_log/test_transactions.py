"""Offsets of clients' transactions in a shard's log (docs/spec/shared-log.md#7): which count, and what decides them."""

from typing import Any

import pytest

from coordinator.cluster_log.effects import (
    KeysToRepair,
    OffsetsPending,
    ReadLog,
    ShardEffect,
    ShardLost,
    TransactionDecided,
    WriteBatch,
)
from coordinator.cluster_log.entries import (
    EntryKind,
    LogEntry,
    Pair,
    TransactionOffsets,
    claim_batch,
    entries_of,
    pending_key,
    pending_pair,
    read_pending,
    tagged_batch,
)
from coordinator.cluster_log.events import FollowingWanted
from coordinator.records.codec import encode_marker
from coordinator.records.records import TransactionEnded
from protocol.errors import ErrorCode
from protocol.record_batch import CorruptBatch, encode_batch, stamp
from tests.cluster_log.rig import SETTINGS, Bench, kinds, only

CLIENT = 900
RECORDS: tuple[Pair, ...] = ((b"\0\1a", b"one"), (b"\0\1b", b"two"))


def marker(*, is_committed: bool = True, producer_id: int = CLIENT) -> bytes:
    record = encode_marker(TransactionEnded(producer_id, 0, is_committed))
    return encode_batch([record], timestamp_ms=5, producer_id=producer_id, transactional=True, control=True)


def pending(open_at: int, number: int = 1, tag: int = 0) -> Pair:
    return pending_pair(pending_key(tag, number), TransactionOffsets(CLIENT, open_at, RECORDS))


def following(*batches: bytes) -> tuple[Bench, list[ShardEffect]]:
    """Return a shard that has read these batches behind a claim, and what it said."""
    bench = Bench()
    bench.put(claim_batch((7, 0, 0), 5))
    for batch in batches:
        bench.put(batch)
    return bench, bench.answer(bench.tell(FollowingWanted(True)))


def tagged(*pairs: Pair, sequence: int = 1) -> bytes:
    return tagged_batch(pairs, 0, (7, 0, sequence), 5)


def owner() -> Bench:
    bench = Bench()
    bench.own()
    return bench


def write(bench: Bench, *pairs: Pair) -> list[ShardEffect]:
    """Append; return the effects, of which one writes."""
    assert bench.shard.append(pairs, bench.now) is not None
    return bench.take()


def fields(effect: Any) -> tuple[Any, ...]:
    return effect.producer_id, effect.is_committed, [record.key for record in effect.records]


@pytest.mark.parametrize("is_committed", [True, False])
def test_a_marker_is_an_entry_of_its_producer(is_committed: bool) -> None:
    ((end, (entry,)),) = entries_of(stamp(marker(is_committed=is_committed), 60))
    kind = EntryKind.COMMIT if is_committed else EntryKind.ABORT
    assert (end, entry.offset, entry.kind, entry.tag, entry.producer[0]) == (61, 60, kind, -1, CLIENT)


def test_a_control_record_of_another_type_is_no_entry() -> None:
    batch = encode_batch([(b"\0\0\0\2", b"\0\0")], timestamp_ms=5, producer_id=CLIENT, control=True)
    assert list(entries_of(stamp(batch, 60))) == [(61, [])]


def test_pending_offsets_have_a_key_of_their_own_and_the_records_that_a_commit_makes_valid() -> None:
    ((_, (entry, gone)),) = entries_of(tagged(pending(3), (pending_key(0, 1), None)))
    assert (entry.kind, entry.key, gone.kind) == (EntryKind.PENDING, b"txn|0|1", EntryKind.DATA)
    assert read_pending(entry) == TransactionOffsets(CLIENT, 3, RECORDS)


@pytest.mark.parametrize("value", [None, b"", b"\x93", b"\x93\1\2\3", b"junk"])
def test_pending_offsets_that_cannot_be_read_are_damage(value: bytes | None) -> None:
    with pytest.raises(CorruptBatch, match="offsets of a transaction at 60 cannot be read"):
        read_pending(LogEntry(60, EntryKind.PENDING, 0, b"txn|0|1", value, (7, 0), 1))


@pytest.mark.parametrize("is_committed", [True, False])
def test_the_next_marker_of_the_producer_decides_offsets_in_their_order(is_committed: bool) -> None:
    other = marker(producer_id=CLIENT + 1)
    bench, read = following(
        tagged(pending(1, 1)), other, tagged(pending(1, 2), sequence=2), marker(is_committed=is_committed)
    )
    assert [one.record.key for one in read if isinstance(one, OffsetsPending)] == [b"txn|0|1", b"txn|0|2"]
    ends = [fields(one.end) for one in read if isinstance(one, TransactionDecided)]
    assert ends == [(CLIENT + 1, True, []), (CLIENT, is_committed, [b"txn|0|1", b"txn|0|2"])]
    valid = RECORDS if is_committed else ()
    assert bench.shard.reader.tail.transactions.unsettled == {b"txn|0|1": valid, b"txn|0|2": valid}
    assert not bench.shard.reader.tail.transactions.open


def test_records_are_replayed_in_their_order_around_those_of_transactions() -> None:
    _, read = following(tagged((b"a", b"1"), pending(1), (b"b", b"2")), marker(), tagged((b"c", b"3"), sequence=4))
    assert kinds(read) == [
        "LogReplayed",
        "OffsetsPending",
        "LogReplayed",
        "TransactionDecided",
        "LogReplayed",
        "ShardCaughtUp",
    ]


def test_a_tombstone_settles() -> None:
    bench, read = following(tagged(pending(1)), marker(), tagged((pending_key(0, 1), None), sequence=2))
    assert not bench.shard.reader.tail.transactions.unsettled
    assert "LogReplayed" not in kinds(read)


def test_offsets_behind_the_end_of_their_transaction_do_not_count() -> None:
    # It was open when the log was read up to 1, and its marker is at 1.
    bench, read = following(marker(is_committed=False), tagged(pending(1)), marker())
    assert "OffsetsPending" not in kinds(read)
    assert not bench.shard.reader.tail.transactions.unsettled
    # One whose owner had read that marker is of the next transaction.
    bench, read = following(marker(is_committed=False), tagged(pending(2)))
    assert "OffsetsPending" in kinds(read)


def test_offsets_whose_transaction_was_open_before_the_claim_do_not_count() -> None:
    _, read = following(tagged(pending(0)))
    assert "OffsetsPending" not in kinds(read)


def test_an_owner_learns_that_its_own_offsets_count_before_they_are_durable() -> None:
    bench = owner()
    assert kinds(bench.answer(write(bench, pending(1)))) == ["OffsetsPending", "WritesDurable"]
    assert kinds(bench.answer(write(bench, (b"k", b"v")))) == ["WritesDurable"]


def test_a_marker_between_makes_an_owners_offsets_count_for_nothing() -> None:
    bench = owner()
    written = write(bench, pending(1))
    bench.put(marker())
    read = bench.answer(bench.answer(written))
    assert kinds(read) == ["TransactionDecided", "WritesDurable", "KeysToRepair"]
    assert fields(only(read, TransactionDecided).end) == (CLIENT, True, [])
    assert only(read, KeysToRepair).keys == (pending_key(0, 1),)


def test_an_owner_looks_for_markers_while_something_is_pending_and_writes_behind_them() -> None:
    bench = owner()
    bench.answer(write(bench, pending(1)))
    bench.put(marker())
    bench.now_ms += SETTINGS.marker_ms
    looked = bench.take()
    assert only(looked, ReadLog).offset == 2
    assert kinds(bench.answer(looked)) == ["TransactionDecided"]
    bench.now_ms += SETTINGS.marker_ms
    assert bench.take() == [], "nothing is pending any more"
    assert kinds(bench.answer(write(bench, (b"k", b"v")))) == ["WritesDurable"], "no gap is to be closed"


def test_an_owner_goes_on_looking_until_there_is_a_marker() -> None:
    bench = owner()
    bench.answer(write(bench, pending(1)))
    for _ in range(3):
        bench.now_ms += SETTINGS.marker_ms
        assert bench.answer(bench.take()) == []


def test_what_is_read_while_a_write_is_under_way_is_not_read_twice() -> None:
    bench = owner()
    bench.answer(write(bench, pending(1, 1)))
    bench.now_ms += SETTINGS.marker_ms
    looked = bench.take()
    written = write(bench, pending(1, 2))
    base = bench.put(only(written, WriteBatch).batch)
    bench.put(marker())
    read = bench.answer(looked)
    assert kinds(read) == ["OffsetsPending", "TransactionDecided"]
    assert fields(only(read, TransactionDecided).end)[2] == [b"txn|0|1", b"txn|0|2"]
    assert kinds(bench.answer(written, error=ErrorCode.NONE, base_offset=base)) == ["WritesDurable"]


def test_a_gap_is_not_closed_by_a_read_that_was_sent_before() -> None:
    bench = owner()
    bench.answer(write(bench, pending(1)))
    bench.now_ms += SETTINGS.marker_ms
    early = bench.take()
    written = write(bench, (b"k", b"v"))
    bench.put(marker())
    reading = bench.answer(written)
    assert only(reading, ReadLog).number != only(early, ReadLog).number
    assert bench.answer(early) == [], "it may have been answered before"
    assert kinds(bench.answer(reading)) == ["TransactionDecided", "WritesDurable"]


def test_an_owner_that_reads_of_another_claim_stops_at_once() -> None:
    bench = owner()
    bench.answer(write(bench, pending(1)))
    bench.put(claim_batch((7, 1, 0), 5))
    bench.now_ms += SETTINGS.marker_ms
    assert "another node claimed" in only(bench.answer(bench.take()), ShardLost).reason


def test_a_read_to_the_end_is_told() -> None:
    bench = owner()
    bench.put(marker())
    bench.shard.reader.read_to_end()
    assert kinds(bench.answer(bench.take())) == ["TransactionDecided", "LogEndRead"]
    assert bench.shard.reader.tail.next_offset == 2
    bench.shard.reader.read_to_end()
    assert kinds(bench.answer(bench.take())) == ["LogEndRead"]


def test_a_new_owner_knows_what_is_pending_and_what_is_not_settled() -> None:
    bench = Bench()
    bench.put(claim_batch((7, 0, 0), 5))
    bench.put(tagged(pending(1, 1)))
    bench.put(marker())
    bench.put(tagged(pending(3, 2), sequence=2))
    bench.own((7, 1))
    assert bench.shard.is_serving
    assert list(bench.shard.reader.tail.transactions.unsettled) == [pending_key(0, 1)]
    assert [one.key for one in bench.shard.reader.tail.transactions.open[CLIENT]] == [pending_key(0, 2)]
    bench.now_ms += SETTINGS.marker_ms
    bench.put(marker(is_committed=False))
    assert fields(only(bench.answer(bench.take()), TransactionDecided).end) == (CLIENT, False, [pending_key(0, 2)])


def test_what_is_not_of_a_transaction_is_not_looked_at_again() -> None:
    bench = owner()
    assert kinds(bench.answer(write(bench, (b"k", b"v")))) == ["WritesDurable"]
    bench.now_ms += SETTINGS.marker_ms
    assert bench.take() == []
