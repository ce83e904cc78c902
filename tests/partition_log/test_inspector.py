"""A data folder looked at from outside: every kind of damage is told with its place, and nothing is changed."""

import msgspec
import pytest

from partition_log.cleanup_policy import Retain
from partition_log.errors import LogDamaged
from partition_log.inspection.batch_scan import scan_file
from partition_log.inspection.findings import Finding, ScanTotals, Severity
from partition_log.inspection.inspector import Inspector
from partition_log.inspection.log_check import LogFiles
from partition_log.store.log_store import Appended, LogStore
from partition_log.wal.checkpoint import Checkpoint, read_checkpoint
from partition_log.wal.layout import segment_path
from partition_log.wal.reader import wal_bases
from tests.partition_log.stories import LIMITS, append, batch, everything, flush, mount, work
from tests.simulation.disk import SimDisk

FLIGHTS = "data/flights-0"


def served() -> SimDisk:
    """A clean stop, then more in the write-ahead log alone."""
    disk = SimDisk()
    store = mount(disk)
    for number in range(30):
        append(store, "flights-0", f"{number:04d}" * 100)
        append(store, "flights-1", f"{number:04d}")
        flush(store, disk)
        work(store, disk)
    store.close()
    store = mount(disk)
    append(store, "flights-1", "ahead")
    append(store, "gates-0", "begun after the checkpoint")
    flush(store, disk)
    disk.crash()
    return disk


def verify(disk: SimDisk) -> list[Finding]:
    return list(Inspector(disk, "data", lambda name: name.startswith("__")).verify())


def checkpoint_of(disk: SimDisk) -> Checkpoint:
    found = read_checkpoint(disk, "data/wal")
    assert found is not None
    return found


def damage(disk: SimDisk) -> list[tuple[str, int | None, int | None]]:
    return [(one.file, one.position, one.offset) for one in verify(disk) if one.severity is Severity.DAMAGE]


def segments(disk: SimDisk, folder: str = FLIGHTS) -> list[str]:
    return [f"{folder}/{name}" for name in disk.list(folder) if name.endswith(".log")]


def places(disk: SimDisk, path: str) -> list[tuple[int, int]]:
    return [(walked.position, walked.offset) for walked in scan_file(disk, path)]


def flip(disk: SimDisk, path: str, position: int, mask: int = 1) -> None:
    byte = disk.file(path).data[position]
    disk.damage(path, position, bytes([byte ^ mask]))


def test_a_sound_folder_has_no_findings_and_is_counted() -> None:
    disk = served()
    inspector = Inspector(disk, "data")
    assert list(inspector.verify()) == []
    totals = inspector.totals
    assert (totals.logs, totals.batches, totals.records, totals.frames) == (2, 60, 60, 2)
    assert totals.segments == len(segments(disk)) + len(segments(disk, "data/flights-1"))
    assert totals.bytes == sum(len(disk.file(path).data) for path in segments(disk) + segments(disk, "data/flights-1"))


def test_looking_changes_nothing() -> None:
    disk = served()
    before = {path: bytes(disk.file(path).data) for path in paths(disk)}
    disk.journal = []
    inspector = Inspector(disk, "data")
    list(inspector.verify())
    for name in inspector.names():
        list(inspector.batches(name))
    list(inspector.frames())
    assert {line.split()[0] for line in disk.journal} <= {"open_to_read", "read_at", "list"}
    assert {path: bytes(disk.file(path).data) for path in paths(disk)} == before


def paths(disk: SimDisk) -> list[str]:
    folders = [name for name in disk.list("data") if name not in ("LOCK", "node.toml")]
    return [f"data/{folder}/{name}" for folder in folders for name in disk.list(f"data/{folder}")]


def test_a_log_is_read_as_a_start_would_find_it() -> None:
    disk = served()
    inspector = Inspector(disk, "data")
    found = {name: b"".join(walked.data for walked in inspector.batches(name)) for name in inspector.names()}
    assert found == everything(mount(disk))


@pytest.mark.parametrize("segment", [0, 1, -1])
def test_a_flipped_bit_is_told_with_file_position_and_offset_whichever_segment_it_is_in(segment: int) -> None:
    disk = served()
    path = segments(disk)[segment]
    position, offset = places(disk, path)[1]
    flip(disk, path, position + 70)
    assert damage(disk) == [(path, position, offset)]


def test_batches_behind_a_damaged_one_are_looked_at_too() -> None:
    disk = served()
    path = segments(disk)[0]
    for position, _offset in places(disk, path)[:2]:
        flip(disk, path, position + 70)
    assert damage(disk) == [(path, position, offset) for position, offset in places(disk, path)[:2]]


def test_where_a_length_is_wrong_the_rest_of_the_segment_cannot_be_told_apart() -> None:
    disk = served()
    path = segments(disk)[0]
    position, offset = places(disk, path)[1]
    disk.damage(path, position + 8, b"\x7f\xff\xff\xff")
    assert damage(disk) == [(path, position, offset)]


@pytest.mark.parametrize("segment", [0, 1, -1])
def test_a_missing_segment_is_told_whichever_it_is(segment: int) -> None:
    disk = served()
    every = segments(disk)
    disk.remove(every[segment])
    base = int(every[segment][-24:-4])
    ((file, _position, offset),) = damage(disk)
    if segment == 0:
        assert (file, offset) == (every[0], 0)
    else:  # seen at the end of the one before it
        assert (file, offset) == (every[segment - 1], base)


def test_a_folder_that_is_gone_and_a_checkpoint_that_is_gone_are_damage() -> None:
    disk = served()
    for name in disk.list(FLIGHTS):
        disk.remove(f"{FLIGHTS}/{name}")
    disk.remove_folder(FLIGHTS)
    assert damage(disk) == [(FLIGHTS, None, 0)]
    disk.remove("data/wal/checkpoint")
    assert ("data/wal/checkpoint", None, None) in damage(disk)
    with pytest.raises(LogDamaged, match="checkpoint"):
        mount(disk)


def test_a_flipped_bit_in_checkpoint_identity_or_write_ahead_log_is_damage() -> None:
    disk = served()
    flip(disk, "data/wal/checkpoint", 20)
    assert damage(disk)[0] == ("data/wal/checkpoint", 0, None)
    disk = served()
    flip(disk, "data/node.toml", 0, 0x80)
    assert damage(disk) == [("data/node.toml", 0, None)]
    disk = served()
    checkpoint = read_checkpoint(disk, "data/wal")
    assert checkpoint is not None
    wal = segment_path("data/wal", max(base for base in wal_bases(disk, "data/wal") if base <= checkpoint.block))
    flip(disk, wal, 3)
    assert damage(disk) == [(wal, 0, None)]


def test_offsets_that_are_not_there_are_damage_unless_the_log_is_cleaned() -> None:
    disk = served()
    path = segments(disk)[0]
    _first, (second, _), (third, _) = places(disk, path)[:3]
    data = bytes(disk.file(path).data)
    disk.damage(path, 0, data[:second] + data[third:])
    handle = disk.open(path)
    disk.truncate(handle, len(data) - (third - second))
    disk.close(handle)
    told = damage(disk)
    assert told[0] == (path, second, 2)
    assert [
        one for one in Inspector(disk, "data", lambda _name: True).verify() if one.severity is Severity.DAMAGE
    ] == []


def test_an_index_that_lies_is_a_warning() -> None:
    disk = SimDisk()
    store = mount(disk)
    for _ in range(20):
        append_large(store)
        flush(store, disk)
        work(store, disk)
    store.close()
    path = "data/large-0/00000000000000000000.index"
    assert disk.file(path).data, "the story makes an index"
    assert verify(disk) == []
    flip(disk, path, 7)
    (finding,) = verify(disk)
    assert (finding.severity, finding.file, finding.position) == (Severity.WARNING, path, 0)
    assert finding.sentence.startswith(f"{path} at position 0 (offset ")


def append_large(store: LogStore) -> None:
    assert isinstance(store.append(store.log("large-0", Retain()), batch("large" * 100)), Appended)


def test_what_a_crash_left_of_cleaning_is_noted_and_a_swap_read_in_the_place_of_what_it_replaces() -> None:
    disk = served()
    every = segments(disk)
    first, second = every[0], every[1]
    end = int(every[2][-24:-4])
    handle = disk.open(f"{FLIGHTS}/{0:020d}-{end:020d}.swap")
    disk.write_at(handle, 0, bytes(disk.file(first).data + disk.file(second).data))
    disk.close(disk.open(f"{FLIGHTS}/{7:020d}.cleaned"))
    flip(disk, first, 70)  # nobody reads it any more
    found = verify(disk)
    assert {finding.severity for finding in found} == {Severity.NOTE}
    (flights,) = [one for one in checkpoint_of(disk).logs if one.name == "flights-0"]
    offsets = [walked.offset for walked in LogFiles(disk, "data", "flights-0", holes=False).batches(flights)]
    assert offsets == list(range(30))


def test_a_torn_tail_is_a_note() -> None:
    disk = served()
    checkpoint = read_checkpoint(disk, "data/wal")
    assert checkpoint is not None
    base = max(base for base in wal_bases(disk, "data/wal") if base <= checkpoint.block)
    flip(disk, segment_path("data/wal", base), checkpoint.block - base + 60)
    (finding,) = verify(disk)
    assert finding.severity is Severity.NOTE
    assert "torn tail" in finding.what


def test_files_behind_the_checkpoint_are_one_note_a_log_and_the_next_start_makes_them_anew() -> None:
    disk, roomy = SimDisk(), msgspec.structs.replace(LIMITS, wal_segment_bytes=65_536, checkpoint_bytes=60_000)
    store = mount(disk, roomy)
    for number in range(10):
        append(store, "flights-0", f"{number:04d}" * 100)
    flush(store, disk)
    store.close()
    store = mount(disk, roomy)
    known = len(segments(disk))
    for number in range(10, 40):
        append(store, "flights-0", f"{number:04d}" * 100)
        flush(store, disk)
        work(store, disk)
    surplus = len(segments(disk)) - known
    assert surplus > 1, "the story has files that no checkpoint knows"
    (note,) = verify(disk)  # as a kill leaves it
    assert (note.severity, note.file) == (Severity.NOTE, FLIGHTS)
    assert note.what.startswith(f"{surplus} files (000")
    assert note.what.endswith("the write-ahead log has these records too, and the next start writes the files anew")
    expected = everything(store)
    disk.crash()
    assert everything(mount(disk, roomy)) == expected


def test_files_before_a_logs_start_are_one_note_too() -> None:
    disk = served()
    third = int(segments(disk)[2][-24:-4])
    (flights,) = [one for one in checkpoint_of(disk).logs if one.name == "flights-0"]
    noted = msgspec.structs.replace(flights, start=third)
    (note,) = LogFiles(disk, "data", "flights-0", holes=False).check(noted, ScanTotals())
    assert (note.severity, note.file, note.offset) == (Severity.NOTE, FLIGHTS, 0)
    assert note.what.startswith("2 files (00000000000000000000.log to ")
    assert note.what.endswith("the next start removes what is left")


class Elsewhere(SimDisk):
    """While it is looked at, somebody makes a checkpoint."""

    meanwhile: object = None

    def open(self, path: str, *, make: bool = True) -> int:
        if callable(self.meanwhile) and path == segments(self)[1]:
            meanwhile, self.meanwhile = self.meanwhile, None
            meanwhile()
        return super().open(path, make=make)


def test_what_looks_wrong_in_a_folder_in_use_is_looked_at_again() -> None:
    disk = Elsewhere()
    store = mount(disk)
    for number in range(30):
        append(store, "flights-0", f"{number:04d}" * 100)
        flush(store, disk)
        work(store, disk)
    work(store, disk, force=True)
    log = store.log("flights-0")

    def drop() -> None:
        assert store.drop(log, 2)
        work(store, disk, force=True)

    disk.meanwhile = drop
    assert list(Inspector(disk, "data", in_use=True).verify()) == []
