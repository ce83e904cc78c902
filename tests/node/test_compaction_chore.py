"""Compaction as a node does it: in slices between requests, of logs that nobody is replaying."""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from coordinator.core.core import Core
from coordinator.runtime.shard import ShardState
from coordinator.tasks.cleaning import cleanable_logs
from partition_log.cleanup_policy import Compact
from partition_log.log.partition_log import PartitionLog
from protocol.messages.node import DescribeNode, DescribeNodeReply
from protocol.messages.offsets import (
    OffsetCommit,
    OffsetCommitPartition,
    OffsetCommitTopic,
    OffsetFetch,
    OffsetFetchGroup,
    OffsetFetchTopic,
)
from protocol.messages.topics import CreatableTopic, CreateTopics, TopicConfig
from tests.node.node_rig import NodeRig

SETTINGS: dict[str, Any] = {
    "offsets_topic_segment_bytes": 16 * 1024,
    "log_cleaner_backoff_ms": 1_000,
    "cleaning_slice_bytes": 4_096,
}


def _cleanable(core: Core) -> Iterator[PartitionLog]:
    return cleanable_logs(core.shards, core.own_logs, core.embedded)


def commit_many(rig: NodeRig, times: int) -> None:
    for number in range(times):
        topic = OffsetCommitTopic("orders", tuple(OffsetCommitPartition(part, number) for part in range(4)))
        assert rig.ask_inside(OffsetCommit("g", (topic,))) is not None


def log_bytes(rig: NodeRig) -> int:
    return sum(shard.log.size_bytes for shard in rig.node.core.shards)


def test_the_offsets_log_of_a_group_that_commits_for_ever_stays_small() -> None:
    rig = NodeRig(**SETTINGS)
    rig.make_topic()
    for _round in range(6):
        commit_many(rig, 300)
        rig.wait(1_000)
        for _ in range(100):
            rig.wait(20)
    assert rig.node.core.counters["compaction_passes"] > 0
    assert log_bytes(rig) < 3 * 16 * 1024, "what is live, and a segment that is not closed"
    reply = rig.ask_inside(OffsetFetch((OffsetFetchGroup("g", (OffsetFetchTopic("orders", (0, 1, 2, 3)),)),)))
    assert [part.committed_offset for part in reply.groups[0].topics[0].partitions] == [299] * 4  # type: ignore[union-attr]


def wait_for_pass(rig: NodeRig, before: int, slices: int) -> bool:
    """Return true if a pass ends within this number of slices, without appends."""
    for _ in range(slices):
        rig.wait(1)
        if passes(rig) > before:
            return True
    return False


def passes(rig: NodeRig) -> int:
    return rig.node.core.counters.get("compaction_passes", 0)


def test_cleaning_rests_while_others_append_and_goes_on_when_they_pause() -> None:
    rig = NodeRig(**{**SETTINGS, "log_cleaner_backoff_ms": 1})
    rig.make_topic()
    commit_many(rig, 300)
    assert wait_for_pass(rig, 0, 2_000)
    commit_many(rig, 300)  # there is something to clean again
    busy = passes(rig)
    for _ in range(90):
        commit_many(rig, 1)
        rig.wait(1)
    assert passes(rig) == busy, "a swap that took a millisecond is followed by a hundred of rest"
    assert wait_for_pass(rig, busy, 2_000)


def test_a_slice_is_short_whatever_there_is_to_clean() -> None:
    rig = NodeRig(**SETTINGS)
    rig.make_topic()
    commit_many(rig, 300)
    counters = rig.node.core.counters
    rig.wait(1_000)
    rig.wait(1_000)
    steps = 0
    while rig.node.core.cleaner.cleaning is not None:
        rig.wait(1)
        steps += 1
    assert counters["compaction_passes"] == 1
    assert steps > counters["compaction_bytes_read"] / SETTINGS["cleaning_slice_bytes"]


def test_a_shard_that_is_loading_is_left_alone() -> None:
    rig = NodeRig(**SETTINGS)
    logs = list(_cleanable(rig.node.core))
    shard = rig.node.core.shards[0]
    assert shard.log.files in logs
    shard.state = ShardState.LOADING
    assert shard.log.files not in _cleanable(rig.node.core)


def test_compacted_topics_and_the_nodes_own_lists_are_cleaned_and_no_others() -> None:
    rig = NodeRig()
    compacted = CreatableTopic("last-values", 2, configs=(TopicConfig("cleanup.policy", "compact"),))
    rig.ask_inside(CreateTopics((compacted, CreatableTopic("events", 1))))
    names = [log.name for log in _cleanable(rig.node.core)]
    assert [name for name in names if not name.startswith("__consumer_offsets")] == [
        "__muster_topics-0",
        "__muster_configs-0",
        "__muster_accounts-0",
        "last-values-0",
        "last-values-1",
    ]
    assert all(isinstance(log.policy, Compact) for log in _cleanable(rig.node.core))


def test_a_topics_settings_and_the_nodes_reach_the_policy() -> None:
    rig = NodeRig(log_cleaner_min_cleanable_ratio=0.25, log_cleaner_delete_retention_ms=7)
    configs = {"cleanup.policy": "compact", "min.compaction.lag.ms": "5", "max.compaction.lag.ms": "60000"}
    topic = CreatableTopic("t", 1, configs=tuple(TopicConfig(*pair) for pair in configs.items()))
    rig.ask_inside(CreateTopics((topic,)))
    policy = next(log.policy for log in _cleanable(rig.node.core) if log.name == "t-0")
    assert isinstance(policy, Compact)
    assert (policy.min_dirty_ratio, policy.delete_retention_ms) == (0.25, 7)
    assert (policy.min_lag_ms, policy.max_lag_ms, policy.segment_ms) == (5, 60_000, 60_000)
    files = rig.node.core.shards[0].log.files
    assert files is not None
    offsets = files.policy
    assert isinstance(offsets, Compact) and offsets.min_dirty_ratio == 0.25


def test_a_damaged_log_is_told_of_once_and_counted() -> None:
    rig = NodeRig(**SETTINGS)
    rig.make_topic()
    commit_many(rig, 300)
    rig.wait(1_000)
    name = next(shard.log.name for shard in rig.node.core.shards if shard.log.next_offset)
    rig.disk.damage(f"data/{name}/{0:020d}.log", 1_000, b"???")
    for _ in range(40):
        rig.wait(100)
    (sentence,) = rig.complaints
    assert f"data/{name}/" in sentence and "is damaged at position" in sentence
    node = rig.ask_inside(DescribeNode())
    assert isinstance(node, DescribeNodeReply) and node.gauges["damaged_logs"] == 1
    commit_many(rig, 1)


def test_a_node_of_very_many_partitions_looks_for_what_to_clean_a_few_at_a_time() -> None:
    rig = NodeRig()
    compacted = CreatableTopic("last-values", 2_000, configs=(TopicConfig("cleanup.policy", "compact"),))
    rig.ask_inside(CreateTopics((compacted,)))
    core = rig.node.core
    (topic,) = (topic for topic in core.embedded if topic.record.name == "last-values")
    seen = [len(topic.logs)]
    while core.cleaner.run(lambda: _cleanable(core), 10_000) == 1:
        seen.append(len(topic.logs))
    assert len(topic.logs) == 2_000, "all are looked at"
    assert max(after - before for before, after in pairwise(seen)) <= 64
