"""Writes that are lost between the write and the sync: whatever the system forgets meanwhile, somebody hears of it."""

import errno

import pytest

from partition_log.disk.unsynced_files import UnsyncedFiles
from partition_log.errors import SyncFailed
from partition_log.store.log_store import LogStore, StoreLimits
from tests.partition_log.stories import append, everything, flush, mount, work
from tests.partition_log.test_compaction import (
    NAME,
    checkpoint,
    clean_until_swap,
    cleaner_of,
    last_values,
    open_log,
    put,
    records_of,
)
from tests.partition_log.test_open_files import StingyDisk
from tests.simulation.disk import SimDisk

CODES = (errno.EIO, errno.ENOSPC, errno.EDQUOT)
ROOMY = StoreLimits(65_536, checkpoint_bytes=10**6, max_batch_bytes=3_000, spill_bytes=600, unsynced_files=2)


def live(store: LogStore, disk: SimDisk) -> None:
    """Three logs grow, and a checkpoint comes."""
    for number in range(12):
        append(store, f"flights-{number % 3}", f"{number:04d}" * 150)
        flush(store, disk)
        work(store, disk)
    work(store, disk, force=True)


@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize("after", range(6))
def test_a_spill_that_is_lost_before_the_checkpoint_fails_it_and_loses_nothing(after: int, code: int) -> None:
    disk = SimDisk()
    store = mount(disk, ROOMY)
    disk.lose_write(code, after, but="/wal/")
    with pytest.raises(SyncFailed) as caught:
        live(store, disk)
    assert caught.value.errno == code
    assert not store.disk_full
    expected = everything(store)
    for ends in (disk.kill, disk.crash, disk.crash):
        ends()
        assert everything(mount(disk, ROOMY)) == expected


@pytest.mark.parametrize("code", CODES)
def test_a_write_of_a_recovery_that_is_lost_fails_its_checkpoint(code: int) -> None:
    disk = SimDisk()
    store = mount(disk, ROOMY)
    append(store, "flights-0", "text" * 300)
    flush(store, disk)
    expected = everything(store)
    disk.kill()
    disk.lose_write(code, but="/wal/")
    with pytest.raises(SyncFailed):
        mount(disk, ROOMY)
    disk.crash()
    assert everything(mount(disk, ROOMY)) == expected


@pytest.mark.parametrize("code", CODES)
def test_a_write_of_cleaning_that_is_lost_never_takes_the_place_of_what_was_cleaned(code: int) -> None:
    disk = SimDisk()
    store = open_log(disk)
    for number in range(60):
        put(store, [(f"k{number % 7}", f"value {number}" * 3)])
    checkpoint(store, disk)
    expected = last_values(records_of(store.log(NAME)))
    disk.lose_write(code, but="/wal/")
    clean_until_swap(store, disk, cleaner_of(store), store.log(NAME))
    with pytest.raises(SyncFailed):
        work(store, disk)
    for ends in (disk.kill, disk.crash):
        ends()
        assert last_values(records_of(open_log(disk).log(NAME))) == expected


def test_no_more_files_than_that_stay_open_and_those_written_last_do() -> None:
    disk = SimDisk()
    disk.make_folder("x")
    files = UnsyncedFiles(disk, 2)
    disk.journal = []
    for name in ("a", "b", "a", "c"):
        files.write(f"x/{name}", 0, name.encode())
    assert [line for line in disk.journal if line.startswith(("open", "sync"))][-2:] == ["sync 5", "open x/c"]
    assert len(files) == 2
    assert bytes(disk.file("x/b").durable) == b"b"
    assert bytes(disk.file("x/a").durable) == b""
    files.sync("x/b")
    files.sync_all()
    assert len(files) == 0
    assert bytes(disk.file("x/a").durable + disk.file("x/c").durable) == b"ac"


def test_where_others_have_taken_the_files_one_is_synced_early() -> None:
    disk = StingyDisk(most=2)
    disk.make_folder("x")
    files = UnsyncedFiles(disk, 10)
    for name in ("a", "b", "c"):
        files.write(f"x/{name}", 0, name.encode())
    assert len(files) == 2
    assert bytes(disk.file("x/a").durable) == b"a"
    files.close()
    handles = [disk.open("x/a"), disk.open("x/b")]
    with pytest.raises(OSError, match="Too many open files"):
        files.write("x/c", 0, b"c")
    assert len(handles) == disk.open_files


def test_what_stands_later_under_the_name_of_a_removed_log_is_another_file() -> None:
    disk = SimDisk()
    store = mount(disk, ROOMY)
    append(store, "flights-1", "old" * 400)
    append(store, "flights-10", "stays" * 300)
    flush(store, disk)
    assert work(store, disk)
    assert isinstance(store.remove("flights-1"), int)
    flush(store, disk)
    work(store, disk)
    append(store, "flights-1", "new" * 400)
    flush(store, disk)
    work(store, disk)
    assert work(store, disk, force=True)
    expected = everything(store)
    disk.crash()
    assert everything(mount(disk, ROOMY)) == expected
