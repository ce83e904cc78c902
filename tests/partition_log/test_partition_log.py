"""Reading a log: by offset, by time, for replay; over segments, with and without their indexes."""

import pytest

from partition_log.cleanup_policy import Retain
from partition_log.disk.open_files import OpenFiles
from partition_log.errors import LogDamaged, OffsetOutsideLog
from partition_log.log.partition_log import PartitionLog
from partition_log.segments.segment import Segment
from partition_log.segments.sparse_index import INDEX_INTERVAL_BYTES
from partition_log.store.log_store import Appended, LogStore, StoreLimits
from protocol.record_batch import CorruptBatch, batches, decode_batch, encode_batch, extent
from tests.partition_log.stories import mount
from tests.simulation.disk import SimDisk

LIMITS = StoreLimits(wal_segment_bytes=1 << 20, checkpoint_bytes=1 << 30, max_batch_bytes=100_000)
POLICY = Retain(segment_bytes=20_000)


def filled(count: int = 300, records: int = 3) -> tuple[SimDisk, LogStore, PartitionLog]:
    """`count` batches, each of so many records; the timestamps are those of the batches, 10 apart."""
    disk = SimDisk()
    store = mount(disk, LIMITS)
    log = store.log("flights-0", POLICY)
    for number in range(count):
        pairs = [(None, f"{number}-{index}".encode().ljust(60)) for index in range(records)]
        assert isinstance(store.append(log, encode_batch(pairs, timestamp_ms=1000 + number * 10)), Appended)
    return disk, store, log


def reopened(disk: SimDisk, store: LogStore) -> tuple[LogStore, PartitionLog]:
    assert store.close()
    again = mount(disk, LIMITS)
    return again, again.log("flights-0", POLICY)


def offsets(data: bytes) -> list[int]:
    return [record.offset for _header, view in batches(data) for record in decode_batch(view)]


def check_reads(log: PartitionLog) -> None:
    for offset in range(log.next_offset):
        found = offsets(log.read(offset, 1000))
        assert found[0] == offset - offset % 3
        assert found == list(range(found[0], found[-1] + 1))


def test_a_read_begins_with_the_batch_that_holds_the_offset() -> None:
    disk, store, log = filled()
    check_reads(log)
    _, log = reopened(disk, store)
    assert len(log.segments) > 3
    check_reads(log)


def test_a_read_is_whole_batches_within_its_bytes_but_at_least_one() -> None:
    _, _, log = filled(50)
    size = len(log.read(0, 1))
    assert offsets(log.read(0, 1)) == [0, 1, 2]
    for limit in range(size, 6 * size, 7):
        assert len(log.read(0, limit)) == limit // size * size


def test_a_read_ends_below_its_bound() -> None:
    _, _, log = filled(200)
    for up_to in range(0, log.next_offset + 1, 3):
        found: list[int] = []
        at = start = max(up_to - 60, 0)
        while data := log.read(at, 1_000_000, up_to=up_to):  # one segment at a time
            found += offsets(data)
            at = found[-1] + 1
        assert found == list(range(start, up_to))
        assert log.read(up_to, 1000, up_to=up_to) == b""


def test_the_end_is_empty_and_beyond_it_out_of_range() -> None:
    _, store, log = filled(5)
    assert log.read(15, 100) == b""
    for offset in (-1, 16):
        with pytest.raises(OffsetOutsideLog, match="not within 0 and 15"):
            log.read(offset, 100)
        with pytest.raises(OffsetOutsideLog):
            next(log.batches_from(offset))
    assert store.log("empty-0").read(0, 100) == b""
    assert list(store.log("empty-0").batches_from(0)) == []


@pytest.mark.parametrize("reopen", [False, True])
def test_a_time_finds_the_first_record_that_is_as_new(reopen: bool) -> None:
    disk, store, log = filled()
    if reopen:
        _, log = reopened(disk, store)
    assert log.offset_for_time(0) == (0, 1000)
    for number in range(0, 300, 7):
        assert log.offset_for_time(1000 + number * 10) == (number * 3, 1000 + number * 10)
        assert log.offset_for_time(1000 + number * 10 - 9) == (number * 3, 1000 + number * 10)
    assert log.offset_for_time(1000 + 2991) is None


def test_timestamps_that_go_back_do_not_hide_newer_ones() -> None:
    store = mount(SimDisk(), LIMITS)
    log = store.log("flights-0", POLICY)
    for number in range(400):
        timestamp = 9000 if number == 150 else 1000 + number
        store.append(log, encode_batch([(None, b"x" * 80)], timestamp_ms=timestamp))
    assert log.offset_for_time(1200) == (150, 9000)
    assert log.offset_for_time(9001) is None


def test_replay_gives_every_batch_from_the_one_that_holds_the_offset() -> None:
    disk, store, log = filled()
    _, log = reopened(disk, store)
    for offset in (0, 1, 299, 300, log.next_offset - 1, log.next_offset):
        found = [record.offset for _header, view in log.batches_from(offset) for record in decode_batch(view)]
        assert found == list(range(offset - offset % 3, log.next_offset))


def test_replay_reads_batches_larger_than_a_chunk() -> None:
    disk = SimDisk()
    limits = StoreLimits(wal_segment_bytes=4 << 20, checkpoint_bytes=1 << 30, max_batch_bytes=3 << 20)
    store = mount(disk, limits)
    log = store.log("flights-0")
    for size in (10, 2_000_000, 10, 1_048_000, 700, 1_048_576):
        store.append(log, encode_batch([(None, b"x" * size)], timestamp_ms=1))
        assert store.begin_checkpoint() is None or size == 10
        if (job := store.begin_checkpoint(force=True)) is not None:
            job.run(disk)
            store.finish_checkpoint(job)
    sizes = [len(decode_batch(view)[0].value or b"") for _header, view in log.batches_from(0)]
    assert sizes == [10, 2_000_000, 10, 1_048_000, 700, 1_048_576]


def test_replay_stops_at_damage_and_names_it() -> None:
    disk, store, log = filled()
    segment = log.segments[1]
    store.close()
    disk.damage(segment.path, 5000, b"\xff")
    log = mount(disk, LIMITS).log("flights-0", POLICY)
    with pytest.raises(LogDamaged) as raised:
        list(log.batches_from(0))
    assert raised.value.file == segment.path
    assert raised.value.position <= 5000
    assert raised.value.offset is not None
    assert segment.base_offset <= raised.value.offset < segment.next_offset


def test_a_length_that_cannot_be_is_damage_to_every_reader() -> None:
    disk, store, log = filled()
    segment = log.segments[1]
    store.close()
    disk.damage(segment.path, 8, b"\x7f\xff\xff\xff")
    log = mount(disk, LIMITS).log("flights-0", POLICY)
    for read in (lambda: log.read(segment.base_offset + 1, 1000), lambda: list(log.batches_from(segment.base_offset))):
        with pytest.raises(LogDamaged, match=segment.path):
            read()


@pytest.mark.parametrize("harm", ["missing", "empty", "zeros", "shifted", "garbage"])
def test_indexes_are_caches_and_may_be_wrong_or_gone(harm: str) -> None:
    disk, store, log = filled()
    store.close()
    for segment in log.segments:
        for kind in ("index", "timeindex"):
            path = segment.path.removesuffix("log") + kind
            file = disk.file(path)
            match harm:
                case "missing":
                    disk.remove(path)
                case "empty":
                    file.change(0)
                case "zeros":
                    file.change((0, bytes(len(file.data))))
                case "shifted":
                    file.change((0, bytes(byte ^ (index % 8 == 7) for index, byte in enumerate(file.data))))
                case "garbage":
                    file.change((0, b"garbage" * 30))
    log = mount(disk, LIMITS).log("flights-0", POLICY)
    check_reads(log)
    assert log.offset_for_time(2000) == (300, 2000)


def test_index_files_are_kafkas() -> None:
    disk, store, log = filled()
    store.close()
    segment = log.segments[1]
    index = bytes(disk.file(segment.path.removesuffix("log") + "index").data)
    entries = [
        (int.from_bytes(index[i : i + 4], "big"), int.from_bytes(index[i + 4 : i + 8], "big"))
        for i in range(0, len(index), 8)
    ]
    data = bytes(disk.file(segment.path).data)
    assert len(entries) == segment.size // (INDEX_INTERVAL_BYTES + 200)
    for relative, position in entries:
        assert extent(data, position)[1] - 1 == segment.base_offset + relative


@pytest.mark.parametrize("old", [1, 3, 100])
def test_index_files_that_name_the_first_offsets_of_batches_are_made_anew(old: int) -> None:
    disk, store, log = filled()
    store.close()
    for segment in log.segments:
        for kind, size, at in (("index", 8, 0), ("timeindex", 12, 8)):
            data = disk.file(segment.path.removesuffix("log") + kind).data
            for place in range(at, min(len(data), old * size), size):
                first = int.from_bytes(data[place : place + 4], "big") - 2
                data[place : place + 4] = first.to_bytes(4, "big")
    log = mount(disk, LIMITS).log("flights-0", POLICY)
    check_reads(log)
    for number in range(300):
        assert log.offset_for_time(1000 + number * 10) == (number * 3, 1000 + number * 10)


def test_the_size_of_a_log_counts_what_is_in_memory_too() -> None:
    disk, store, log = filled(20)
    size = log.size_bytes
    assert size == len(log.read(0, 1_000_000))
    _, log = reopened(disk, store)
    assert log.size_bytes == size


def test_a_segment_says_where_it_is_damaged() -> None:
    disk = SimDisk()
    disk.make_folder("x")
    segment = Segment(OpenFiles(disk), "x", 0)
    segment.append(b"short", 0, 1, 1)
    with pytest.raises(LogDamaged, match="5 bytes are no whole header"):
        list(segment.walk(0))
    with pytest.raises(CorruptBatch):
        decode_batch(b"short")
