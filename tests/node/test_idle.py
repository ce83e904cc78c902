"""Connections on which nothing moves."""

from coordinator.node.events import Idle, Lost
from protocol.messages.data import Fetch, FetchPartition, FetchTopic
from protocol.messages.groups import JoinGroup, JoinProtocol
from protocol.messages.node import DescribeNode
from protocol.messages.offsets import OffsetCommit, OffsetCommitPartition, OffsetCommitTopic
from tests.node.desk import Desk

COMMIT = OffsetCommit("g", (OffsetCommitTopic("orders", (OffsetCommitPartition(0, 5),)),))
FETCH = Fetch((FetchTopic("orders", (FetchPartition(0, 0),)),), max_wait_ms=30_000, min_bytes=1)


def test_a_connection_that_is_owed_nothing_is_closed_and_counted() -> None:
    desk = Desk()
    desk.connect(1)
    desk.connect(2)
    assert desk.ask(1, DescribeNode()) != []

    desk.step(Idle(1))

    assert desk.closed == {1: ""}
    assert list(desk.node.core.connections) == [2]
    assert desk.node.core.counters["connections_idle_closed"] == 1
    desk.step(Idle(1))
    desk.step(Lost(1))
    assert desk.node.core.counters["connections_idle_closed"] == 1


def test_a_fetch_that_waits_for_records_is_answered_however_long_it_waits() -> None:
    desk = Desk()
    desk.make_topic()
    desk.connect(1)
    assert desk.ask(1, FETCH) == []

    desk.step(Idle(1))

    assert desk.closed == {}
    desk.wait(30_000)
    assert len(desk.heard(1)) == 1
    desk.step(Idle(1))
    assert desk.closed == {1: ""}


def test_a_member_whose_join_waits_for_others_keeps_its_connection() -> None:
    desk = Desk(group_initial_rebalance_delay_ms=5_000)
    desk.connect(1)
    join = JoinGroup("g", 10_000, protocol_type="consumer", protocols=(JoinProtocol("r"),), wants_member_id_first=False)
    assert desk.ask(1, join) == []

    desk.step(Idle(1))

    assert desk.closed == {}


def test_a_commit_that_waits_for_the_disk_keeps_its_connection() -> None:
    desk = Desk()
    desk.make_topic()
    desk.connect(1)
    desk.holds_disk = True
    assert desk.ask(1, COMMIT) == []

    desk.step(Idle(1))

    assert desk.closed == {}
    desk.flush()
    assert len(desk.heard(1)) == 1
