from coordinator.records.codec import encode_marker
from coordinator.records.records import TransactionEnded
from partition_log.compaction.transaction_ends import TransactionEnds
from protocol.record_batch import BatchHeader, encode_batch, read_header, record_bytes
from protocol.record_keys import Keyed, keyed_records


def written(producer_id: int, offset: int, *keys: bytes) -> tuple[BatchHeader, list[Keyed]]:
    batch = encode_batch(
        [(key, b"v") for key in keys],
        timestamp_ms=1,
        base_offset=offset,
        producer_id=producer_id,
        producer_epoch=0,
        transactional=True,
    )
    header = read_header(batch)
    return header, keyed_records(record_bytes(header, batch), header)


def ended(producer_id: int, offset: int, *, committed: bool) -> tuple[BatchHeader, list[Keyed]]:
    batch = encode_batch(
        [encode_marker(TransactionEnded(producer_id, 0, committed))],
        timestamp_ms=1,
        base_offset=offset,
        producer_id=producer_id,
        producer_epoch=0,
        transactional=True,
        control=True,
    )
    header = read_header(batch)
    return header, keyed_records(record_bytes(header, batch), header)


def undecided(ends: TransactionEnds) -> int | None:
    return ends.first_undecided


def keys(records: list[Keyed]) -> list[bytes | None]:
    return [record.key for record in records]


def test_records_count_once_their_marker_says_so() -> None:
    ends = TransactionEnds()
    first, second = written(1, 0, b"a", b"b"), written(1, 2, b"c")
    assert ends.note(*first) == [] and ends.note(*second) == []
    assert undecided(ends) == 0
    assert keys(ends.note(*ended(1, 3, committed=True))) == [b"a", b"b", b"c"]
    assert undecided(ends) is None
    assert ends.is_committed(first[0]) and ends.is_committed(second[0])


def test_an_abort_decides_only_what_stands_before_it() -> None:
    ends = TransactionEnds()
    aborted, committed = written(1, 0, b"a"), written(1, 2, b"a")
    ends.note(*aborted)
    assert ends.note(*ended(1, 1, committed=False)) == []
    ends.note(*committed)
    assert keys(ends.note(*ended(1, 3, committed=True))) == [b"a"]
    assert not ends.is_committed(aborted[0]) and ends.is_committed(committed[0])


def test_producers_do_not_decide_for_each_other() -> None:
    ends = TransactionEnds()
    ends.note(*written(1, 0, b"a"))
    ends.note(*written(2, 1, b"b"))
    assert keys(ends.note(*ended(1, 2, committed=True))) == [b"a"]
    assert undecided(ends) == 1
    assert ends.note(*ended(3, 3, committed=True)) == [], "of a producer that wrote nothing here"
