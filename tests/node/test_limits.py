"""Everything that can grow has its limit: what waits, what is kept of groups that are gone, what members say."""

from pathlib import Path

import msgpack
import pytest

from coordinator.config.config import ConfigError, load_config
from coordinator.node.events import Call, Lost, Received
from coordinator.records.records import Note
from coordinator.runtime.journal import encode_note
from partition_log.store.log_store import Appended
from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.messages.data import (
    Fetch,
    FetchPartition,
    FetchReply,
    FetchTopic,
    Produce,
    ProducePartition,
    ProduceTopic,
)
from protocol.messages.groups import (
    JoinGroup,
    JoinGroupReply,
    JoinProtocol,
    LeaveGroup,
    LeavingMember,
    ListNotes,
    SyncGroup,
    SyncGroupAssignment,
)
from protocol.messages.offsets import OffsetCommit, OffsetCommitPartition, OffsetCommitReply, OffsetCommitTopic
from protocol.messages.topics import Metadata, MetadataTopic
from protocol.record_batch import encode_batch
from tests.node.node_rig import WALL_MS, NodeRig

_LONG_POLL = Fetch((FetchTopic("orders", (FetchPartition(0, 0),)),), max_wait_ms=30_000)


def _join(rig: NodeRig, group_id: str, metadata: bytes = b"") -> Message | None:
    offer = (JoinProtocol("range", metadata),)
    join = JoinGroup(group_id, 6_000, protocol_type="consumer", protocols=offer, wants_member_id_first=False)
    return rig.ask_inside(join)


def test_beyond_the_operations_that_may_wait_fetches_wait_no_more_and_newcomers_are_refused() -> None:
    rig = NodeRig(max_watched_operations=1_000, max_requests_per_connection=2_000)
    rig.make_topic()
    rig.connect(1)
    chores = len(rig.node.core.purgatory)
    rig.ask(1, *[_LONG_POLL] * 1_000)
    rig.wake_until_idle()
    assert len(rig.heard(1)) == chores, "chores have their place"
    assert len(rig.node.core.purgatory) == 1_000
    (at_once,) = rig.ask(1, _LONG_POLL)
    assert isinstance(at_once, FetchReply)
    refused = _join(rig, "g")
    assert isinstance(refused, JoinGroupReply)
    assert refused.error_code is ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_a_fetch_ends_with_its_connection() -> None:
    rig = NodeRig()
    rig.make_topic()
    rig.connect(1)
    before = len(rig.node.core.purgatory)
    rig.ask(1, _LONG_POLL, _LONG_POLL)
    assert len(rig.node.core.purgatory) == before + 2
    rig.step(Lost(1))
    assert len(rig.node.core.purgatory) == before
    assert rig.node.core.fetches.watched == 0
    assert not rig.node.core.outbox


def test_a_fetch_ends_with_a_connection_that_is_closed_for_nonsense() -> None:
    rig = NodeRig()
    rig.make_topic()
    rig.connect(1)
    before = len(rig.node.core.purgatory)
    rig.ask(1, _LONG_POLL)
    rig.step(Received(1, b"\xc1"))
    assert 1 in rig.closed
    assert len(rig.node.core.purgatory) == before


def test_beyond_the_partitions_that_may_be_waited_for_a_fetch_is_answered_as_if_its_time_were_over() -> None:
    rig = NodeRig(max_watched_partitions=1_000)
    rig.make_topic(partitions=600)
    rig.connect(1)
    many = Fetch((FetchTopic("orders", tuple(FetchPartition(n, 0) for n in range(600))),), max_wait_ms=30_000)
    assert rig.ask(1, many) == []
    (at_once,) = rig.ask(1, many)
    assert isinstance(at_once, FetchReply)
    rig.wait(30_000)
    assert len(rig.heard(1)) == 1
    assert rig.node.core.fetches.watched == 0
    assert rig.ask(1, many) == [], "there is room again"


def test_a_partition_named_many_times_is_waited_for_and_answered_once() -> None:
    rig = NodeRig()
    rig.make_topic()
    rig.connect(1)
    again = Fetch((FetchTopic("orders", (FetchPartition(0, 0),) * 10_000),), max_wait_ms=30_000)
    assert rig.ask(1, again) == []
    assert rig.node.core.fetches.watched == 1
    rig.wait(30_000)
    (answer,) = rig.heard(1)
    assert isinstance(answer, FetchReply)
    assert [len(topic.partitions) for topic in answer.responses] == [1]


def test_many_who_wait_for_one_partition_are_answered_a_slice_a_step() -> None:
    rig = NodeRig()
    rig.make_topic()
    rig.connect(1)
    rig.ask(1, *[_LONG_POLL] * 1_000)
    rig.wake_until_idle()
    records = encode_batch([(None, b"v")], timestamp_ms=1)
    rig.step(Call(5, Produce((ProduceTopic("orders", (ProducePartition(0, records),)),))))
    assert 0 < len(rig.heard(1)) < 1_000
    rig.wake_until_idle()
    assert rig.node.core.fetches.watched == 0


def test_the_less_is_read_the_fuller_it_is_with_what_nobody_takes() -> None:
    rig = NodeRig(max_total_unsent_bytes=1 << 20)
    rig.make_topic()
    rig.connect(1)
    records = encode_batch([(None, bytes(10_000))], timestamp_ms=1)
    for call in range(40):
        rig.ask_inside(Produce((ProduceTopic("orders", (ProducePartition(0, records),)),)), call)
    given = []
    for _ in range(80):
        rig.step(Call(1_000, _LONG_POLL))
        answer = rig.replied[1_000]
        assert isinstance(answer, FetchReply)
        given.append(len(answer.responses[0].partitions[0].records) // len(records))
    assert given[0] > 10
    assert given == sorted(given, reverse=True)
    assert given[-1] == 1, "every reader gets on"


def test_who_holds_most_of_what_is_no_request_yet_is_closed() -> None:
    rig = NodeRig(max_unfinished_bytes=1 << 20, native_max_frame_bytes=1 << 20)
    for number in range(1, 4):
        rig.connect(number)
    begun = msgpack.packb([0, 1, "Produce", [{"x": bytes(900_000)}]])
    rig.step(Received(1, begun[:300_000]))
    rig.step(Received(2, begun[:500_000]))
    assert rig.closed == {}
    rig.step(Received(3, begun[:400_000]))
    assert list(rig.closed) == [2]
    assert "unfinished" in rig.closed[2]


def test_a_join_that_adds_to_what_all_groups_hold_beyond_the_limit_is_refused() -> None:
    rig = NodeRig(max_metadata_bytes=1 << 20)
    errors = [getattr(_join(rig, f"g{n}", bytes(300_000)), "error_code", ErrorCode.NONE) for n in range(5)]
    assert errors[:3] == [ErrorCode.NONE] * 3
    assert errors[3:] == [ErrorCode.COORDINATOR_NOT_AVAILABLE] * 2
    held = sum(shard.counts.metadata_bytes for shard in rig.node.core.shards)
    assert held == 900_000
    rig.wait(7_000)
    assert sum(shard.counts.metadata_bytes for shard in rig.node.core.shards) == 0, "their sessions are over"
    assert getattr(_join(rig, "g9", bytes(300_000)), "error_code", ErrorCode.NONE) is ErrorCode.NONE


def test_metadata_makes_topics_up_to_nine_tenths_of_the_most_and_the_rest_is_for_those_made_on_purpose() -> None:
    rig = NodeRig()
    for first in range(0, 10_500, 500):
        rig.ask_inside(Metadata(tuple(MetadataTopic(name=f"t{n}") for n in range(first, first + 500)), True))
    assert rig.node.core.topics.topic_count == 9_000
    rig.make_topic("on-purpose")
    assert rig.node.core.topics.topic_count == 9_001


def test_small_metadata_adds_up_to_the_limit_of_the_group() -> None:
    rig = NodeRig(group_max_metadata_bytes=2_000_000)
    errors = []
    for _ in range(1_100):
        reply = _join(rig, "g", bytes(1_900))
        errors.append(reply.error_code if isinstance(reply, JoinGroupReply) else ErrorCode.NONE)
    group = rig.node.core.find("g")[1]
    assert group is not None
    assert group.classic.metadata_bytes <= 2_000_000
    assert errors[-1] is ErrorCode.MESSAGE_TOO_LARGE


def test_the_journal_in_memory_is_bounded_by_bytes_as_it_is_on_disk() -> None:
    rig = NodeRig(journal_retention_bytes=1 << 20)
    protocols = (JoinProtocol("range", bytes(2)),)
    for number in range(1_500):
        for _ in range(2):
            group_id = f"console-consumer-{number}"
            joined = rig.ask_inside(JoinGroup(group_id, 6_000, "", "consumer", protocols, 6_000, None, None, False))
            assert isinstance(joined, JoinGroupReply)
            rig.ask_inside(LeaveGroup(group_id, (LeavingMember(joined.member_id),)))
    journal = rig.node.core.journal
    assert journal.kept_bytes <= 1 << 20
    newest, oldest = (len(journal.list(ListNotes(f"console-consumer-{n}")).notes) for n in (1_499, 0))
    assert newest > 4 and oldest == 0


@pytest.mark.parametrize("syncs", [True, False])
def test_two_processes_with_one_instance_id_do_not_erase_their_groups_history(*, syncs: bool) -> None:
    rig = NodeRig(group_initial_rebalance_delay_ms=0, journal_notes_per_group=20)
    log = rig.store.log("__muster_notes-0")
    for _ in range(200):
        joined = _join_static(rig, "orders-1")
        if syncs:
            assigned = (SyncGroupAssignment(joined.member_id, b""),)
            rig.ask_inside(SyncGroup("g", joined.generation_id, joined.member_id, assignments=assigned))
    notes = rig.node.core.journal.list(ListNotes("g")).notes
    assert [note.cause for note in notes][:2] == ["member joined", "rebalance completed"]
    assert {note.kind: note.times for note in notes[2:]}["replaced" if syncs else "rebalance"] == 199
    assert len(notes) <= 5
    assert log.size_bytes < 12_000, "nor those of others on disk"
    rig.wait(1_000)  # notes that nobody waits for are on disk by then
    rig.disk.crash()
    again = NodeRig(rig.disk, journal_notes_per_group=20).node.core.journal.list(ListNotes("g")).notes
    assert [(note.kind, note.cause) for note in again] == [(note.kind, note.cause) for note in notes]


def _join_static(rig: NodeRig, instance: str) -> JoinGroupReply:
    protocols = (JoinProtocol("range", bytes(2)),)
    request = JoinGroup("g", 6_000, "", "consumer", protocols, 6_000, instance, wants_member_id_first=False)
    reply = rig.ask_inside(request)
    assert isinstance(reply, JoinGroupReply) and not reply.error_code
    return reply


def test_the_longest_text_with_an_offset_fits_a_record_whatever_its_characters() -> None:
    rig = NodeRig(offset_metadata_max_bytes=10_922)
    rig.make_topic()
    part = OffsetCommitPartition(0, 5, committed_metadata="\u20ac" * 10_922)
    reply = rig.ask_inside(OffsetCommit("g", (OffsetCommitTopic("orders", (part,)),), retention_time_ms=1_000))
    assert isinstance(reply, OffsetCommitReply)
    assert reply.topics[0].partitions[0].error_code is ErrorCode.NONE
    with pytest.raises(ConfigError, match=r"offset\.metadata\.max\.bytes"):
        load_config(["--set", "offset.metadata.max.bytes=10923"], {}, lambda path: Path(path).read_bytes())


def test_the_journal_on_disk_does_not_grow_for_ever() -> None:
    rig = NodeRig(journal_retention_bytes=1 << 20, log_retention_check_interval_ms=1_000)
    log = rig.store.log("__muster_notes-0")
    note = encode_note(Note("g", "admin", "because", "somebody", "x" * 3_000, 1, 0, "Empty", WALL_MS, 1))
    for _ in range(900):
        assert isinstance(rig.store.append(log, encode_batch([note], timestamp_ms=WALL_MS)), Appended)
        if log.next_offset % 20 == 0:
            rig.wait(1_000)
    for _ in range(5):
        rig.wait(1_000)
    assert log.size_bytes < (1 << 20) + (1 << 17)
    assert log.start_offset > 300
    rig.disk.crash()
    assert len(NodeRig(rig.disk, journal_retention_bytes=1 << 20).node.core.journal) == 200
