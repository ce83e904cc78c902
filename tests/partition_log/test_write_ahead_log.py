"""The write-ahead log on disk: what a flush looks like, what of it survives, and what is damage."""

import errno
from copy import deepcopy

import pytest

from partition_log.errors import LogDamaged
from partition_log.store.log_store import StoreLimits
from partition_log.wal.checkpoint import Checkpoint, checkpoint_path, read_checkpoint
from partition_log.wal.layout import BLOCK_HEAD, SECTOR, block_bytes, segment_head, segment_path
from partition_log.wal.reader import WalReader, wal_bases
from partition_log.wal.wal_segment import WalSegmentMaker
from partition_log.wal.write_ahead_log import WriteAheadLog
from tests.partition_log.stories import append, everything, flush, mount, work
from tests.simulation.disk import SimDisk

SEGMENT = 4096
WAL = "data/wal"
ROOMY = StoreLimits(wal_segment_bytes=16384, checkpoint_bytes=1 << 30, max_batch_bytes=3000)


def active_path(disk: SimDisk) -> tuple[str, int]:
    """The segment that is written, and where its first block begins."""
    checkpoint = read_checkpoint(disk, WAL)
    assert checkpoint is not None
    base = max(base for base in wal_bases(disk, WAL) if base <= checkpoint.block)
    return segment_path(WAL, base), SECTOR


def test_a_flush_is_one_write_and_one_sync_however_many_logs_it_is_for() -> None:
    disk = SimDisk()
    store = mount(disk, ROOMY)
    for number in range(20):
        append(store, f"__consumer_offsets-{number}", "commit")
    disk.journal = []
    flush(store, disk)
    assert [line.split()[0] for line in disk.journal] == ["write_at", "sync"]


def test_appending_does_not_touch_the_disk() -> None:
    disk = SimDisk()
    store = mount(disk, ROOMY)
    disk.journal = []
    for number in range(20):
        append(store, f"__consumer_offsets-{number}", "commit")
    assert disk.journal == []


def test_a_flush_torn_at_any_byte_keeps_what_was_flushed_before_and_nothing_of_itself() -> None:
    disk = SimDisk()
    store = mount(disk, ROOMY)
    append(store, "flights-0", "first")
    flush(store, disk)
    before = everything(store)
    for text in ("second", "third", "fourth" * 100):
        append(store, "flights-0", text)
    after = everything(store)
    job = store.begin_flush()
    assert job is not None
    (write,) = job.writes
    path, _ = active_path(disk)
    whole = BLOCK_HEAD.size + len(write.data.rstrip(b"\0"))
    for cut in [*range(BLOCK_HEAD.size + 80), *range(BLOCK_HEAD.size + 80, len(write.data), 37), len(write.data)]:
        torn = deepcopy(disk)
        torn.damage(path, write.position, write.data[:cut])
        torn.crash()
        found = everything(mount(torn, ROOMY))
        assert found in (before, after), f"cut at {cut}"
        assert (found == after) == (cut >= len(write.data.rstrip(b"\0"))), f"cut at {cut} of {whole}"


def test_a_flush_that_lost_any_one_sector_is_cut() -> None:
    disk = SimDisk()
    store = mount(disk, ROOMY)
    append(store, "flights-0", "first")
    flush(store, disk)
    before = everything(store)
    append(store, "flights-0", "second" * 400)
    job = store.begin_flush()
    assert job is not None
    (write,) = job.writes
    path, _ = active_path(disk)
    for lost in range(0, len(write.data) - SECTOR, SECTOR):
        torn = deepcopy(disk)
        data = write.data[:lost] + bytes(SECTOR) + write.data[lost + SECTOR :]
        torn.damage(path, write.position, data)
        torn.crash()
        store = mount(torn, ROOMY)
        assert everything(store) == before


def test_a_cut_tail_never_comes_back() -> None:
    disk = SimDisk()
    store = mount(disk, ROOMY)
    append(store, "flights-0", "first")
    flush(store, disk)
    append(store, "flights-0", "torn")
    job = store.begin_flush()
    assert job is not None
    path, _ = active_path(disk)
    disk.damage(path, job.writes[0].position, job.writes[0].data[:-SECTOR] + b"torn")
    disk.damage(path, job.writes[0].position + BLOCK_HEAD.size, b"\xff")
    disk.crash()
    store = mount(disk, ROOMY)
    append(store, "flights-0", "in its place")
    flush(store, disk)
    expected = everything(store)
    disk.crash()
    assert everything(mount(disk, ROOMY)) == expected


@pytest.mark.parametrize("at", [0, 5, 9, 13, 17, 25, BLOCK_HEAD.size, BLOCK_HEAD.size + 30])
def test_damage_before_a_later_flush_stops_the_start_and_names_the_place(at: int) -> None:
    disk = SimDisk()
    store = mount(disk, ROOMY)
    for text in ("first", "second", "third"):
        append(store, "flights-0", text)
        flush(store, disk)
    path, first = active_path(disk)
    second = first + SECTOR
    damaged = bytes([disk.file(path).data[second + at] ^ 0xFF])
    disk.damage(path, second + at, damaged)
    disk.crash()
    with pytest.raises(LogDamaged) as raised:
        mount(disk, ROOMY)
    assert (raised.value.file, raised.value.position) == (path, second)
    with pytest.raises(LogDamaged):  # and the folder is not left locked, nor changed
        mount(disk, ROOMY)


def test_damage_at_the_end_of_a_segment_is_found_by_the_next_one() -> None:
    disk = SimDisk()
    limits = StoreLimits(wal_segment_bytes=SEGMENT, checkpoint_bytes=1 << 30, max_batch_bytes=2000)
    store = mount(disk, limits)
    path, _ = active_path(disk)
    work(store, disk)
    ends: list[int] = []
    while not ends or store.position < SEGMENT + 2 * SECTOR:
        append(store, "flights-0", "x" * 300)
        flush(store, disk)
        work(store, disk)
        ends.append(store.position)
    last = max(end for end in ends if end < SEGMENT) // SECTOR * SECTOR
    disk.damage(path, last, b"\xff" * 100)
    disk.crash()
    with pytest.raises(LogDamaged) as raised:
        mount(disk, limits)
    assert (raised.value.file, raised.value.position) == (path, last)


def test_old_blocks_of_a_segment_that_is_used_again_are_never_believed() -> None:
    disk = SimDisk()
    store = mount(disk)
    paths: set[str] = set()
    for number in range(200):
        append(store, "flights-0", f"{number:04d}" * 20)
        flush(store, disk)
        while work(store, disk):
            pass
        paths.update(name for name in disk.list(WAL) if name.endswith(".wal"))
        if number % 10 == 9:
            expected = everything(store)
            disk.crash()
            store = mount(disk)
            assert everything(store) == expected
    assert len(paths) > 20
    assert len(disk.list(WAL)) < 10


def test_positions_only_grow_also_over_restarts() -> None:
    disk = SimDisk()
    last = -1
    for number in range(12):
        store = mount(disk)
        assert store.flushed >= store.position > last
        for _ in range(5):
            last, before = append(store, "flights-0", "x" * 200).position, last
            assert last > before
        flush(store, disk)
        assert store.flushed >= last
        while work(store, disk):
            pass
        if number % 2:
            assert store.close()
        else:
            disk.crash()


def test_a_checkpoint_within_the_open_block_is_recovered_from() -> None:
    disk = SimDisk()
    store = mount(disk, ROOMY)
    append(store, "flights-0", "flushed")
    flush(store, disk)
    append(store, "flights-0", "before the checkpoint")
    work(store, disk, force=True)
    append(store, "flights-0", "after it, in the same block")
    flush(store, disk)
    expected = everything(store)
    disk.crash()
    again = mount(disk, ROOMY)
    assert everything(again) == expected
    assert again.log("flights-0").next_offset == 3


def test_a_damaged_checkpoint_is_named() -> None:
    disk = SimDisk()
    store = mount(disk)
    append(store, "flights-0", "x")
    assert store.close()
    disk.damage(checkpoint_path(WAL), 12, b"?")
    with pytest.raises(LogDamaged, match="data/wal/checkpoint"):
        mount(disk)


def test_a_missing_segment_is_named() -> None:
    disk = SimDisk()
    store = mount(disk)
    append(store, "flights-0", "x")
    assert store.close()
    path, _ = active_path(disk)
    disk.remove(path)
    with pytest.raises(LogDamaged, match="the segment is missing that holds this position"):
        mount(disk)


def test_segments_are_written_whole_before_they_have_a_name() -> None:
    disk = SimDisk()
    disk.make_folder(WAL)
    disk.fail_next(errno.ENOSPC, "sync")
    with pytest.raises(OSError, match="No space"):
        WalSegmentMaker(WAL, 0, SEGMENT, None).run(disk)
    assert disk.list(WAL) == ["making"]
    segment = WalSegmentMaker(WAL, 0, SEGMENT, None).run(disk)
    assert disk.list(WAL) == [segment.path.rpartition("/")[2]]
    assert bytes(disk.file(segment.path).durable) == segment_head(0, SEGMENT) + bytes(SEGMENT - SECTOR)


def test_a_segment_that_is_used_again_is_read_once_so_that_no_flush_waits_for_half_a_page() -> None:
    disk = SimDisk()
    disk.make_folder(WAL)
    spare = WalSegmentMaker(WAL, 0, SEGMENT, None).run(disk)
    disk.close(spare.handle)
    disk.journal = []
    segment = WalSegmentMaker(WAL, SEGMENT, SEGMENT, spare.path).run(disk)
    assert f"read_at {segment.handle}" in disk.journal
    assert segment.base == SEGMENT


def test_a_block_is_whole_sectors() -> None:
    for size in (1, 400, SECTOR, 5000):
        assert len(block_bytes(b"x" * size, 0, 0)) % SECTOR == 0


def test_an_empty_write_ahead_log_has_no_frames() -> None:
    disk = SimDisk()
    disk.make_folder(WAL)
    WalSegmentMaker(WAL, 0, SEGMENT, None).run(disk)
    reader = WalReader(disk, WAL, Checkpoint(SECTOR, SECTOR, ()))
    assert list(reader.frames()) == []
    assert reader.torn is None


@pytest.mark.parametrize("size", [0, 1000, SECTOR])
def test_a_segment_must_be_sectors_and_hold_something(size: int) -> None:
    with pytest.raises(ValueError, match="multiple of 512"):
        WriteAheadLog(WAL, size, 1)
