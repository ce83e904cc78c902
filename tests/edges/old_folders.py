"""Data folders as an earlier version left them: made once by its code, and kept as archives.

`python -m tests.edges.old_folders COMMIT` makes `folders/COMMIT-killed.tar.xz` and `-stopped.tar.xz`, by the daemon of
that commit. What is in them is what `fill` asked for.
"""

import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Final

from muster.blocking import ClusterClient
from protocol.messages import Message
from protocol.messages.configs import (
    AlterableConfig,
    AlterConfigsResource,
    ConfigOperation,
    IncrementalAlterConfigs,
    ResourceType,
)
from protocol.messages.consumer_groups import ConsumerGroupHeartbeat, ConsumerGroupHeartbeatReply
from protocol.messages.data import Produce, ProducePartition, ProduceTopic
from protocol.messages.groups import JoinGroup, JoinGroupReply, JoinProtocol, SyncGroup, SyncGroupAssignment
from protocol.messages.offsets import OffsetCommit, OffsetCommitPartition, OffsetCommitTopic
from protocol.messages.topics import CreatableTopic, CreateTopics, DeletableTopic, DeleteTopics, TopicConfig
from protocol.record_batch import encode_batch
from tests.edges.musterd import Daemon

FOLDERS: Final = Path(__file__).parent / "folders"
SETTINGS: Final = (
    "offsets.topic.num.partitions=3",
    "group.initial.rebalance.delay.ms=0",
    "group.coordinator.rebalance.protocols=classic,consumer",
    "wal.segment.bytes=2097152",
    "offsets.topic.max.message.bytes=524288",
)
PARTITIONS, RECORDS, OFFSETS = 3, 40, 25
"""Partitions of each topic, records of each partition, and commits of a group."""
_MADE_MS = 1_763_800_000_000


def fill(daemon: Daemon) -> None:
    """Make topics, records, groups of two kinds with members and offsets, and settings."""
    with ClusterClient(daemon.bootstrap) as connection:

        def ask(message: Message) -> Message:
            return connection.ask(message, 60)

        ask(CreateTopics((CreatableTopic("orders", PARTITIONS), CreatableTopic("gone", 1))))
        ask(CreateTopics((CreatableTopic("settled", 1, configs=(TopicConfig("cleanup.policy", "compact"),)),)))
        for number in range(RECORDS):
            batch = encode_batch([(b"key-%d" % number, b"value-%d" % number)], timestamp_ms=_MADE_MS + number)
            parts = tuple(ProducePartition(index, batch) for index in range(PARTITIONS))
            ask(Produce((ProduceTopic("orders", parts),), acks=-1, timeout_ms=30_000))
        for offset in range(1, OFFSETS + 1):
            commits = tuple(OffsetCommitPartition(index, offset, committed_metadata="m") for index in range(PARTITIONS))
            ask(OffsetCommit("simple", (OffsetCommitTopic("orders", commits),)))
        join = JoinGroup("team", 60_000, "", "consumer", (JoinProtocol("range", b"s"),), wants_member_id_first=False)
        joined = ask(join)
        assert isinstance(joined, JoinGroupReply)
        assert not joined.error_code, joined
        share = (SyncGroupAssignment(joined.member_id, b"share"),)
        ask(SyncGroup("team", joined.generation_id, joined.member_id, assignments=share))
        driven = ask(
            ConsumerGroupHeartbeat(
                "driven",
                "member",
                0,
                rebalance_timeout_ms=60_000,
                subscribed_topic_names=("orders",),
                topic_partitions=(),
            )
        )
        assert isinstance(driven, ConsumerGroupHeartbeatReply)
        assert not driven.error_code, driven
        first = (OffsetCommitTopic("orders", (OffsetCommitPartition(0, 7),)),)
        ask(OffsetCommit("driven", first, driven.member_epoch, "member"))
        pinned = (AlterableConfig("group.session.timeout.ms", ConfigOperation.SET, "60000"),)
        resource = AlterConfigsResource(ResourceType.GROUP, "team", pinned)
        ask(IncrementalAlterConfigs((resource,)))
        ask(DeleteTopics((DeletableTopic("gone"),)))


def unpacked(archive: Path, folder: Path) -> Path:
    """Unpack the archive; return the data folder in it."""
    with tarfile.open(archive) as tar:
        tar.extraction_filter = getattr(tarfile, "data_filter", None)  # Python before 3.11.4 has none
        tar.extractall(folder)
    return folder / "data"


def _pack(folder: Path, archive: Path) -> None:
    with tarfile.open(archive, "w:xz") as tar:
        tar.add(folder, "data")


def main() -> None:
    commit = sys.argv[1]
    with tempfile.TemporaryDirectory() as made:
        source, data = Path(made) / "source", Path(made) / "data"
        subprocess.run(["git", "worktree", "add", "--detach", str(source), commit], check=True)
        try:
            daemon = Daemon(data, *SETTINGS)
            daemon.source = source
            daemon.start()
            fill(daemon)
            daemon.kill()
            _pack(data, FOLDERS / f"{commit}-killed.tar.xz")
            daemon.start()
            daemon.stop()
            _pack(data, FOLDERS / f"{commit}-stopped.tar.xz")
        finally:
            subprocess.run(["git", "worktree", "remove", "--force", str(source)], check=True)


if __name__ == "__main__":
    main()
