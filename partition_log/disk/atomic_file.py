"""Small files that are replaced as a whole: the checkpoint, `node.toml`, snapshots of producers."""

from partition_log.disk.disk import Disk, is_unreadable
from partition_log.errors import ADVICE, LogDamaged


def write_file(disk: Disk, folder: str, path: str, data: bytes) -> None:
    """Write the file whole or not at all: write a temporary file, sync it, rename it, and sync the folder."""
    beside = f"{path}.new"
    handle = disk.open(beside)
    try:
        disk.truncate(handle, 0)
        disk.write_at(handle, 0, data)
        disk.sync(handle)
    finally:
        disk.close(handle)
    disk.rename(beside, path)
    disk.sync_folder(folder)


def read_file(disk: Disk, path: str) -> bytes:
    """Read the whole file. Raises `LogDamaged` if the disk cannot read it."""
    handle = disk.open_to_read(path)
    try:
        return disk.read_at(handle, 0, disk.size(handle))
    except OSError as error:
        if not is_unreadable(error):
            raise
        raise LogDamaged(path, 0, None, f"it cannot be read ({error.strerror})", ADVICE) from error
    finally:
        disk.close(handle)
