"""A group's offsets are written to the cluster's own coordinator, when nobody is left to be disturbed by it."""

from collections.abc import Mapping

import pytest

from muster.blocking import cluster
from muster.net.dialects import ClientDialect
from protocol.errors import ErrorCode
from protocol.kafka.features import GATEWAY_FEATURE
from protocol.messages import Message
from protocol.messages.groups import DescribedGroup, DescribedMember, DescribeGroups, DescribeGroupsReply
from protocol.messages.node import ApiVersion, ApiVersionsReply
from protocol.messages.offsets import (
    OffsetCommit,
    OffsetCommitPartitionReply,
    OffsetCommitReply,
    OffsetCommitTopicReply,
)
from tests.cli.conftest import Shell
from tests.cli.fake_node import FakeDriver, FakeNode

TO = ("--to", "broker:9092")


class FakeBroker(FakeNode):
    """`error`: what commits are refused with, `errors` those of some partitions; `is_deaf`: it says yes and keeps
    nothing."""

    error = ErrorCode.NONE
    errors: Mapping[tuple[str, int], ErrorCode] = {}
    is_deaf = False
    moves = 0

    def DescribeGroups(self, message: DescribeGroups) -> Message:  # noqa: N802
        if self.moves:
            self.moves -= 1
            return DescribeGroupsReply((DescribedGroup(message.groups[0], ErrorCode.NOT_COORDINATOR),))
        return super().DescribeGroups(message)

    def OffsetCommit(self, message: OffsetCommit) -> Message:  # noqa: N802
        for topic in message.topics:
            for part in topic.partitions:
                if not self._error(topic.name, part.partition_index) and not self.is_deaf:
                    self.committed[topic.name, part.partition_index] = part.committed_offset
        return OffsetCommitReply(
            tuple(
                OffsetCommitTopicReply(
                    topic.name,
                    tuple(
                        OffsetCommitPartitionReply(part.partition_index, self._error(topic.name, part.partition_index))
                        for part in topic.partitions
                    ),
                )
                for topic in message.topics
            )
        )

    def _error(self, topic: str, partition: int) -> ErrorCode:
        return self.errors.get((topic, partition), self.error)


@pytest.fixture
def broker(node: FakeNode, monkeypatch: pytest.MonkeyPatch) -> FakeBroker:
    there = FakeBroker()
    there.groups.clear()
    there.committed = {}
    there.make_topic("flights", 2)
    there.apis = (8, 9, 18, 25, 28)
    monkeypatch.setattr(
        cluster,
        "CallerDriver",
        lambda where, *_: FakeDriver(there if where.dialect is ClientDialect.KAFKA else node, where),
    )
    node.groups["orders"] = DescribedGroup("orders", group_state="Empty")
    node.committed = {("flights", 0): 7, ("flights", 1): 9}
    return there


def test_what_is_to_be_written_is_shown_and_written_when_it_is_confirmed(shell: Shell, broker: FakeBroker) -> None:
    broker.committed = {("flights", 1): 3}
    lines = shell.lines("groups", "hand-back", "orders", *TO, typed="y\n")
    assert [line.split() for line in lines[:3]] == [
        ["TOPIC", "PARTITION", "AT", "THE", "CLUSTER", "HERE"],
        ["flights", "0", "-", "7"],
        ["flights", "1", "3", "9"],
    ]
    assert "read them back" in lines[-1]
    assert broker.committed == {("flights", 0): 7, ("flights", 1): 9}


def test_nothing_is_written_without_a_yes(shell: Shell, broker: FakeBroker) -> None:
    shell.run("groups", "hand-back", "orders", *TO, typed="n\n", code=1)
    assert broker.committed == {}


def test_what_is_there_already_is_not_written(shell: Shell, broker: FakeBroker) -> None:
    broker.committed = {("flights", 0): 7, ("flights", 1): 9}
    (line,) = shell.lines("groups", "hand-back", "orders", *TO, "--yes")
    assert line == "The cluster has all 2 offsets of group orders already."


@pytest.mark.parametrize("where", ["here", "at the cluster"])
def test_a_group_with_members_stays_where_it_is(shell: Shell, broker: FakeBroker, node: FakeNode, where: str) -> None:
    busy = DescribedGroup("orders", group_state="Stable", members=(DescribedMember("m-1", None, "app-1", "/10.0.0.1"),))
    (node if where == "here" else broker).groups["orders"] = busy
    complaint = shell.complaint("groups", "hand-back", "orders", *TO, "--yes")
    assert f"1 member {where} (app-1 at 10.0.0.1): stop it first" in complaint
    assert broker.committed == {}


def test_a_listener_of_musters_own_is_refused_and_a_broker_is_named(
    shell: Shell, broker: FakeBroker, node: FakeNode
) -> None:
    broker.apis = node.apis
    said = shell.complaint("groups", "hand-back", "orders", *TO, "--yes")
    assert "broker:9092 is a listener of Muster's: name a broker of the cluster" in said
    node.beside = {("flights", 0): 0}
    said = shell.complaint("groups", "hand-back", "orders", *TO, "--yes")
    assert "broker:9092 is a listener of Muster's: name a broker, say broker:9" in said
    assert broker.committed == {}


def test_a_cluster_that_says_musters_listener_coordinates_is_refused_too(
    shell: Shell, broker: FakeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = [broker.apis, (8, 9, 18)]
    reply = lambda _message: ApiVersionsReply(api_keys=tuple(ApiVersion(key, 0, 9) for key in told.pop(0)))  # noqa: E731
    monkeypatch.setattr(broker, "ApiVersions", reply, raising=False)
    said = shell.complaint("groups", "hand-back", "orders", *TO, "--yes")
    assert "h:9, which coordinates there, is a listener of Muster's" in said
    assert broker.committed == {}


def test_a_listener_that_offers_transactions_says_whose_it_is(
    shell: Shell, broker: FakeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    offered = tuple(ApiVersion(key, 0, 9) for key in broker.apis)
    reply = ApiVersionsReply(api_keys=offered, supported_features=(GATEWAY_FEATURE,))
    monkeypatch.setattr(broker, "ApiVersions", lambda _message: reply, raising=False)
    said = shell.complaint("groups", "hand-back", "orders", *TO, "--yes")
    assert "broker:9092 is a listener of Muster's" in said
    assert broker.committed == {}


def test_a_broker_that_musterd_names_is_none_of_its_listeners_whatever_it_offers(
    shell: Shell, broker: FakeBroker, node: FakeNode
) -> None:
    broker.apis, broker.at = node.apis, ("broker", 9)
    node.beside = {("flights", 0): 0}
    shell.run("groups", "hand-back", "orders", "--yes")
    assert broker.committed == {("flights", 0): 7, ("flights", 1): 9}


def test_without_an_address_the_brokers_are_those_that_musterd_names(
    shell: Shell, broker: FakeBroker, node: FakeNode
) -> None:
    said = shell.complaint("groups", "hand-back", "orders", "--yes")
    assert "say where with --to" in said
    node.beside = {("flights", 0): 0}
    shell.run("groups", "hand-back", "orders", "--yes")
    assert "kafka://broker:9" in broker.bootstraps
    assert broker.committed == {("flights", 0): 7, ("flights", 1): 9}


def test_where_nobody_is_that_is_said_at_once(shell: Shell, broker: FakeBroker) -> None:
    broker.reachable = False
    shell.complaint("groups", "hand-back", "orders", *TO, "--yes", code=5)
    assert broker.questions == 1


def test_a_group_without_offsets_has_nothing_to_hand_back(shell: Shell, broker: FakeBroker, node: FakeNode) -> None:
    node.committed = {}
    assert "no committed offsets" in shell.complaint("groups", "hand-back", "orders", *TO, "--yes")


def test_a_refused_write_is_told(shell: Shell, broker: FakeBroker) -> None:
    broker.error = ErrorCode.GROUP_AUTHORIZATION_FAILED
    result = shell.run("groups", "hand-back", "orders", *TO, "--yes", code=1)
    assert "flights-0 was not written: GROUP_AUTHORIZATION_FAILED" in result.stderr


def test_of_what_is_refused_the_rest_is_written_and_read_back(shell: Shell, broker: FakeBroker) -> None:
    broker.errors = {("flights", 0): ErrorCode.TOPIC_AUTHORIZATION_FAILED}
    result = shell.run("groups", "hand-back", "orders", *TO, "--yes", code=1)
    assert result.stderr == (
        "muster: flights-0 was not written: TOPIC_AUTHORIZATION_FAILED; written and read back: flights-1. "
        "Hand back again for what is missing\n"
    )
    assert broker.committed == {("flights", 1): 9}


def test_partitions_that_the_cluster_does_not_have_are_left_out_and_named(
    shell: Shell, broker: FakeBroker, node: FakeNode
) -> None:
    node.committed |= {("flights", 2): 5, ("gone", 0): 1, ("gone", 3): 1}
    lines = shell.lines("groups", "hand-back", "orders", *TO, "--yes")
    assert lines[0].startswith("Left out, because the cluster has no such partitions: flights 2, gone 0 3. Here ")
    assert [line.split()[:2] for line in lines[2:4]] == [["flights", "0"], ["flights", "1"]]
    assert lines[4].startswith("Wrote 2 offsets, and read them back.")
    assert broker.committed == {("flights", 0): 7, ("flights", 1): 9}
    again = shell.lines("groups", "hand-back", "orders", *TO, "--yes")
    assert again[1] == "The cluster has all 2 offsets of group orders already."


def test_a_topic_that_goes_while_offsets_are_written_is_left_out_too(shell: Shell, broker: FakeBroker) -> None:
    broker.errors = {("flights", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    lines = shell.lines("groups", "hand-back", "orders", *TO, "--yes")
    assert "Left out, because the cluster has no such partitions: flights 0." in lines[-2]
    assert lines[-1].startswith("Wrote 1 offset, and read it back.")
    broker.errors, broker.error = {}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    broker.committed = {}
    assert "nothing was written" in shell.run("groups", "hand-back", "orders", *TO, "--yes", code=1).stderr


def test_a_cluster_without_any_of_the_topics_is_handed_nothing(shell: Shell, broker: FakeBroker) -> None:
    broker.topics.clear()
    result = shell.run("groups", "hand-back", "orders", *TO, "--yes", code=1)
    assert "flights 0 1" in result.stdout
    assert "the cluster has none of the topics" in result.stderr


def test_one_offset_is_one(shell: Shell, broker: FakeBroker, node: FakeNode) -> None:
    node.committed = {("flights", 0): 7}
    lines = shell.lines("groups", "hand-back", "orders", *TO, typed="y\n")
    assert "Write this 1 offset to" in lines[2]
    assert "Wrote 1 offset, and read it back." in lines[-1]
    assert shell.lines("groups", "hand-back", "orders", *TO) == [
        "The cluster has the 1 offset of group orders already."
    ]


def test_what_cannot_be_read_back_is_told(shell: Shell, broker: FakeBroker) -> None:
    broker.is_deaf = True
    result = shell.run("groups", "hand-back", "orders", *TO, "--yes", code=1)
    assert "does not give back" in result.stderr


def test_a_coordinator_that_moves_is_looked_for_again(shell: Shell, broker: FakeBroker) -> None:
    broker.moves = 1
    shell.run("groups", "hand-back", "orders", *TO, "--yes")
    assert broker.committed == {("flights", 0): 7, ("flights", 1): 9}


def test_what_is_no_address_is_a_usage_error(shell: Shell, broker: FakeBroker) -> None:
    assert "--to" in shell.complaint("groups", "hand-back", "orders", "--to", "broker:x", code=2)
