"""A log is opened from its files: what is missing is named, what a crash left over goes, what is not ours stays."""

import pytest

from partition_log.cleanup_policy import Retain
from partition_log.disk.open_files import OpenFiles
from partition_log.disk.unsynced_files import UnsyncedFiles
from partition_log.errors import LogDamaged
from partition_log.log.log_deletion import remove_log
from partition_log.log.log_loader import cut, load
from partition_log.log.partition_log import PartitionLog
from partition_log.segments.file_names import file_name
from tests.partition_log.stories import append, contents, mount
from tests.simulation.disk import SimDisk

FOLDER = "data/t-0"


def written() -> tuple[SimDisk, bytes, list[int]]:
    """A stopped store's disk, the content of its log of nine batches, and the base offsets of the segments."""
    disk = SimDisk()
    store = mount(disk)
    for number in range(9):
        append(store, "t-0", f"value {number} " * 60)
    log = store.log("t-0")
    whole, bases = contents(log), [segment.base_offset for segment in log.segments]
    assert store.close()
    assert len(bases) > 3
    return disk, whole, bases


def opened(disk: SimDisk, start: int = 0, end: int = 9) -> PartitionLog:
    log = PartitionLog(OpenFiles(disk), FOLDER, "t-0", Retain())
    load(log, start, end)
    return log


def test_a_log_is_what_its_files_hold_up_to_the_end() -> None:
    disk, whole, bases = written()
    log = opened(disk)
    assert [segment.base_offset for segment in log.segments] == bases
    assert contents(log) == whole


@pytest.mark.parametrize("which", [0, 1, -1])
def test_a_missing_file_is_damage_wherever_it_stood(which: int) -> None:
    disk, _whole, bases = written()
    disk.remove(f"{FOLDER}/{file_name(bases[which], 'log')}")
    with pytest.raises(LogDamaged):
        opened(disk)


def test_what_lies_beyond_the_end_or_before_the_start_goes() -> None:
    disk, _whole, bases = written()
    log = opened(disk, bases[1], bases[2])
    cut(log, UnsyncedFiles(disk))
    kept = [name for name in disk.list(FOLDER) if name.endswith(".log")]
    assert kept == [file_name(bases[1], "log")]
    assert log.has_new_files, "that they are gone is to be synced"


def test_a_removed_log_leaves_files_that_are_not_its_own() -> None:
    disk, _whole, _bases = written()
    disk.open(f"{FOLDER}/notes.txt")
    remove_log(disk, FOLDER)
    assert disk.list(FOLDER) == ["notes.txt"]


def test_a_removed_log_leaves_no_folder() -> None:
    disk, _whole, _bases = written()
    remove_log(disk, FOLDER)
    assert "t-0" not in disk.list("data")
