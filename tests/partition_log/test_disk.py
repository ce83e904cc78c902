"""The disk of this machine, and that the simulated one does the same."""

import errno
import os
from functools import partial
from pathlib import Path

import pytest

from partition_log.disk.disk import Disk, OsDisk, is_disk_full
from partition_log.errors import FolderInUse, SyncFailed
from tests.partition_log.stories import append, everything, flush, mount, work
from tests.simulation.disk import Crash, SimDisk


@pytest.fixture(params=["os", "simulated"])
def disk_and_folder(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Disk, str]:
    disk: Disk = OsDisk() if request.param == "os" else SimDisk()
    disk.make_folder(str(tmp_path / "a" / "b"))
    return disk, str(tmp_path / "a" / "b")


def test_files_are_written_and_read_anywhere(disk_and_folder: tuple[Disk, str]) -> None:
    disk, folder = disk_and_folder
    handle = disk.open(f"{folder}/file")
    disk.write_at(handle, 5, b"hello")
    assert disk.size(handle) == 10
    assert disk.read_at(handle, 0, 100) == b"\0\0\0\0\0hello"
    assert disk.read_at(handle, 7, 2) == b"ll"
    assert disk.read_at(handle, 50, 5) == b""
    disk.truncate(handle, 6)
    disk.sync(handle)
    disk.close(handle)
    again = disk.open(f"{folder}/file")
    assert disk.read_at(again, 0, 100) == b"\0\0\0\0\0h"
    disk.close(again)


def test_names_come_and_go(disk_and_folder: tuple[Disk, str]) -> None:
    disk, folder = disk_and_folder
    for name in ("b", "a", "c"):
        disk.close(disk.open(f"{folder}/{name}"))
    disk.rename(f"{folder}/c", f"{folder}/a")
    disk.remove(f"{folder}/b")
    disk.make_folder(f"{folder}/d")
    disk.make_folder(f"{folder}/d")
    disk.sync_folder(folder)
    assert disk.list(folder) == ["a", "d"]
    disk.remove_folder(f"{folder}/d")
    assert disk.list(folder) == ["a"]
    assert disk.list(f"{folder}/nowhere") == []


def test_a_lock_is_had_once_at_a_time(disk_and_folder: tuple[Disk, str]) -> None:
    disk, folder = disk_and_folder
    handle = disk.lock(f"{folder}/LOCK")
    with pytest.raises(FolderInUse):
        disk.lock(f"{folder}/LOCK")
    disk.close(handle)
    disk.close(disk.lock(f"{folder}/LOCK"))


def test_a_node_lives_on_the_real_disk_as_on_the_simulated_one(tmp_path: Path) -> None:
    real: Disk = OsDisk()
    simulated: Disk = SimDisk()
    folder = str(tmp_path / "data")
    stores = [mount(real, folder=folder), mount(simulated)]
    for number in range(60):
        for store, disk in zip(stores, (real, simulated), strict=True):
            append(store, f"flights-{number % 4}", f"{number:04d}" * 30)
            flush(store, disk)
            work(store, disk)
    expected = everything(stores[1])
    assert everything(stores[0]) == expected
    stores[0]._release()  # as if killed: what was written is there, nothing was tidied
    again = mount(real, folder=folder)
    assert everything(again) == expected
    assert again.close()
    files = sorted(str(path.relative_to(folder)) for path in Path(folder).glob("flights-*/*.log"))
    assert b"".join((Path(folder) / file).read_bytes() for file in files) == b"".join(expected.values())


def test_only_a_lack_of_room_is_a_full_disk() -> None:
    assert is_disk_full(OSError(errno.ENOSPC, "full"))
    assert is_disk_full(OSError(errno.EDQUOT, "quota"))
    assert not is_disk_full(OSError(errno.EIO, "broken"))


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_a_sync_that_fails_is_no_full_disk_whatever_it_says(
    code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(handle: int) -> None:
        raise OSError(code, os.strerror(code))

    disk = OsDisk()
    handle = disk.open(str(tmp_path / "file"))
    monkeypatch.setattr(os, "fdatasync", fail)
    monkeypatch.setattr(os, "fsync", fail)
    for sync in (partial(disk.sync, handle), partial(disk.sync_folder, str(tmp_path))):
        with pytest.raises(SyncFailed, match="a sync failed") as caught:
            sync()
        assert caught.value.errno == code
        assert caught.value.filename.startswith(str(tmp_path))
        assert not is_disk_full(caught.value)
    disk.close(handle)


# ----------------------------------------------------------------------------------------- the simulated disk's own


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC, errno.EDQUOT])
def test_a_failed_sync_has_lost_the_pages_and_the_next_one_says_nothing(code: int) -> None:
    disk, handle = simulated()
    disk.write_at(handle, 0, b"lost")
    disk.fail_next(code, "sync")
    with pytest.raises(SyncFailed) as caught:
        disk.sync(handle)
    assert caught.value.errno == code
    disk.sync(handle)
    assert disk.read_at(handle, 0, 9) == b"lost", "it is read from memory"
    disk.crash()
    assert disk.read_at(disk.open("x/file"), 0, 9) == b""


def test_a_write_that_is_lost_in_between_is_told_once_to_each_who_had_the_file_open() -> None:
    disk, handle = simulated()
    others = disk.open("x/file")
    disk.lose_write(errno.ENOSPC)
    disk.write_at(handle, 0, b"lost")
    late = disk.open("x/file")
    for one in (late, handle, others):
        with pytest.raises(SyncFailed, match="No space"):
            disk.sync(one)
        disk.sync(one)
    disk.sync(disk.open("x/file"))  # somebody was told already
    disk.crash()
    assert disk.read_at(disk.open("x/file"), 0, 9) == b""


def test_what_nobody_has_open_is_forgotten_and_the_error_with_it() -> None:
    disk, handle = simulated()
    disk.write_at(handle, 0, b"kept")
    disk.sync(handle)
    disk.lose_write(errno.EIO, after=1)
    disk.write_at(handle, 4, b"too")
    disk.sync(handle)
    disk.write_at(handle, 7, b"lost")
    held = disk.open("x/file")
    disk.close(handle)
    assert disk.read_at(held, 0, 99) == b"kepttoolost"
    disk.close(held)
    again = disk.open("x/file")
    assert disk.read_at(again, 0, 99) == b"kepttoo"
    disk.sync(again)


def simulated() -> tuple[SimDisk, int]:
    disk = SimDisk(1)
    disk.make_folder("x")
    disk.sync_folder("")
    handle = disk.open("x/file")
    disk.sync_folder("x")
    return disk, handle


def test_what_was_synced_survives_and_the_rest_may_be_lost_torn_or_kept() -> None:
    found = set()
    for seed in range(60):
        disk = SimDisk(seed)
        disk.make_folder("x")
        handle = disk.open("x/file")
        disk.sync_folder("")
        disk.sync_folder("x")
        disk.write_at(handle, 0, b"s" * 1024)
        disk.sync(handle)
        disk.write_at(handle, 1024, b"u" * 1024)
        disk.crash()
        data = disk.read_at(disk.open("x/file"), 0, 9999)
        assert data[:1024] == b"s" * 1024
        found.add(data[1024:])
    assert found == {b"", b"u" * 512, b"\0" * 512 + b"u" * 512, b"u" * 1024}


def test_names_that_were_not_synced_vanish() -> None:
    found = set()
    for seed in range(30):
        disk = SimDisk(seed)
        disk.make_folder("x")
        disk.sync_folder("")
        for name in ("a", "b"):
            disk.sync(disk.open(f"x/{name}"))
        disk.crash()
        found.add(tuple(disk.list("x")))
    assert found == {(), ("a",), ("a", "b")}


def test_where_names_have_no_order_each_change_is_lost_or_kept_by_itself() -> None:
    found = set()
    for seed in range(60):
        disk = SimDisk(seed)
        disk.keeps_any_names = True
        disk.make_folder("x")
        disk.sync_folder("")
        disk.sync(disk.open("x/old"))
        disk.sync_folder("x")
        disk.sync(disk.open("x/new"))
        disk.remove("x/old")
        disk.rename("x/new", "x/newest")
        disk.crash()
        found.add(tuple(disk.list("x")))
    assert found >= {("old",), (), ("new", "old"), ("newest",), ("newest", "old")}
    assert all(len(names) < 3 for names in found)


def test_it_fails_and_crashes_when_told_to() -> None:
    disk, handle = simulated()
    disk.write_at(handle, 0, b"x")
    disk.sync(handle)
    disk.fail_next(errno.EIO, "read_at")
    with pytest.raises(OSError, match="Input/output"):
        disk.read_at(handle, 0, 1)
    disk.crash_before = disk.operations + 2
    disk.read_at(handle, 0, 1)
    with pytest.raises(Crash, match="before operation"):
        disk.read_at(handle, 0, 1)
    disk.crash()
    assert disk.read_at(disk.open("x/file"), 0, 9) == b"x"
    with pytest.raises(KeyError):
        disk.read_at(handle, 0, 1)
