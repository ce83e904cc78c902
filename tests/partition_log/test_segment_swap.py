"""The steps of a swap, from wherever a crash left them. The whole way is in `test_compaction_crashes.py`."""

import errno
from contextlib import suppress
from random import Random

import pytest

from partition_log.cleanup_policy import Compact
from partition_log.log.partition_log import PartitionLog
from partition_log.log.segment_swap import finish_swaps
from partition_log.log.state_snapshots import write_state_snapshot
from partition_log.segments.file_names import SwapName, cleaned_name, file_name, is_cleaning_file, swap_name
from partition_log.store.log_store import LogStore
from tests.partition_log.stories import append, flush, work
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
from tests.simulation.disk import Crash, SimDisk

FOLDER = "data/t-0"


def disk_with(*names: str) -> SimDisk:
    disk = SimDisk()
    disk.make_folder(FOLDER)
    for name in names:
        disk.write_at(disk.open(f"{FOLDER}/{name}"), 0, name.encode())
    return disk


def content(disk: SimDisk, name: str) -> bytes:
    return bytes(disk.file(f"{FOLDER}/{name}").data)


def logs(*bases: int) -> list[str]:
    return [file_name(base, "log") for base in bases]


def test_a_swap_stands_for_its_range_and_nothing_else() -> None:
    swap = SwapName(10, 40).text
    indexes = [file_name(10, "index"), file_name(20, "timeindex"), file_name(40, "index")]
    disk = disk_with(*logs(0, 10, 20, 40), *indexes, swap)
    finish_swaps(disk, FOLDER)
    assert disk.list(FOLDER) == sorted([*logs(0, 10, 40), file_name(40, "index")])
    assert content(disk, file_name(10, "log")) == swap.encode()
    assert content(disk, file_name(0, "log")) == file_name(0, "log").encode()


def test_a_swap_whose_old_files_are_gone_already_is_finished() -> None:
    disk = disk_with(*logs(40), SwapName(10, 40).text)
    finish_swaps(disk, FOLDER)
    assert disk.list(FOLDER) == logs(10, 40)


def test_a_cleaned_file_that_no_swap_was_made_of_goes() -> None:
    disk = disk_with(*logs(0, 10), cleaned_name(0))
    finish_swaps(disk, FOLDER)
    assert disk.list(FOLDER) == logs(0, 10)


def test_a_snapshot_does_not_outlive_a_swap() -> None:
    disk = disk_with(*logs(0, 10, 40), SwapName(0, 40).text)
    write_state_snapshot(disk, FOLDER, 45, [b"as it was"])
    finish_swaps(disk, FOLDER)
    assert disk.list(FOLDER) == logs(0, 40)


def test_names_of_other_files_are_no_swaps() -> None:
    assert swap_name(SwapName(3, 7).text) == SwapName(3, 7)
    for name in (file_name(3, "log"), cleaned_name(3), "x.swap", f"{3:020d}.swap", f"{3:020d}-7.swap"):
        assert swap_name(name) is None
    assert is_cleaning_file(cleaned_name(3)) and is_cleaning_file(SwapName(3, 7).text)
    assert not is_cleaning_file(file_name(3, "log"))


class DiskFullOnce(SimDisk):
    """The operation of this number finds no room; a sync is left alone."""

    full_at = 0

    def reseed(self, seed: int) -> None:
        """Draw anew what a crash leaves."""
        self._random = Random(seed)

    def _operation(self, name: str, what: str | int) -> None:
        super()._operation(name, what)
        if self.operations == self.full_at and name not in ("sync", "sync_folder"):
            raise OSError(errno.ENOSPC, "no room", str(what))


def about_to_swap() -> tuple[DiskFullOnce, LogStore]:
    """A store whose next checkpoint job puts a cleaned segment with an index in the place of others."""
    disk = DiskFullOnce()
    store = open_log(disk, Compact(segment_bytes=60_000))
    for number in range(0, 1_600, 10):
        put(store, [(f"k{(number + one) % 700}", "xyz" * 20) for one in range(10)])
        if number % 100 == 0:
            flush(store, disk)
            work(store, disk)
    checkpoint(store, disk)
    cleaner = cleaner_of(store, slice_bytes=10**6)
    clean_until_swap(store, disk, cleaner, store.log(NAME))
    return disk, store


def values(log: PartitionLog) -> dict[bytes | None, bytes | None]:
    return last_values(records_of(log))


def swap_and_count(disk: DiskFullOnce, store: LogStore) -> int:
    """Run the swap until it is done or the disk crashes. Return the number of operations."""
    before = disk.operations
    while store.cleaning.is_swapping:
        assert work(store, disk, force=store.disk_full)
    return disk.operations - before


def test_a_swap_that_finds_no_room_at_any_step_is_tried_again_and_loses_nothing() -> None:
    expected = values(about_to_swap()[1].log(NAME))
    steps = swap_and_count(*about_to_swap())
    assert steps > 12
    for step in range(1, steps + 1):
        disk, store = about_to_swap()
        disk.full_at = disk.operations + step
        swap_and_count(disk, store)
        assert values(store.log(NAME)) == expected, f"operation {step}"
        assert any(name.endswith(".index") for name in disk.list(f"data/{NAME}"))


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EIO])
def test_a_sync_of_a_swap_that_fails_is_not_tried_again_and_loses_nothing(code: int) -> None:
    expected = values(about_to_swap()[1].log(NAME))
    failed = 0
    for step in range(1, 30):
        disk, store = about_to_swap()
        disk.fail_at, disk.fail_code = disk.operations + step, code
        disk.journal = []
        with suppress(OSError):
            swap_and_count(disk, store)
        if not disk.journal[-1].startswith("sync"):
            continue
        failed += 1
        assert store.cleaning.is_swapping and not store.disk_full
        for ends in (disk.kill, disk.crash):
            ends()
            assert values(open_log(disk).log(NAME)) == expected
    assert failed > 2


def test_a_crash_while_a_swap_is_tried_again_loses_nothing() -> None:
    expected = values(about_to_swap()[1].log(NAME))
    for step in range(1, swap_and_count(*about_to_swap()) + 1):
        for later in range(1, 8):
            disk, store = about_to_swap()
            disk.keeps_any_names = True
            disk.reseed(step * 100 + later)
            disk.full_at = disk.operations + step
            disk.crash_before = disk.full_at + later
            with suppress(Crash):
                swap_and_count(disk, store)
            disk.crash()
            assert values(open_log(disk).log(NAME)) == expected, f"operation {step} failed, {later} later a crash"


def test_old_segments_of_other_logs_go_while_a_swap_waits_for_room() -> None:
    disk = SimDisk()
    store = open_log(disk)
    for number in range(60):
        put(store, [(f"k{number % 7}", f"value {number}" * 3)])
        append(store, "flights-0", f"{number:04d}" * 100)
    checkpoint(store, disk)
    cleaner = cleaner_of(store)
    clean_until_swap(store, disk, cleaner, store.log(NAME))
    disk.fail_next(errno.ENOSPC, "rename")
    work(store, disk)
    assert store.disk_full and store.cleaning.is_swapping
    assert not store.drop(store.log(NAME), 1)
    assert store.drop(store.log("flights-0"), 2)
