"""A file that is replaced as a whole: a crash leaves the old content or the new one."""

from contextlib import suppress

import pytest

from partition_log.disk.atomic_file import read_file, write_file
from partition_log.errors import LogDamaged
from tests.partition_log.faulty_disk import FaultyDisk
from tests.simulation.disk import Crash, SimDisk

FOLDER, PATH = "data", "data/node.toml"


def disk_with(content: bytes) -> SimDisk:
    disk = SimDisk()
    disk.make_folder(FOLDER)
    disk.sync_folder("")
    write_file(disk, FOLDER, PATH, content)
    return disk


def test_a_crash_at_any_operation_leaves_the_old_or_the_new_content() -> None:
    seen = set()
    for operation in range(1, 20):
        disk = disk_with(b"old and long")
        disk.crash_before = disk.operations + operation
        with suppress(Crash):
            write_file(disk, FOLDER, PATH, b"new")
        disk.crash()
        seen.add(read_file(disk, PATH))
    assert seen == {b"old and long", b"new"}


def test_what_was_written_is_durable_on_return() -> None:
    disk = disk_with(b"kept")
    disk.crash()
    assert read_file(disk, PATH) == b"kept"


def test_a_file_that_the_disk_cannot_read_is_damaged() -> None:
    disk = FaultyDisk()
    disk.make_folder(FOLDER)
    write_file(disk, FOLDER, PATH, b"text")
    disk.spoil("read_at", 5)
    with pytest.raises(LogDamaged, match=r"node\.toml is damaged at position 0: it cannot be read"):
        read_file(disk, PATH)
