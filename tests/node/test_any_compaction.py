"""State after loading a log, after loading any legal compaction of it at any moment, and live state are the same: with
transactions, tombstones of every kind, records of unknown types, snapshots and crashes in between."""

from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator.groups.classic.group_states import GroupSettings
from coordinator.runtime.journal import Journal
from coordinator.runtime.loader import Loading
from coordinator.runtime.outbox import Outbox
from coordinator.runtime.shard import Shard, ShardState, ShardTools
from partition_log.cleanup_policy import Compact
from partition_log.compaction.cleaner import Cleaner
from purgatory.purgatory import DelayedOperationPurgatory
from tests.enumerations import share_of
from tests.groups.checks import CountingIds
from tests.node.test_snapshots import DEEDS, NOW, Life, state
from tests.partition_log.stories import flush, work
from tests.simulation.disk import SimDisk

POLICY = Compact(segment_bytes=600, delete_retention_ms=1_000, min_dirty_ratio=0.0)
CLEANINGS = st.tuples(
    st.just("clean"),
    st.integers(0, 5_000),  # later than now, in milliseconds
    st.sampled_from((1, 300, 10**6)),  # bytes of a slice
    st.sampled_from((0, 10**6)),  # bytes of the map of keys
    st.sampled_from((1, 7, 10**6)),  # slices, before it is given up
)
RESTARTS = st.tuples(st.sampled_from(("stop", "crash")))
HISTORIES = st.lists(st.one_of(DEEDS, DEEDS, DEEDS, CLEANINGS, RESTARTS), min_size=1, max_size=40)


def loaded(life: Life) -> Any:
    """Return the state loaded from the log alone."""
    tools = ShardTools(
        purgatory=DelayedOperationPurgatory(0),
        journal=Journal(1),
        notes_log=life.shard.log,
        outbox=Outbox(2**62),
        ids=CountingIds(),
        settings=GroupSettings(),
        max_batch_bytes=1 << 13,
        directory={},
    )
    shard = Shard(0, life.shard.log, tools)
    loading = Loading(shard)
    while loading.continue_load(NOW):
        pass
    assert shard.state is ShardState.ACTIVE, shard.failure
    return state(shard)


def clean(life: Life, after_ms: int, slice_bytes: int, map_bytes: int, slices: int) -> int:
    """Clean in slices, and return the number of finished passes."""
    store, disk = life.store, life.disk
    flush(store, disk)
    work(store, disk, force=True)
    cleaner = Cleaner(store, slice_bytes=slice_bytes, map_bytes=map_bytes, backoff_ms=15_000)
    for _ in range(slices):
        if cleaner.run(lambda: [life.files], NOW.wall_ms + after_ms) != 1:
            break
        work(store, disk)
    while store.cleaning.is_swapping:
        work(store, disk, force=True)
    return cleaner.done.passes


def born(disk: SimDisk) -> Life:
    life = Life(disk)
    life.files.policy = POLICY
    return life


@given(HISTORIES)
@settings(deadline=None, max_examples=share_of(150))
def test_a_compacted_log_loads_as_the_whole_one_and_as_what_lived(history: list[Any]) -> None:
    life = born(SimDisk(1))
    for deed in history:
        match deed:
            case "clean", after_ms, slice_bytes, map_bytes, slices:
                clean(life, after_ms, slice_bytes, map_bytes, slices)
                assert loaded(life) == state(life.shard)
            case ("stop",):
                life.stop()
                life = born(life.disk)
            case ("crash",):
                life.disk.crash()
                life = born(life.disk)
            case _:
                life.do(deed)
    lived = state(life.shard)
    life.disk.crash()
    assert state(born(life.disk).shard) == lived


KINDS = (
    "commit",
    "commit",
    "commit",
    "pending",
    "ended",
    "ended",
    "forgotten",
    "forgotten",
    "group",
    "gone",
    "replaced",
)


def any_deed(random: Random, number: int) -> tuple[Any, ...]:
    """Choose a deed over few keys, so that each key has values, tombstones and transactions in many segments."""
    group_id, topic, partition = random.choice("ab"), random.choice(("flights", "orders")), random.randrange(3)
    kind = random.choice(KINDS)
    match kind:
        case "commit":
            return kind, group_id, topic, [partition], number, random.choice(("", "where I was"))
        case "pending":
            return kind, group_id, topic, partition, number, random.randrange(1, 4)
        case "ended":
            return kind, random.randrange(1, 4), random.random() < 0.6
        case "forgotten":
            return kind, group_id, topic, partition
        case "group":
            return kind, group_id, number // 20, random.randrange(3)
        case "replaced":
            return kind, group_id, random.randrange(3), number // 20, number
    return kind, group_id


@pytest.mark.parametrize("seed", range(10))
def test_a_life_that_is_cleaned_again_and_again_stays_what_it_was(seed: int) -> None:
    random, life, after_ms, passes = Random(seed), born(SimDisk(seed)), 0, 0
    for number in range(200):
        life.do(any_deed(random, number))
        if random.random() < 0.1:
            after_ms += random.randrange(1_500)  # of 1,000 that tombstones are kept
            passes += clean(life, after_ms, 300, random.choice((0, 10**6)), random.choice((3, 10**6)))
            assert loaded(life) == state(life.shard)
        if random.random() < 0.03:
            lived = state(life.shard)
            if random.random() < 0.5:
                life.stop()
            else:
                life.disk.crash()
            life = born(life.disk)
            assert state(life.shard) == lived
    assert passes > 5


def test_cleaning_shortens_a_long_life_and_drops_decided_transactions() -> None:
    life = born(SimDisk(1))
    for number in range(60):
        life.do(("commit", "a", "flights", [0, 1], number, ""))
        life.do(("pending", "b", "orders", number % 3, number, 1))
        life.do(("ended", 1, number % 2 == 0))
    life.do(("pending", "b", "orders", 0, 7, 2))
    for number in range(20):
        life.do(("commit", "a", "flights", [5], number, "where I was"))
    before = life.shard.log.size_bytes
    assert clean(life, 0, 300, 10**6, 10**6)
    assert life.shard.log.size_bytes < before / 4
    headers = [header for header, _data in life.shard.log.batches_from(0)]
    first_open = next(header.base_offset for header in headers if header.producer_id == 2)
    assert not [header for header in headers if header.is_transactional and header.base_offset < first_open - 20]
    assert loaded(life) == state(life.shard)
