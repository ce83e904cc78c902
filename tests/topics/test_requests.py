"""Topics administered through a node: what groups have committed goes with a topic, however much it is; settings are
asked for and changed; old records go by themselves."""

from itertools import pairwise
from typing import Any, TypeVar

import pytest

from coordinator.config.config import Config
from coordinator.handlers.delete_topics import delete_topics
from coordinator.handlers.describe_configs import NODE_KEYS
from coordinator.node.dialects import make_dialects
from coordinator.node.scheduled_tasks import TASKS
from coordinator.tasks.retention import SLICE_LOGS
from coordinator.tasks.topic_deletion import SLICE_RECORDS
from coordinator.topics.metadata import CLUSTER_OPERATIONS
from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.messages.configs import (
    AlterableConfig,
    AlterConfigs,
    AlterConfigsReply,
    AlterConfigsResource,
    ConfigSource,
    DescribeConfigs,
    DescribeConfigsReply,
    DescribeConfigsResource,
    DescribedConfig,
    DescribedConfigs,
    IncrementalAlterConfigs,
    IncrementalAlterConfigsReply,
    ReplaceConfigsResource,
    ReplacedConfig,
    ResourceType,
)
from protocol.messages.data import (
    Fetch,
    FetchPartition,
    FetchReply,
    FetchTopic,
    Produce,
    ProducePartition,
    ProduceTopic,
)
from protocol.messages.node import DescribeCluster, DescribeClusterReply
from protocol.messages.offsets import (
    OffsetCommit,
    OffsetCommitPartition,
    OffsetCommitTopic,
    OffsetFetch,
    OffsetFetchGroup,
    OffsetFetchReply,
)
from protocol.messages.topics import (
    CreatableTopic,
    CreateTopics,
    CreateTopicsReply,
    DeletableTopic,
    DeleteTopics,
    DeleteTopicsReply,
    Metadata,
    MetadataReply,
    TopicConfig,
)
from protocol.record_batch import encode_batch
from tests.node.node_rig import WALL_MS, NodeRig

M = TypeVar("M", bound=Message)

EVERY_MS = 5_000


def ask(rig: NodeRig, message: Message, reply: type[M]) -> M:
    answer = rig.ask_inside(message)
    assert isinstance(answer, reply), answer
    return answer


def commit(rig: NodeRig, group_id: str, topic: str, partitions: range) -> None:
    for start in range(partitions.start, partitions.stop, 1_000):
        some = range(start, min(start + 1_000, partitions.stop))
        message = OffsetCommit(
            group_id, (OffsetCommitTopic(topic, tuple(OffsetCommitPartition(index, 7) for index in some)),)
        )
        assert rig.ask_inside(message) is not None


def committed(rig: NodeRig, group_id: str) -> dict[str, int]:
    """Return the number of partitions with an offset of the group, by topic."""
    (group,) = ask(rig, OffsetFetch((OffsetFetchGroup(group_id),)), OffsetFetchReply).groups
    return {topic.name: len(topic.partitions) for topic in group.topics}


def delete(rig: NodeRig, name: str = "orders", timeout_ms: int = 60_000) -> DeleteTopicsReply:
    return ask(rig, DeleteTopics((DeletableTopic(name),), timeout_ms), DeleteTopicsReply)


def wait(rig: NodeRig, ms: int) -> None:
    """Let time pass in small steps, so that scheduled tasks run in between."""
    for _ in range(ms // 250):
        rig.wait(250)


def restarted(rig: NodeRig, **settings: Any) -> NodeRig:
    rig.disk.crash()
    again = NodeRig(rig.disk, **settings)
    wait(again, 1_000)
    return again


# --- deleting ---


def test_what_groups_have_committed_for_a_topic_goes_with_it() -> None:
    rig = NodeRig()
    rig.make_topic("orders", 4)
    rig.make_topic("others", 4)
    for group_id in ("a", "b", "c"):
        commit(rig, group_id, "orders", range(4))
        commit(rig, group_id, "others", range(2))
    assert delete(rig).responses[0].error_code is ErrorCode.NONE
    rig.make_topic("orders", 4)
    assert [committed(rig, group_id) for group_id in ("a", "b", "c")] == [{"others": 2}] * 3
    again = restarted(rig)
    assert [committed(again, group_id) for group_id in ("a", "b", "c")] == [{"others": 2}] * 3


def test_a_topic_with_very_many_committed_offsets_goes_in_slices_and_is_answered_at_the_end() -> None:
    rig = NodeRig()
    many = 3 * SLICE_RECORDS
    rig.make_topic("orders", many)
    commit(rig, "a", "orders", range(many))
    rig.replied.clear()
    assert rig.ask_inside(DeleteTopics((DeletableTopic("orders"),))) is None
    assert [topic.name for topic in ask(rig, Metadata(), MetadataReply).topics] == ["__consumer_offsets"]
    (refused,) = ask(rig, CreateTopics((CreatableTopic("orders"),)), CreateTopicsReply).topics
    assert refused.error_code is ErrorCode.TOPIC_ALREADY_EXISTS
    rig.replied.clear()
    counts = []
    for _ in range(10):
        counts.append(rig.node.core.shard_of("a").offsets.count_of("a"))
        rig.wait(1)
    assert all(before - after <= SLICE_RECORDS for before, after in pairwise(counts))
    assert counts[-1] == 0
    reply = rig.replied[1]
    assert isinstance(reply, DeleteTopicsReply)
    assert reply.responses[0].error_code is ErrorCode.NONE
    rig.make_topic("orders", 1)


def test_a_deletion_goes_on_after_a_crash_and_the_name_is_free_when_it_ends() -> None:
    rig = NodeRig()
    many = 3 * SLICE_RECORDS
    rig.make_topic("orders", many)
    commit(rig, "a", "orders", range(many))
    assert rig.ask_inside(DeleteTopics((DeletableTopic("orders"),)), call=7) is None
    again = restarted(rig)
    assert committed(again, "a") == {}
    again.make_topic("orders", 1)
    assert committed(again, "a") == {}
    assert not again.node.core.embedded.deleted


def test_whoever_has_no_time_is_told_so_and_the_topic_goes_all_the_same() -> None:
    rig = NodeRig()
    many = 2 * SLICE_RECORDS
    rig.make_topic("orders", many)
    commit(rig, "a", "orders", range(many))
    rig.replied.clear()
    assert delete(rig, timeout_ms=0).responses[0].error_code is ErrorCode.REQUEST_TIMED_OUT
    rig.wait(100)
    assert committed(rig, "a") == {}
    rig.make_topic("orders", 1)


def test_on_a_full_disk_a_topic_is_deleted_with_its_records_and_what_groups_committed_goes_when_there_is_room() -> None:
    rig = NodeRig()
    rig.make_topic("orders", 4)
    commit(rig, "a", "orders", range(4))
    log = rig.node.core.embedded._log("orders", 0)
    assert log is not None
    rig.store.disk_full = True
    assert delete(rig, timeout_ms=0).responses[0].error_code is ErrorCode.REQUEST_TIMED_OUT
    assert log.is_removed
    assert [topic.record.name for topic in rig.node.core.embedded] == []
    assert committed(rig, "a") == {"orders": 4}
    rig.store.disk_full = False
    rig.wait(200)
    assert committed(rig, "a") == {}
    rig.make_topic("orders", 1)


def test_a_fetch_that_waits_for_a_deleted_topic_is_answered() -> None:
    rig = NodeRig()
    rig.make_topic("orders", 1)
    rig.connect(1)
    rig.ask(1, Fetch((FetchTopic("orders", (FetchPartition(0, 0),)),), max_wait_ms=60_000))
    delete(rig)
    (reply,) = rig.heard(1)
    assert isinstance(reply, FetchReply)
    assert reply.responses[0].partitions[0].error_code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


# --- settings ---


def described(rig: NodeRig, kind: int, name: str, *keys: str, more: bool = False) -> DescribedConfigs:
    message = DescribeConfigs((DescribeConfigsResource(kind, name, keys or None),), more, more)
    (result,) = ask(rig, message, DescribeConfigsReply).results
    return result


def altered(rig: NodeRig, kind: int, name: str, *changes: AlterableConfig) -> tuple[ErrorCode, str]:
    message = IncrementalAlterConfigs((AlterConfigsResource(kind, name, changes),))
    (response,) = ask(rig, message, IncrementalAlterConfigsReply).responses
    return response.error_code, response.error_message or ""


def test_a_topics_settings_are_described_as_they_were_made_and_changed() -> None:
    rig = NodeRig(log_retention_bytes=9)
    wanted = CreatableTopic("orders", 1, 1, (TopicConfig("cleanup.policy", "compact"),))
    ask(rig, CreateTopics((wanted,)), CreateTopicsReply)
    assert altered(rig, ResourceType.TOPIC, "orders", AlterableConfig("retention.ms", 0, "77"))[0] is ErrorCode.NONE
    rig = restarted(rig, log_retention_bytes=9)
    result = described(rig, ResourceType.TOPIC, "orders", "cleanup.policy", "retention.ms", "retention.bytes", "nosuch")
    assert [(config.name, config.value, config.config_source) for config in result.configs] == [
        ("cleanup.policy", "compact", ConfigSource.DYNAMIC_TOPIC),
        ("retention.bytes", "9", ConfigSource.STATIC_BROKER),
        ("retention.ms", "77", ConfigSource.DYNAMIC_TOPIC),
    ]
    assert all(config.synonyms == () and config.documentation is None for config in result.configs)
    assert not any(config.read_only for config in result.configs)
    told = described(rig, ResourceType.TOPIC, "orders", more=True)
    assert all(config.synonyms and config.documentation for config in told.configs)


def test_a_nodes_settings_are_kafkas_keys_and_read_only() -> None:
    rig = NodeRig(node_id=4, num_partitions=3)
    result = described(rig, ResourceType.BROKER, "4", more=True)
    assert [config.name for config in result.configs] == list(NODE_KEYS)
    assert all(config.read_only and config.documentation for config in result.configs)
    configs = {config.name: config for config in result.configs}
    assert (configs["num.partitions"].value, configs["num.partitions"].config_source) == (
        "3",
        ConfigSource.STATIC_BROKER,
    )
    assert [synonym.value for synonym in configs["num.partitions"].synonyms] == ["3", "1"]
    assert configs["log.retention.ms"].value is None
    assert described(rig, ResourceType.BROKER, "", "num.partitions").configs[0].value == "3"


@pytest.mark.parametrize(
    ("kind", "name", "error"),
    [
        (ResourceType.TOPIC, "nowhere", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (ResourceType.TOPIC, "a b", ErrorCode.INVALID_TOPIC_EXCEPTION),
        (ResourceType.BROKER, "9", ErrorCode.INVALID_REQUEST),
        (ResourceType.BROKER, "x", ErrorCode.INVALID_REQUEST),
        (7, "x", ErrorCode.INVALID_REQUEST),
    ],
)
def test_what_has_no_settings_says_so(kind: int, name: str, error: ErrorCode) -> None:
    assert described(NodeRig(), kind, name).error_code is error


def test_a_nodes_settings_are_not_changed() -> None:
    error, text = altered(NodeRig(), ResourceType.BROKER, "1", AlterableConfig("num.partitions", 0, "2"))
    assert error is ErrorCode.INVALID_REQUEST
    assert "num.partitions" in text
    assert altered(NodeRig(), ResourceType.TOPIC, "", AlterableConfig("retention.ms", 0, "2"))[0] is error


def test_an_unknown_setting_is_refused_with_those_there_are() -> None:
    rig = NodeRig()
    rig.make_topic()
    error, text = altered(rig, ResourceType.TOPIC, "orders", AlterableConfig("retention", 0, "2"))
    assert error is ErrorCode.INVALID_CONFIG
    assert "retention.ms" in text


def test_each_resource_is_answered_by_itself_and_one_named_twice_is_refused() -> None:
    rig = NodeRig()
    rig.make_topic("a")
    rig.make_topic("b")
    change = (AlterableConfig("retention.ms", 0, "77"),)
    names = ("a", "b", "a", "nowhere")
    message = IncrementalAlterConfigs(tuple(AlterConfigsResource(ResourceType.TOPIC, name, change) for name in names))
    responses = ask(rig, message, IncrementalAlterConfigsReply).responses
    assert [response.error_code for response in responses] == [
        ErrorCode.INVALID_REQUEST,
        ErrorCode.NONE,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]


# --- the cluster ---


def test_the_cluster_is_described_to_those_who_ask_for_brokers() -> None:
    rig = NodeRig()
    reply = ask(rig, DescribeCluster(include_cluster_authorized_operations=True), DescribeClusterReply)
    assert (reply.cluster_id, reply.controller_id, [broker.broker_id for broker in reply.brokers]) == ("node", 1, [1])
    assert reply.cluster_authorized_operations == CLUSTER_OPERATIONS
    errors = [ask(rig, DescribeCluster(endpoint_type=kind), DescribeClusterReply).error_code for kind in (2, 3)]
    assert errors == [ErrorCode.MISMATCHED_ENDPOINT_TYPE, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE]


def test_both_dialects_offer_what_is_served() -> None:
    assert sorted(make_dialects(Config())) == ["kafka", "native"]
    assert delete_topics.__doc__ is not None
    own = ["balanced", "balancing", "compaction", "deletions", "end sampling", "expiry", "produce", "retention"]
    assert sorted(TASKS) == own


# --- retention ---


def store(rig: NodeRig, topic: str, count: int, at_ms: int, partition: int = 0) -> None:
    """So many batches of a kilobyte."""
    data = encode_batch([(None, b"x" * 1_000)], timestamp_ms=at_ms)
    for _ in range(count):
        message = Produce((ProduceTopic(topic, (ProducePartition(partition, data),)),))
        assert rig.ask_inside(message) is not None


def made(rig: NodeRig, name: str, partitions: int = 1, /, **configs: str) -> None:
    pairs = tuple(TopicConfig(key.replace("_", "."), value) for key, value in configs.items())
    (created,) = ask(rig, CreateTopics((CreatableTopic(name, partitions, -1, pairs),)), CreateTopicsReply).topics
    assert created.error_code is ErrorCode.NONE, created


def start_of(rig: NodeRig, topic: str, partition: int = 0) -> int:
    return rig.store.log(f"{topic}-{partition}").start_offset


def aging() -> NodeRig:
    return NodeRig(log_retention_check_interval_ms=EVERY_MS)


def test_records_go_when_they_are_too_old_and_stay_gone_after_a_crash() -> None:
    rig = aging()
    made(rig, "orders", segment_bytes="16384", retention_ms="60000")
    store(rig, "orders", 40, WALL_MS)
    wait(rig, EVERY_MS)
    assert start_of(rig, "orders") == 0
    wait(rig, 60_000)
    wait(rig, 3_000)
    assert (start_of(rig, "orders"), rig.store.log("orders-0").next_offset) == (40, 40)
    message = Fetch((FetchTopic("orders", (FetchPartition(0, 39),)),), max_wait_ms=0)
    (answer,) = ask(rig, message, FetchReply).responses[0].partitions
    assert (answer.error_code, answer.log_start_offset) == (ErrorCode.OFFSET_OUT_OF_RANGE, 40)
    assert rig.node.core.retention.dropped_segments == 3
    rig = restarted(rig)
    assert start_of(rig, "orders") == 40
    store(rig, "orders", 1, WALL_MS)
    assert rig.store.log("orders-0").next_offset == 41


def test_records_go_when_they_are_too_many() -> None:
    rig = aging()
    made(rig, "orders", segment_bytes="16384", retention_bytes="40000")
    store(rig, "orders", 100, WALL_MS)
    wait(rig, 2 * EVERY_MS)
    assert 40_000 <= rig.store.log("orders-0").size_bytes < 40_000 + 16_384
    assert start_of(rig, "orders") > 0


def test_only_topics_that_are_deleted_from_lose_records() -> None:
    rig = aging()
    made(rig, "table", cleanup_policy="compact", segment_bytes="16384", retention_ms="1", retention_bytes="1")
    made(rig, "both", cleanup_policy="compact,delete", segment_bytes="16384", retention_ms="1")
    made(rig, "kept", segment_bytes="16384", retention_ms="-1")
    for name in ("table", "both", "kept"):
        store(rig, name, 20, WALL_MS)
    commit(rig, "a", "kept", range(1))
    wait(rig, 4 * EVERY_MS)
    assert [start_of(rig, name) for name in ("table", "both", "kept")] == [0, 20, 0]
    assert rig.node.core.shard_of("a").log.start_offset == 0


def test_a_pass_looks_at_very_many_partitions_in_slices() -> None:
    rig = aging()
    made(rig, "orders", 3 * SLICE_LOGS, retention_ms="1")
    for partition in range(3 * SLICE_LOGS):
        store(rig, "orders", 1, WALL_MS, partition)
    wait(rig, 4 * EVERY_MS)
    assert all(start_of(rig, "orders", partition) == 1 for partition in range(3 * SLICE_LOGS))


def test_a_pass_looks_at_logs_that_changed_or_are_due_and_no_others() -> None:
    rig = aging()
    made(rig, "orders", 20, segment_bytes="16384", retention_ms=str(20 * EVERY_MS))
    for partition in range(20):
        store(rig, "orders", 1, WALL_MS, partition)
    wait(rig, 2 * EVERY_MS)
    checked = rig.node.core.retention.logs_checked
    assert checked >= 20
    wait(rig, 4 * EVERY_MS)
    assert rig.node.core.retention.logs_checked == checked, "nothing has changed, and nothing is due"
    store(rig, "orders", 1, WALL_MS + 10 * EVERY_MS, 3)
    wait(rig, 2 * EVERY_MS)
    assert rig.node.core.retention.logs_checked == checked + 1, "the one that was written"
    wait(rig, 20 * EVERY_MS)
    assert [start_of(rig, "orders", partition) for partition in range(20)] == [1] * 3 + [0] + [1] * 16
    rig = restarted(rig, log_retention_check_interval_ms=EVERY_MS)
    wait(rig, 32 * EVERY_MS)
    assert start_of(rig, "orders", 3) == 2, "after a start all logs are looked at"


def test_what_holds_for_a_topic_from_now_on_counts_for_its_old_records_too() -> None:
    rig = aging()
    made(rig, "orders", segment_bytes="16384")
    store(rig, "orders", 40, WALL_MS)
    wait(rig, 2 * EVERY_MS)
    assert start_of(rig, "orders") == 0
    assert altered(rig, ResourceType.TOPIC, "orders", AlterableConfig("retention.ms", 0, "1"))[0] is ErrorCode.NONE
    wait(rig, 2 * EVERY_MS)
    assert start_of(rig, "orders") == 40


def test_all_settings_at_once_take_back_what_they_do_not_name() -> None:
    rig = NodeRig()
    wanted = CreatableTopic(
        "orders", 1, 1, (TopicConfig("cleanup.policy", "compact"), TopicConfig("segment.ms", "9000"))
    )
    ask(rig, CreateTopics((wanted,)), CreateTopicsReply)
    only = ReplaceConfigsResource(ResourceType.TOPIC, "orders", (ReplacedConfig("retention.ms", "77"),))
    nowhere = ReplaceConfigsResource(ResourceType.TOPIC, "nowhere", ())
    replies = ask(rig, AlterConfigs((only, nowhere), validate_only=True), AlterConfigsReply).responses
    assert [reply.error_code for reply in replies] == [ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    own = [config.name for config in described(rig, ResourceType.TOPIC, "orders").configs if _is_own(config)]
    assert own == ["cleanup.policy", "segment.ms"], "it was only asked whether it could be"
    ask(rig, AlterConfigs((only,)), AlterConfigsReply)
    (kept,) = [config for config in described(rig, ResourceType.TOPIC, "orders").configs if _is_own(config)]
    assert (kept.name, kept.value) == ("retention.ms", "77")


def test_all_settings_of_a_group_at_once() -> None:
    rig = NodeRig()
    for given in ({"group.max.size": "5"}, {"group.initial.rebalance.delay.ms": "0"}):
        configs = tuple(ReplacedConfig(name, value) for name, value in given.items())
        ask(rig, AlterConfigs((ReplaceConfigsResource(ResourceType.GROUP, "g", configs),)), AlterConfigsReply)
        own = {one.name: one.value for one in described(rig, ResourceType.GROUP, "g").configs if _is_own(one)}
        assert own == given


def _is_own(config: DescribedConfig) -> bool:
    return config.config_source in (ConfigSource.DYNAMIC_TOPIC, ConfigSource.GROUP)
