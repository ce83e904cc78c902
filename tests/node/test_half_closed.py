"""A client that says nothing more, and listens for what it asked for."""

from coordinator.node.events import Ended
from protocol.messages.node import DescribeNode, DescribeNodeReply
from protocol.messages.offsets import OffsetCommit, OffsetCommitPartition, OffsetCommitReply, OffsetCommitTopic
from tests.node.desk import Desk

COMMIT = OffsetCommit("g", (OffsetCommitTopic("orders", (OffsetCommitPartition(0, 5),)),))


def test_who_waits_for_nothing_is_gone_at_once_and_no_line_of_the_log_is_lost_on_it() -> None:
    desk = Desk()
    desk.connect(1)
    desk.step(Ended(1))
    assert desk.closed == {1: ""}
    assert 1 not in desk.node.core.connections
    desk.step(Ended(1))
    assert desk.closed == {1: ""}


def test_it_closes_when_everything_is_answered_and_not_before() -> None:
    desk = Desk()
    desk.make_topic()
    desk.connect(1)
    desk.holds_disk = True
    assert desk.ask(1, COMMIT, COMMIT, DescribeNode()) != []
    desk.step(Ended(1))
    assert desk.closed == {}
    desk.flush()
    while desk.flushes:
        desk.flush()
    desk.wake_until_idle()
    commits = [reply for reply in desk.heard(1) if isinstance(reply, OffsetCommitReply)]
    assert len(commits) == 2
    assert desk.closed == {1: ""}


def test_others_are_not_concerned() -> None:
    desk = Desk()
    desk.connect(1)
    desk.connect(2)
    desk.step(Ended(1))
    (reply,) = desk.ask(2, DescribeNode())
    assert isinstance(reply, DescribeNodeReply)
