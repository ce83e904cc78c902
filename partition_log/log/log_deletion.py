"""Removal of a log's files."""

from partition_log.disk.disk import Disk
from partition_log.log.state_snapshots import is_state_snapshot_file
from partition_log.producers.snapshot_files import is_snapshot_file
from partition_log.segments.file_names import file_name, is_cleaning_file, is_segment_file

_OURS = (is_segment_file, is_cleaning_file, is_snapshot_file, is_state_snapshot_file)


def remove_segment(disk: Disk, folder: str, base_offset: int) -> None:
    present = disk.list(folder)
    for kind in ("index", "timeindex", "log"):
        if (name := file_name(base_offset, kind)) in present:
            disk.remove(f"{folder}/{name}")


def remove_log(disk: Disk, folder: str) -> None:
    """Remove all files of a log, and its folder if it is empty then."""
    names = disk.list(folder)
    ours = [name for name in names if any(is_ours(name) for is_ours in _OURS)]
    for name in ours:
        disk.remove(f"{folder}/{name}")
    if len(ours) == len(names):
        disk.remove_folder(folder)
