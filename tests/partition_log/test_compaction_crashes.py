"""A log is written, cleaned, cut short and started again, and the machine stops before every operation on the disk: the
last acknowledged value of every key is there, whatever the cleaning had come to."""

from random import Random

import pytest

from partition_log.cleanup_policy import Compact
from partition_log.compaction.cleaner import Cleaner
from partition_log.store.log_store import Appended, LogStore, StoreLimits
from protocol.record_batch import decode_batch, encode_batch
from tests.enumerations import SHARE, some
from tests.partition_log.stories import contents, flush, mount, work
from tests.simulation.disk import Crash, SimDisk

NAME = "compacted-0"
POLICY = Compact(segment_bytes=700, delete_retention_ms=2_000)
LIMITS = StoreLimits(wal_segment_bytes=8_192, checkpoint_bytes=6_000, max_batch_bytes=3_000, spill_bytes=600)
CHUNKS = 8

Values = dict[bytes, bytes | None]


class CleaningStory:
    """Requests of a store that is cleaned, and those that were promised."""

    def __init__(self, disk: SimDisk, seed: int) -> None:
        self.disk = disk
        self.random = Random(seed)
        self.safe: Values = {}
        self.asked: list[tuple[bytes, bytes | None]] = []
        self.wall_ms = 10_000
        self.cleanings = 0

    def run(self) -> None:
        store = self._mount()
        for round_number in range(14):
            for _ in range(self.random.randrange(3, 9)):
                self._put(store)
            self._flush(store)
            work(store, self.disk)
            if round_number % 3 == 2:
                self._clean(store)
            if round_number == 7:
                store.close()
                store = self._mount()
            self.wall_ms += 500
        store.close()

    def _mount(self) -> LogStore:
        store = mount(self.disk, LIMITS)
        store.log(NAME, POLICY)
        return store

    def _put(self, store: LogStore) -> None:
        key = b"k%d" % self.random.randrange(6)
        value = None if self.random.random() < 0.3 else b"%d" % len(self.asked) * self.random.randrange(1, 40)
        batch = encode_batch([(key, value)], timestamp_ms=self.wall_ms)
        while not isinstance(store.append(store.log(NAME), batch), Appended):
            assert work(store, self.disk, force=True)
        self.asked.append((key, value))

    def _flush(self, store: LogStore) -> None:
        flush(store, self.disk)
        self.safe |= dict(self.asked)
        self.asked = []

    def _clean(self, store: LogStore) -> None:
        work(store, self.disk, force=True)
        cleaner = Cleaner(store, slice_bytes=400, map_bytes=10**6, backoff_ms=15_000)
        while cleaner.run(lambda: [store.log(NAME)], self.wall_ms) == 1:
            work(store, self.disk)
        self.cleanings += cleaner.done.passes

    def check(self) -> None:
        """Check that the log holds what was acknowledged, and perhaps some later requests."""
        store = self._mount()
        contents(store.log(NAME))
        found = values_of(store)
        possible = [dict(self.safe)]
        for key, value in self.asked:
            possible.append(possible[-1] | {key: value})
        assert any(found == living(values) for values in possible)
        self.asked = []
        for _ in range(20):  # and life goes on
            self._put(store)
            found |= dict(self.asked)
        self._flush(store)
        self._clean(store)
        assert values_of(store) == living(found)


def living(values: Values) -> Values:
    return {key: value for key, value in values.items() if value is not None}


def values_of(store: LogStore) -> Values:
    log = store.log(NAME)
    found: Values = {}
    for _header, data in log.batches_from(log.start_offset):
        found |= {record.key or b"": record.value for record in decode_batch(data)}
    return living(found)


def operations_of(seed: int) -> list[str]:
    disk = SimDisk(seed)
    disk.journal = []
    story = CleaningStory(disk, seed)
    story.run()
    assert story.cleanings >= 3, "or the story tells nothing"
    return disk.journal


def test_the_story_replaces_segments_and_drops_tombstones() -> None:
    told = [operation.split(".")[-1] for operation in operations_of(1)]
    assert told.count("cleaned") > 5 and told.count("swap") > 5


@pytest.mark.parametrize("chunk", range(0, CHUNKS, SHARE))
@pytest.mark.parametrize("seed", [1, 2])
def test_a_crash_before_any_operation_loses_nothing(seed: int, chunk: int) -> None:
    total = len(operations_of(seed))
    assert total > 300
    for before in range(1 + chunk, total + 1, CHUNKS):
        crash(SimDisk(seed * 100_000 + before), seed, before)


def crash(disk: SimDisk, seed: int, before: int) -> None:
    story = CleaningStory(disk, seed)
    disk.crash_before = before
    with pytest.raises(Crash):
        story.run()
    disk.crash()
    story.check()


@pytest.mark.parametrize("seed", [1, 2])
def test_names_of_a_replacement_may_reach_the_disk_in_any_order(seed: int) -> None:
    operations = operations_of(seed)
    begins = [at for at, told in enumerate(operations) if told.startswith("rename") and told.endswith(".cleaned")]
    ends = [at for at, told in enumerate(operations) if told.startswith("rename") and told.endswith(".swap")]
    assert len(begins) == len(ends) > 3
    for begin, end in zip(begins, ends, strict=True):
        for before in range(begin + 2, end + 4):
            for fate in some(range(8)):
                disk = SimDisk(before * 100 + fate)
                disk.keeps_any_names = True
                crash(disk, seed, before)
