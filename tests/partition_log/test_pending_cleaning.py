"""Work that cleaning hands to checkpoint jobs: done once, tried again after a full disk, or given up with its log."""

import errno

from partition_log.log.partition_log import PartitionLog
from partition_log.log.segment_swap import CleanedWrite
from partition_log.store.log_store import LogStore
from partition_log.store.pending_cleaning import PendingCleaning
from tests.partition_log.stories import contents, work
from tests.partition_log.test_compaction import (
    NAME,
    checkpoint,
    clean,
    cleaner_of,
    last_values,
    open_log,
    put,
    records_of,
)
from tests.partition_log.test_log_store import is_full
from tests.simulation.disk import SimDisk

PATH = f"data/{NAME}/{0:020d}.cleaned"


def is_under_way(store: LogStore) -> bool:
    return store.cleaning.is_under_way


def written(disk: SimDisk) -> tuple[LogStore, PartitionLog]:
    store = open_log(disk)
    for number in range(100):
        put(store, [(f"k{number % 7}", f"value {number}" * 3)])
    checkpoint(store, disk)
    return store, store.log(NAME)


def test_a_write_is_done_by_the_next_job_and_by_no_other() -> None:
    disk = SimDisk()
    store, log = written(disk)
    store.cleaning.write(log, CleanedWrite(PATH, 0, b"first"))
    assert is_under_way(store) and not store.cleaning.is_swapping
    assert PATH not in disk.files(), "whoever asks does not wait"
    assert work(store, disk)
    assert not is_under_way(store)
    assert bytes(disk.file(PATH).data) == b"first"
    assert not work(store, disk)
    store.cleaning.discard([PATH])
    assert work(store, disk)
    assert PATH not in disk.files()


def test_what_is_discarded_was_perhaps_never_written() -> None:
    disk = SimDisk()
    store, log = written(disk)
    store.cleaning.write(log, CleanedWrite(PATH, 0, b"first"))
    store.cleaning.discard([PATH])
    assert work(store, disk)
    assert PATH not in disk.files() and not is_under_way(store)


def test_a_write_for_a_log_that_is_removed_is_given_up() -> None:
    disk = SimDisk()
    store, log = written(disk)
    waiting = PendingCleaning()
    waiting.write(log, CleanedWrite(PATH, 0, b"first"))
    store.remove(NAME)
    assert waiting.take() == (None, None, ())
    assert not waiting.is_due


def test_a_pass_that_meets_a_full_disk_gives_its_room_back_and_is_made_anew_later() -> None:
    disk = SimDisk()
    store, log = written(disk)
    expected = last_values(records_of(log))
    before = contents(log)
    cleaner = cleaner_of(store)
    while not is_under_way(store):
        cleaner.run(lambda: [log], 10_000)
    disk.fail_next(errno.ENOSPC, "write_at")
    assert work(store, disk)
    assert is_full(store)
    assert cleaner.run(lambda: [log], 10_000) > 1, "it waits until there is room"
    assert cleaner.cleaning is None
    assert work(store, disk, force=True)
    assert not is_full(store)
    assert PATH not in disk.files()
    assert contents(log) == before
    clean(store, disk, cleaner=cleaner)
    assert contents(log) != before
    assert last_values(records_of(log)) == expected
