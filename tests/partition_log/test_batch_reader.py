"""Readers of a whole segment: its batches with their checksums, and its index files with their holes."""

import pytest

from partition_log.disk.open_files import OpenFiles
from partition_log.errors import LogDamaged
from partition_log.segments.batch_reader import batches_of
from partition_log.segments.index_files import INDEX_ENTRY, last_entry, read_entries
from partition_log.segments.segment import Segment
from protocol.record_batch import encode_batch
from tests.simulation.disk import SimDisk

FOLDER = "data/t-0"


def segment_of(disk: SimDisk, *sizes: int) -> Segment:
    disk.make_folder(FOLDER)
    segment = Segment(OpenFiles(disk), FOLDER, 0)
    for number, size in enumerate(sizes):
        batch = encode_batch([(b"k", b"v" * size)], timestamp_ms=number, base_offset=number)
        segment.append(batch, number, number + 1, number)
    write = segment.spill()
    disk.write_at(disk.open(write.path), write.position, write.data)
    segment.spilled(write)
    return segment


def test_every_batch_comes_whole_however_small_the_chunks() -> None:
    segment = segment_of(SimDisk(), 1, 500, 3, 70, 2_000, 1)
    for chunk_bytes in (61, 100, 700, 10**6):
        found = [(header.base_offset, len(batch)) for header, batch in batches_of(segment, 0, chunk_bytes)]
        assert [offset for offset, _size in found] == list(range(6))
        assert sum(size for _offset, size in found) == segment.size


def test_damage_is_named_with_its_place() -> None:
    disk = SimDisk()
    segment = segment_of(disk, 10, 10, 10)
    disk.damage(segment.path, 100, b"?")
    found = []
    with pytest.raises(LogDamaged, match=r"0\.log is damaged at position \d+ \(offset 1\): crc"):
        found += [header.base_offset for header, _batch in batches_of(segment)]
    reader = batches_of(segment)
    assert next(reader)[0].base_offset == 0


@pytest.mark.parametrize("bit", range(64))
def test_a_base_offset_is_outside_of_the_checksum_and_checked_by_its_neighbours(bit: int) -> None:
    disk = SimDisk()
    segment = segment_of(disk, 10, 10, 10)
    for number, (_header, batch) in enumerate(list(batches_of(segment))):
        place = number * len(batch)
        sound = disk.file(segment.path).data[place : place + 8]
        flipped = int.from_bytes(sound, "big") ^ 1 << bit
        disk.damage(segment.path, place, flipped.to_bytes(8, "big"))
        with pytest.raises(LogDamaged, match="others stand"):
            list(batches_of(segment))
        disk.damage(segment.path, place, bytes(sound))


def test_a_length_that_cannot_be_is_damage() -> None:
    disk = SimDisk()
    segment = segment_of(disk, 10)
    disk.damage(segment.path, 8, b"\x7f\xff\xff\xff")
    with pytest.raises(LogDamaged, match="ends beyond the segment"):
        next(batches_of(segment))
    disk.damage(segment.path, 8, b"\x00\x00\x00\x01")
    with pytest.raises(LogDamaged, match="less than a header"):
        next(batches_of(segment))


def test_index_files_that_are_missing_or_torn_have_the_entries_that_are_whole() -> None:
    disk = SimDisk()
    disk.make_folder(FOLDER)
    path = f"{FOLDER}/x.index"
    assert read_entries(disk, path, INDEX_ENTRY) == [] and last_entry(disk, path, INDEX_ENTRY) is None
    data = INDEX_ENTRY.pack(1, 10) + INDEX_ENTRY.pack(2, 20)
    disk.write_at(disk.open(path), 0, data + b"torn")
    assert read_entries(disk, path, INDEX_ENTRY) == [(1, 10), (2, 20)]
    assert last_entry(disk, path, INDEX_ENTRY) == (2, 2, 20)
