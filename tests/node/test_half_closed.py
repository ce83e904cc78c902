"""A client that says nothing more, and listens for what it asked for."""

from coordinator.node.events import Ended
from protocol.messages.node import DescribeNode, DescribeNodeReply
from protocol.messages.offsets import OffsetCommit, OffsetCommitPartition, OffsetCommitReply, OffsetCommitTopic
from tests.node.node_rig import NodeRig

COMMIT = OffsetCommit("g", (OffsetCommitTopic("orders", (OffsetCommitPartition(0, 5),)),))


def test_who_waits_for_nothing_is_gone_at_once_and_no_line_of_the_log_is_lost_on_it() -> None:
    rig = NodeRig()
    rig.connect(1)
    rig.step(Ended(1))
    assert rig.closed == {1: ""}
    assert 1 not in rig.node.core.connections
    rig.step(Ended(1))
    assert rig.closed == {1: ""}


def test_it_closes_when_everything_is_answered_and_not_before() -> None:
    rig = NodeRig()
    rig.make_topic()
    rig.connect(1)
    rig.holds_disk = True
    assert rig.ask(1, COMMIT, COMMIT, DescribeNode()) != []
    rig.step(Ended(1))
    assert rig.closed == {}
    rig.flush()
    while rig.flushes:
        rig.flush()
    rig.wake_until_idle()
    commits = [reply for reply in rig.heard(1) if isinstance(reply, OffsetCommitReply)]
    assert len(commits) == 2
    assert rig.closed == {1: ""}


def test_others_are_not_concerned() -> None:
    rig = NodeRig()
    rig.connect(1)
    rig.connect(2)
    rig.step(Ended(1))
    (reply,) = rig.ask(2, DescribeNode())
    assert isinstance(reply, DescribeNodeReply)
