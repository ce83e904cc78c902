"""Old segments go: when, what stays, and that a crash at any moment leaves a log that is whole from its start."""

from collections.abc import Iterator

import pytest

from partition_log.cleanup_policy import Retain
from partition_log.errors import OffsetOutsideLog
from partition_log.log.partition_log import PartitionLog
from partition_log.segments.file_names import segment_bases
from partition_log.store.log_store import LogStore, StoreLimits
from protocol.record_batch import decode_batch
from tests.partition_log.stories import LIMITS, SMALL, append, batch, contents, everything, flush, mount, work
from tests.simulation.disk import Crash, SimDisk

NAME = "flights-0"
BIG = StoreLimits(wal_segment_bytes=65536, checkpoint_bytes=200_000, max_batch_bytes=3000, spill_bytes=600)
AT_MS = 1000
"""Time of `stories.batch`."""


def grown(disk: SimDisk, batches: int = 12) -> tuple[LogStore, PartitionLog]:
    """Segments of three batches each, all of them whole on disk."""
    store = mount(disk)
    for number in range(batches):
        append(store, NAME, f"{number:04d}" * 100)
    flush(store, disk)
    assert work(store, disk, force=True)
    return store, store.log(NAME)


def bases_on_disk(disk: SimDisk) -> list[int]:
    return segment_bases(disk.list(f"data/{NAME}"))


def test_segments_expire_by_the_age_of_their_newest_record() -> None:
    _store, log = grown(SimDisk())
    assert [segment.base_offset for segment in log.segments] == [0, 3, 6, 9]
    assert log.expired(AT_MS + 50, 50, -1) == 0
    assert log.expired(AT_MS + 51, 50, -1) == 4
    assert log.expired(AT_MS + 51, -1, -1) == 0


def test_a_young_segment_protects_those_behind_it() -> None:
    disk = SimDisk()
    store = mount(disk)
    for at_ms in (500, 9_000, 500):
        for _ in range(3):
            store.append(store.log(NAME, SMALL), batch("text" * 100, at_ms))
    flush(store, disk)
    assert store.log(NAME).expired(2_000, 1_000, -1) == 1


def test_segments_expire_by_size_while_enough_is_left_without_them() -> None:
    _store, log = grown(SimDisk())
    size = log.segments[0].size
    assert [log.expired(AT_MS, -1, kept) for kept in (4 * size, 3 * size, 3 * size - 1, size, 0)] == [0, 1, 1, 3, 4]


def test_what_readers_have_not_seen_does_not_expire() -> None:
    disk = SimDisk()
    store = mount(disk)
    for _ in range(12):
        append(store, NAME, "text" * 100)
    assert store.log(NAME).expired(AT_MS + 51, 50, 0) == 0


def test_a_segment_without_timestamps_has_no_age_but_a_size() -> None:
    disk = SimDisk()
    store = mount(disk)
    store.append(store.log(NAME, SMALL), batch("text", -1))
    flush(store, disk)
    assert store.log(NAME).expired(AT_MS, 5, -1) == 0
    assert store.log(NAME).expired(AT_MS, 5, 0) == 1


def test_a_dropped_segment_is_gone_for_readers_at_once_and_its_files_after_a_checkpoint() -> None:
    disk = SimDisk()
    store, log = grown(disk)
    assert store.drop(log, 2)
    assert (log.start_offset, log.next_offset) == (6, 12)
    with pytest.raises(OffsetOutsideLog):
        log.read(5, 1)
    assert [record.offset for record in decode_batch(log.read(6, 1))] == [6]
    assert bases_on_disk(disk) == [0, 3, 6, 9]
    assert work(store, disk)
    assert bases_on_disk(disk) == [6, 9]
    before = contents(log)
    disk.crash()
    log = mount(disk).log(NAME)
    assert (log.start_offset, contents(log)) == (6, before)


def test_the_active_segment_may_go_too_and_the_log_goes_on_where_it_was() -> None:
    disk = SimDisk()
    store, log = grown(disk)
    assert store.drop(log, 4)
    assert (log.start_offset, log.next_offset, log.size_bytes) == (12, 12, 0)
    assert log.read(12, 100) == b""
    assert work(store, disk)
    assert bases_on_disk(disk) == []
    disk.crash()
    store = mount(disk)
    assert (store.log(NAME).start_offset, store.log(NAME).next_offset) == (12, 12)
    assert append(store, NAME, "text").base_offset == 12
    flush(store, disk)
    disk.crash()
    log = mount(disk).log(NAME)
    assert (log.start_offset, log.next_offset) == (12, 13)


def test_what_is_not_whole_on_disk_waits_for_a_checkpoint_which_is_then_due() -> None:
    disk = SimDisk()
    store = mount(disk)
    for _ in range(4):
        append(store, NAME, "text" * 100)
    flush(store, disk)
    log = store.log(NAME)
    assert not store.drop(log, 1)
    assert log.start_offset == 0
    assert work(store, disk)
    assert store.drop(log, 1)
    assert log.start_offset == 3


def test_nothing_is_dropped_while_a_checkpoint_is_under_way() -> None:
    disk = SimDisk()
    store, log = grown(disk)
    job = store.begin_checkpoint(force=True)
    assert job is not None
    assert not store.drop(log, 1)
    job.run(disk)
    store.finish_checkpoint(job)
    assert store.begin_checkpoint() is None, "what was asked meanwhile makes none due"
    assert store.drop(log, 1)


def test_a_log_removed_after_segments_were_dropped_begins_anew() -> None:
    disk = SimDisk()
    store, log = grown(disk)
    assert store.drop(log, 2)
    assert isinstance(store.remove(NAME), int)
    append(store, NAME, "new")
    flush(store, disk)
    for _ in range(3):
        work(store, disk, force=True)
    assert log.is_removed
    before = everything(store)
    assert store.log(NAME).next_offset == 1
    disk.crash()
    assert everything(mount(disk)) == before


def test_a_segment_ends_when_its_records_are_of_another_time() -> None:
    disk = SimDisk()
    store = mount(disk)
    log = store.log(NAME, Retain(segment_ms=100))
    for at_ms in (1_000, 1_100, 1_050, 1_101, 1_150, 1_300):
        store.append(log, batch("text", at_ms))
        flush(store, disk)
    assert [segment.base_offset for segment in log.segments] == [0, 3, 5]


def test_one_flush_ends_one_segment_by_its_age_however_far_apart_its_records_are() -> None:
    disk = SimDisk()
    store = mount(disk)
    log = store.log(NAME, Retain(segment_ms=1))
    for round_number in range(3):
        for number in range(10):
            store.append(log, batch("text", 1_000 * (1 + 10 * round_number + number)))
        flush(store, disk)
    assert [segment.base_offset for segment in log.segments] == [0, 10, 20]


def test_batches_without_timestamps_end_no_segment() -> None:
    disk = SimDisk()
    store = mount(disk)
    log = store.log(NAME, Retain(segment_ms=100))
    for at_ms in (-1, 1_000, -1, 1_000, -1):
        store.append(log, batch("text", at_ms))
    assert [segment.base_offset for segment in log.segments] == [0]


@pytest.mark.parametrize("spoil", [None, "index", "timeindex"])
def test_the_age_of_a_segment_taken_over_is_known_without_its_index_in_memory(spoil: str | None) -> None:
    disk = SimDisk()
    store = mount(disk, BIG)
    policy = Retain(segment_bytes=40_000)
    for number in range(600):
        store.append(store.log(NAME, policy), batch("text" * 40, 5_000 - abs(number - 50)))
    flush(store, disk)
    assert store.close()
    if spoil is not None:
        disk.remove(f"data/{NAME}/00000000000000000000.{spoil}")
    first = mount(disk, BIG).log(NAME).segments[0]
    assert first.newest_ms() == 5_000
    assert (first.entries == 0) == (spoil is None)
    assert first.find_time(5_000) is not None
    assert first.find_time(5_001) is None


class DroppingStory:
    """Appends, and drops what is oldest. `dropped`: where the log begins; `noted`: where it begins for certain."""

    def __init__(self, disk: SimDisk) -> None:
        self.disk = disk
        self.asked: list[str] = []
        self.acknowledged = 0
        self.dropped = self.noted = 0

    def run(self) -> None:
        store = mount(self.disk)
        for round_number in range(14):
            for _ in range(3):
                text = f"{len(self.asked):04d}" * 70
                append(store, NAME, text)
                self.asked.append(text)
            flush(store, self.disk)
            self.acknowledged = len(self.asked)
            if round_number % 3 == 2:
                store.drop(store.log(NAME), 9 if round_number == 8 else 2)
                self.dropped = store.log(NAME).start_offset
            work(store, self.disk)
            if all(base >= self.dropped for base in bases_on_disk(self.disk)):
                self.noted = self.dropped
        store.close()

    def check(self, store: LogStore) -> None:
        log = store.log(NAME)
        assert self.noted <= log.start_offset <= self.dropped
        texts = [
            (record.value or b"").decode()
            for _header, view in log.batches_from(log.start_offset)
            for record in decode_batch(view)
        ]
        assert texts == self.asked[log.start_offset : log.next_offset]
        assert log.next_offset >= self.acknowledged
        assert all(base >= log.start_offset for base in bases_on_disk(self.disk))


def crashed(seed: int, operation: int) -> Iterator[DroppingStory]:
    disk = SimDisk(seed)
    disk.crash_before = operation
    story = DroppingStory(disk)
    try:
        story.run()
    except Crash:
        disk.crash()
        yield story


@pytest.mark.parametrize("seed", range(2))
def test_a_crash_before_any_operation_leaves_a_log_that_is_whole_from_its_start(seed: int) -> None:
    disk = SimDisk(0)
    whole = DroppingStory(disk)
    whole.run()
    assert whole.noted == whole.dropped > 20, "it drops nothing"
    for operation in range(1, disk.operations + 1):
        for story in crashed(seed * 10_000 + operation, operation):
            story.check(mount(story.disk, LIMITS))
