"""Compaction on the simulated disk: what stays, what goes, and that a reader cannot tell when it happened."""

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from partition_log.cleanup_policy import Compact, Retain
from partition_log.compaction.cleaner import Cleaner
from partition_log.compaction.compaction_pass import CompactionPass
from partition_log.compaction.log_to_clean import log_to_clean
from partition_log.log.partition_log import PartitionLog
from partition_log.log.segment_swap import CleanedWrite, Swap
from partition_log.store.log_store import Appended, LogStore, StoreLimits
from protocol.record_batch import Record, decode_batch, encode_batch, pack_batch, read_header
from protocol.record_writing import varint
from tests.enumerations import share_of
from tests.partition_log.stories import contents, flush, mount, work
from tests.simulation.disk import SimDisk

NAME = "__consumer_offsets-7"
LIMITS = StoreLimits(wal_segment_bytes=65_536, checkpoint_bytes=10**6, max_batch_bytes=3_000, spill_bytes=600)
POLICY = Compact(segment_bytes=1000, delete_retention_ms=5_000)

Written = tuple[str, str | None]


def put(store: LogStore, records: Sequence[Written], wall_ms: int = 1_000, name: str = NAME) -> None:
    batch = encode_batch([(k.encode(), None if v is None else v.encode()) for k, v in records], timestamp_ms=wall_ms)
    assert isinstance(store.append(store.log(name), batch), Appended)


def cleaner_of(store: LogStore, slice_bytes: int = 300, map_bytes: int = 10**6) -> Cleaner:
    return Cleaner(store, slice_bytes=slice_bytes, map_bytes=map_bytes, backoff_ms=15_000)


def clean(store: LogStore, disk: SimDisk, wall_ms: int = 10_000, cleaner: Cleaner | None = None) -> Cleaner:
    """Until there is nothing to do, with the jobs that it needs."""
    cleaner = cleaner or cleaner_of(store)
    logs = [store.log(name) for name in store.names()]
    while cleaner.run(lambda: logs, wall_ms) == 1:
        work(store, disk)
    return cleaner


def clean_until_swap(store: LogStore, disk: SimDisk, cleaner: Cleaner, log: PartitionLog) -> None:
    """Run the jobs that cleaning needs, but for the swap's."""
    while not store.cleaning.is_swapping:
        if store.cleaning.is_under_way:
            work(store, disk)
        cleaner.run(lambda: [log], 10_000)


def hand_over(store: LogStore, log: PartitionLog, wanted: Swap | CleanedWrite) -> None:
    if isinstance(wanted, Swap):
        store.cleaning.swap(log, wanted)
    else:
        store.cleaning.write(log, wanted)


def checkpoint(store: LogStore, disk: SimDisk) -> None:
    flush(store, disk)
    assert work(store, disk, force=True)


def records_of(log: PartitionLog) -> list[Record]:
    return [record for _header, data in log.batches_from(log.start_offset) for record in decode_batch(data)]


def last_values(records: Sequence[Record]) -> dict[bytes | None, bytes | None]:
    return {record.key: record.value for record in records}


def open_log(disk: SimDisk, policy: Compact = POLICY) -> LogStore:
    store = mount(disk, LIMITS)
    store.log(NAME, policy)
    return store


def test_the_last_value_of_every_key_stays_in_its_place() -> None:
    disk = SimDisk()
    store = open_log(disk)
    for number in range(100):
        put(store, [(f"k{number % 7}", f"value {number}" * 3)])
    checkpoint(store, disk)
    log = store.log(NAME)
    before = records_of(log)
    clean(store, disk)
    after = records_of(log)
    assert last_values(after) == last_values(before)
    assert len(after) < len(before) / 2
    assert set(after) <= set(before), "offset, time, key and value are as they were"
    assert [record.offset for record in after] == sorted(record.offset for record in after)
    assert log.next_offset == 100
    contents(log)


def test_records_of_small_batches_stand_in_few_large_ones_afterwards() -> None:
    disk = SimDisk()
    store = open_log(disk, Compact(segment_bytes=8_000))
    for number in range(200):
        put(store, [(f"k{number}", "value")])
    for _ in range(120):
        put(store, [("last", "x" * 60)])
    checkpoint(store, disk)
    log = store.log(NAME)
    size = log.size_bytes
    clean(store, disk)
    assert len(log.segments[0].read_at(0, 10**6)) < size / 3
    assert read_header(log.read(0, 1)).record_count > 100


def test_nothing_above_the_checkpoint_is_touched() -> None:
    disk = SimDisk()
    store = open_log(disk)
    for number in range(60):
        put(store, [("k", f"value {number}" * 3)])
    flush(store, disk)
    before = contents(store.log(NAME))
    cleaner = cleaner_of(store)
    while cleaner.run(lambda: [store.log(NAME)], 10_000) == 1:
        pass
    assert contents(store.log(NAME)) == before
    assert store.begin_checkpoint() is not None, "but a checkpoint is due now"


def test_a_tombstone_stays_for_its_time_and_then_goes_without_new_records() -> None:
    disk = SimDisk()
    store = open_log(disk)
    put(store, [("a", "1"), ("b", "1")])
    put(store, [("a", None)])
    for number in range(30):
        put(store, [("filler", f"{number}" * 60)])
    checkpoint(store, disk)
    log = store.log(NAME)
    clean(store, disk, 10_000)
    kept = {record.key: record for record in records_of(log)}
    assert b"a" in kept and kept[b"a"].value is None
    assert kept[b"a"].timestamp_ms == 1_000, "its time is its own, whatever the batch says of its tombstones"
    assert log.horizon_ms == 15_000
    clean(store, disk, 14_999)
    assert b"a" in last_values(records_of(log))
    clean(store, disk, 15_000)
    assert b"a" not in last_values(records_of(log))
    assert last_values(records_of(log))[b"b"] == b"1"
    assert log.horizon_ms == -1


def test_a_tombstone_goes_in_its_time_however_often_the_log_is_cleaned_meanwhile() -> None:
    disk = SimDisk()
    store = open_log(disk)
    log = store.log(NAME)
    put(store, [("a", "1")])
    put(store, [("a", None)])
    for now_ms in (10_000, 12_000, 14_000):
        for number in range(30):
            put(store, [("filler", f"{number}" * 60)])
        checkpoint(store, disk)
        assert clean(store, disk, now_ms).done.passes == 1
        assert log.horizon_ms == 15_000
    clean(store, disk, 15_000)
    assert b"a" not in last_values(records_of(log))


def test_a_clean_log_is_left_alone() -> None:
    disk = SimDisk()
    store = open_log(disk)
    for number in range(40):
        put(store, [(f"k{number % 3}", "value" * 10)])
    checkpoint(store, disk)
    before = len(records_of(store.log(NAME)))
    cleaner = clean(store, disk)
    assert cleaner.done.passes == 1
    last = len(records_of(store.log(NAME))) - cleaner.done.records_kept
    assert cleaner.done.records_read == before - last, "each is looked at once, and not again after its swap"
    clean(store, disk, cleaner=cleaner)
    assert cleaner.done.passes == 1


def test_what_was_cleaned_is_known_after_a_restart() -> None:
    disk = SimDisk()
    store = open_log(disk)
    for number in range(40):
        put(store, [(f"k{number % 3}", None if number == 1 else "value" * 10)])
    checkpoint(store, disk)
    clean(store, disk)
    done = store.log(NAME).cleaned_offset, store.log(NAME).horizon_ms
    before = contents(store.log(NAME))
    store.close()
    store = open_log(disk)
    assert (store.log(NAME).cleaned_offset, store.log(NAME).horizon_ms) == done
    assert contents(store.log(NAME)) == before


def test_a_pass_takes_as_many_segments_as_its_map_holds_and_the_next_takes_more() -> None:
    disk = SimDisk()
    store = open_log(disk)
    for number in range(100):
        put(store, [(f"k{number % 50}", "value" * 10)])
    checkpoint(store, disk)
    before = last_values(records_of(store.log(NAME)))
    cleaner = clean(store, disk, cleaner=cleaner_of(store, map_bytes=1_000))
    assert cleaner.done.passes > 1
    assert last_values(records_of(store.log(NAME))) == before


def test_a_record_without_a_key_goes() -> None:
    disk = SimDisk()
    store = open_log(disk)
    assert isinstance(store.append(store.log(NAME), encode_batch([(None, b"lost")], timestamp_ms=1)), Appended)
    for _ in range(30):
        put(store, [("k", "value" * 10)])
    checkpoint(store, disk)
    clean(store, disk)
    assert all(record.key == b"k" for record in records_of(store.log(NAME)))


def test_a_damaged_log_is_left_alone_and_named() -> None:
    disk = SimDisk()
    store = open_log(disk)
    for number in range(40):
        put(store, [(f"k{number % 3}", "value" * 10)])
        put(store, [(f"k{number % 3}", "value" * 10)], name="other-0")
    store.log("other-0", POLICY)
    checkpoint(store, disk)
    path = f"data/{NAME}/{0:020d}.log"
    disk.damage(path, 100, b"?")
    cleaner = clean(store, disk)
    assert f"{path} is damaged at position 0 (offset 0): crc" in cleaner.done.uncleanable[NAME]
    assert list(cleaner.done.uncleanable) == [NAME]


def test_what_is_being_replaced_can_be_read_until_it_is() -> None:
    disk = SimDisk()
    store = open_log(disk)
    for number in range(100):
        put(store, [(f"k{number % 7}", f"value {number}" * 3)])
    checkpoint(store, disk)
    log = store.log(NAME)
    before = contents(log)
    cleaner = cleaner_of(store)
    clean_until_swap(store, disk, cleaner, log)
    job = store.begin_checkpoint()
    assert job is not None
    job.run(disk)
    assert contents(log) == before
    store.finish_checkpoint(job)
    assert contents(log) != before


def test_a_removed_log_is_cleaned_no_further() -> None:
    disk = SimDisk()
    store = open_log(disk)
    for number in range(100):
        put(store, [(f"k{number % 7}", f"value {number}" * 3)])
    checkpoint(store, disk)
    cleaner = cleaner_of(store)
    log = store.log(NAME)
    clean_until_swap(store, disk, cleaner, log)
    assert isinstance(store.remove(NAME), int)
    flush(store, disk)
    clean(store, disk, cleaner=cleaner)
    assert disk.list(f"data/{NAME}") == []
    assert cleaner.done.passes == 0


@settings(deadline=None, max_examples=share_of(60))
@given(
    writes=st.lists(
        st.lists(st.tuples(st.sampled_from("abcdef"), st.none() | st.text("xyz", max_size=90)), min_size=1, max_size=5),
        min_size=1,
        max_size=60,
    ),
    cleanings=st.dictionaries(st.integers(0, 59), st.integers(0, 30_000)),
    slice_bytes=st.integers(1, 2_000),
    restarts=st.sets(st.integers(0, 59)),
)
def test_any_cleaning_at_any_moment_keeps_the_last_values(
    writes: list[list[Written]], cleanings: dict[int, int], slice_bytes: int, restarts: set[int]
) -> None:
    disk = SimDisk()
    store = open_log(disk)
    expected: dict[bytes | None, bytes | None] = {}
    for number, records in enumerate(writes):
        put(store, records)
        expected |= {k.encode(): None if v is None else v.encode() for k, v in records}
        flush(store, disk)
        work(store, disk)
        if number in cleanings:
            work(store, disk, force=True)
            clean(store, disk, cleanings[number], cleaner_of(store, slice_bytes))
        if number in restarts:
            store.close()
            store = open_log(disk)
    found = last_values(records_of(store.log(NAME)))
    assert {k: v for k, v in found.items() if v is not None} == {k: v for k, v in expected.items() if v is not None}
    contents(store.log(NAME))


def test_how_dirty_a_log_is_and_what_makes_it_due() -> None:
    disk = SimDisk()
    lagging = Compact(segment_bytes=1000, min_lag_ms=4_000, max_lag_ms=60_000)
    store = open_log(disk, lagging)
    for number in range(40):
        put(store, [("k", "value" * 10)], wall_ms=1_000 + 100 * number)
    log = store.log(NAME)
    assert log_to_clean(log, 10_000).is_held and not log_to_clean(log, 10_000).cleanable, (
        "all of it lies above the checkpoint"
    )
    checkpoint(store, disk)
    closed = len(log.segments) - 1
    assert log_to_clean(log, 10_000).cleanable == closed and log_to_clean(log, 10_000).ratio == 1
    some = log_to_clean(log, 7_000)
    assert 0 < some.cleanable < closed, "what is younger than the lag is left alone"
    assert not log_to_clean(log, 7_000).is_late and log_to_clean(log, 61_001).is_late


def test_a_pass_says_what_it_has_come_to() -> None:
    disk = SimDisk()
    store = open_log(disk)
    for number in range(40):
        put(store, [(f"k{number % 3}", "value" * 10)])
    checkpoint(store, disk)
    log = store.log(NAME)
    compaction = CompactionPass(log, log.cleanable(), 0, 10_000, slice_bytes=10**6, map_bytes=10**6)
    for swap in compaction.slices():
        if swap is not None:
            hand_over(store, log, swap)
            work(store, disk)
    passed = compaction.passed
    assert (passed.end, passed.records_kept, passed.horizon_ms) == (log.segments[-1].base_offset, 3, -1)
    assert passed.records_read == passed.end and not compaction.is_stale


def test_damage_that_somebody_came_upon_is_noted_once_for_the_operator() -> None:
    disk = SimDisk()
    store = open_log(disk)
    for number in range(40):
        put(store, [(f"k{number % 3}", "value" * 10)])
    checkpoint(store, disk)
    disk.damage(f"data/{NAME}/{0:020d}.log", 100, b"?")
    clean(store, disk)
    (sentence,) = store.damaged.values()
    assert "is damaged at position" in sentence
    assert isinstance(store.remove(NAME), int) and store.damaged == {}


def test_a_batch_of_very_many_records_is_cleaned_in_many_slices() -> None:
    disk = SimDisk()
    limits = StoreLimits(wal_segment_bytes=1 << 22, checkpoint_bytes=1 << 30, max_batch_bytes=1 << 20, spill_bytes=600)
    store = mount(disk, limits)
    log = store.log(NAME, Compact(segment_bytes=50_000))
    for values in ("old", "new", "rest"):
        records = [(f"k{number}", None if number == 7 else values) for number in range(5_000)]
        put(store, [(f"{values}{key}", value) if values == "rest" else (key, value) for key, value in records])
        put(store, [(f"{values} alone", "x" * 60)])
    checkpoint(store, disk)
    before = records_of(log)
    compaction = CompactionPass(log, log.cleanable(), 0, 10_000, slice_bytes=16_384, map_bytes=10**7)
    slices = 0
    for swap in compaction.slices():
        slices += 1
        if swap is not None:
            hand_over(store, log, swap)
            work(store, disk)
    assert slices > 40
    assert compaction.passed.records_read == compaction.passed.end == log.segments[-1].base_offset > 10_000
    last = {record.key: record for record in before}
    kept = [record for record in before if last[record.key] is record or record.offset >= compaction.passed.end]
    assert records_of(log) == kept


def test_a_log_whose_first_transaction_is_open_is_looked_at_again_only_when_there_is_more_of_it() -> None:
    disk = SimDisk()
    store = open_log(disk)

    def in_transaction(*, control: bool = False) -> None:
        pair = (b"\x00\x00\x00\x01", b"\x00\x00\x00\x00\x00\x00") if control else (b"k", b"decided later")
        batch = encode_batch(
            [pair], timestamp_ms=1, producer_id=7, producer_epoch=0, transactional=True, control=control
        )
        assert isinstance(store.append(store.log(NAME), batch), Appended)

    def more() -> None:
        for number in range(40):
            put(store, [(f"k{number % 3}", "value" * 10)])
        checkpoint(store, disk)

    in_transaction()
    more()
    cleaner = clean(store, disk)
    assert (cleaner.done.passes, cleaner.done.records_read) == (1, 0)
    clean(store, disk, cleaner=cleaner)
    assert cleaner.done.passes == 1
    more()
    clean(store, disk, cleaner=cleaner)
    assert (cleaner.done.passes, cleaner.done.records_read) == (2, 0)
    in_transaction(control=True)
    more()
    clean(store, disk, cleaner=cleaner)
    assert cleaner.done.passes == 3 and cleaner.done.records_read > 80
    values = [record.value for record in records_of(store.log(NAME))]
    assert b"decided later" in values


@pytest.mark.parametrize("slice_bytes", [1, 300, 2_000, 10**6])
def test_what_goes_by_age_in_the_middle_of_a_pass_is_no_damage_and_leaves_nothing_behind(slice_bytes: int) -> None:
    for steps in range(0, 200, 3):
        disk = SimDisk()
        store = open_log(disk)
        for number in range(60):
            put(store, [(f"k{number % 7}", f"value {number}" * 3), (f"m{number}", "value")])
        checkpoint(store, disk)
        log, cleaner = store.log(NAME), cleaner_of(store, slice_bytes)
        is_dropped, step = False, 0
        while not is_dropped or cleaner.cleaning:
            cleaner.run(lambda log=log: [log], 10_000)  # type: ignore[misc]
            is_dropped = is_dropped or (step >= steps and store.drop(log, 3))
            work(store, disk)
            step += 1
        clean(store, disk, cleaner=cleaner)
        assert not cleaner.done.uncleanable and not store.damaged
        assert not [name for name in disk.list(log.folder) if name.endswith((".cleaned", ".swap"))]
        assert last_values(records_of(log))[b"m59"] == b"value"
        contents(log)


def test_a_topic_that_is_not_compacted_any_more_loses_nothing_from_then_on() -> None:
    disk = SimDisk()
    store = open_log(disk)
    for number in range(60):
        put(store, [(f"k{number % 7}", f"value {number}" * 3)])
    checkpoint(store, disk)
    cleaner = cleaner_of(store)
    log = store.log(NAME)
    before = contents(log)
    while not disk.list(log.folder)[0].endswith(".cleaned"):
        cleaner.run(lambda: [log], 10_000)
        work(store, disk)
    store.log(NAME, Retain())
    clean(store, disk, cleaner=cleaner)
    assert contents(log) == before and cleaner.cleaning is None
    assert not [name for name in disk.list(log.folder) if name.endswith(".cleaned")]


def test_a_log_made_anew_under_the_name_of_a_damaged_one_is_cleaned() -> None:
    disk = SimDisk()
    store = open_log(disk)
    for number in range(60):
        put(store, [(f"k{number % 7}", f"value {number}" * 3)])
    checkpoint(store, disk)
    disk.damage(f"data/{NAME}/{0:020d}.log", 100, b"?")
    cleaner = clean(store, disk)
    assert NAME in cleaner.done.uncleanable
    store.remove(NAME)
    flush(store, disk)
    work(store, disk)
    store.log(NAME, POLICY)
    for number in range(60):
        put(store, [(f"k{number % 7}", f"value {number}" * 3)])
    checkpoint(store, disk)
    clean(store, disk, cleaner=cleaner)
    assert cleaner.done.passes == 1 and not cleaner.done.uncleanable


@pytest.mark.parametrize("retention_ms", [0, 5_000, 2**63 - 1])
@pytest.mark.parametrize("base_ms", [-(2**63), -(2**62), -1, 0, 2**62, 2**63 - 1])
@pytest.mark.parametrize("delta_ms", [-(2**63), -1, 0, 2**62, 2**63 - 1])
def test_whatever_time_a_producer_has_written_cleaning_goes_on(retention_ms: int, base_ms: int, delta_ms: int) -> None:
    disk = SimDisk()
    store = open_log(disk, Compact(segment_bytes=1_000, delete_retention_ms=retention_ms))
    bodies = [
        b"\0" + varint(delta) + varint(place) + b"\2" + key + value + b"\0"
        for place, (delta, key, value) in enumerate(
            [(delta_ms, b"a", b"\1"), (0, b"b", b"\2x"), (delta_ms, b"c", b"\2x")]
        )
    ]
    batch = pack_batch(
        b"".join(varint(len(body)) + body for body in bodies),
        base_offset=0,
        attributes=0,
        last_offset_delta=2,
        base_timestamp_ms=base_ms,
        max_timestamp_ms=base_ms,
        record_count=3,
    )
    assert isinstance(store.append(store.log(NAME), batch), Appended)
    for _ in range(30):
        put(store, [("b", "value" * 10)])
    checkpoint(store, disk)
    clean(store, disk)
    clean(store, disk, 20_000)
    found = {record.key: record for record in records_of(store.log(NAME))}
    assert found.keys() - {b"a"} == {b"b", b"c"}
    assert (found[b"c"].timestamp_ms - (base_ms + delta_ms)) % 2**64 == 0, "as a client reckons, it is the same"
    assert (b"a" in found) == (retention_ms == 2**63 - 1)
