"""Connections on which nothing moves."""

from coordinator.node.events import Idle, Lost
from protocol.messages.data import Fetch, FetchPartition, FetchTopic
from protocol.messages.groups import JoinGroup, JoinProtocol
from protocol.messages.node import DescribeNode
from protocol.messages.offsets import OffsetCommit, OffsetCommitPartition, OffsetCommitTopic
from tests.node.node_rig import NodeRig

COMMIT = OffsetCommit("g", (OffsetCommitTopic("orders", (OffsetCommitPartition(0, 5),)),))
FETCH = Fetch((FetchTopic("orders", (FetchPartition(0, 0),)),), max_wait_ms=30_000, min_bytes=1)


def test_a_connection_that_is_owed_nothing_is_closed_and_counted() -> None:
    rig = NodeRig()
    rig.connect(1)
    rig.connect(2)
    assert rig.ask(1, DescribeNode()) != []

    rig.step(Idle(1))

    assert rig.closed == {1: ""}
    assert list(rig.node.core.connections) == [2]
    assert rig.node.core.counters["connections_idle_closed"] == 1
    rig.step(Idle(1))
    rig.step(Lost(1))
    assert rig.node.core.counters["connections_idle_closed"] == 1


def test_a_fetch_that_waits_for_records_is_answered_however_long_it_waits() -> None:
    rig = NodeRig()
    rig.make_topic()
    rig.connect(1)
    assert rig.ask(1, FETCH) == []

    rig.step(Idle(1))

    assert rig.closed == {}
    rig.wait(30_000)
    assert len(rig.heard(1)) == 1
    rig.step(Idle(1))
    assert rig.closed == {1: ""}


def test_a_member_whose_join_waits_for_others_keeps_its_connection() -> None:
    rig = NodeRig(group_initial_rebalance_delay_ms=5_000)
    rig.connect(1)
    join = JoinGroup("g", 10_000, protocol_type="consumer", protocols=(JoinProtocol("r"),), wants_member_id_first=False)
    assert rig.ask(1, join) == []

    rig.step(Idle(1))

    assert rig.closed == {}


def test_a_commit_that_waits_for_the_disk_keeps_its_connection() -> None:
    rig = NodeRig()
    rig.make_topic()
    rig.connect(1)
    rig.holds_disk = True
    assert rig.ask(1, COMMIT) == []

    rig.step(Idle(1))

    assert rig.closed == {}
    rig.flush()
    assert len(rig.heard(1)) == 1
