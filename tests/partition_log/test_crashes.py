"""A story is crashed before every one of its operations on the disk: what was acknowledged is there, what was never
written is not, and a node that starts again goes on.
"""

import errno
import itertools
from collections.abc import Iterator
from contextlib import suppress
from random import Random

import pytest

from partition_log.cleanup_policy import Retain
from partition_log.errors import LogDamaged, SyncFailed
from partition_log.store.log_store import Appended, CheckpointJob, FlushJob, LogStore
from protocol.record_batch import decode_batch
from tests.enumerations import SHARE, share_of
from tests.partition_log.stories import SMALL, append, batch, contents, everything, flush, mount, work
from tests.simulation.disk import Crash, SimDisk


class Story:
    """Requests of a store, and its promises. Texts are unique, so that every batch is."""

    def __init__(self, disk: SimDisk) -> None:
        self.disk = disk
        self.acknowledged: dict[str, list[str]] = {}
        self.asked: dict[str, list[str]] = {}
        self.removed: str | None = None  # asked to be, and not yet acknowledged
        self.before_removal: list[str] = []
        self.number = 0

    def run(self) -> None:
        """Begins with an empty disk, crashes wherever it is told to."""
        store = mount(self.disk)
        for round_number in range(12):
            self._append(store, "flights-0", 40)
            self._append(store, "flights-1", 300)
            if round_number % 3 == 0:
                self._append(store, "__consumer_offsets-7", 900)
            self._flush(store)
            work(store, self.disk)
            if round_number == 5:
                self._remove(store, "flights-1")
                self._append(store, "flights-1", 20)
                self._flush(store)
                work(store, self.disk)
            if round_number == 8:
                self._flush(store)
                store.close()
                store = mount(self.disk)
        store.close()

    def _append(self, store: LogStore, name: str, size: int) -> None:
        self.number += 1
        text = f"{self.number:04d}" * (size // 4)
        while not isinstance(store.append(store.log(name, SMALL), batch(text)), Appended):
            assert work(store, self.disk), "no room, and nothing to be done about it"
        self.asked.setdefault(name, []).append(text)

    def _remove(self, store: LogStore, name: str) -> None:
        self.removed = name
        assert isinstance(store.remove(name), int)
        self.before_removal, self.asked[name] = self.asked[name], []

    def _flush(self, store: LogStore) -> None:
        flush(store, self.disk)
        self.removed = None
        self.acknowledged = {name: list(texts) for name, texts in self.asked.items()}

    def check(self, store: LogStore) -> None:
        """Every log holds what was acknowledged, then perhaps more of what was asked for, in order, and no more. One
        that was being removed may also be as it was.
        """
        found = {name: texts_of(store, name) for name in store.names()}
        for name in {**self.acknowledged, **found}:
            texts, safe, asked = found.get(name, []), self.acknowledged.get(name, []), self.asked.get(name, [])
            fits = _grew(safe, texts, asked)
            if name == self.removed:
                fits = _grew([], texts, asked) or _grew(safe, texts, self.before_removal)
            assert fits, f"{name} holds {texts}; {safe} was acknowledged, {asked} asked for"


def _grew(safe: list[str], texts: list[str], asked: list[str]) -> bool:
    return texts[: len(safe)] == safe and texts == asked[: len(texts)]


class RandomStory(Story):
    """Requests at random: flushes and checkpoints overlap, logs are removed at any moment."""

    def __init__(self, disk: SimDisk, random: Random) -> None:
        super().__init__(disk)
        self.random = random
        self.flushing: tuple[FlushJob, dict[str, list[str]], str | None] | None = None
        self.checkpointing: CheckpointJob | None = None

    def run(self) -> None:
        store = mount(self.disk)
        actions = [self._append_one] * 6 + [self._begin_flush, self._end_flush] * 2
        actions += [self._begin_checkpoint, self._end_checkpoint] * 2 + [self._remove_one]
        for _ in range(150):
            self.random.choice(actions)(store)

    def _append_one(self, store: LogStore) -> None:
        name = self.random.choice(["flights-0", "flights-1", "__consumer_offsets-7"])
        text = f"{self.number:04d}" * self.random.choice([1, 20, 150, 400])
        if isinstance(store.append(store.log(name, SMALL), batch(text)), Appended):
            self.number += 1
            self.asked.setdefault(name, []).append(text)

    def _remove_one(self, store: LogStore) -> None:
        name = self.random.choice(["flights-0", "flights-1"])
        if self.removed is None and self.flushing is None and isinstance(store.remove(name), int):
            self.removed = name
            self.before_removal, self.asked[name] = self.asked.get(name, []), []

    def _begin_flush(self, store: LogStore) -> None:
        job = store.begin_flush()
        if job is not None:
            self.flushing = (job, {name: list(texts) for name, texts in self.asked.items()}, self.removed)

    def _end_flush(self, store: LogStore) -> None:
        if self.flushing is None:
            return
        job, promised, removed = self.flushing
        job.run(self.disk)
        store.finish_flush(job.up_to)
        self.flushing, self.acknowledged = None, promised
        if self.removed == removed:
            self.removed = None

    def _begin_checkpoint(self, store: LogStore) -> None:
        self.checkpointing = store.begin_checkpoint(force=self.random.random() < 0.3) or self.checkpointing

    def _end_checkpoint(self, store: LogStore) -> None:
        if self.checkpointing is not None:
            self.checkpointing.run(self.disk)
            store.finish_checkpoint(self.checkpointing)
            self.checkpointing = None


def texts_of(store: LogStore, name: str) -> list[str]:
    log = store.log(name)
    found: list[str] = []
    for header, view in log.batches_from(log.start_offset):
        assert header.base_offset == len(found)
        found += [(record.value or b"").decode() for record in decode_batch(view)]
    assert log.next_offset == log.flushed_offset == len(found)
    return found


def operations_of_the_story() -> list[str]:
    disk = SimDisk(0)
    disk.journal = []
    Story(disk).run()
    return disk.journal


JOURNAL = operations_of_the_story()
OPERATIONS = len(JOURNAL)
SYNCS = [number for number, line in enumerate(JOURNAL, 1) if line.startswith("sync ")]


def crashed(seed: int, operation: int) -> Iterator[Story]:
    disk = SimDisk(seed)
    disk.crash_before = operation
    story = Story(disk)
    try:
        story.run()
    except Crash:
        disk.crash()
        yield story


@pytest.mark.parametrize("seed", range(4))
def test_a_crash_before_any_operation_loses_nothing_that_was_acknowledged(seed: int) -> None:
    for operation in range(1 + seed % SHARE, OPERATIONS + 1, SHARE):
        for story in crashed(seed * 10_000 + operation, operation):
            store = mount(story.disk)
            story.check(store)
            before = everything(store)
            append(store, "after-0", "after")
            flush(store, story.disk)
            story.disk.crash()
            again = mount(story.disk)
            assert len(texts_of(again, "after-0")) == 1
            assert {name: data for name, data in everything(again).items() if name != "after-0"} == before


def test_a_crash_while_recovering_from_a_crash_loses_nothing_either() -> None:
    for operation in range(3, OPERATIONS, 7):
        for story in crashed(operation, operation):
            for step in range(1, 400):
                story.disk.crash_before = story.disk.operations + step * 3
                try:
                    store = mount(story.disk)
                except Crash:
                    story.disk.crash()
                    continue
                story.disk.crash_before = None
                story.check(store)
                break
            else:
                pytest.fail("recovery never came to an end")


@pytest.mark.parametrize("dies_of_it", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_a_process_is_killed_and_its_machine_stops_while_the_next_one_starts(seed: int, dies_of_it: bool) -> None:
    """Bytes that the first wrote and did not sync are there for the second, and may be gone for the third. The first
    may have ended for a failed sync, after which another sync finds nothing to do."""
    for operation in SYNCS[seed::4] if dies_of_it else range(3 + seed, OPERATIONS, 20):
        story = killed(seed * 10_000 + operation, operation, dies_of_it=dies_of_it)
        for step in range(1 + operation % SHARE, 400, SHARE):
            disk = story.disk.clone()
            disk.crash_before = disk.operations + step
            try:
                mount(disk)
            except Crash:
                disk.crash()
            else:
                break
            store = mount(disk)
            story.check(store)
        else:
            pytest.fail("recovery never came to an end")


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC, errno.EDQUOT])
def test_any_sync_that_fails_ends_the_process_and_the_next_start_has_all_that_was_acknowledged(code: int) -> None:
    """Syncs of files and folders fail, with any error number, at a start too; the machine may stop after it."""
    for operation in (number for number, line in enumerate(JOURNAL, 1) if line.startswith("sync")):
        disk = SimDisk(operation)
        disk.fail_at, disk.fail_code = operation, code
        story = Story(disk)
        with pytest.raises(SyncFailed):
            story.run()
        disk.kill()
        for ends in (disk.kill, disk.crash):
            story.check(mount(disk))
            ends()
        story.check(mount(disk))


def test_so_does_one_that_starts_on_a_disk_too_full_for_a_write_and_gets_room_later() -> None:
    for operation in SYNCS[2:]:
        story = killed(operation, operation)
        for step in (6, 12, 18, 1_000):
            disk = story.disk.clone()
            disk.fail_next(errno.ENOSPC, "write_at", times=1_000)
            try:
                store = mount(disk)
            except OSError:
                break  # nothing can be made durable, and something must be
            assert store.disk_full
            disk.heal()
            disk.crash_before = disk.operations + step
            with suppress(Crash):
                work(store, disk, force=True)
            disk.crash()
            story.check(mount(disk))


def killed(seed: int, operation: int, *, dies_of_it: bool = False) -> Story:
    """Before the operation, or because it failed."""
    disk = SimDisk(seed)
    if dies_of_it:
        disk.fail_at = operation
    else:
        disk.crash_before = operation
    story = Story(disk)
    with suppress(Crash, OSError, LogDamaged):
        story.run()
    disk.kill()
    disk.fail_at = None
    return story


@pytest.mark.parametrize("block", range(6))
def test_overlapping_flushes_and_checkpoints_lose_nothing_in_a_crash_at_any_moment(block: int) -> None:
    for seed in range(block * 50, block * 50 + share_of(50)):
        random = Random(seed)
        disk = SimDisk(seed)
        for _ in range(4):  # a life, a crash, and another on what is left
            disk.crash_before = disk.operations + random.randrange(5, 300)
            story = RandomStory(disk, random)
            if disk.list("data"):
                disk.crash_before, planned = None, disk.crash_before
                before = mount(disk)
                story.asked = {name: texts_of(before, name) for name in before.names()}
                story.acknowledged = {name: list(texts) for name, texts in story.asked.items()}
                story.number = random.randrange(1000, 9000)
                assert before.close()
                disk.crash_before = planned
            with suppress(Crash):
                story.run()
            disk.crash()
            story.check(mount(disk))
            disk.crash()


def test_the_crashes_of_this_file_lost_kept_and_tore_writes_and_forgot_names() -> None:
    counts = {"lost": 0, "kept": 0, "torn": 0, "names": 0}
    for operation in range(1, OPERATIONS + 1, 5):
        for story in crashed(operation, operation):
            for kind, count in story.disk.counts.items():
                counts[kind] += count
    assert all(counts.values()), counts


@pytest.mark.parametrize("seed", range(4))
def test_what_a_killed_start_removed_does_not_come_back_within_the_log(seed: int) -> None:
    """A start makes what is in no checkpoint again, here in the first segment, and removes the other ones. If it is
    killed before its checkpoint, the next start finds nothing to remove, and must sync the removal all the same."""
    disk = SimDisk(seed)
    store = mount(disk)
    append(store, "flights-0", "first")
    flush(store, disk)
    work(store, disk, force=True)
    small = store.log("flights-0", Retain(segment_bytes=600))
    for number in range(3):
        store.append(small, batch(f"{number}" * 300))
    flush(store, disk)
    whole = contents(small)
    job = store.begin_checkpoint(force=True)
    assert job is not None
    disk.fail_next(errno.EIO, "rename")
    with pytest.raises(OSError, match="Input/output"):
        job.run(disk)
    assert len(_segments(disk)) > 1, "they are in no checkpoint"
    disk.kill()
    for operation in itertools.count(1):
        life = disk.clone()
        life.crash_before = life.operations + operation
        is_killed = not _is_mounted(life)
        life.kill()
        work(mount(life), life, force=True)
        life.crash()
        assert contents(mount(life).log("flights-0")) == whole, operation
        if not is_killed:
            break


def _is_mounted(disk: SimDisk) -> bool:
    try:
        mount(disk)
    except Crash:
        return False
    return True


def _segments(disk: SimDisk) -> list[str]:
    return [name for name in disk.list("data/flights-0") if name.endswith(".log")]
