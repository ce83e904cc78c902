"""Shards load in slices, and whoever asks for a group of a loaded one is served in between."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from coordinator.clock import Moment
from coordinator.node.events import Stopping, Woke
from coordinator.records.codec import decode, encode
from coordinator.records.records import CommittedOffset, GroupMetadata, MemberRecord, OffsetTombstone
from coordinator.runtime import loader
from coordinator.runtime.loader import Loading
from coordinator.runtime.offset_replay import CommonCommits
from coordinator.runtime.shard import Shard, ShardState
from protocol.errors import ErrorCode
from protocol.messages.groups import Heartbeat, HeartbeatReply
from protocol.messages.node import DescribeNode, DescribeNodeReply, LoadProgress
from protocol.messages.offsets import (
    OffsetCommit,
    OffsetCommitPartition,
    OffsetCommitReply,
    OffsetCommitTopic,
    OffsetFetch,
    OffsetFetchGroup,
    OffsetFetchReply,
)
from protocol.record_batch import decode_records, encode_batch, read_header, record_bytes, record_slices
from tests.enumerations import share_of
from tests.groups.bench import Bench
from tests.node.node_rig import WALL_MS, NodeRig

GROUPS = ("a", "b", "c")


class UnwokenRig(NodeRig):
    """A node that is not woken until the test does."""

    may_wake = False

    def wake_until_idle(self) -> None:
        if self.may_wake:
            super().wake_until_idle()


def commit(group_id: str, offset: int, partitions: int = 1) -> OffsetCommit:
    parts = tuple(OffsetCommitPartition(number, offset) for number in range(partitions))
    return OffsetCommit(group_id, (OffsetCommitTopic("orders", parts),))


def filled() -> NodeRig:
    """A commit of each group, in a shard each."""
    rig = NodeRig()
    rig.make_topic()
    rig.connect(1)
    for group_id in GROUPS:
        rig.ask(1, commit(group_id, 7))
    assert {rig.node.core.shard_of(group_id).index for group_id in GROUPS} == {0, 1, 2}
    return rig


def starting(rig: NodeRig, **settings: Any) -> UnwokenRig:
    rig.disk.crash()
    again = UnwokenRig(rig.disk, **settings)
    again.connect(1)
    return again


def code(rig: NodeRig, group_id: str) -> ErrorCode:
    (reply,) = rig.ask(1, commit(group_id, 8))
    assert isinstance(reply, OffsetCommitReply)
    return reply.topics[0].partitions[0].error_code


def test_groups_of_a_loaded_shard_are_served_while_others_load() -> None:
    rig = starting(filled())
    shards = rig.node.core.shards
    assert {shard.state for shard in shards} == {ShardState.LOADING}
    told: list[set[ErrorCode]] = []
    for _ in range(30):
        if rig.node.is_loaded:
            break
        codes = {group_id: code(rig, group_id) for group_id in GROUPS}
        for group_id, said in codes.items():
            is_loaded = rig.node.core.shard_of(group_id).state is ShardState.ACTIVE
            assert said is (ErrorCode.NONE if is_loaded else ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        told.append(set(codes.values()))
        rig.step(Woke())
    assert {ErrorCode.NONE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS} in told, "both at the same time"
    assert {code(rig, group_id) for group_id in GROUPS} == {ErrorCode.NONE}


def test_a_heartbeat_finds_its_coordinator_loading_and_is_not_told_to_leave() -> None:
    rig = starting(filled())
    (reply,) = rig.ask(1, Heartbeat("a", 1, "m"))
    assert isinstance(reply, HeartbeatReply) and reply.error_code is ErrorCode.NONE
    (fetched,) = rig.ask(1, OffsetFetch((OffsetFetchGroup("a"),)))
    assert isinstance(fetched, OffsetFetchReply)
    assert fetched.groups[0].error_code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


def test_requests_bring_no_slice_of_loading_with_them() -> None:
    rig = starting(filled())
    before = rig.node.core.loads.progress()
    for _ in range(50):
        rig.ask(1, Heartbeat("a", 1, "m"))
    assert rig.node.core.loads.progress() == before
    deadline_ms = rig.node.next_deadline_ms
    assert deadline_ms is not None and deadline_ms < 0, "it wants to be woken all the same"


def progress(rig: NodeRig) -> tuple[DescribeNodeReply, LoadProgress]:
    reply = rig.ask_inside(DescribeNode())
    assert isinstance(reply, DescribeNodeReply) and reply.loading is not None
    return reply, reply.loading


def test_progress_is_told_in_records_bytes_and_time_left(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = filled()
    for number in range(40):
        rig.ask(1, commit("a", number, 4))
    monkeypatch.setattr(loader, "_WORK_A_SLICE", 50)
    rig = starting(rig)
    node, told = progress(rig)
    assert told.is_loading and (told.records, told.bytes_done, told.left_ms) == (0, 0, -1)
    assert (node.shards_loaded, node.shards_total) == (0, 3)
    total = sum(shard.log.size_bytes for shard in rig.node.core.shards)
    assert told.bytes_total == total > 1_000
    seen = [told]
    while not rig.node.is_loaded:
        rig.now_ms += 10
        rig.step(Woke())
        node, told = progress(rig)
        assert told.records >= seen[-1].records and seen[-1].bytes_done <= told.bytes_done <= told.bytes_total
        if told.is_loading and told.bytes_done:
            assert told.bytes_per_second == told.bytes_done * 1_000 // told.elapsed_ms
            assert told.left_ms == (total - told.bytes_done) * 1_000 // told.bytes_per_second
        seen.append(told)
    assert len(seen) > 5
    assert not told.is_loading and told.left_ms == 0 and told.bytes_done == told.bytes_total == total
    assert told.records == node.gauges["loaded_records"] == 163
    rig.now_ms += 60_000
    assert progress(rig)[1] == told, "how it was, not how long ago"


def test_a_failed_shard_is_named_with_its_reason() -> None:
    rig = filled()
    hurt = rig.node.core.shard_of("a").index
    rig.store.close()
    rig.disk.damage(f"data/__consumer_offsets-{hurt}/{0:020d}.log", 70, b"\xff\xff")
    node, _told = progress(NodeRig(rig.disk))
    (failed,) = node.failed_shards
    assert failed.shard == hurt and f"__consumer_offsets-{hurt}" in failed.reason and "crc" in failed.reason


def test_members_have_a_full_session_from_when_their_shard_is_loaded() -> None:
    rig = NodeRig()
    member = MemberRecord("m", None, "c", "/h", 9_000, 10_000, b"", b"x")
    record = GroupMetadata("a", "consumer", 3, "range", "m", WALL_MS, (member,))
    rig.node.core.shard_of("a").log.append(encode_batch([encode(record)], timestamp_ms=WALL_MS))
    rig.wait(0)
    assert rig.store.close()
    again = UnwokenRig(rig.disk)
    again.connect(1)
    again.now_ms = 60_000  # a minute of loading
    again.may_wake = True
    again.wake_until_idle()
    (reply,) = again.ask(1, Heartbeat("a", 3, "m"))
    assert isinstance(reply, HeartbeatReply) and reply.error_code is ErrorCode.NONE
    again.wait(9_000)
    assert list(again.node.core.directory["a"].classic.members) == ["m"]
    again.wait(1_100)
    assert list(again.node.core.directory["a"].classic.members) == []


def test_one_huge_commit_is_read_in_slices_too() -> None:
    bench = Bench()
    for text in ("", "with a text"):
        bench.log.batches[:] = [
            encode_batch(
                [encode(CommittedOffset("g", "t", number, number, -1, text, 5)) for number in range(20_000)],
                timestamp_ms=5,
            )
        ]
        shard = Shard(0, bench.log, bench.shard._tools._replace(directory={}))  # type: ignore[arg-type]
        load = Loading(shard)
        slices = 1
        most = before = 0
        while load.continue_load(Moment(0, 0)):
            slices += 1
            most = max(most, shard.loaded_records - before)
            before = shard.loaded_records
        assert slices >= 20_000 // loader._WORK_A_SLICE and most <= loader._WORK_A_SLICE
        assert shard.offsets.count == 20_000


def test_a_node_that_stops_while_it_loads_loads_no_further() -> None:
    rig = starting(filled())
    rig.step(Woke())
    rig.step(Stopping())
    assert rig.node.is_loaded
    for _ in range(5):
        rig.step(Woke())
    assert {shard.state for shard in rig.node.core.shards} == {ShardState.UNLOADED}
    assert rig.store.close(rig.node.snapshots())
    again = NodeRig(rig.disk)
    assert again.node.core.count_groups() == 3


# --- the quick path reads what the careful one reads ---

TEXTS = st.sampled_from(("", "a", "génial", "x" * 70, "y" * 300))
RECORDS = st.one_of(
    st.builds(
        CommittedOffset,
        group_id=TEXTS,
        topic=TEXTS,
        partition=st.integers(0, 2**31 - 1),
        offset=st.integers(-(2**63), 2**63 - 1),
        leader_epoch=st.integers(-1, 2**31 - 1),
        metadata=st.sampled_from(("", "", "", "said")),
        commit_timestamp_ms=st.integers(-1, 2**50),
        expire_timestamp_ms=st.sampled_from((-1, -1, -1, 5)),
        topic_id=st.sampled_from((None, None, None, bytes(range(16)))),
    ),
    st.builds(OffsetTombstone, group_id=TEXTS, topic=TEXTS, partition=st.integers(0, 3)),
)


def table_of(shard: Shard) -> Any:
    return {group_id: shard.offsets.topics(group_id) for group_id in shard.offsets.groups()}, shard.offsets.count


def carefully(bench: Bench, batches: list[bytes]) -> Any:
    shard = Shard(0, bench.log, bench.shard._tools._replace(directory={}))  # type: ignore[arg-type]
    for batch in batches:
        header = read_header(batch)
        for entry in decode_records(record_bytes(header, batch), header):
            record = decode(entry.key, entry.value)
            assert record is not None
            shard.apply(record)
    return table_of(shard), sorted(shard.groups)


@given(st.lists(st.lists(RECORDS, min_size=1, max_size=80), min_size=1, max_size=4))
@settings(deadline=None, max_examples=share_of(150))
def test_quick_and_careful_reading_come_to_the_same(history: list[list[Any]]) -> None:
    bench = Bench()
    batches = [encode_batch([encode(record) for record in records], timestamp_ms=9) for records in history]
    bench.log.batches[:] = batches
    shard = Shard(0, bench.log, bench.shard._tools._replace(directory={}))  # type: ignore[arg-type]
    for _ in loader.load(shard, Moment(0, 0)):
        pass
    assert shard.state is ShardState.ACTIVE, shard.failure
    groups = sorted(group_id for group_id in carefully(bench, batches)[1] if shard.offsets.holds(group_id))
    assert (table_of(shard), sorted(shard.groups)) == (carefully(bench, batches)[0], groups)


@pytest.mark.parametrize("topic_id", [None, b"1" * 16])
def test_common_commits_are_read_the_quick_way(topic_id: bytes | None) -> None:
    bench = Bench()
    records = [CommittedOffset("g", "t", number, number, 3, "", 5, topic_id=topic_id) for number in range(300)]
    batch = encode_batch([encode(record) for record in records], timestamp_ms=5)
    header = read_header(batch)
    payload = record_bytes(header, batch)
    shard = Shard(0, bench.log, bench.shard._tools._replace(directory={}))  # type: ignore[arg-type]
    assert CommonCommits(shard).apply(payload, 0, 300) == (300, len(payload))
    assert CommonCommits(shard).apply(payload, 0, 7)[0] == 7
    assert shard.offsets.count == 300
    kept = shard.offsets.topics("g")["t"].values()
    assert {(one.offset, one.topic_id) for one in kept} == {(number, topic_id) for number in range(300)}
    assert len({id(one.topic_id) for one in kept}) == 1


@given(st.data(), st.none() | st.binary(min_size=16, max_size=16))
@settings(deadline=None, max_examples=share_of(200))
def test_bytes_that_are_no_records_are_left_to_the_careful_reader(data: st.DataObject, topic_id: bytes | None) -> None:
    """The fast reader takes only records that the careful reader takes, and reads the same."""
    records = [CommittedOffset("g", "t", number, number, 3, "", 5, topic_id=topic_id) for number in range(3)]
    batch = encode_batch([encode(record) for record in records], timestamp_ms=5)
    payload = bytearray(record_bytes(read_header(batch), batch))
    for _ in range(data.draw(st.integers(1, 3))):
        payload[data.draw(st.integers(0, len(payload) - 1))] = data.draw(st.integers(0, 255))
    bench = Bench()
    shard = Shard(0, bench.log, bench.shard._tools._replace(directory={}))  # type: ignore[arg-type]
    taken, at = CommonCommits(shard).apply(bytes(payload), 0, 3)
    careful = Shard(0, bench.log, bench.shard._tools._replace(directory={}))  # type: ignore[arg-type]
    for entry in decode_records(bytes(payload[:at]), replace(read_header(batch), record_count=taken)):
        record = decode(entry.key, entry.value)
        assert isinstance(record, CommittedOffset)
        careful.apply(record)
    assert table_of(shard) == table_of(careful)


@given(st.integers(1, 40), st.integers(1, 12))
@settings(deadline=None)
def test_slices_of_a_batch_are_all_of_its_records_in_order(count: int, most: int) -> None:
    batch = encode_batch([(b"k", bytes([number]) * number) for number in range(count)], timestamp_ms=5)
    header = read_header(batch)
    parts = list(record_slices(record_bytes(header, batch), header, most))
    assert all(part_header.record_count <= most for _part, part_header in parts)
    found = [entry for part, part_header in parts for entry in decode_records(part, part_header)]
    assert found == decode_records(record_bytes(header, batch), header)
