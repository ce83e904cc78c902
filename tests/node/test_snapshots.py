"""A snapshot and the log behind it give what the whole log gives, and what lived; and nothing that happens to a
snapshot makes any difference but time."""

import errno
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator.clock import Moment
from coordinator.groups.classic.group_states import GroupSettings
from coordinator.records.codec import encode
from coordinator.records.records import (
    BalancedMember,
    BalancedMetadata,
    BalancedTombstone,
    CommittedOffset,
    GroupMetadata,
    GroupTombstone,
    MemberRecord,
    MemberReplaced,
    Owner,
    Ownership,
    OwnershipTombstone,
    TransactionEnded,
)
from coordinator.runtime import snapshot
from coordinator.runtime.journal import Journal
from coordinator.runtime.loader import Loading
from coordinator.runtime.offset_and_metadata import OffsetAndMetadata
from coordinator.runtime.outbox import Outbox
from coordinator.runtime.shard import Shard, ShardState, ShardTools
from coordinator.runtime.shard_log import LocalLog
from coordinator.runtime.snapshot import pieces_of, to_keep
from partition_log.log.state_snapshots import write_state_snapshot
from partition_log.store.log_store import LogStore, StoreLimits
from protocol.messages.offsets import OffsetCommit, OffsetCommitPartition, OffsetCommitTopic
from protocol.messages.topics import NO_TOPIC_ID
from protocol.record_batch import TRANSACTIONAL, encode_batch
from purgatory.purgatory import DelayedOperationPurgatory
from tests.enumerations import share_of
from tests.groups.checks import CountingIds, balanced, grants, recorded
from tests.partition_log.stories import flush
from tests.simulation.disk import Crash, SimDisk

LOG = "__consumer_offsets-0"
NOW = Moment(0, 1_700_000_000_000)
LIMITS = StoreLimits(wal_segment_bytes=1 << 16, checkpoint_bytes=1 << 15, max_batch_bytes=1 << 13, spill_bytes=600)


class Life:
    """One shard on a store, from an open to a close or a crash."""

    def __init__(self, disk: SimDisk) -> None:
        self.disk = disk
        self.store = LogStore(disk, "data", LIMITS)
        self.store.open()
        self.files = self.store.log(LOG)
        tools = ShardTools(
            purgatory=DelayedOperationPurgatory(0),
            journal=Journal(10),
            notes_log=LocalLog(self.store, self.store.log("__notes-0")),
            outbox=Outbox(2**62),
            ids=CountingIds(),
            settings=GroupSettings(),
            max_batch_bytes=1 << 13,
            directory={},
        )
        self.shard = Shard(0, LocalLog(self.store, self.files), tools)
        self.loading = Loading(self.shard)
        while self.loading.continue_load(NOW):
            pass
        assert self.shard.state is ShardState.ACTIVE, self.shard.failure

    def do(self, deed: tuple[Any, ...]) -> None:
        shard = self.shard
        match deed:
            case "commit", group_id, topic, partitions, offset, text:
                group = shard.groups.get(group_id) or shard.new_group(group_id)
                parts = tuple(OffsetCommitPartition(part, offset, committed_metadata=text) for part in partitions)
                shard.store(
                    group, OffsetCommit(group_id, (OffsetCommitTopic(topic, parts, id_of(topic, offset)),)), NOW
                )
            case "pending", group_id, topic, partition, offset, producer:
                topic_id = id_of(topic, offset) if offset % 2 else None
                record = CommittedOffset(group_id, topic, partition, offset, -1, "", NOW.wall_ms, topic_id=topic_id)
                self._append([record], producer_id=producer, producer_epoch=0, transactional=True)
                shard.apply(record, producer_id=producer)
            case "ended", producer, is_committed:
                shard.end_transaction(TransactionEnded(producer, 0, is_committed), NOW)
            case "forgotten", group_id, topic, partition:
                shard.delete_offsets_of(group_id, topic, [partition], NOW)
            case "group", group_id, generation, members:
                lines = tuple(
                    MemberRecord(f"m{n}", f"i{n}", "c", "/h", 5_000, 6_000, b"s", b"a") for n in range(members)
                )
                self._both(GroupMetadata(group_id, "consumer", generation, "range", "m0", NOW.wall_ms, lines))
            case "replaced", group_id, instance, generation, number:
                member_id = f"r{instance}-{number}"
                self._both(MemberReplaced(group_id, f"i{instance}", generation, member_id, "c", "/i", 7, 8, b"t"))
            case "grant", group_id, topic, partition, member_id:
                owner = None if member_id is None else Owner(member_id, 0, 1, NOW.wall_ms, 6_000)
                known = shard.groups.get(group_id)
                epoch = (
                    0
                    if known is None or known.classic.owners is None
                    else known.classic.owners.epoch((topic, partition))
                )
                if owner is not None or epoch:
                    self._both(Ownership(group_id, topic, partition, epoch + (owner is not None), owner))
            case "gone", group_id:
                self._go(group_id)
            case "balance", group_id, epoch, members:
                self._balance(group_id, epoch, members)
            case "unknown", number:
                batch = encode_batch([(b"\x00\x0f" + bytes([number]), b"\x00\x00")], timestamp_ms=1)
                shard.log.append(batch)
        flush(self.store, self.disk)

    def _go(self, group_id: str) -> None:
        known = self.shard.groups.get(group_id)
        was_balanced = known is not None and known.balanced is not None
        for key in known.classic.owners.keys if known is not None and known.classic.owners is not None else ():
            self._both(OwnershipTombstone(group_id, *key))
        self._both(GroupTombstone(group_id))
        if was_balanced:
            self._both(BalancedTombstone(group_id))

    def _balance(self, group_id: str, epoch: int, members: int) -> None:
        if group_id not in self.shard.groups:  # else it may be one of which there were offsets alone
            self._both(GroupMetadata(group_id, "", 0, None, None, NOW.wall_ms))
        ones = tuple(BalancedMember(f"b{n}", None, "c", "/h", n, "first", 6_000, n, 0) for n in range(members))
        topics = ("orders",) if ones else ()
        self._both(BalancedMetadata(group_id, NOW.wall_ms, epoch, 1, b"d", 0, topics, members=ones))

    def _both(self, record: Any) -> None:
        # As at load: members here come from records alone.
        self._append([record])
        self.shard.is_replaying = True
        self.shard.apply(record)
        self.shard.is_replaying = False

    def _append(self, records: list[Any], **fields: Any) -> None:
        batch = encode_batch([encode(record) for record in records], timestamp_ms=NOW.wall_ms, **fields)
        self.shard.log.append(batch)

    def stop(self) -> None:
        assert self.store.close(to_keep([self.shard])) and not self.store.snapshots_problem

    def snapshot(self) -> str | None:
        names = [name for name in self.disk.list(f"data/{LOG}") if name.endswith(".groups")]
        return f"data/{LOG}/{names[0]}" if names else None


def id_of(topic: str, offset: int) -> bytes:
    return topic.encode().ljust(16) if offset % 2 else NO_TOPIC_ID


def state(shard: Shard) -> Any:
    """All of the hard state, in its orders where they mean anything."""
    on_record = {
        group_id: (group.kind, one.stored, one.state, one.generation_id, list(one.members), grants(one))
        for group_id, group in shard.groups.items()
        if (one := group.classic).stored is not None
        or shard.offsets.holds(group_id)
        or one.owners
        or group.balanced is not None
    }
    offsets = {group_id: recorded(shard, group_id) for group_id in shard.offsets.groups()}
    return on_record, offsets, shard.offsets.count, shard.offsets.pending.dump(), balanced(shard)


def without_aid(life: Life) -> Any:
    """Load the state from the whole log."""
    snapshot = life.snapshot()
    if snapshot is not None:
        life.disk.remove(snapshot)
        life.disk.sync_folder(f"data/{LOG}")
    life.disk.crash()
    again = Life(life.disk)
    assert not again.loading.used_snapshot
    return state(again.shard)


GROUPS, TOPICS = st.sampled_from(("a", "b", "génial")), st.sampled_from(("flights", "orders"))
PARTITIONS, PRODUCERS = st.integers(0, 3), st.integers(1, 3)
OFFSETS = st.integers(0, 2**40)
DEEDS = st.one_of(
    st.tuples(
        st.just("commit"),
        GROUPS,
        TOPICS,
        st.lists(st.integers(0, 200), min_size=1, max_size=100, unique=True),
        OFFSETS,
        st.sampled_from(("", "", "where I was")),
    ),
    st.tuples(st.just("pending"), GROUPS, TOPICS, PARTITIONS, OFFSETS, PRODUCERS),
    st.tuples(st.just("commit"), GROUPS, TOPICS, PARTITIONS.map(lambda one: [one]), OFFSETS, st.just("")),
    st.tuples(st.just("ended"), PRODUCERS, st.booleans()),
    st.tuples(st.just("forgotten"), GROUPS, TOPICS, PARTITIONS),
    st.tuples(st.just("group"), GROUPS, st.integers(0, 9), st.integers(0, 3)),
    st.tuples(st.just("grant"), GROUPS, TOPICS, PARTITIONS, st.sampled_from((None, "m0", "m1"))),
    st.tuples(st.just("replaced"), GROUPS, st.integers(0, 2), st.integers(0, 9), st.integers(0, 99)),
    st.tuples(st.just("balance"), GROUPS, st.integers(0, 9), st.integers(0, 3)),
    st.tuples(st.just("gone"), GROUPS),
    st.tuples(st.just("unknown"), st.integers(0, 9)),
)
HISTORIES = st.lists(DEEDS, min_size=1, max_size=25)


@given(HISTORIES, st.lists(DEEDS, max_size=25), st.integers(1, 7), st.booleans())
@settings(deadline=None, max_examples=share_of(200))
def test_snapshot_and_tail_give_what_the_whole_log_gives_and_what_lived(
    before: list[Any], after: list[Any], piece: int, stops_again: bool
) -> None:
    sizes = snapshot._OFFSETS_A_PIECE, snapshot._GROUPS_A_PIECE_BYTES, snapshot._PENDING_A_PIECE
    snapshot._OFFSETS_A_PIECE = snapshot._GROUPS_A_PIECE_BYTES = snapshot._PENDING_A_PIECE = piece
    grants_a_piece, snapshot._GRANTS_A_PIECE = snapshot._GRANTS_A_PIECE, piece
    try:
        life = Life(SimDisk(1))
        for deed in before:
            life.do(deed)
        was_written = life.shard.log.next_offset > 0
        at_stop = state(life.shard)
        life.stop()
        life = Life(life.disk)
        assert life.loading.used_snapshot is was_written and life.loading.note is None
        assert state(life.shard) == at_stop
        for deed in after:
            life.do(deed)
        lived = state(life.shard)
        if stops_again:
            life.stop()
        else:
            life.disk.crash()
        life = Life(life.disk)
        assert life.loading.used_snapshot is (was_written or (stops_again and life.shard.log.next_offset > 0))
        assert state(life.shard) == lived
        assert without_aid(life) == lived
    finally:
        snapshot._OFFSETS_A_PIECE, snapshot._GROUPS_A_PIECE_BYTES, snapshot._PENDING_A_PIECE = sizes
        snapshot._GRANTS_A_PIECE = grants_a_piece


FULL_LIFE = (
    ("commit", "a", "flights", list(range(40)), 7, ""),
    ("group", "a", 3, 2),
    ("replaced", "a", 0, 3, 1),
    ("commit", "b", "orders", [1], 9, "where I was"),
    ("pending", "b", "orders", 1, 12, 1),
    ("pending", "a", "orders", 2, 13, 2),
    ("pending", "b", "orders", 1, 14, 2),
    ("forgotten", "a", "flights", 3),
    ("group", "dead", 1, 0),
    ("gone", "dead"),
    ("ended", 1, True),
)


def full_life(disk: SimDisk | None = None) -> Life:
    life = Life(disk or SimDisk(1))
    for deed in FULL_LIFE:
        life.do(deed)
    return life


@given(st.data())
@settings(deadline=None, max_examples=share_of(200))
def test_a_damaged_snapshot_is_ignored_with_a_note_and_the_whole_log_is_read(data: st.DataObject) -> None:
    life = full_life()
    lived = state(life.shard)
    life.stop()
    path = life.snapshot()
    assert path is not None
    file = life.disk.file(path)
    at = data.draw(st.integers(0, len(file.data) - 1))
    if data.draw(st.booleans()):
        life.disk.damage(path, at, bytes([file.data[at] ^ 1 << data.draw(st.integers(0, 7))]))
    else:
        file.change(at)
    again = Life(life.disk)
    assert again.loading.note is not None and "snapshot ignored, the whole log is read" in again.loading.note.text
    assert not again.loading.used_snapshot
    assert state(again.shard) == lived


@pytest.mark.parametrize("spoilt", range(7))
def test_a_sound_file_that_is_no_snapshot_of_this_format_is_ignored_too(spoilt: int) -> None:
    life = full_life()
    lived = state(life.shard)
    pieces, end = list(pieces_of(life.shard)), life.shard.log.next_offset
    life.stop()
    head = snapshot._encode(snapshot.HeadPiece(snapshot.FORMAT + 1, end))
    wrong = (
        [head, *pieces[1:]],
        pieces[1:],
        pieces[:-1],
        [*pieces, pieces[-1]],
        [pieces[0], pieces[0], *pieces[1:]],
        [*pieces[:-2], b"\xc1 no message", pieces[-1]],
        [*pieces[:1], *pieces[2:]] if b"offsets" in pieces[1] else [*pieces[:2], *pieces[3:]],
    )[spoilt]
    write_state_snapshot(life.disk, f"data/{LOG}", end, wrong)
    again = Life(life.disk)
    assert again.loading.note is not None
    assert state(again.shard) == lived


def test_one_beyond_the_logs_end_is_never_believed() -> None:
    life = full_life()
    lived, end = state(life.shard), life.shard.log.next_offset
    life.stop()
    write_state_snapshot(life.disk, f"data/{LOG}", end + 5, list(pieces_of(full_life().shard)))
    again = Life(life.disk)
    assert not again.loading.used_snapshot and state(again.shard) == lived
    assert again.snapshot() is None, "it must not wait until the log has grown"


def test_a_crash_at_any_operation_of_a_clean_stop_changes_nothing_but_how_long_the_start_takes() -> None:
    life = full_life()
    begin = life.disk.operations
    lived = state(life.shard)
    life.stop()
    operations = life.disk.operations - begin
    assert operations >= 15
    seen = set()
    for seed in range(3):
        for operation in range(1, operations + 1):
            life = full_life(SimDisk(seed * 1_000 + operation))
            life.disk.crash_before = life.disk.operations + operation
            with pytest.raises(Crash):
                life.stop()
            life.disk.crash()
            again = Life(life.disk)
            assert state(again.shard) == lived
            assert again.loading.note is None, "half a snapshot has no name"
            seen.add(again.loading.used_snapshot)
    assert seen == {True, False}


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
def test_a_disk_that_takes_no_snapshot_does_not_fail_the_stop(code: int) -> None:
    life = full_life()
    lived = state(life.shard)
    rename = life.disk.rename

    def fails(old: str, new: str) -> None:
        if new.endswith(".groups"):
            raise OSError(code, "not now", new)
        rename(old, new)

    life.disk.rename = fails  # type: ignore[method-assign]
    assert life.store.close(to_keep([life.shard]))
    assert "not now" in life.store.snapshots_problem
    again = Life(life.disk)
    assert not again.loading.used_snapshot and again.loading.note is None
    assert state(again.shard) == lived


def test_a_shard_that_has_not_changed_keeps_the_snapshot_it_was_loaded_from() -> None:
    life = full_life()
    life.stop()
    again = Life(life.disk)
    assert list(to_keep([again.shard])) == []
    again.do(("commit", "new", "flights", [0], 8, ""))
    assert [snapshot.end for snapshot in to_keep([again.shard])] == [again.shard.log.next_offset]


def test_a_shard_that_failed_or_is_still_loading_leaves_none() -> None:
    life = full_life()
    unloaded = Shard(0, life.shard.log, life.shard._tools)
    assert list(to_keep([unloaded])) == []
    life.shard.failure = "its log is damaged"
    assert list(to_keep([life.shard])) == []


def test_transactional_batches_here_are_what_they_are_in_a_log() -> None:
    life = full_life()
    headers = [header for header, _data in life.shard.log.batches_from(0)]
    assert sum(bool(header.attributes & TRANSACTIONAL) for header in headers) == 4
    assert sum(header.is_control for header in headers) == 1


def test_an_offset_of_a_snapshot_that_has_no_topic_ids_is_read() -> None:
    piece = msgspec.msgpack.encode([5, 3, "note", 7, -1])
    assert msgspec.msgpack.decode(piece, type=OffsetAndMetadata) == OffsetAndMetadata(5, 3, "note", 7, -1, None)
