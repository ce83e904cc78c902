"""A daemon over the data folder of an earlier version: killed, or stopped cleanly (docs/operations.md, Upgrades)."""

from pathlib import Path

import pytest

from coordinator.tools import log_command
from muster.blocking import ClusterClient
from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.messages.configs import DescribeConfigs, DescribeConfigsReply, DescribeConfigsResource, ResourceType
from protocol.messages.consumer_groups import (
    ConsumerGroupDescribe,
    ConsumerGroupDescribeReply,
    ConsumerGroupHeartbeat,
    ConsumerGroupHeartbeatReply,
)
from protocol.messages.data import Fetch, FetchPartition, FetchReply, FetchTopic
from protocol.messages.groups import DescribeGroups, DescribeGroupsReply, ListNotes, ListNotesReply
from protocol.messages.offsets import OffsetFetch, OffsetFetchGroup, OffsetFetchReply
from protocol.messages.topics import Metadata, MetadataReply
from protocol.record_batch import batches, decode_batch
from tests.edges.musterd import Daemon, running
from tests.edges.old_folders import FOLDERS, OFFSETS, PARTITIONS, RECORDS, SETTINGS, unpacked

ARCHIVES = sorted(FOLDERS.glob("*.tar.xz"))


def ask(daemon: Daemon, message: Message) -> Message:
    with ClusterClient(daemon.bootstrap) as connection:
        return connection.ask(message, 60)


def offsets_of(daemon: Daemon, group_id: str) -> dict[int, int]:
    reply = ask(daemon, OffsetFetch((OffsetFetchGroup(group_id),)))
    assert isinstance(reply, OffsetFetchReply)
    return {part.partition_index: part.committed_offset for one in reply.groups[0].topics for part in one.partitions}


def check(daemon: Daemon) -> None:
    """Everything is there that was acknowledged to who filled the folder."""
    assert offsets_of(daemon, "simple") == dict.fromkeys(range(PARTITIONS), OFFSETS)
    topics = ask(daemon, Metadata(None))
    assert isinstance(topics, MetadataReply)
    own = {one.name: len(one.partitions) for one in topics.topics if not one.is_internal}
    assert own == {"orders": PARTITIONS, "settled": 1}
    described = ask(daemon, DescribeConfigs((DescribeConfigsResource(ResourceType.TOPIC, "settled"),)))
    assert isinstance(described, DescribeConfigsReply)
    assert {one.name: one.value for one in described.results[0].configs}["cleanup.policy"] == "compact"
    for index in range(PARTITIONS):
        fetched = ask(daemon, Fetch((FetchTopic("orders", (FetchPartition(index, 0),)),), max_wait_ms=0))
        assert isinstance(fetched, FetchReply)
        (part,) = fetched.responses[0].partitions
        keys = [one.key for _, batch in batches(part.records or b"") for one in decode_batch(batch)]
        assert keys == [b"key-%d" % n for n in range(RECORDS)]
    notes = ask(daemon, ListNotes("team"))
    assert isinstance(notes, ListNotesReply)
    assert "rebalance completed" in [one.cause for one in notes.notes]


def check_members(daemon: Daemon) -> None:
    """Members are there, and go on as they were."""
    reply = ask(daemon, DescribeGroups(("team",)))
    assert isinstance(reply, DescribeGroupsReply)
    (team,) = reply.groups
    assert (team.group_state, [one.member_assignment for one in team.members]) == ("Stable", [b"share"])
    driven = ask(daemon, ConsumerGroupDescribe(("driven",)))
    assert isinstance(driven, ConsumerGroupDescribeReply)
    (member,) = driven.groups[0].members
    assert [one.partitions for one in member.assignment.topic_partitions] == [tuple(range(PARTITIONS))]
    beat = ask(daemon, ConsumerGroupHeartbeat("driven", "member", member.member_epoch))
    assert isinstance(beat, ConsumerGroupHeartbeatReply)
    assert beat.error_code is ErrorCode.NONE
    assert offsets_of(daemon, "driven") == {0: 7}


@pytest.mark.parametrize("archive", ARCHIVES, ids=lambda archive: archive.name.partition(".")[0])
def test_the_folder_of_an_earlier_version_is_served_whole(archive: Path, tmp_path: Path) -> None:
    folder = unpacked(archive, tmp_path)
    assert log_command.main(["verify", str(folder)]) == 0
    with running(folder, *SETTINGS) as daemon:
        check_members(daemon)
        check(daemon)
        assert daemon.stop() == 0
    assert log_command.main(["verify", str(folder)]) == 0
    with running(folder, *SETTINGS) as daemon:
        check(daemon)


def test_there_are_folders_of_an_earlier_version() -> None:
    endings = {one.name.rpartition("-")[2] for one in ARCHIVES}
    assert endings == {"killed.tar.xz", "stopped.tar.xz"}
