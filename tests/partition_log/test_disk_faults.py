"""Each thing a disk can do to a store has one answer; `docs/operations.md`, "When the disk fails", is the list."""

import errno
import os

import pytest

from partition_log.cleanup_policy import Compact, Retain
from partition_log.errors import ADVICE, AppendError, FolderInUse, LogDamaged
from partition_log.log.partition_log import PartitionLog
from partition_log.segments.index_files import INDEX_ENTRY
from partition_log.segments.segment_end import end_of
from partition_log.store.log_store import Appended, LogStore, StoreLimits
from partition_log.wal.checkpoint import read_checkpoint
from partition_log.wal.layout import segment_path
from partition_log.wal.reader import wal_bases
from tests.partition_log.faulty_disk import FaultyDisk
from tests.partition_log.stories import SMALL, append, batch, everything, flush, mount, work
from tests.partition_log.test_compaction import NAME, checkpoint, clean, open_log, put, records_of
from tests.simulation.disk import SimDisk

WAL = "data/wal"
FLIGHTS = "data/flights-0"


def filled(*, clean: bool = True, texts: int = 30) -> FaultyDisk:
    """Several segments of a log, and more of another; after a clean stop or a crash."""
    disk = FaultyDisk()
    store = mount(disk)
    for number in range(texts):
        append(store, "flights-0", f"{number:04d}" * 100)
        append(store, "flights-1", f"{number:04d}")
        flush(store, disk)
        work(store, disk)
    if clean:
        assert store.close()
    disk.crash()
    return disk


def segments(disk: SimDisk) -> list[str]:
    return [f"{FLIGHTS}/{name}" for name in disk.list(FLIGHTS) if name.endswith(".log")]


def flip(disk: SimDisk, path: str, position: int) -> None:
    disk.damage(path, position, bytes([disk.file(path).data[position] ^ 1]))


def stops(disk: SimDisk, file: str) -> LogDamaged:
    """A start ends with a sentence that names the file, says what to do, and has changed nothing."""
    before = everything_on(disk)
    with pytest.raises(LogDamaged) as caught:
        mount(disk)
    error = caught.value
    assert error.file == file
    place = f"{file} is missing" if error.is_missing else f"{file} is damaged at position {error.position}"
    assert str(error).startswith(place)
    assert str(error).endswith(f". {ADVICE}")
    assert everything_on(disk) == before
    return error


def everything_on(disk: SimDisk) -> dict[str, bytes]:
    folders = [name for name in disk.list("data") if "." not in name and name != "LOCK"]
    return {
        f"{folder}/{name}": bytes(disk.file(f"data/{folder}/{name}").data)
        for folder in folders
        for name in disk.list(f"data/{folder}")
    }


# ---------------------------------------------------------------------------------------------------------- full disk


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
@pytest.mark.parametrize(
    ("operation", "word"),
    [
        ("write_at", "wal/making"),  # the next segment of the write-ahead log
        ("open", "flights-0"),  # a log's first file
        ("make_folder", "flights-0"),
        ("write_at", "flights-0"),  # a spill
        ("open", "checkpoint.new"),
        ("write_at", "checkpoint.new"),
        ("write_at", ".index"),
        ("rename", "wal"),
    ],
)
def test_a_full_disk_refuses_appends_wherever_it_is_met_and_heals(operation: str, word: str, code: int) -> None:
    disk = FaultyDisk()
    store = mount(disk)
    append(store, "flights-1", "before")
    flush(store, disk)
    disk.spoil(operation, code, word)
    asked = 0
    for number in range(60):
        if not isinstance(store.append(store.log("flights-0", Retain()), batch(f"{number:04d}" * 100)), Appended):
            break
        asked += 1
        flush(store, disk)
        work(store, disk)
    else:
        work(store, disk, force=True)
    assert is_full(store)
    assert store.append(store.log("flights-0"), batch("no")) is AppendError.DISK_FULL
    assert isinstance(store.remove("flights-1"), int), "what makes room is taken"
    flush(store, disk)
    assert store.log("flights-0").next_offset == asked
    kept = everything(store)
    work(store, disk, force=True)
    assert is_full(store), "it is tried again, and still full"
    disk.mend()
    for _ in range(3):
        work(store, disk, force=store.disk_full)
    assert not is_full(store)
    append(store, "flights-0", "after")
    flush(store, disk)
    disk.crash()
    after = everything(mount(disk))
    assert after["flights-0"][: len(kept["flights-0"])] == kept["flights-0"]
    assert len(after["flights-0"]) > len(kept["flights-0"])
    assert "flights-1" not in after


def is_full(store: LogStore) -> bool:
    return store.disk_full


def test_a_first_start_without_room_is_refused_and_the_next_one_is_a_first_start() -> None:
    disk = FaultyDisk()
    disk.spoil("write_at", errno.ENOSPC, "wal")
    with pytest.raises(OSError, match="No space"):
        mount(disk)
    disk.mend()
    append(mount(disk), "flights-0", "x")


def test_what_makes_room_is_taken_after_a_start_on_a_full_disk_and_survives_a_crash_there() -> None:
    disk = filled(clean=False)
    disk.spoil("write_at", errno.ENOSPC, "checkpoint.new")
    store = mount(disk)  # its segment is one that has served: it needs no room
    assert store.disk_full
    position = store.remove("flights-0")
    assert isinstance(position, int)
    assert position
    flush(store, disk)
    kept = everything(store)
    disk.crash()
    again = mount(disk)
    assert everything(again) == kept
    assert "flights-0" not in again.names()


# ------------------------------------------------------------------------------------------------------ EIO on writing


@pytest.mark.parametrize("operation", ["write_at", "sync"])
def test_a_flush_that_fails_raises_and_nothing_of_it_counts_as_durable(operation: str) -> None:
    disk = FaultyDisk()
    store = mount(disk)
    append(store, "flights-0", "first")
    flush(store, disk)
    durable = store.flushed
    append(store, "flights-0", "second")
    disk.spoil(operation, errno.EIO, "wal")
    job = store.begin_flush()
    assert job is not None
    with pytest.raises(OSError, match="Input/output"):
        job.run(disk)
    assert store.flushed == durable
    disk.mend()
    disk.crash()
    assert store.log("flights-0").flushed_offset == 1
    assert mount(disk).log("flights-0").next_offset in (1, 2)


@pytest.mark.parametrize(
    ("operation", "code"),
    [
        ("write_at", errno.EIO),
        ("sync", errno.EIO),
        ("sync", errno.ENOSPC),  # room that was promised, and is not there: the pages are gone
        ("sync", errno.EDQUOT),
    ],
)
@pytest.mark.parametrize("word", ["flights-0", "making", "checkpoint.new"])
def test_a_checkpoint_that_fails_otherwise_than_full_raises_and_is_not_believed(
    operation: str, code: int, word: str
) -> None:
    disk = FaultyDisk()
    store = mount(disk, StoreLimits(4096, checkpoint_bytes=10**6, max_batch_bytes=3000, spill_bytes=10_000))
    while isinstance(store.append(store.log("flights-0", SMALL), batch("text" * 100)), Appended):
        flush(store, disk)  # until the next segment of the write-ahead log is wanted
    kept = everything(store)
    disk.spoil(operation, code, word)
    job = store.begin_checkpoint(force=True)
    assert job is not None
    with pytest.raises(OSError, match=os.strerror(code)):
        job.run(disk)
    assert not store.disk_full
    disk.mend()
    disk.crash()
    assert everything(mount(disk)) == kept


# ------------------------------------------------------------------------------------------------------ EIO on reading


def test_what_cannot_be_read_of_a_log_is_damage_there_and_nowhere_else() -> None:
    disk = filled()
    store = mount(disk)
    bad = segments(disk)[1]
    disk.spoil("read_at", errno.EIO, bad)
    log = store.log("flights-0")
    base = int(bad[-24:-4])
    with pytest.raises(LogDamaged, match="cannot be read") as caught:
        log.read(base, 1000)
    assert caught.value.file == bad
    assert log.read(0, 1000)
    assert store.log("flights-1").read(0, 1000)
    with pytest.raises(LogDamaged, match="cannot be read"):
        list(log.batches_from(0))
    disk.mend()
    assert log.read(base, 1000)


@pytest.mark.parametrize("word", ["wal/checkpoint", ".wal", "node.toml"])
def test_what_cannot_be_read_at_the_start_stops_it(word: str) -> None:
    disk = filled(clean=False)
    disk.spoil("read_at", errno.EIO, word)
    before = everything_on(disk)
    with pytest.raises(LogDamaged, match="cannot be read") as caught:
        mount(disk)
    assert word in caught.value.file
    assert everything_on(disk) == before


def test_an_index_that_is_missing_or_cannot_be_read_costs_time_alone() -> None:
    disk = FaultyDisk()
    limits = StoreLimits(wal_segment_bytes=65536, checkpoint_bytes=10**6, max_batch_bytes=3000)
    store = mount(disk, limits)
    for number in range(100):
        append_to(store, store.log("large-0", Retain(segment_bytes=30_000)), number)
    flush(store, disk)
    store.close()
    indexes = [name for name in disk.list("data/large-0") if name.endswith("index")]
    assert indexes
    kept = everything(mount(disk, limits))
    disk.crash()
    disk.spoil("read_at", errno.EIO, "index")
    assert everything(mount(disk, limits)) == kept
    disk.mend()
    disk.crash()
    for name in disk.list("data/large-0"):
        if name in indexes:
            disk.remove(f"data/large-0/{name}")
    store = mount(disk, limits)
    assert everything(store) == kept


def append_to(store: LogStore, log: PartitionLog, number: int) -> None:
    assert isinstance(store.append(log, batch(f"{number:04d}" * 200)), Appended)


# -------------------------------------------------------------------------------- torn tail, flipped bits, what is gone


def active(disk: SimDisk) -> tuple[str, int]:
    """The write-ahead segment that recovery begins in, and the place there."""
    checkpoint = read_checkpoint(disk, WAL)
    assert checkpoint is not None
    base = max(base for base in wal_bases(disk, WAL) if base <= checkpoint.block)
    return segment_path(WAL, base), checkpoint.block - base


def ahead(count: int = 3) -> FaultyDisk:
    """Make so many flushes after the checkpoint."""
    disk = FaultyDisk()
    store = mount(disk, StoreLimits(65536, checkpoint_bytes=10**6, max_batch_bytes=3000))
    for number in range(count):
        append(store, "flights-0", f"{number}")
        flush(store, disk)
    disk.crash()
    return disk


def test_a_torn_tail_is_cut_and_told() -> None:
    disk = ahead()
    path, at = active(disk)
    flip(disk, path, at + 2 * 512 + 40)  # of the last of three blocks
    store = LogStore(disk, "data", StoreLimits(65536, checkpoint_bytes=10**6, max_batch_bytes=3000))
    report = store.open()
    assert report.torn == f"{path} at position {at + 2 * 512}"
    assert store.log("flights-0").next_offset == 2


@pytest.mark.parametrize("block", [0, 1])
@pytest.mark.parametrize("within", [0, 5, 20, 45])
def test_a_flipped_bit_in_the_write_ahead_log_before_its_end_stops_the_start(block: int, within: int) -> None:
    disk = ahead()
    path, at = active(disk)
    flip(disk, path, at + block * 512 + within)
    assert stops(disk, path).position == at + block * 512


def test_a_flipped_bit_in_checkpoint_or_identity_stops_the_start() -> None:
    disk = filled()
    flip(disk, f"{WAL}/checkpoint", 30)
    stops(disk, f"{WAL}/checkpoint")
    for position in range(len(filled().file("data/node.toml").data)):
        disk = filled(texts=1)
        flip(disk, "data/node.toml", position)
        with pytest.raises(LogDamaged, match=r"data/node\.toml is damaged"):
            mount(disk)


def test_a_flipped_bit_below_the_checkpoint_is_found_by_who_replays_the_log_with_position_and_offset() -> None:
    disk = filled()
    path = segments(disk)[0]
    flip(disk, path, 70)
    store = mount(disk)
    with pytest.raises(LogDamaged, match="crc") as caught:
        list(store.log("flights-0").batches_from(0))
    assert (caught.value.file, caught.value.position, caught.value.offset) == (path, 0, 0)
    assert list(store.log("flights-1").batches_from(0))


@pytest.mark.parametrize("which", [0, 1, 3, -1])
def test_a_log_without_one_of_its_files_stops_the_start_whichever_it_is(which: int) -> None:
    disk = filled()
    every = segments(disk)
    disk.remove(every[which])
    error = stops(disk, every[which if which == 0 else which - 1])
    assert str(int(every[which][-24:-4])) in str(error), "where what is gone began"


@pytest.mark.parametrize("damage", [b"", b"\0\0\0\1\0\0\0\x40", b"\xff" * 7])
def test_where_a_closed_segment_ends_is_found_with_its_index_and_without(damage: bytes) -> None:
    disk = FaultyDisk()
    limits = StoreLimits(wal_segment_bytes=65536, checkpoint_bytes=10**6, max_batch_bytes=3000)
    store = mount(disk, limits)
    for number in range(100):
        append_to(store, store.log("large-0", Retain(segment_bytes=30_000)), number)
        flush(store, disk)
        work(store, disk, force=number % 30 == 0)
    store.close()
    first = mount(disk, limits).log("large-0").segments[0]
    handle = disk.open(first.path.replace(".log", ".index"))
    entries = disk.size(handle) // INDEX_ENTRY.size
    assert entries > 3
    if damage:
        disk.write_at(handle, (entries - 1) * INDEX_ENTRY.size, damage)
    assert end_of(disk, first) == first.next_offset
    disk.damage(first.path, first.size - 800, b"\xff" * 100)
    assert end_of(disk, first) in (None, first.next_offset), "what is damaged is for its readers to find"


def test_a_file_that_is_gone_is_noticed_in_a_cleaned_log_too_and_what_was_cleaned_away_is_not_missed() -> None:
    disk = SimDisk()
    store = open_log(disk)
    for number in range(100):
        key = f"lone {number}" if number % 9 == 0 else "all the others"
        put(store, [(key, f"value {number}" * 12)])
    checkpoint(store, disk)
    before = len(disk.list(f"data/{NAME}"))
    clean(store, disk)
    assert store.close()
    names = [name for name in disk.list(f"data/{NAME}") if name.endswith(".log")]
    assert 2 < len(names) < before, "cleaned, and several are left"
    assert len(records_of(open_log(disk.clone()).log(NAME))) < 30
    for name in names[1:-1]:
        copied = disk.clone()
        copied.remove(f"data/{NAME}/{name}")
        with pytest.raises(LogDamaged, match="one is missing between"):
            open_log(copied)


def test_a_logs_folder_that_is_gone_stops_the_start() -> None:
    disk = filled()
    first = segments(disk)[0]
    for name in disk.list(FLIGHTS):
        disk.remove(f"{FLIGHTS}/{name}")
    disk.remove_folder(FLIGHTS)
    assert stops(disk, first).offset == 0


def test_a_write_ahead_log_that_is_gone_stops_the_start() -> None:
    disk = filled()
    for name in disk.list(WAL):
        disk.remove(f"{WAL}/{name}")
    disk.remove_folder(WAL)
    with pytest.raises(LogDamaged, match=r"checkpoint .*is missing, but there are logs, as flights-0"):
        mount(disk)


def test_a_checkpoint_that_is_gone_stops_the_start_whether_there_are_logs_yet_or_frames_alone() -> None:
    disk = filled()
    disk.remove(f"{WAL}/checkpoint")
    stops(disk, f"{WAL}/checkpoint")
    disk = ahead()
    disk.remove(f"{WAL}/checkpoint")
    assert "was written" in str(stops(disk, f"{WAL}/checkpoint"))


def test_an_identity_that_is_gone_stops_the_start() -> None:
    disk = filled()
    disk.remove("data/node.toml")
    stops(disk, "data/node.toml")


@pytest.mark.parametrize("which", [0, 1, 2])
def test_a_write_ahead_segment_that_is_gone_stops_the_start_whichever_it_is(which: int) -> None:
    disk = FaultyDisk()
    store = mount(disk, StoreLimits(4096, checkpoint_bytes=10**6, max_batch_bytes=3000))
    for number in range(20):
        append(store, "flights-0", f"{number:04d}" * 100)
        flush(store, disk)
        work(store, disk)  # makes the next segment, no checkpoint
    disk.crash()
    written = [base for base in wal_bases(disk, WAL) if block_magic(disk, base)]
    assert len(written) > 3
    gone = segment_path(WAL, [written[0], written[2], written[-1]][which])
    disk.remove(gone)
    error = stops(disk, [WAL, segment_path(WAL, written[1]), gone][which])
    assert "missing" in error.what


def block_magic(disk: SimDisk, base: int) -> bool:
    return bytes(disk.file(segment_path(WAL, base)).data[512:516]) == b"MuBl"


def test_starts_that_crash_again_and_again_leave_no_more_files_each_time() -> None:
    disk = filled(clean=False)
    before = len(disk.list(WAL))
    for _ in range(10):
        disk.spoil("open", errno.EIO, "checkpoint.new")
        with pytest.raises(OSError, match="Input/output"):
            mount(disk)
        disk.mend()
        disk.crash()
    assert len(disk.list(WAL)) <= before + 2
    assert len(everything(mount(disk))["flights-0"]) > 0


def test_a_second_one_on_the_same_folder_is_refused_and_disturbs_nobody() -> None:
    disk = filled()
    store = mount(disk)
    with pytest.raises(FolderInUse):
        mount(disk)
    append(store, "flights-0", "still here")
    assert store.close()


def test_reading_never_makes_a_file() -> None:
    disk = filled()
    store = mount(disk)
    log = store.log("flights-0", SMALL)
    gone = segments(disk)[1]
    disk.remove(gone)
    with pytest.raises(LogDamaged, match="is missing") as caught:
        log.read(int(gone[-24:-4]), 1000)
    assert caught.value.file == gone
    assert gone not in segments(disk)


@pytest.mark.parametrize("missing", [False, True])
def test_the_age_of_a_damaged_segment_is_not_known_and_ends_nothing(missing: bool) -> None:
    disk = SimDisk()
    policy = Compact(segment_bytes=20_000, segment_ms=60_000, max_lag_ms=100)
    store = open_log(disk, policy)
    for number in range(200):
        put(store, [(f"k{number}", "value" * 30)])
        flush(store, disk)
        work(store, disk)
    store.close()
    store = open_log(disk, policy)
    log = store.log(NAME)
    log.close()
    for segment in (log.segments[0], log.segments[-1]):
        if missing:
            disk.remove(segment.path)
        else:
            disk.damage(segment.path, 0, b"\xff" * 61)
    put(store, [("next", "value")], wall_ms=10**12)
    flush(store, disk)
    cleaner = clean(store, disk)
    assert NAME in cleaner.done.uncleanable
