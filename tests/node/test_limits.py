"""Everything that can grow has its limit: what waits, what is kept of groups that are gone, what members say."""

from pathlib import Path

import pytest

from coordinator.config import ConfigError, load_config
from coordinator.events import Lost
from coordinator.journal import Journal
from coordinator.records import Note
from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.messages.data import Fetch, FetchPartition, FetchReply, FetchTopic
from protocol.messages.groups import JoinGroup, JoinGroupReply, JoinProtocol, ListNotes
from protocol.messages.offsets import OffsetCommit, OffsetCommitPartition, OffsetCommitReply, OffsetCommitTopic
from tests.node.desk import Desk

_LONG_POLL = Fetch((FetchTopic("orders", (FetchPartition(0, 0),)),), max_wait_ms=30_000)


def _join(desk: Desk, group_id: str, metadata: bytes = b"") -> Message | None:
    offer = (JoinProtocol("range", metadata),)
    join = JoinGroup(group_id, 6_000, protocol_type="consumer", protocols=offer, wants_member_id_first=False)
    return desk.ask_inside(join)


def test_beyond_the_operations_that_may_wait_fetches_wait_no_more_and_newcomers_are_refused() -> None:
    desk = Desk(max_watched_operations=1_000, max_requests_per_connection=2_000)
    desk.make_topic()
    desk.connect(1)
    desk.ask(1, *[_LONG_POLL] * 1_000)
    desk.wake_until_idle()
    assert len(desk.heard(1)) == 2, "two chores have their place"
    assert len(desk.node.core.purgatory) == 1_000
    (at_once,) = desk.ask(1, _LONG_POLL)
    assert isinstance(at_once, FetchReply)
    refused = _join(desk, "g")
    assert isinstance(refused, JoinGroupReply)
    assert refused.error_code is ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_a_fetch_whose_connection_is_gone_reads_nothing() -> None:
    desk = Desk()
    desk.make_topic()
    desk.connect(1)
    desk.ask(1, _LONG_POLL)
    desk.step(Lost(1))
    waiting = len(desk.node.core.purgatory)
    desk.wait(30_000)
    assert len(desk.node.core.purgatory) == waiting - 1
    assert not desk.node.core.outbox


def test_small_metadata_adds_up_to_the_limit_of_the_group() -> None:
    desk = Desk(group_max_metadata_bytes=2_000_000)
    errors = []
    for _ in range(1_100):
        reply = _join(desk, "g", bytes(1_900))
        errors.append(reply.error_code if isinstance(reply, JoinGroupReply) else ErrorCode.NONE)
    group = desk.node.core.find("g")[1]
    assert group is not None
    assert group.metadata_bytes <= 2_000_000
    assert errors[-1] is ErrorCode.MESSAGE_TOO_LARGE


def test_notes_of_groups_long_quiet_are_forgotten_beyond_the_most_groups_there_may_be() -> None:
    journal = Journal(limit=5, max_groups=2)
    for group_id in ("a", "b", "a", "c"):
        note = Note(group_id, "rebalance", "member joined", "m", "", 1, 1, "Stable", 7)
        for numbered in journal.number([note]):
            journal.add(numbered)
    kept = {group_id: len(journal.list(ListNotes(group_id)).notes) for group_id in "abc"}
    assert kept == {"a": 2, "b": 0, "c": 1}


def test_the_longest_text_with_an_offset_fits_a_record_whatever_its_characters() -> None:
    desk = Desk(offset_metadata_max_bytes=10_922)
    desk.make_topic()
    part = OffsetCommitPartition(0, 5, committed_metadata="\u20ac" * 10_922)
    reply = desk.ask_inside(OffsetCommit("g", (OffsetCommitTopic("orders", (part,)),), retention_time_ms=1_000))
    assert isinstance(reply, OffsetCommitReply)
    assert reply.topics[0].partitions[0].error_code is ErrorCode.NONE
    with pytest.raises(ConfigError, match=r"offset\.metadata\.max\.bytes"):
        load_config(["--set", "offset.metadata.max.bytes=10923"], {}, lambda path: Path(path).read_bytes())
