import pytest

from coordinator.cluster_log.answers import WriteVerdict, verdict_on
from coordinator.cluster_log.entries import (
    EntryKind,
    LogEntry,
    claim_batch,
    entries_of,
    fence_batch,
    no_op,
    tagged_batch,
)
from coordinator.cluster_log.settings import transactional_id
from coordinator.cluster_log.tail import ShardTail
from protocol.errors import ErrorCode
from protocol.record_batch import check_batch, encode_batch, stamp

PAIRS = [(b"\0\1k", b"v"), (b"\0\1gone", None)]


def test_what_is_written_is_read_with_its_claim_and_sequences() -> None:
    batch = stamp(tagged_batch(PAIRS, 41, (7, 3, 2**31 - 1), 5), 60)
    header = check_batch(batch)
    assert (header.attributes, header.producer_id, header.producer_epoch) == (0, 7, 3)
    ((end, entries),) = entries_of(batch)
    assert end == 62
    assert entries == [
        LogEntry(60, EntryKind.DATA, 41, b"\0\1k", b"v", (7, 3), 2**31 - 1),
        LogEntry(61, EntryKind.DATA, 41, b"\0\1gone", None, (7, 3), 0),
    ]


def test_claims_fences_and_no_ops_have_keys_of_their_own_and_marks_no_records() -> None:
    batches = [claim_batch((7, 3, 0), 5), claim_batch((7, 4, 0), 5), fence_batch((7, 3, 0), 5)]
    batches += [tagged_batch([no_op(7)], 0, (7, 3, 1), 5)]
    entries = [entry for batch in batches for _, found in entries_of(batch) for entry in found]
    claim, innocent = EntryKind.CLAIM, EntryKind.INNOCENT
    assert [entry.kind for entry in entries] == [claim, claim, innocent, innocent]
    assert len({entry.key for entry in entries}) == 4
    marker = encode_batch([(b"k", b"v")], timestamp_ms=1, transactional=True, control=True)
    assert [found for _, found in entries_of(marker)] == [[]]
    assert transactional_id(12) == "muster-shard-12"


@pytest.mark.parametrize("error", [None, *ErrorCode])
def test_every_error_is_sorted(error: ErrorCode | None) -> None:
    expected = {
        ErrorCode.NONE: WriteVerdict.TAKEN,
        ErrorCode.INVALID_PRODUCER_EPOCH: WriteVerdict.SUPERSEDED,
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER: WriteVerdict.STATE_LOST,
        ErrorCode.UNKNOWN_PRODUCER_ID: WriteVerdict.STATE_LOST,
        None: WriteVerdict.AGAIN,
        ErrorCode.NOT_LEADER_OR_FOLLOWER: WriteVerdict.AGAIN,
        ErrorCode.REQUEST_TIMED_OUT: WriteVerdict.AGAIN,
        ErrorCode.NOT_ENOUGH_REPLICAS: WriteVerdict.AGAIN,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: WriteVerdict.AGAIN,
        ErrorCode.MESSAGE_TOO_LARGE: WriteVerdict.REFUSED,
    }
    assert verdict_on(error) is expected.get(error, verdict_on(error))


def log_of(*batches: bytes) -> bytes:
    data, end = b"", 0
    for batch in batches:
        data += stamp(batch, end)
        end = check_batch(batch).last_offset_delta + 1 + end
    return data


def write(key: bytes, value: bytes, tag: int, producer: tuple[int, int, int]) -> bytes:
    return tagged_batch([(key, value)], tag, producer, 5)


def test_a_record_counts_under_the_newest_claim_alone() -> None:
    tail = ShardTail()
    data = log_of(
        claim_batch((7, 0, 0), 5),  # 0
        write(b"k", b"old", 0, (7, 0, 1)),
        claim_batch((7, 1, 0), 5),  # 2
        write(b"k", b"new", 2, (7, 1, 1)),
        write(b"k", b"zombie", 0, (7, 0, 2)),
        write(b"again", b"zombie", 0, (7, 0, 3)),
        encode_batch([(b"foreign", b"1")], timestamp_ms=1),
        write(b"again", b"right", 2, (7, 1, 2)),
    )
    assert tail.take(data) == ((b"k", b"old"), (b"k", b"new"), (b"again", b"right"))
    assert tail.take_stale_keys() == (b"k", b"foreign")
    assert tail.take_stale_keys() == ()
    assert tail.claim is not None and tail.earlier_claim is not None
    assert (tail.claim.offset, tail.earlier_claim.offset, tail.next_offset) == (2, 0, 8)
    assert tail.take(data) == (), "what was read is not read twice"


def test_a_late_repetition_of_an_older_batch_does_not_count() -> None:
    tail = ShardTail()
    batches = [write(b"k", b"%d" % number, 0, (7, 0, number)) for number in (1, 2, 3)]
    assert tail.take(log_of(claim_batch((7, 0, 0), 5), *batches, batches[0]))[-1] == (b"k", b"3")
    assert tail.take_stale_keys() == (b"k",)


def test_sequences_that_begin_again_follow() -> None:
    tail = ShardTail()
    tail.take(log_of(claim_batch((7, 0, 0), 5)))
    tail.skip_own(5, 0)
    batch = stamp(write(b"k", b"v", 0, (7, 0, 0)), 5)
    assert tail.take(batch) == ((b"k", b"v"),)
    assert tail.take(stamp(write(b"k", b"w", 0, (7, 0, 2**31 - 1)), 6)) == ()
