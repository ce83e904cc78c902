"""The steps of a swap, from wherever a crash left them. The whole way is in `test_compaction_crashes.py`."""

from partition_log.aids import write_aid
from partition_log.file_names import SwapName, cleaned_name, file_name, is_cleaning_file, swap_name
from partition_log.swapping import finish_swaps
from tests.simulation.disk import SimDisk

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
    write_aid(disk, FOLDER, 45, [b"as it was"])
    finish_swaps(disk, FOLDER)
    assert disk.list(FOLDER) == logs(0, 40)


def test_names_of_other_files_are_no_swaps() -> None:
    assert swap_name(SwapName(3, 7).text) == SwapName(3, 7)
    for name in (file_name(3, "log"), cleaned_name(3), "x.swap", f"{3:020d}.swap", f"{3:020d}-7.swap"):
        assert swap_name(name) is None
    assert is_cleaning_file(cleaned_name(3)) and is_cleaning_file(SwapName(3, 7).text)
    assert not is_cleaning_file(file_name(3, "log"))
