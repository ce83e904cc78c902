"""Aids are whole or recognisably not: damaged anywhere they say so, and a crash at any operation of writing one leaves
the new one, the one before, or none."""

import errno

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from partition_log.log.state_snapshots import AidDamaged, read_newest_aid, remove_aids, write_aid
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
    aid = read_newest_aid(disk, FOLDER)
    return None if aid is None else (aid.end, list(aid.pieces))


@given(st.lists(st.binary(min_size=1, max_size=2_000), max_size=12), st.integers(0, 2**62))
@settings(deadline=None, max_examples=share_of(60))
def test_what_is_read_is_what_was_written(pieces: list[bytes], end: int) -> None:
    disk = disk_with_folder()
    size = write_aid(disk, FOLDER, end, iter(pieces))
    aid = read_newest_aid(disk, FOLDER)
    assert aid is not None and (aid.end, aid.size, list(aid.pieces)) == (end, size, pieces)


def test_pieces_of_more_than_one_chunk_are_read_as_they_were_written() -> None:
    disk, pieces = disk_with_folder(), [bytes([number]) * 100_000 for number in range(9)]
    write_aid(disk, FOLDER, 5, pieces)
    assert read(disk) == (5, pieces)


def test_one_aid_takes_the_place_of_all_others_and_without_any_there_is_none() -> None:
    disk = disk_with_folder()
    assert read(disk) is None
    write_aid(disk, FOLDER, 5, PIECES)
    write_aid(disk, FOLDER, 9, [b"newer"])
    assert disk.list(FOLDER) == ["00000000000000000009.groups"]
    assert read(disk) == (9, [b"newer"])
    assert remove_aids(disk, FOLDER)
    assert read(disk) is None and not remove_aids(disk, FOLDER)


def test_aids_beyond_an_end_can_be_removed_and_others_files_are_never_touched() -> None:
    disk = disk_with_folder()
    write_aid(disk, FOLDER, 5, PIECES)
    for name in ("00000000000000000000.log", "5.groups", "0000000000000000000x.groups"):
        disk.close(disk.open(f"{FOLDER}/{name}"))
    assert not remove_aids(disk, FOLDER, beyond=5)
    assert remove_aids(disk, FOLDER, beyond=4)
    assert disk.list(FOLDER) == ["00000000000000000000.log", "0000000000000000000x.groups", "5.groups"]


@given(st.data())
@settings(deadline=None, max_examples=share_of(300))
def test_other_bytes_anywhere_are_noticed(data: st.DataObject) -> None:
    disk = disk_with_folder()
    size = write_aid(disk, FOLDER, 5, PIECES)
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
    with pytest.raises(AidDamaged):
        read(disk)


def test_a_piece_can_be_neither_left_out_nor_moved() -> None:
    disk = disk_with_folder()
    write_aid(disk, FOLDER, 5, [b"aaaa", b"bbbb", b"cccc"])
    file = disk.file(f"{FOLDER}/00000000000000000005.groups")
    whole, head, piece = bytes(file.data), 20, 12
    a, b, c = (whole[head + number * piece : head + (number + 1) * piece] for number in range(3))
    rest = whole[head + 3 * piece :]
    for pieces in (a + c, b + c, a + c + b, a + b, b + a + c, a + a + b + c):
        file.data[:] = whole[:head] + pieces + rest
        with pytest.raises(AidDamaged):
            read(disk)


def test_a_crash_at_any_operation_leaves_the_new_the_old_or_none() -> None:
    seen: set[int | None] = set()
    for seed in range(20):
        for operation in range(1, 30):
            disk = disk_with_folder(seed * 100 + operation)
            write_aid(disk, FOLDER, 5, PIECES)
            disk.crash_before = disk.operations + operation
            try:
                write_aid(disk, FOLDER, 9, [b"newer" * 500, b"and more"])
                disk.crash_before = None
                done = True
            except Crash:
                done = False
            disk.crash()
            found = read(disk)
            assert found in ((5, PIECES), (9, [b"newer" * 500, b"and more"]))
            assert not done or found == (9, [b"newer" * 500, b"and more"])
            seen.add(found[0])
            remove_aids(disk, FOLDER)
            assert disk.list(FOLDER) == []
    assert seen == {5, 9}


@pytest.mark.parametrize("operation", ["write_at", "sync", "rename", "open"])
def test_a_full_disk_leaves_the_one_before_and_nothing_beside_it(operation: str) -> None:
    disk = disk_with_folder()
    write_aid(disk, FOLDER, 5, PIECES)
    disk.fail_next(errno.ENOSPC, operation)
    with pytest.raises(OSError, match="No space"):
        write_aid(disk, FOLDER, 9, [b"newer"])
    assert disk.list(FOLDER) == ["00000000000000000005.groups"]
    assert read(disk) == (5, PIECES)
