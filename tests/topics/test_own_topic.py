"""`__consumer_offsets` is there for readers, and for nobody else."""

from typing import TypeVar

import pytest

from coordinator.placement import Placement
from coordinator.records.codec import decode
from coordinator.records.records import CommittedOffset
from coordinator.topics.offsets_topic import offsets_topic
from coordinator.topics.rules import TopicSettings
from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.messages.configs import (
    AlterableConfig,
    AlterConfigsResource,
    DescribeConfigs,
    DescribeConfigsReply,
    DescribeConfigsResource,
    IncrementalAlterConfigs,
    IncrementalAlterConfigsReply,
    ResourceType,
)
from protocol.messages.data import (
    Fetch,
    FetchPartition,
    FetchPartitionReply,
    FetchReply,
    FetchTopic,
    Produce,
    ProducePartition,
    ProduceReply,
    ProduceTopic,
)
from protocol.messages.offsets import (
    ListOffsets,
    ListOffsetsPartition,
    ListOffsetsReply,
    ListOffsetsTopic,
    OffsetCommit,
    OffsetCommitPartition,
    OffsetCommitReply,
    OffsetCommitTopic,
)
from protocol.messages.topics import (
    CreatableTopic,
    CreatePartitions,
    CreatePartitionsReply,
    CreateTopics,
    CreateTopicsReply,
    DeletableTopic,
    DeleteTopics,
    DeleteTopicsReply,
    DescribeTopicPartitions,
    DescribeTopicPartitionsReply,
    GrowingTopic,
    Metadata,
    MetadataReply,
    MetadataTopic,
    NamedTopic,
)
from protocol.record_batch import batches, decode_batch, encode_batch
from tests.node.node_rig import NodeRig

OWN = "__consumer_offsets"
Reply = TypeVar("Reply", bound=Message)


def ask(rig: NodeRig, message: Message, kind: type[Reply]) -> Reply:
    rig.replied.clear()
    reply = rig.ask_inside(message)
    assert isinstance(reply, kind)
    return reply


def committed(rig: NodeRig, offset: int, topic: str = "orders") -> int:
    """Commit an offset of group `a`, and return the partition of its shard."""
    parts = (OffsetCommitPartition(0, offset, committed_metadata="here"),)
    reply = ask(rig, OffsetCommit("a", (OffsetCommitTopic(topic, parts),)), OffsetCommitReply)
    assert reply.topics[0].partitions[0].error_code is ErrorCode.NONE
    return rig.node.core.shard_of("a").index


def filled() -> NodeRig:
    rig = NodeRig()
    rig.make_topic()
    return rig


def fetched(rig: NodeRig, partition: int, offset: int = 0) -> FetchPartitionReply:
    wanted = FetchTopic(OWN, (FetchPartition(partition, offset, 1 << 20),))
    return ask(rig, Fetch(max_wait_ms=0, topics=(wanted,)), FetchReply).responses[0].partitions[0]


def test_it_is_an_internal_topic_with_a_partition_a_shard() -> None:
    rig = filled()
    (topic,) = ask(rig, Metadata(topics=(MetadataTopic(OWN),)), MetadataReply).topics
    assert (topic.name, topic.is_internal, len(topic.partitions)) == (OWN, True, 3)
    (by_id,) = ask(rig, Metadata(topics=(MetadataTopic(None, topic.topic_id),)), MetadataReply).topics
    assert by_id == topic
    (described,) = ask(rig, DescribeTopicPartitions((NamedTopic(OWN),)), DescribeTopicPartitionsReply).topics
    assert (described.name, described.is_internal, len(described.partitions)) == (OWN, True, 3)


def test_it_is_listed_among_all_topics_once_something_stands_in_it() -> None:
    rig = filled()
    assert [topic.name for topic in ask(rig, Metadata(), MetadataReply).topics] == ["orders"]
    committed(rig, 7)
    assert [topic.name for topic in ask(rig, Metadata(), MetadataReply).topics] == ["orders", OWN]
    paged = ask(rig, DescribeTopicPartitions(()), DescribeTopicPartitionsReply)
    assert [(topic.name, topic.is_internal) for topic in paged.topics] == [(OWN, True), ("orders", False)]
    assert rig.node.core.topics.topic_count == 1


def test_a_commit_is_read_from_it_and_partitions_without_records_are_empty() -> None:
    rig = filled()
    partition = committed(rig, 7)
    records = fetched(rig, partition).records
    (entry,) = [entry for _header, data in batches(records) for entry in decode_batch(data)]
    record = decode(entry.key, entry.value)
    assert isinstance(record, CommittedOffset)
    assert (record.group_id, record.topic, record.partition, record.offset, record.metadata) == (
        "a",
        "orders",
        0,
        7,
        "here",
    )
    other = fetched(rig, (partition + 1) % 3)
    assert (other.error_code, other.high_watermark, bytes(other.records)) == (ErrorCode.NONE, 0, b"")
    assert fetched(rig, 3).error_code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert fetched(rig, partition, 9).error_code is ErrorCode.OFFSET_OUT_OF_RANGE


def test_readers_see_what_is_on_disk_and_are_told_of_no_other_end() -> None:
    rig = filled()
    partition = committed(rig, 7)
    rig.holds_disk = True
    rig.replied.clear()
    parts = (OffsetCommitPartition(0, 8),)
    assert rig.ask_inside(OffsetCommit("a", (OffsetCommitTopic("orders", parts),))) is None
    seen = fetched(rig, partition)
    assert (seen.high_watermark, seen.last_stable_offset) == (1, 1)
    assert [header.next_offset for header, _data in batches(seen.records)] == [1]
    rig.replied.clear()
    latest = ListOffsets((ListOffsetsTopic(OWN, (ListOffsetsPartition(partition, -1),)),))
    assert rig.ask_inside(latest, call=5) is None, "the end it would tell is not durable"
    rig.flush()
    reply = rig.replied[5]
    assert isinstance(reply, ListOffsetsReply) and reply.topics[0].partitions[0].offset == 2


def test_who_waits_for_its_records_hears_of_the_next_commit() -> None:
    rig = filled()
    partition = committed(rig, 7)
    rig.replied.clear()
    wanted = FetchTopic(OWN, (FetchPartition(partition, 1, 1 << 20),))
    assert rig.ask_inside(Fetch(max_wait_ms=5_000, topics=(wanted,)), call=7) is None
    parts = (OffsetCommitPartition(0, 8),)
    rig.ask_inside(OffsetCommit("a", (OffsetCommitTopic("orders", parts),)), call=8)
    reply = rig.replied[7]
    assert isinstance(reply, FetchReply)
    assert [header.base_offset for header, _data in batches(reply.responses[0].partitions[0].records)] == [1]


def test_its_settings_are_told() -> None:
    rig = filled()
    resource = DescribeConfigsResource(ResourceType.TOPIC, OWN)
    (described,) = ask(rig, DescribeConfigs((resource,)), DescribeConfigsReply).results
    values = {config.name: config.value for config in described.configs}
    assert values["cleanup.policy"] == "compact"
    assert values["segment.bytes"] == str(rig.node.core.config.offsets_topic_segment_bytes)


def test_offsets_of_it_may_be_committed() -> None:
    rig = filled()
    committed(rig, 5, OWN)
    assert rig.node.core.shard_of("a").offsets.get("a", OWN, 0) is not None


def test_nobody_writes_to_it_or_changes_it() -> None:
    rig = filled()
    committed(rig, 7)
    before = {name: rig.store.log(name).next_offset for name in rig.store.names()}
    refused = ErrorCode.INVALID_TOPIC_EXCEPTION
    batch = encode_batch([(b"k", b"v")], timestamp_ms=1)
    produced = ask(rig, Produce(acks=-1, topic_data=(ProduceTopic(OWN, (ProducePartition(0, batch),)),)), ProduceReply)
    assert produced.responses[0].partition_responses[0].error_code is refused
    created = ask(rig, CreateTopics((CreatableTopic(OWN, 50),)), CreateTopicsReply)
    assert created.topics[0].error_code is ErrorCode.TOPIC_ALREADY_EXISTS
    grown = ask(rig, CreatePartitions((GrowingTopic(OWN, 60),)), CreatePartitionsReply)
    assert grown.results[0].error_code is refused
    (topic,) = ask(rig, Metadata(topics=(MetadataTopic(OWN),)), MetadataReply).topics
    for named in (DeletableTopic(OWN), DeletableTopic(None, topic.topic_id)):
        deleted = ask(rig, DeleteTopics((named,)), DeleteTopicsReply)
        assert deleted.responses[0].error_code is refused
    change = AlterConfigsResource(ResourceType.TOPIC, OWN, (AlterableConfig("cleanup.policy", 0, "delete"),))
    altered = ask(rig, IncrementalAlterConfigs((change,)), IncrementalAlterConfigsReply)
    assert altered.responses[0].error_code is refused
    assert {name: rig.store.log(name).next_offset for name in rig.store.names()} == before


@pytest.mark.parametrize("name", ["__transaction_state", "__muster_notes", "__muster_topics"])
def test_the_other_logs_of_the_service_are_no_topics(name: str) -> None:
    rig = filled()
    (topic,) = ask(rig, Metadata(topics=(MetadataTopic(name),)), MetadataReply).topics
    assert topic.error_code is ErrorCode.INVALID_TOPIC_EXCEPTION


def test_without_shards_it_has_no_partitions() -> None:
    topic = offsets_topic([], TopicSettings(), Placement(1, 1, {}), 5)
    assert (topic.reply.partitions, topic.logs, topic.reply.is_internal) == ((), {}, True)
