"""The number of files that a store has open; closing one never closes another owner's."""

import errno
import os
from collections.abc import Callable
from random import Random

import pytest

from partition_log.disk.open_files import OpenFiles
from partition_log.log.partition_log import PartitionLog
from partition_log.store.jobs import CheckpointJob
from partition_log.store.log_store import LogStore, StoreLimits
from protocol.record_batch import decode_batch
from tests.partition_log.stories import append, everything, flush, mount, work
from tests.simulation.disk import SimDisk

FEW = StoreLimits(4096, checkpoint_bytes=6000, max_batch_bytes=3000, spill_bytes=600, open_files=4, unsynced_files=2)


class StingyDisk(SimDisk):
    """A disk with few handles, the lowest free number first, as on a real one; `meanwhile` is called before each
    operation of a job."""

    def __init__(self, seed: int = 0, most: int = 1000) -> None:
        super().__init__(seed)
        self.most = most
        self.meanwhile: Callable[[], None] | None = None

    def _open(self, operation: str, path: str, *, make: bool) -> int:
        self._interrupt()
        if len(self._handles) >= self.most:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), path)
        file = self._handles.pop(super()._open(operation, path, make=make))
        handle = next(number for number in range(3, 10_000) if number not in self._handles)
        self._handles[handle] = file
        return handle

    def write_at(self, handle: int, position: int, data: bytes) -> None:
        self._interrupt()
        super().write_at(handle, position, data)

    def sync(self, handle: int) -> None:
        self._interrupt()
        super().sync(handle)

    @property
    def open_files(self) -> int:
        return len(self._handles)

    def _interrupt(self) -> None:
        meanwhile, self.meanwhile = self.meanwhile, None
        if meanwhile is not None:
            meanwhile()
            self.meanwhile = meanwhile


def run(job: CheckpointJob, disk: StingyDisk, meanwhile: Callable[[], None]) -> None:
    disk.meanwhile = meanwhile
    try:
        job.run(disk)
    finally:
        disk.meanwhile = None


def test_only_the_files_used_last_are_kept_open() -> None:
    disk = SimDisk()
    disk.make_folder("x")
    for name in ("a", "b", "c"):
        disk.close(disk.open(f"x/{name}"))
    disk.journal = []
    files = OpenFiles(disk, 2)
    for owner in ("a", "b", "a", "c", "a", "b"):
        files.size(owner, f"x/{owner}")
    opened = [line.removeprefix("open_to_read ") for line in disk.journal if line.startswith("open")]
    assert opened == ["x/a", "x/b", "x/c", "x/b"]
    assert len(files) == 2
    files.close("b")
    files.close("b")
    files.close_all()
    assert len(files) == 0


def test_a_reader_makes_do_with_fewer_files_where_others_have_taken_them() -> None:
    disk = StingyDisk(most=2)
    disk.make_folder("x")
    files = OpenFiles(disk, 5)
    for name in ("a", "b", "c"):
        disk.close(disk.open(f"x/{name}"))
    for owner in ("a", "b", "c"):
        assert files.size(owner, f"x/{owner}") == 0
    files.close_all()
    handles = [disk.open("x/a"), disk.open("x/b")]
    with pytest.raises(OSError, match="Too many open files"):
        files.size("a", "x/a")
    for handle in handles:
        disk.close(handle)


@pytest.mark.parametrize("open_files", [1, 3, 100])
def test_a_reader_takes_no_file_from_a_checkpoint_under_way(open_files: int) -> None:
    disk = StingyDisk()
    limits = StoreLimits(65536, checkpoint_bytes=10**6, max_batch_bytes=3000, spill_bytes=600, open_files=open_files)
    store = mount(disk, limits)
    for number in range(40):
        append(store, "flights-0", f"{number:04d}" * 100)
        flush(store, disk)
    log = store.log("flights-0")
    assert len(log.segments) > 10
    job = store.begin_checkpoint(force=True)
    assert job is not None
    assert len(job.spills) > 3
    offsets = iter([*range(40), *range(40)] * 20)

    def read() -> None:
        assert log.read(next(offsets), 1)

    run(job, disk, read)
    store.finish_checkpoint(job)
    before = everything(store)
    disk.crash()
    assert everything(mount(disk, limits)) == before


def test_hundreds_of_logs_need_a_dozen_open_files() -> None:
    disk = StingyDisk(most=12)
    limits = StoreLimits(65536, checkpoint_bytes=10**6, max_batch_bytes=3000, open_files=5, unsynced_files=4)
    store = mount(disk, limits)
    for number in range(300):
        append(store, f"flights-{number}", "text")
    flush(store, disk)
    assert work(store, disk, force=True)
    for number in range(300):
        append(store, f"flights-{number}", "more")
    flush(store, disk)
    before = everything(store)
    assert len(before) == 300
    disk.crash()
    store = mount(disk, limits)
    assert everything(store) == before
    assert work(store, disk, force=True)
    assert store.close()
    assert disk.open_files == 0
    store = mount(disk, limits)
    assert everything(store) == before


class BusyStory:
    """Anything that a loop may do, also before every step of a checkpoint under way."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.disk = StingyDisk(seed, most=14)
        self.store: LogStore = mount(self.disk, FEW)
        self.texts: dict[str, list[str]] = {f"flights-{number}": [] for number in range(4)}
        self.written = 0
        self.counts = {"append": 0, "read": 0, "drop": 0, "remove": 0, "flush": 0}

    def run(self) -> None:
        for _ in range(60):
            for _ in range(self.random.randrange(1, 8)):
                self.act()
            self.checkpoint()
        self.act_of("flush")

    def checkpoint(self) -> None:
        job = self.store.begin_checkpoint(force=self.random.random() < 0.3)
        if job is not None:
            run(job, self.disk, self.sometimes)
            self.store.finish_checkpoint(job)

    def sometimes(self) -> None:
        while self.random.random() < 0.5:
            self.act()

    def act(self) -> None:
        self.act_of(self.random.choices(list(self.counts), (8, 8, 2, 1, 3))[0])

    def act_of(self, what: str) -> None:
        name = self.random.choice(list(self.texts))
        log = self.store.log(name)
        self.counts[what] += 1
        if what == "append":
            if not self.store.should_wait(800):
                self.written += 1
                text = f"{self.written:04d}" * 60
                append(self.store, name, text)
                self.texts[name].append(text)
        elif what == "read":
            self.check(log, self.random.randint(log.start_offset, log.next_offset))
        elif what == "drop":
            self.store.drop(log, log.expired(2_000, -1, 1_500))
        elif what == "remove":
            if isinstance(self.store.remove(name), int):
                self.texts[name] = []
        else:
            flush(self.store, self.disk)

    def check(self, log: PartitionLog, offset: int) -> None:
        read = [
            (record.value or b"").decode()
            for _header, view in log.batches_from(offset)
            for record in decode_batch(view)
        ]
        assert read == self.texts[log.name][offset:]


@pytest.mark.parametrize("seed", range(40))
def test_whatever_happens_while_a_checkpoint_is_under_way_nothing_is_lost(seed: int) -> None:
    story = BusyStory(seed)
    story.run()
    assert min(story.counts.values()) > 3, "it does not do everything"
    story.disk.crash()
    store = mount(story.disk, FEW)
    for name in story.texts:
        log = store.log(name)
        assert log.next_offset == len(story.texts[name])
        story.check(log, log.start_offset)
