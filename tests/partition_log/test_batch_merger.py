from partition_log.cleanup_policy import Compact
from partition_log.compaction.batch_merger import BatchMerger, MergedBatchKind
from partition_log.disk.open_files import OpenFiles
from partition_log.disk.unsynced_files import UnsyncedFiles
from partition_log.log.partition_log import PartitionLog
from partition_log.segments.file_names import cleaned_name, file_name
from protocol.record_batch import batches, decode_batch, encode_batch, read_header, record_bytes
from protocol.record_keys import Keyed, keyed_records
from tests.simulation.disk import SimDisk

PLAIN = MergedBatchKind(0, -1, -1)


def log_on(disk: SimDisk) -> PartitionLog:
    disk.make_folder("data/t-0")
    return PartitionLog(OpenFiles(disk), "data/t-0", "t-0", Compact())


def records(first: int, count: int, size: int = 10) -> list[Keyed]:
    found = []
    for offset in range(first, first + count):
        batch = encode_batch([(b"k%d" % offset, b"v" * size)], timestamp_ms=offset, base_offset=offset)
        header = read_header(batch)
        found += keyed_records(record_bytes(header, batch), header)
    return found


def write(joiner: BatchMerger, disk: SimDisk) -> None:
    """Write as a job does."""
    unsynced = UnsyncedFiles(disk)
    if (wanted := joiner.begin_write(1)) is not None:
        wanted.run(disk, unsynced)
        joiner.end_write()
    unsynced.sync_all()


def written(disk: SimDisk) -> bytes:
    return bytes(disk.file(f"data/t-0/{cleaned_name(0)}").data)


def test_records_of_one_kind_stand_in_one_batch_until_it_is_full() -> None:
    disk = SimDisk()
    joiner = BatchMerger(log_on(disk), 0)
    for first in range(0, 3_000, 10):
        joiner.add(PLAIN, records(first, 10))
    joiner.finish(5_000)
    write(joiner, disk)
    found = [(header.base_offset, header.record_count, len(batch)) for header, batch in batches(written(disk))]
    assert sum(count for _base, count, _size in found) == 3_000
    assert all(size < 20_000 for _base, _count, size in found) and len(found) < 10
    assert joiner.segment.next_offset == 5_000, "whatever stood behind the last record is told for as well"
    assert joiner.segment.path.endswith(file_name(0, "log"))


def test_another_kind_begins_another_batch_and_order_is_kept() -> None:
    disk = SimDisk()
    joiner = BatchMerger(log_on(disk), 0)
    joiner.add(PLAIN, records(0, 3))
    joiner.add(MergedBatchKind(0, -1, 9_000), records(3, 2))
    joiner.add_batch(read_header(whole := encode_batch([(b"w", b"x")], timestamp_ms=1, base_offset=5)), whole)
    joiner.add(PLAIN, records(6, 1))
    joiner.finish(7)
    write(joiner, disk)
    found = list(batches(written(disk)))
    assert [header.record_count for header, _batch in found] == [3, 2, 1, 1]
    assert [header.delete_horizon_ms for header, _batch in found] == [-1, 9_000, -1, -1]
    assert [record.offset for _header, batch in found for record in decode_batch(bytes(batch))] == list(range(7))


def test_offsets_too_far_from_each_other_do_not_share_a_batch() -> None:
    disk = SimDisk()
    joiner = BatchMerger(log_on(disk), 0)
    joiner.add(PLAIN, records(0, 1))
    joiner.add(PLAIN, records(2**31, 1))
    joiner.finish(2**31 + 1)
    write(joiner, disk)
    assert [header.base_offset for header, _batch in batches(written(disk))] == [0, 2**31]


def test_what_a_pass_left_unfinished_is_written_over() -> None:
    disk = SimDisk()
    log = log_on(disk)
    first = BatchMerger(log, 0)
    first.add(PLAIN, records(0, 900, 100))
    first.finish(900)
    write(first, disk)
    again = BatchMerger(log, 0)
    again.add(PLAIN, records(0, 1))
    again.finish(900)
    write(again, disk)
    assert [header.record_count for header, _batch in batches(written(disk))] == [1, 0]  # the last says where it ends
