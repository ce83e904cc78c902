"""Requests that show what a principal may do: each API that Muster serves to Kafka's clients, by name and by id."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from interop.access.states import Names
from protocol.apis import BY_MESSAGE
from protocol.messages import Message
from protocol.messages.acls import (
    AclBindingFilter,
    AclCreation,
    AlterUserScramCredentials,
    CreateAcls,
    DeleteAcls,
    DescribeAcls,
    DescribeUserScramCredentials,
    ScramDeletion,
    ScramUser,
)
from protocol.messages.configs import (
    AlterableConfig,
    AlterConfigs,
    AlterConfigsResource,
    DescribeConfigs,
    DescribeConfigsResource,
    IncrementalAlterConfigs,
    ReplaceConfigsResource,
    ReplacedConfig,
    ResourceType,
)
from protocol.messages.consumer_groups import ConsumerGroupDescribe, ConsumerGroupHeartbeat
from protocol.messages.data import (
    EpochPartition,
    EpochTopic,
    Fetch,
    FetchPartition,
    FetchTopic,
    InitProducerId,
    OffsetForLeaderEpoch,
    Produce,
    ProducePartition,
    ProduceTopic,
)
from protocol.messages.groups import (
    DeleteGroups,
    DescribeGroups,
    Heartbeat,
    JoinGroup,
    JoinProtocol,
    LeaveGroup,
    LeavingMember,
    ListGroups,
    SyncGroup,
)
from protocol.messages.node import DescribeCluster, FindCoordinator
from protocol.messages.offsets import (
    ListOffsets,
    ListOffsetsPartition,
    ListOffsetsTopic,
    OffsetCommit,
    OffsetCommitPartition,
    OffsetCommitTopic,
    OffsetDelete,
    OffsetDeleteTopic,
    OffsetFetch,
    OffsetFetchGroup,
    OffsetFetchTopic,
    TxnOffsetCommit,
    TxnOffsetCommitPartition,
    TxnOffsetCommitTopic,
)
from protocol.messages.quotas import AlterClientQuotas, AlteringQuota, DescribeClientQuotas, QuotaChange, QuotaEntity
from protocol.messages.topics import (
    CreatableTopic,
    CreatePartitions,
    CreateTopics,
    DeletableTopic,
    DeleteTopics,
    DescribeTopicPartitions,
    GrowingTopic,
    Metadata,
    MetadataTopic,
    NamedTopic,
)
from protocol.messages.transactions import AddOffsetsToTxn
from protocol.record_batch import encode_batch

NEWEST: Final = 1 << 15
_BATCH: Final = encode_batch([(None, b"x")], timestamp_ms=1)
_RETENTION: Final = "retention.ms"


class Question(NamedTuple):
    """A request, by the title under which its answers stand. `newest`: the version asked, if that is not the newest."""

    title: str
    message: Message
    newest: int = NEWEST

    @property
    def version(self) -> int:
        return min(self.newest, BY_MESSAGE[type(self.message)].request.newest)


def questions(names: Names, topic_ids: Mapping[str, bytes]) -> list[Question]:
    """Return all requests of one state, in the order in which they are sent: the last ones remove things."""
    return [
        *_membership(names),
        *_offsets(names, topic_ids),
        *_groups(names),
        *_records(names, topic_ids),
        *_topics(names, topic_ids),
        *_configs(names),
        *_administration(names),
        *_removals(names, topic_ids),
    ]


def transactional_questions(names: Names) -> list[Question]:
    """Return the requests of transactions about groups, which nodes serve in front of a cluster alone. They change
    nothing: nobody has the producer id, and the group has no such member."""
    parts = (TxnOffsetCommitPartition(0, 7),)
    topics = tuple(TxnOffsetCommitTopic(topic, parts) for topic in (names.topic, names.other_topic))
    commit = TxnOffsetCommit(names.transactional_id, names.group, 7, 0, topics, 5, "m")
    return [
        Question("AddOffsetsToTxn", AddOffsetsToTxn(names.transactional_id, 7, 0, names.group), 3),
        Question("TxnOffsetCommit, two topics", commit, 4),
    ]


def _membership(names: Names) -> list[Question]:
    join = JoinGroup(names.group, 60_000, "", "consumer", (JoinProtocol("range", b"x"),), 60_000)
    sync = SyncGroup(names.group, 1, "m", protocol_type="consumer", protocol_name="range")
    beat = ConsumerGroupHeartbeat(names.group, "m", 5, subscribed_topic_names=(names.topic,))
    other = ConsumerGroupHeartbeat(names.group, "m", 5, subscribed_topic_names=(names.topic, names.other_topic))
    return [
        Question("JoinGroup", join),
        Question("SyncGroup", sync),
        Question("Heartbeat", Heartbeat(names.group, 1, "m")),
        Question("LeaveGroup", LeaveGroup(names.group, (LeavingMember("m"),))),
        Question("ConsumerGroupHeartbeat", beat),
        Question("ConsumerGroupHeartbeat, two topics", other),
    ]


def _offsets(names: Names, topic_ids: Mapping[str, bytes]) -> list[Question]:
    topics = names.topic, names.other_topic
    parts = (OffsetCommitPartition(0, 7),)
    named = tuple(OffsetCommitTopic(topic, parts) for topic in topics)
    by_id = tuple(OffsetCommitTopic("", parts, topic_ids[topic]) for topic in topics)
    fetched = tuple(OffsetFetchTopic(topic, (0,)) for topic in topics)
    fetched_by_id = tuple(OffsetFetchTopic("", (0,), topic_ids[topic]) for topic in topics)
    groups = OffsetFetchGroup(names.group, fetched), OffsetFetchGroup(names.other_group, fetched)
    return [
        Question("OffsetCommit, two topics", OffsetCommit(names.group, named), 9),
        Question("OffsetCommit, two topics by id", OffsetCommit(names.group, by_id)),
        Question("OffsetFetch, two groups", OffsetFetch(groups), 9),
        Question("OffsetFetch, one group in an old version", OffsetFetch(groups[:1]), 5),
        Question("OffsetFetch, all topics", OffsetFetch((OffsetFetchGroup(names.group, None),)), 9),
        Question(
            "OffsetFetch, by id",
            OffsetFetch((OffsetFetchGroup(names.group, fetched_by_id, wants_topic_ids=True),)),
        ),
    ]


def _groups(names: Names) -> list[Question]:
    groups = names.group, names.other_group
    return [
        Question("FindCoordinator of groups", FindCoordinator(groups)),
        Question("FindCoordinator of one group in an old version", FindCoordinator(groups[:1]), 3),
        Question("FindCoordinator of a transactional id", FindCoordinator((names.transactional_id,), 1)),
        Question("DescribeGroups", DescribeGroups(groups, include_authorized_operations=True)),
        Question("ConsumerGroupDescribe", ConsumerGroupDescribe(groups, include_authorized_operations=True)),
        Question("ListGroups", ListGroups()),
    ]


def _records(names: Names, topic_ids: Mapping[str, bytes]) -> list[Question]:
    topics = names.topic, names.other_topic
    produced = (ProducePartition(0, _BATCH),)
    wanted = (FetchPartition(0, 0),)
    listed = tuple(ListOffsetsTopic(topic, (ListOffsetsPartition(0),)) for topic in topics)
    epochs = tuple(EpochTopic(topic, (EpochPartition(0, 0),)) for topic in topics)
    fetched = tuple(FetchTopic(topic, wanted) for topic in topics)
    fetched_by_id = tuple(FetchTopic("", wanted, topic_ids[topic]) for topic in topics)
    return [
        Question("Produce", Produce(tuple(ProduceTopic(topic, produced) for topic in topics)), 12),
        Question("Produce, by id", Produce(tuple(ProduceTopic("", produced, topic_ids[topic]) for topic in topics))),
        Question("InitProducerId", InitProducerId()),
        Question("Fetch", Fetch(fetched, max_wait_ms=0), 12),
        Question("Fetch, by id", Fetch(fetched_by_id, max_wait_ms=0)),
        Question("ListOffsets", ListOffsets(listed)),
        Question("OffsetForLeaderEpoch", OffsetForLeaderEpoch(epochs)),
    ]


def _topics(names: Names, topic_ids: Mapping[str, bytes]) -> list[Question]:
    topics = names.topic, names.other_topic
    ids = tuple(MetadataTopic(None, topic_ids[topic]) for topic in topics)
    absent = f"{names.topic}-absent"
    wanted = tuple(MetadataTopic(topic) for topic in (*topics, absent))
    created = CreatableTopic(names.topic, 1, 1), CreatableTopic(absent, 1, 1)
    grown = GrowingTopic(names.topic, 3), GrowingTopic(absent, 3)
    return [
        Question("Metadata", Metadata(wanted, include_topic_authorized_operations=True)),
        Question("Metadata with the cluster's operations", Metadata((), False, True, False), 10),
        Question("Metadata, by id", Metadata(ids)),
        Question("Metadata of all topics", Metadata(None)),
        Question("DescribeTopicPartitions", DescribeTopicPartitions(tuple(map(NamedTopic, (*topics, absent))))),
        Question("DescribeTopicPartitions of all topics", DescribeTopicPartitions(())),
        Question("CreateTopics, validated", CreateTopics(created, validate_only=True)),
        Question("CreatePartitions, validated", CreatePartitions(grown, validate_only=True)),
    ]


def _configs(names: Names) -> list[Question]:
    places = (
        ("topic", ResourceType.TOPIC, names.topic),
        ("group", ResourceType.GROUP, names.group),
        ("broker", ResourceType.BROKER, "1"),
    )
    keys = {ResourceType.TOPIC: _RETENTION, ResourceType.GROUP: "consumer.session.timeout.ms"}
    found = []
    for title, kind, name in places:
        described = DescribeConfigs((DescribeConfigsResource(kind, name, ()),))
        found.append(Question(f"DescribeConfigs of a {title}", described))
        if kind not in keys:
            continue
        change = AlterableConfig(keys[kind], 0, "50000")
        replaced = ReplacedConfig(keys[kind], "50000")
        altered = IncrementalAlterConfigs((AlterConfigsResource(kind, name, (change,)),), validate_only=True)
        replacing = AlterConfigs((ReplaceConfigsResource(kind, name, (replaced,)),), validate_only=True)
        found.append(Question(f"IncrementalAlterConfigs of a {title}, validated", altered))
        found.append(Question(f"AlterConfigs of a {title}, validated", replacing))
    return found


def _administration(names: Names) -> list[Question]:
    unlike = AclCreation(3, f"unlike{names.tag}", "User:nobody", "*", 3, 3)
    quota = AlteringQuota((QuotaEntity("user", "nobody"),), (QuotaChange("producer_byte_rate", 1.0),))
    return [
        Question("DescribeCluster", DescribeCluster(include_cluster_authorized_operations=True)),
        Question("DescribeAcls", DescribeAcls(3, "none-has-this-name")),
        Question("CreateAcls", CreateAcls((unlike,))),
        Question("DeleteAcls", DeleteAcls((AclBindingFilter(3, "none-has-this-name"),))),
        # An Apache Kafka 4.3.1 never answers a principal that may not ask for all users.
        Question("DescribeUserScramCredentials", DescribeUserScramCredentials((ScramUser("nobody"),))),
        Question("AlterUserScramCredentials", AlterUserScramCredentials((ScramDeletion("nobody", 1),))),
        Question("DescribeClientQuotas", DescribeClientQuotas()),
        Question("AlterClientQuotas, validated", AlterClientQuotas((quota,), validate_only=True)),
    ]


def _removals(names: Names, topic_ids: Mapping[str, bytes]) -> list[Question]:
    topics = names.topic, names.other_topic
    delete = OffsetDelete(names.group, tuple(OffsetDeleteTopic(topic, (0,)) for topic in topics))
    created = Metadata((MetadataTopic(f"{names.topic}-made"),), allow_auto_topic_creation=True)
    absent = f"{names.topic}-absent"
    return [
        Question("OffsetDelete, two topics", delete),
        Question("DeleteGroups", DeleteGroups((names.group, names.other_group))),
        Question("InitProducerId of a transactional id", InitProducerId(names.transactional_id)),
        Question("Metadata that creates a topic", created),
        Question("DeleteTopics, one absent", DeleteTopics((DeletableTopic(names.topic), DeletableTopic(absent))), 5),
        Question("DeleteTopics, by id", DeleteTopics((DeletableTopic(None, topic_ids[names.other_topic]),))),
    ]
