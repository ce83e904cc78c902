"""A node's data folder: appends and marks, a full disk, removal, identity, what is due when."""

import errno
from itertools import pairwise

import pytest

from partition_log.cleanup_policy import Compact, Retain
from partition_log.errors import AppendError, FolderInUse, LogDamaged
from partition_log.store.identity import NodeIdentity
from partition_log.store.jobs import FlushJob
from partition_log.store.log_store import Appended, LogStore, StoreLimits
from protocol.record_batch import decode_batch, encode_batch, read_header
from tests.partition_log.stories import LIMITS, append, batch, contents, everything, flush, mount, work
from tests.simulation.disk import SimDisk

QUIET = StoreLimits(wal_segment_bytes=65536, checkpoint_bytes=1 << 30, max_batch_bytes=30_000)


def is_full(store: LogStore) -> bool:
    return store.disk_full


def test_an_append_says_where_it_stands_and_a_flush_makes_it_durable() -> None:
    disk = SimDisk()
    store = mount(disk)
    log = store.log("flights-3")
    three = encode_batch([(None, b"a"), (None, b"b"), (None, b"c")], timestamp_ms=5, leader_epoch=7)
    first, second = store.append(log, three), store.append(log, three)
    assert isinstance(first, Appended)
    assert isinstance(second, Appended)
    assert (first.base_offset, first.next_offset) == (0, 3)
    assert (second.base_offset, second.next_offset) == (3, 6)
    assert store.flushed < first.position < second.position == store.position
    assert (log.next_offset, log.flushed_offset) == (6, 0)
    assert flush(store, disk) == [log]
    assert log.flushed_offset == 6
    assert store.flushed >= store.position
    assert [record.offset for record in decode_batch(log.read(3, 1))] == [3, 4, 5]
    assert read_header(log.read(3, 1)).partition_leader_epoch == 0


def test_one_flush_at_a_time_and_what_arrives_meanwhile_is_in_the_next() -> None:
    disk = SimDisk()
    store = mount(disk)
    first = append(store, "flights-0", "first")
    job = store.begin_flush()
    assert isinstance(job, FlushJob)
    second = append(store, "flights-0", "second")
    assert store.begin_flush() is None
    job.run(disk)
    store.finish_flush(job.up_to)
    assert first.position <= store.flushed < second.position
    assert store.log("flights-0").flushed_offset == 1
    flush(store, disk)
    assert store.flushed >= second.position
    assert store.begin_flush() is None


def test_what_nobody_waits_for_is_flushed_with_what_somebody_waits_for_or_when_that_is_told() -> None:
    disk = SimDisk()
    store = mount(disk)
    append(store, "flights-0", "awaited")
    notes = store.log("notes-0")

    def defer(text: str) -> int:
        begins = store.position
        assert isinstance(store.append(notes, batch(text)), Appended)
        store.deferral.deferred(begins, store.position)
        return store.position

    job = store.begin_flush()
    assert job is not None
    while_flushing = [defer("while a flush is under way"), defer("twice")]
    job.run(disk)
    store.finish_flush(job.up_to)
    assert store.deferral.awaited(store.position) <= store.flushed < while_flushing[0]
    assert store.begin_flush() is None, "nobody waits"
    append(store, "flights-0", "awaited")
    after = defer("behind what somebody waits for")
    assert store.deferral.awaited(store.position) == store.position
    flush(store, disk)
    assert store.flushed >= after
    alone = defer("alone")
    assert store.begin_flush() is None
    store.deferral.end()
    flush(store, disk)
    assert store.flushed >= alone
    assert store.begin_flush() is None


def test_what_is_in_memory_is_read_as_what_is_in_files() -> None:
    disk = SimDisk()
    store = mount(disk, QUIET)
    texts = []
    for number in range(30):
        append(store, "flights-0", f"{number:05d}" * 20)
        texts.append(contents(store.log("flights-0")))
        if number % 7 == 3:
            job = store.begin_flush()
            assert job is not None
            append(store, "flights-0", "under way")
            during = contents(store.log("flights-0"))
            job.run(disk)
            store.finish_flush(job.up_to)
            assert contents(store.log("flights-0")) == during
    assert all(later.startswith(earlier) for earlier, later in pairwise(texts))


def test_a_log_leaves_no_trace_before_its_first_batch() -> None:
    disk = SimDisk()
    store = mount(disk)
    before = disk.operations
    for number in range(50):
        store.log(f"__consumer_offsets-{number}", Compact())
    assert disk.operations == before
    assert store.names() == []
    assert store.close()
    assert disk.list("data") == ["LOCK", "node.toml", "wal"]


def test_a_clean_stop_leaves_whole_logs_and_nothing_to_replay() -> None:
    disk = SimDisk()
    store = mount(disk)
    for number in range(20):
        append(store, f"flights-{number % 3}", f"{number}" * 50)
        flush(store, disk)
        work(store, disk)
    expected = everything(store)
    assert store.close()
    disk.crash()
    for name, data in expected.items():
        files = [file for file in disk.list(f"data/{name}") if file.endswith(".log")]
        assert b"".join(bytes(disk.file(f"data/{name}/{file}").data) for file in files) == data
    store = LogStore(disk, "data", LIMITS)
    report = store.open()
    assert (report.frames, report.torn, report.logs, report.first_start) == (0, None, 3, False)
    assert everything(store) == expected


def test_a_batch_beyond_the_limit_is_refused_and_nothing_changes() -> None:
    disk = SimDisk()
    store = mount(disk)
    log = store.log("flights-0")
    large = batch("x" * 3000)
    position = store.position
    assert store.append(log, large) is AppendError.RECORD_TOO_LARGE
    assert store.append(log, batch("x" * 5000), must_fit=False) is AppendError.RECORD_TOO_LARGE
    assert (store.position, log.next_offset, store.begin_flush()) == (position, 0, None)
    assert isinstance(store.append(log, large, must_fit=False), Appended)


def test_appends_are_refused_before_anything_is_applied_while_there_is_no_next_segment() -> None:
    disk = SimDisk()
    store = mount(disk)
    log = store.log("flights-0")
    while isinstance(store.append(log, batch("x" * 500)), Appended):
        flush(store, disk)
    end, position = log.next_offset, store.position
    assert store.append(log, batch("x" * 500)) is AppendError.DISK_FULL
    assert (log.next_offset, store.position) == (end, position)
    assert work(store, disk)
    assert isinstance(store.append(log, batch("x" * 500)), Appended)


def test_a_full_disk_refuses_appends_until_a_checkpoint_succeeds_again() -> None:
    disk = SimDisk()
    store = mount(disk, QUIET)
    log = store.log("flights-0")
    append(store, "flights-0", "safe")
    disk.fail_next(errno.ENOSPC, "write_at")
    assert work(store, disk, force=True)
    assert is_full(store)
    assert store.append(log, batch("refused")) is AppendError.DISK_FULL
    assert store.begin_checkpoint() is None
    flush(store, disk)
    assert log.flushed_offset == 1, "a flush meets no full disk"
    assert work(store, disk, force=True)
    assert not is_full(store)
    append(store, "flights-0", "goes on")
    flush(store, disk)
    expected = everything(store)
    disk.crash()
    assert everything(mount(disk, QUIET)) == expected


@pytest.mark.parametrize("operation", ["open", "make_folder", "write_at", "rename", "truncate"])
def test_a_disk_that_fills_up_anywhere_in_a_checkpoint_loses_nothing(operation: str) -> None:
    disk = SimDisk()
    store = mount(disk)
    for number in range(6):
        append(store, f"flights-{number % 2}", f"{number}" * 100)
    flush(store, disk)
    expected = everything(store)
    disk.fail_next(errno.ENOSPC, operation)
    work(store, disk, force=True)
    assert is_full(store)
    assert everything(store) == expected
    while is_full(store) or work(store, disk):
        disk.heal()
        work(store, disk, force=True)
    append(store, "flights-0", "after")
    flush(store, disk)
    expected = everything(store)
    disk.crash()
    assert everything(mount(disk)) == expected


def test_a_full_disk_during_a_spill_keeps_the_bytes_in_memory_and_the_promise() -> None:
    disk = SimDisk()
    store = mount(disk)
    for _ in range(3):
        append(store, "flights-0", "x" * 400)
    job = store.begin_flush()
    assert job is not None
    job.run(disk)
    store.finish_flush(job.up_to)
    spilling = store.begin_checkpoint()
    assert spilling is not None
    assert spilling.spills and spilling.checkpoint is None
    real = disk.open

    def fill(path: str, *, make: bool = True) -> int:
        if path == spilling.spills[0].path:
            raise OSError(errno.ENOSPC, "full")
        return real(path, make=make)

    disk.open = fill  # type: ignore[method-assign]
    spilling.run(disk)
    store.finish_checkpoint(spilling)
    assert is_full(store)
    expected = everything(store)
    assert store.log("flights-0").flushed_offset == 3
    disk.open = real  # type: ignore[method-assign]
    disk.crash()
    assert everything(mount(disk)) == expected


@pytest.mark.parametrize("operation", ["write_at", "sync"])
def test_a_flush_that_fails_raises_because_nothing_is_known_after_it(operation: str) -> None:
    disk = SimDisk()
    store = mount(disk)
    append(store, "flights-0", "x")
    job = store.begin_flush()
    assert job is not None
    disk.fail_next(errno.EIO, operation)
    with pytest.raises(OSError, match="Input/output"):
        job.run(disk)


def test_a_removed_log_stays_removed_and_its_name_begins_anew() -> None:
    disk = SimDisk()
    store = mount(disk)
    for _ in range(8):
        append(store, "flights-0", "old" * 100)
    append(store, "flights-1", "stays")
    flush(store, disk)
    work(store, disk, force=True)
    position = store.remove("flights-0")
    assert position == store.position
    assert store.names() == ["flights-1"]
    assert append(store, "flights-0", "new").base_offset == 0
    flush(store, disk)
    expected = everything(store)
    disk.crash()
    store = mount(disk)
    assert everything(store) == expected
    assert store.log("flights-0").next_offset == 1


def test_removing_a_log_deletes_its_folder_once_that_is_durable() -> None:
    disk = SimDisk()
    store = mount(disk)
    append(store, "flights-0", "old" * 300)
    flush(store, disk)
    work(store, disk, force=True)
    assert "flights-0" in disk.list("data")
    store.remove("flights-0")
    work(store, disk, force=True)
    assert "flights-0" in disk.list("data")
    flush(store, disk)
    assert work(store, disk)
    assert "flights-0" not in disk.list("data")
    assert store.close()
    assert store.remove("flights-0") == store.flushed


def test_removing_what_is_not_there_needs_no_waiting() -> None:
    store = mount(SimDisk())
    store.log("flights-0")
    assert store.remove("flights-0") == store.remove("nothing-1") == store.flushed


def test_a_checkpoint_is_due_after_so_much_was_written_ahead() -> None:
    disk = SimDisk()
    store = mount(disk)
    work(store, disk)
    assert store.begin_checkpoint() is None
    start = store.position
    while store.position - start < LIMITS.checkpoint_bytes:
        append(store, "flights-0", "x" * 200)
        flush(store, disk)
        job = store.begin_checkpoint()
        if job is not None:
            job.run(disk)
            store.finish_checkpoint(job)
            if job.checkpoint is not None:
                break
    assert LIMITS.checkpoint_bytes <= store.position - start < LIMITS.checkpoint_bytes + 1000


def test_a_checkpoint_and_a_flush_may_be_under_way_together() -> None:
    disk = SimDisk()
    store = mount(disk)
    for number in range(40):
        append(store, f"flights-{number % 2}", f"{number:03d}" * 60)
        flush_job = store.begin_flush()
        append(store, f"flights-{number % 2}", f"{number:03d}" * 30)
        checkpoint_job = store.begin_checkpoint(force=number % 5 == 0)
        append(store, f"flights-{number % 2}", "then")
        for job in (checkpoint_job, flush_job) if number % 2 else (flush_job, checkpoint_job):
            if job is not None:
                job.run(disk)
        if checkpoint_job is not None and number % 3:
            store.finish_checkpoint(checkpoint_job)
        assert flush_job is not None
        store.finish_flush(flush_job.up_to)
        if checkpoint_job is not None and not number % 3:
            store.finish_checkpoint(checkpoint_job)
    flush(store, disk)
    expected = everything(store)
    disk.crash()
    assert everything(mount(disk)) == expected


def test_the_folder_belongs_to_one_process_at_a_time() -> None:
    disk = SimDisk()
    store = mount(disk)
    with pytest.raises(FolderInUse):
        mount(disk)
    assert store.close()
    assert mount(disk).names() == []


def test_the_folder_remembers_whose_it_is() -> None:
    disk = SimDisk()
    first = LogStore(disk, "data", LIMITS, cluster_id='a "strange" one', node_id=7)
    assert first.open().first_start
    assert first.close()
    again = LogStore(disk, "data", LIMITS, cluster_id="another", node_id=8)
    assert not again.open().first_start
    assert again.identity == NodeIdentity('a "strange" one', 7)


def test_a_folder_of_another_format_is_refused() -> None:
    disk = SimDisk()
    assert mount(disk).close()
    text = bytes(disk.file("data/node.toml").data).replace(b"format = 1", b"format = 9")
    disk.damage("data/node.toml", 0, text)
    with pytest.raises(LogDamaged, match="format 9, only 1 is understood"):
        mount(disk)


def test_logs_without_a_checkpoint_are_not_taken_for_a_first_start() -> None:
    disk = SimDisk()
    store = mount(disk)
    append(store, "flights-0", "x")
    assert store.close()
    disk.remove("data/wal/checkpoint")
    with pytest.raises(LogDamaged, match="is missing, but there are logs"):
        mount(disk)


def test_a_log_that_ends_before_its_checkpoint_is_damaged() -> None:
    disk = SimDisk()
    store = mount(disk)
    for text in ("first", "second"):
        append(store, "flights-0", text)
    assert store.close()
    path = "data/flights-0/00000000000000000000.log"
    file = disk.file(path)
    file.change(len(file.data) - 3)
    file.sync()
    with pytest.raises(LogDamaged) as raised:
        mount(disk)
    assert (raised.value.file, raised.value.offset) == (path, 1)


@pytest.mark.parametrize("lost", range(8))
def test_a_batch_behind_the_end_whose_offset_was_lost_in_a_crash_is_cut_like_any_other(lost: int) -> None:
    """A block of the file ends within the offset of a batch that was not synced: the rest of the batch is sound, and
    its checksum too, since that does not cover the offset.
    """
    disk = SimDisk()
    store = mount(disk)
    for text in ("first", "second", "third"):
        append(store, "flights-0", text)
    assert store.close()
    path = "data/flights-0/00000000000000000000.log"
    file = disk.file(path)
    whole = contents(mount(disk.clone()).log("flights-0"))
    behind = file.data[-len(batch("third")) :]
    file.change((len(file.data), bytes(lost + 1) + bytes(behind[lost + 1 :])))
    file.sync()
    store = mount(disk)
    assert contents(store.log("flights-0")) == whole
    assert append(store, "flights-0", "fourth").base_offset == 3


@pytest.mark.parametrize("name", ["wal", "../x-1", "flights", "a/b-1", "", "x-1\n", "f" * 300 + "-1"])
def test_a_log_has_the_name_of_a_partition(name: str) -> None:
    store = mount(SimDisk())
    with pytest.raises(ValueError, match="no name for a log"):
        store.log(name)


def test_a_log_is_the_same_object_and_takes_the_policy_it_is_given() -> None:
    disk = SimDisk()
    store = mount(disk)
    append(store, "flights-0", "x")
    log = store.log("flights-0", Retain(retention_ms=5))
    assert store.log("flights-0") is log
    assert log.policy == Retain(retention_ms=5)


def left_by_a_crash(disk: SimDisk) -> dict[str, bytes]:
    """Return the content of a node that a crash left with much to do again."""
    store = mount(disk)
    for number in range(3):
        append(store, f"flights-{number}", "x" * 400)
    flush(store, disk)
    work(store, disk, force=True)
    for number in range(5):
        append(store, f"flights-{number}", "y" * 400)
    flush(store, disk)
    kept = everything(store)
    disk.crash()
    return kept


@pytest.mark.parametrize("operation", ["write_at", "make_folder", "open"])
@pytest.mark.parametrize("which", range(1, 12))
def test_a_start_on_a_full_disk_serves_readers_and_heals_when_there_is_room(operation: str, which: int) -> None:
    disk = SimDisk()
    kept = left_by_a_crash(disk)
    real, calls = getattr(disk, operation), iter(range(1, 10_000))

    def fill(*arguments: object, **named: object) -> object:
        if next(calls) >= which and not (operation == "open" and "making" not in str(arguments)):
            raise OSError(errno.ENOSPC, "full")
        return real(*arguments, **named)

    setattr(disk, operation, fill)
    if operation == "make_folder" and which <= 2:
        with pytest.raises(OSError, match="full"):
            mount(disk)
        return
    store = mount(disk)
    assert everything(store) == kept
    if store.disk_full:
        assert store.append(store.log("flights-0"), batch("no")) is AppendError.DISK_FULL
        assert work(store, disk, force=True) in (True, False)
    setattr(disk, operation, real)
    for _ in range(3):
        work(store, disk, force=store.disk_full)
    assert not is_full(store)
    append(store, "flights-0", "z")
    flush(store, disk)
    kept = everything(store)
    disk.crash()
    assert everything(mount(disk)) == kept


def test_a_full_disk_crashes_and_starts_again_and_again_without_losing_anything() -> None:
    disk = SimDisk()
    kept = left_by_a_crash(disk)
    for _ in range(4):
        disk.fail_next(errno.ENOSPC, "write_at", times=1000)
        store = mount(disk)
        assert is_full(store)
        assert everything(store) == kept
        work(store, disk, force=True)
        disk.crash()
    store = mount(disk)
    assert not is_full(store)
    assert everything(store) == kept
    assert store.close()


def test_what_makes_room_is_appended_on_a_full_disk_as_far_as_room_was_prepared() -> None:
    disk = SimDisk()
    store = mount(disk)
    append(store, "flights-0", "x" * 400)
    flush(store, disk)
    store.disk_full = True
    topics = store.log("topics-0")
    assert store.append(topics, batch("is gone")) is AppendError.DISK_FULL
    assert isinstance(store.append(topics, batch("is gone"), makes_room=True), Appended)
    assert isinstance(store.remove("flights-0"), int)
    flush(store, disk)
    while isinstance(answer := store.append(topics, batch("x" * 400), makes_room=True), Appended):
        flush(store, disk)
    assert answer is AppendError.DISK_FULL
    disk.crash()
    store = mount(disk)
    assert store.names() == ["topics-0"]


def test_what_recovery_makes_again_stands_in_segments_of_the_logs_own_size() -> None:
    disk = SimDisk()
    store = mount(disk)
    append(store, "flights-0", "first")
    flush(store, disk)
    work(store, disk, force=True)
    for number in range(5):
        append(store, "flights-0", f"{number}" * 500)
    flush(store, disk)
    made = [segment.base_offset for segment in store.log("flights-0").segments]
    disk.crash()
    again = mount(disk)
    assert len(made) > 2
    assert [segment.base_offset for segment in again.log("flights-0").segments] == made
