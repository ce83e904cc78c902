"""Snapshots are whole or recognisably not. Damage is noticed anywhere, and a crash at any operation of writing leaves
the new snapshot, the one before, or none."""

import errno

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from partition_log.log.state_snapshots import (
    SnapshotDamaged,
    read_newest_state_snapshot,
    remove_state_snapshots,
    write_state_snapshot,
)
from tests.enumerations import share_of
from tests.simulation.disk import Crash, SimDisk

FOLDER = "data/__consumer_offsets-7"
PIECES = [b"one", b"2" * 700, b"three" * 300]


def disk_with_folder(seed: int = 0) -> SimDisk:
    disk = SimDisk(seed)
    disk.make_folder(FOLDER)
    disk.sync_folder("data")
    disk.sync_folder(".")
    return disk


def read(disk: SimDisk) -> tuple[int, list[bytes]] | None:
    snapshot = read_newest_state_snapshot(disk, FOLDER)
    return None if snapshot is None else (snapshot.end, list(snapshot.pieces))


@given(st.lists(st.binary(min_size=1, max_size=2_000), max_size=12), st.integers(0, 2**62))
@settings(deadline=None, max_examples=share_of(60))
def test_what_is_read_is_what_was_written(pieces: list[bytes], end: int) -> None:
    disk = disk_with_folder()
    size = write_state_snapshot(disk, FOLDER, end, iter(pieces))
    snapshot = read_newest_state_snapshot(disk, FOLDER)
    assert snapshot is not None and (snapshot.end, snapshot.size, list(snapshot.pieces)) == (end, size, pieces)


def test_pieces_of_more_than_one_chunk_are_read_as_they_were_written() -> None:
    disk, pieces = disk_with_folder(), [bytes([number]) * 100_000 for number in range(9)]
    write_state_snapshot(disk, FOLDER, 5, pieces)
    assert read(disk) == (5, pieces)


def test_one_aid_takes_the_place_of_all_others_and_without_any_there_is_none() -> None:
    disk = disk_with_folder()
    assert read(disk) is None
    write_state_snapshot(disk, FOLDER, 5, PIECES)
    write_state_snapshot(disk, FOLDER, 9, [b"newer"])
    assert disk.list(FOLDER) == ["00000000000000000009.groups"]
    assert read(disk) == (9, [b"newer"])
    assert remove_state_snapshots(disk, FOLDER)
    assert read(disk) is None and not remove_state_snapshots(disk, FOLDER)


def test_aids_beyond_an_end_can_be_removed_and_others_files_are_never_touched() -> None:
    disk = disk_with_folder()
    write_state_snapshot(disk, FOLDER, 5, PIECES)
    for name in ("00000000000000000000.log", "5.groups", "0000000000000000000x.groups"):
        disk.close(disk.open(f"{FOLDER}/{name}"))
    assert not remove_state_snapshots(disk, FOLDER, beyond=5)
    assert remove_state_snapshots(disk, FOLDER, beyond=4)
    assert disk.list(FOLDER) == ["00000000000000000000.log", "0000000000000000000x.groups", "5.groups"]


@given(st.data())
@settings(deadline=None, max_examples=share_of(300))
def test_other_bytes_anywhere_are_noticed(data: st.DataObject) -> None:
    disk = disk_with_folder()
    size = write_state_snapshot(disk, FOLDER, 5, PIECES)
    path = f"{FOLDER}/00000000000000000005.groups"
    file = disk.file(path)
    kind = data.draw(st.sampled_from(("flip", "cut", "grow", "zero")))
    at = data.draw(st.integers(0, size - 1))
    if kind == "flip":
        disk.damage(path, at, bytes([file.data[at] ^ (1 << data.draw(st.integers(0, 7)))]))
    elif kind == "cut":
        file.change(at)
    elif kind == "grow":
        file.change((size, data.draw(st.binary(min_size=1, max_size=20))))
    else:
        before = bytes(file.data)
        file.change((at, bytes(min(512, size - at))))
        if bytes(file.data) == before:
            return
    with pytest.raises(SnapshotDamaged):
        read(disk)


def test_a_piece_can_be_neither_left_out_nor_moved() -> None:
    disk = disk_with_folder()
    write_state_snapshot(disk, FOLDER, 5, [b"aaaa", b"bbbb", b"cccc"])
    file = disk.file(f"{FOLDER}/00000000000000000005.groups")
    whole, head, piece = bytes(file.data), 20, 12
    a, b, c = (whole[head + number * piece : head + (number + 1) * piece] for number in range(3))
    rest = whole[head + 3 * piece :]
    for pieces in (a + c, b + c, a + c + b, a + b, b + a + c, a + a + b + c):
        file.data[:] = whole[:head] + pieces + rest
        with pytest.raises(SnapshotDamaged):
            read(disk)


def test_a_crash_at_any_operation_leaves_the_new_the_old_or_none() -> None:
    seen: set[int | None] = set()
    for seed in range(20):
        for operation in range(1, 30):
            disk = disk_with_folder(seed * 100 + operation)
            write_state_snapshot(disk, FOLDER, 5, PIECES)
            disk.crash_before = disk.operations + operation
            try:
                write_state_snapshot(disk, FOLDER, 9, [b"newer" * 500, b"and more"])
                disk.crash_before = None
                done = True
            except Crash:
                done = False
            disk.crash()
            found = read(disk)
            assert found in ((5, PIECES), (9, [b"newer" * 500, b"and more"]))
            assert not done or found == (9, [b"newer" * 500, b"and more"])
            seen.add(found[0])
            remove_state_snapshots(disk, FOLDER)
            assert disk.list(FOLDER) == []
    assert seen == {5, 9}


@pytest.mark.parametrize("operation", ["write_at", "sync", "rename", "open"])
def test_a_full_disk_leaves_the_one_before_and_nothing_beside_it(operation: str) -> None:
    disk = disk_with_folder()
    write_state_snapshot(disk, FOLDER, 5, PIECES)
    disk.fail_next(errno.ENOSPC, operation)
    with pytest.raises(OSError, match="No space"):
        write_state_snapshot(disk, FOLDER, 9, [b"newer"])
    assert disk.list(FOLDER) == ["00000000000000000005.groups"]
    assert read(disk) == (5, PIECES)
