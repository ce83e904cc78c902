"""State of a log's idempotent producers, live and after it was opened again."""

from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from partition_log.cleanup_policy import Retain
from partition_log.log.partition_log import PartitionLog
from partition_log.producers.expiration import ProducerExpiration
from partition_log.producers.producer_state import PROTECTED_MS, ProducerEntry, Producers, StoredBatch, sequence_of
from partition_log.producers.sequence_check import SequenceRejection, validate_sequences
from partition_log.producers.snapshot_files import snapshot_name
from partition_log.store.log_store import Appended, CheckpointJob, LogStore, StoreLimits
from partition_log.wal.checkpoint import checkpoint_path
from protocol.record_batch import encode_batch
from tests.partition_log.stories import SMALL, flush, mount, work
from tests.simulation.disk import Crash, SimDisk

NAME = "flights-0"
LAST = 2**31 - 1


def batch(producer_id: int, first: int, count: int = 1, *, epoch: int = 0, text: str = "x") -> bytes:
    pairs = [(None, text.encode())] * count
    return encode_batch(pairs, timestamp_ms=5, producer_id=producer_id, producer_epoch=epoch, base_sequence=first)


def plain(count: int = 1) -> bytes:
    return encode_batch([(None, b"x")] * count, timestamp_ms=5)


def put(store: LogStore, *batches: bytes, name: str = NAME) -> PartitionLog:
    log = store.log(name, SMALL)
    for one in batches:
        assert isinstance(store.append(log, one), Appended)
    return log


def told(log: PartitionLog) -> dict[int, tuple[int, tuple[StoredBatch, ...]]]:
    """Return what is known of producers, without the times."""
    if log.producers is None:
        return {}
    return {key: (known.epoch, known.batches) for key, known in log.producers.snapshot(0).producers}


def read_from_log(log: PartitionLog) -> dict[int, tuple[int, tuple[StoredBatch, ...]]]:
    """The same, from the batches alone."""
    anew = ProducerExpiration(10_000).new_producers()
    for header, data in log.batches_from(log.start_offset):
        mark = sequence_of(bytes(data))
        if mark is not None:
            anew.appended(mark, header.base_offset)
    return {key: (known.epoch, known.batches) for key, known in anew.snapshot(0).producers}


def snapshots(disk: SimDisk, name: str = NAME) -> list[str]:
    return [file for file in disk.list(f"data/{name}") if "producers" in file]


@pytest.fixture
def producers() -> Producers:
    return ProducerExpiration(100).new_producers()


def send(producers: Producers, *batches: bytes, at: int = 0) -> list[int | None] | SequenceRejection:
    """Judge, and append what may be."""
    verdicts = validate_sequences(producers, batches, at)
    if isinstance(verdicts, list):
        for one, verdict in zip(batches, verdicts, strict=True):
            mark = sequence_of(one)
            if verdict is None and mark is not None:
                producers.appended(mark, at)
            at += 0 if verdict is not None else int.from_bytes(one[23:27], "big") + 1
    return verdicts


# --- judging, as Apache Kafka 4.3.1 answers ---


def test_a_batch_that_is_sent_again_was_stored_where_it_was_stored(producers: Producers) -> None:
    assert send(producers, batch(9, 0, 2), at=1) == [None]
    assert send(producers, batch(9, 2), at=3) == [None]
    assert send(producers, batch(9, 0, 2), at=4) == [1]
    assert send(producers, batch(9, 2), at=4) == [3]


def test_only_the_last_five_batches_are_recognised(producers: Producers) -> None:
    for number in range(7):
        assert send(producers, batch(9, number), at=number) == [None]
    assert [send(producers, batch(9, number)) for number in range(7)] == [
        SequenceRejection.OUT_OF_ORDER,
        SequenceRejection.OUT_OF_ORDER,
        [2],
        [3],
        [4],
        [5],
        [6],
    ]


@pytest.mark.parametrize(("first", "count"), [(0, 1), (1, 1), (1, 2), (3, 1), (0, 3)])
def test_a_gap_and_an_overlap_are_out_of_order(producers: Producers, first: int, count: int) -> None:
    send(producers, batch(9, 0, 2))
    assert send(producers, batch(9, first, count)) is SequenceRejection.OUT_OF_ORDER


def test_a_new_epoch_begins_at_zero_and_ends_the_old_one(producers: Producers) -> None:
    send(producers, batch(9, 0), at=0)
    assert send(producers, batch(9, 1, epoch=1)) is SequenceRejection.OUT_OF_ORDER
    assert send(producers, batch(9, 0, epoch=3), at=1) == [None]
    assert send(producers, batch(9, 0, epoch=3), at=2) == [1]
    assert send(producers, batch(9, 1, epoch=2)) is SequenceRejection.OLD_EPOCH
    assert send(producers, batch(9, 0)) is SequenceRejection.OLD_EPOCH


def test_a_producer_that_is_not_known_may_begin_anywhere_and_then_goes_on_in_order(producers: Producers) -> None:
    assert send(producers, batch(9, 7), at=3) == [None]
    assert send(producers, batch(9, 6)) is SequenceRejection.OUT_OF_ORDER
    assert send(producers, batch(9, 8), at=4) == [None]
    assert send(producers, batch(9, 7)) == [3]
    assert send(producers, batch(9, 0)) is SequenceRejection.OUT_OF_ORDER


def test_sequences_begin_again_after_the_last_within_a_batch_too(producers: Producers) -> None:
    assert send(producers, batch(9, LAST - 1), at=0) == [None]
    assert send(producers, batch(9, LAST, 3), at=1) == [None]
    assert send(producers, batch(9, 0)) is SequenceRejection.OUT_OF_ORDER
    assert send(producers, batch(9, LAST, 3)) == [1]
    assert send(producers, batch(9, 2), at=4) == [None]
    assert send(producers, batch(8, LAST), at=5) == [None]
    assert send(producers, batch(8, 0), at=6) == [None]


def test_a_producer_without_an_epoch_may_write_anything(producers: Producers) -> None:
    assert send(producers, batch(9, 0, epoch=-5)) is SequenceRejection.OLD_EPOCH
    assert send(producers, batch(9, 0, epoch=-1), at=0) == [None]
    assert send(producers, batch(9, 0, epoch=-1), at=1) == [0]
    assert send(producers, batch(9, 9, epoch=-1), at=1) == [None]
    assert send(producers, batch(9, 5), at=2) == [None]
    assert send(producers, batch(9, 10, epoch=-1)) is SequenceRejection.OLD_EPOCH


def test_several_batches_of_one_request_follow_each_other(producers: Producers) -> None:
    assert send(producers, plain(2), batch(9, 0, 2), batch(8, 4), batch(9, 2), batch(9, 0, 2), at=10) == [
        None,
        None,
        None,
        None,
        12,
    ]
    assert send(producers, batch(9, 0, 2), batch(9, 3), at=16) == [12, None]


def test_an_objection_to_one_batch_is_one_to_the_request(producers: Producers) -> None:
    assert send(producers, batch(9, 0), batch(9, 2)) is SequenceRejection.OUT_OF_ORDER
    assert len(producers) == 0


def test_batches_without_a_producer_or_without_a_sequence_leave_no_mark() -> None:
    assert sequence_of(plain()) is None
    assert sequence_of(batch(-2, 0)) is None
    assert sequence_of(batch(9, -1)) is None
    sealed = partial(encode_batch, timestamp_ms=5, producer_id=9, producer_epoch=0, base_sequence=0)
    assert sequence_of(sealed([(None, b"x")], transactional=True)) is None
    assert sequence_of(sealed([(None, b"x")], control=True)) is None
    assert validate_sequences(None, [plain(), plain()], 7) == [None, None]


# --- how many, how long ---


def test_beyond_the_bound_those_not_heard_for_the_longest_time_are_forgotten() -> None:
    expiration = ProducerExpiration(3)
    producers = expiration.new_producers()
    for producer_id in (1, 2, 3):
        send(producers, batch(producer_id, 0))
    expiration.run(1_000, 10 * PROTECTED_MS)
    send(producers, batch(1, 1))
    expiration.run(1_000 + PROTECTED_MS, 10 * PROTECTED_MS)
    send(producers, batch(4, 0))
    assert [key for key, _known in producers.snapshot(0).producers] == [3, 1, 4]
    assert send(producers, batch(2, 5), at=9) == [None], "taken at its word"


def test_nobody_heard_in_the_last_minutes_is_forgotten_for_a_new_one() -> None:
    expiration = ProducerExpiration(3)
    producers = expiration.new_producers()
    for producer_id in (1, 2, 3):
        send(producers, batch(producer_id, 0))
    assert send(producers, batch(4, 0)) is SequenceRejection.TOO_MANY
    expiration.run(1_000, 10 * PROTECTED_MS)
    expiration.run(999 + PROTECTED_MS, 10 * PROTECTED_MS)
    assert send(producers, batch(4, 0)) is SequenceRejection.TOO_MANY
    assert send(producers, batch(1, 1), at=3) == [None], "it is known"
    expiration.run(1_000 + PROTECTED_MS, 10 * PROTECTED_MS)
    many = [batch(producer_id, 0) for producer_id in (4, 5, 6)]
    assert validate_sequences(producers, many, 4) is SequenceRejection.TOO_MANY, "only two are silent"
    assert validate_sequences(producers, many[:2], 4) == [None, None]


def test_producers_expire_after_their_last_batch_and_never_early() -> None:
    expiration = ProducerExpiration(100)
    producers = expiration.new_producers()
    send(producers, batch(1, 0))
    send(producers, batch(2, 0))
    expiration.run(1_000, 500)
    expiration.run(1_400, 500)
    send(producers, batch(1, 1))
    expiration.run(1_499, 500)
    assert len(producers) == 2
    expiration.run(1_500, 500)
    assert producers.get(2) == ProducerEntry(-1, 0, ())
    assert producers.get(1).batches[-1].last == 1
    expiration.run(1_999, 500)
    assert len(producers) == 0


def test_a_run_costs_the_logs_that_were_written_or_are_due_and_not_all_logs() -> None:
    store = mount(SimDisk())
    for number in range(40):
        put(store, batch(9, 0), name=f"flights-{number}")
    store.producer_expiration.run(1_000, 500)
    visits = store.producer_expiration.visits
    put(store, batch(9, 1), name="flights-7")
    for now_ms in range(1_001, 1_400):
        store.producer_expiration.run(now_ms, 500)
    assert store.producer_expiration.visits == visits + 1, "the log that was written, once"
    store.producer_expiration.run(1_500, 500)
    assert store.producer_expiration.visits == visits + 40, "all others are due"
    known = {name: len(told(store.log(name))) for name in store.names()}
    assert [name for name in known if known[name]] == ["flights-7"]


def test_a_removed_log_is_not_looked_at_again() -> None:
    store = mount(SimDisk())
    put(store, batch(9, 0), name="flights-1")
    put(store, batch(9, 0), name="flights-2")
    store.producer_expiration.run(1_000, 500)
    visits = store.producer_expiration.visits
    put(store, batch(9, 1), name="flights-1")
    store.remove("flights-1")
    store.remove("flights-2")
    store.producer_expiration.run(9_000, 500)
    assert store.producer_expiration.visits == visits


def test_a_bound_holds_for_what_is_read_from_disk_too() -> None:
    disk = SimDisk()
    store = mount(disk)
    put(store, *[batch(producer_id, 0) for producer_id in range(5)])
    assert store.close()
    log = mount(disk, StoreLimits(4096, 6000, 3000, 600, producers_per_log=2)).log(NAME)
    assert list(told(log)) == [3, 4]


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 9)), max_size=60), st.integers(0, LAST))
def test_retries_in_any_order_store_nothing_twice_and_lose_nothing(sends: list[tuple[int, int]], start: int) -> None:
    """Each producer has ten batches of one record; any of them arrives at any time, as often as it likes."""
    producers = ProducerExpiration(100).new_producers()
    stored: dict[int, list[int]] = {0: [], 1: [], 2: []}
    begun: dict[int, int] = {}
    offset, where = 0, {}
    for producer_id, number in sends:
        verdicts = send(producers, batch(producer_id, (start + number) % 2**31), at=offset)
        if verdicts == [None]:
            begun.setdefault(producer_id, number)
            stored[producer_id].append(number)
            where[producer_id, number] = offset
            offset += 1
        elif isinstance(verdicts, list):
            assert verdicts == [where[producer_id, number]]
        else:
            assert number not in stored[producer_id][-5:]
    for producer_id, numbers in stored.items():
        assert all(later == earlier + 1 for earlier, later in pairwise(numbers))
        assert numbers == [] or numbers[0] == begun[producer_id]


# --- kept beside the log ---


def test_a_log_without_idempotent_producers_has_no_file_for_them() -> None:
    disk = SimDisk()
    store = mount(disk)
    put(store, plain(), plain(3))
    assert store.close()
    assert snapshots(disk) == []
    assert mount(disk).log(NAME).producers is None


def test_a_clean_stop_keeps_what_is_known_in_one_file() -> None:
    disk = SimDisk()
    store = mount(disk)
    before = told(put(store, plain(), batch(9, 0, 2), batch(8, 5, epoch=2)))
    assert store.close()
    assert snapshots(disk) == [snapshot_name(4)]
    log = mount(disk).log(NAME)
    assert told(log) == before == {9: (0, (StoredBatch(0, 1, 1),)), 8: (2, (StoredBatch(5, 5, 3),))}


def test_each_checkpoint_replaces_the_file_and_one_that_changes_nothing_writes_none() -> None:
    disk = SimDisk()
    store = mount(disk)
    put(store, batch(9, 0))
    assert work(store, disk, force=True)
    put(store, plain())
    assert work(store, disk, force=True)
    assert snapshots(disk) == [snapshot_name(2)]
    disk.journal = []
    assert work(store, disk, force=True)
    assert not [line for line in disk.journal if "producers" in line]


def test_once_all_have_expired_the_file_goes() -> None:
    disk = SimDisk()
    store = mount(disk)
    log = put(store, batch(9, 0))
    assert work(store, disk, force=True)
    store.producer_expiration.run(1_000, 500)
    store.producer_expiration.run(1_500, 500)
    assert told(log) == {}
    assert work(store, disk, force=True)
    assert snapshots(disk) == []
    assert store.close()
    assert mount(disk).log(NAME).producers is None


def test_when_they_were_heard_is_kept_too() -> None:
    disk = SimDisk()
    store = mount(disk)
    put(store, batch(9, 0))
    store.producer_expiration.run(1_000, 500)
    put(store, batch(8, 0))
    assert store.close()
    store = mount(disk)
    store.producer_expiration.run(1_500, 500)
    assert list(told(store.log(NAME))) == [8]


@pytest.mark.parametrize("damage", [b"", b"rubbish", b"00000000\n{}", b'{"end": 3}'])
def test_a_damaged_file_costs_a_walk_over_the_log_and_nothing_else(damage: bytes) -> None:
    disk = SimDisk()
    store = mount(disk)
    before = told(put(store, batch(9, 0), plain(), *[batch(8, number, text="y" * 400) for number in range(9)]))
    assert store.close()
    path = f"data/{NAME}/{snapshot_name(11)}"
    file = disk.file(path)
    file.change(0)
    disk.damage(path, 0, damage)
    assert len(disk.list(f"data/{NAME}")) > 4, "several segments"
    assert told(mount(disk).log(NAME)) == before


def test_an_older_file_is_a_beginning() -> None:
    disk = SimDisk()
    store = mount(disk)
    put(store, batch(9, 0), batch(7, 0))
    assert work(store, disk, force=True)
    old = bytes(disk.file(f"data/{NAME}/{snapshot_name(2)}").data)
    before = told(put(store, batch(9, 1), plain(), batch(8, 3)))
    assert store.close()
    disk.remove(f"data/{NAME}/{snapshot_name(5)}")
    disk.close(disk.open(f"data/{NAME}/{snapshot_name(2)}"))
    disk.damage(f"data/{NAME}/{snapshot_name(2)}", 0, old)
    assert told(mount(disk).log(NAME)) == before


def test_producers_stay_known_when_their_records_are_gone() -> None:
    disk = SimDisk()
    store = mount(disk)
    log = put(store, batch(9, 0), *[batch(8, number, text="y" * 400) for number in range(9)])
    before = told(log)
    flush(store, disk)
    assert work(store, disk, force=True)
    assert store.drop(log, len(log.segments) - 1)
    assert work(store, disk, force=True)
    assert log.start_offset > 0
    assert store.close()
    assert told(mount(disk).log(NAME)) == before


def test_a_new_log_of_a_removed_ones_name_knows_nobody() -> None:
    disk = SimDisk()
    store = mount(disk)
    put(store, batch(9, 0))
    assert work(store, disk, force=True)
    assert isinstance(store.remove(NAME), int)
    put(store, batch(8, 3))
    flush(store, disk)
    while work(store, disk):
        pass
    assert store.close()
    assert list(told(mount(disk).log(NAME))) == [8]


# --- crashes ---


def story(store: LogStore, disk: SimDisk, random: Random, acknowledged: dict[str, int]) -> None:
    """Producers write, and bump their epoch now and then; flushes and checkpoints overlap."""
    epochs: dict[tuple[str, int], tuple[int, int]] = {}
    job: CheckpointJob | None = None
    for _ in range(120):
        match random.randrange(10):
            case 0 | 1 | 2 | 3 | 4 | 5:
                name, producer_id, count = random.choice([NAME, "flights-1"]), random.randrange(4), random.randrange(3)
                epoch, first = epochs.get((name, producer_id), (random.randrange(3), random.randrange(50)))
                if random.random() < 0.1:
                    epoch, first = epoch + 1, 0
                data = plain() if not count else batch(producer_id, first, count, epoch=epoch, text="t" * 90)
                if isinstance(store.append(store.log(name, Retain(segment_bytes=1500)), data), Appended) and count:
                    epochs[name, producer_id] = (epoch, first + count)
            case 6 | 7:
                flush(store, disk)
                acknowledged.update({name: store.log(name).next_offset for name in store.names()})
            case 8:
                job = store.begin_checkpoint(force=random.random() < 0.5) or job
            case _:
                if job is not None:
                    job.run(disk)
                    store.finish_checkpoint(job)
                    job = None


def crashes(seed: int) -> Iterator[tuple[SimDisk, dict[str, int]]]:
    random, disk = Random(seed), SimDisk(seed)
    for _ in range(3):  # a life, a crash, and another on what is left
        acknowledged: dict[str, int] = {}
        store = mount(disk)
        disk.crash_before = disk.operations + random.randrange(5, 200)
        with suppress(Crash):
            story(store, disk, random, acknowledged)
        disk.crash()
        yield disk, acknowledged
        disk.crash()


@pytest.mark.parametrize("block", range(4))
def test_after_a_crash_at_any_moment_what_is_known_is_what_the_log_says(block: int) -> None:
    kept = 0
    for seed in range(block * 40, block * 40 + 40):
        for disk, acknowledged in crashes(seed):
            store = mount(disk)
            for name in store.names():
                log = store.log(name)
                assert log.next_offset >= acknowledged.get(name, 0)
                assert told(log) == read_from_log(log), f"{name}, seed {seed}"
                assert len(snapshots(disk, name)) == bool(told(log)), "no older files are left"
                kept += bool(told(log))
    assert kept > 40, "nothing was shown"


def about_to_checkpoint() -> tuple[SimDisk, CheckpointJob]:
    disk = SimDisk(4)
    store = mount(disk)
    put(store, batch(9, 0))
    assert work(store, disk, force=True)
    put(store, batch(9, 1))
    flush(store, disk)
    put(store, batch(9, 2))  # never durable by the write-ahead log
    job = store.begin_checkpoint(force=True)
    assert job is not None
    return disk, job


def test_a_crash_between_file_and_checkpoint_falls_back_to_the_checkpoint_before() -> None:
    disk, job = about_to_checkpoint()
    disk.journal = []
    job.run(disk)
    before_rename = disk.journal.index(f"rename {checkpoint_path('data/wal')}.new")
    disk, job = about_to_checkpoint()
    disk.crash_before = disk.operations + before_rename + 1
    with pytest.raises(Crash):
        job.run(disk)
    disk.crash()
    assert snapshot_name(3) in snapshots(disk)
    log = mount(disk).log(NAME)
    assert log.next_offset == 2
    assert told(log) == {9: (0, (StoredBatch(0, 0, 0), StoredBatch(1, 1, 1)))}
    assert snapshots(disk) == [snapshot_name(2)]
