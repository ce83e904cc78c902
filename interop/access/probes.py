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


class Probe(NamedTuple):
    """A request, by the title under which its answers stand. `newest`: the version asked, if that is not the newest."""

    title: str
    message: Message
    newest: int = NEWEST

    @property
    def version(self) -> int:
        return min(self.newest, BY_MESSAGE[type(self.message)].request.newest)


def probes(names: Names, topic_ids: Mapping[str, bytes]) -> list[Probe]:
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


def transactional_probes(names: Names) -> list[Probe]:
    """Return the requests of transactions about groups, which nodes serve in front of a cluster alone. They change
    nothing: nobody has the producer id, and the group has no such member."""
    parts = (TxnOffsetCommitPartition(0, 7),)
    topics = tuple(TxnOffsetCommitTopic(topic, parts) for topic in (names.topic, names.other_topic))
    commit = TxnOffsetCommit(names.transactional_id, names.group, 7, 0, topics, 5, "m")
    return [
        Probe("AddOffsetsToTxn", AddOffsetsToTxn(names.transactional_id, 7, 0, names.group), 3),
        Probe("TxnOffsetCommit, two topics", commit, 4),
    ]


def _membership(names: Names) -> list[Probe]:
    join = JoinGroup(names.group, 60_000, "", "consumer", (JoinProtocol("range", b"x"),), 60_000)
    sync = SyncGroup(names.group, 1, "m", protocol_type="consumer", protocol_name="range")
    beat = ConsumerGroupHeartbeat(names.group, "m", 5, subscribed_topic_names=(names.topic,))
    other = ConsumerGroupHeartbeat(names.group, "m", 5, subscribed_topic_names=(names.topic, names.other_topic))
    return [
        Probe("JoinGroup", join),
        Probe("SyncGroup", sync),
        Probe("Heartbeat", Heartbeat(names.group, 1, "m")),
        Probe("LeaveGroup", LeaveGroup(names.group, (LeavingMember("m"),))),
        Probe("ConsumerGroupHeartbeat", beat),
        Probe("ConsumerGroupHeartbeat, two topics", other),
    ]


def _offsets(names: Names, topic_ids: Mapping[str, bytes]) -> list[Probe]:
    topics = names.topic, names.other_topic
    parts = (OffsetCommitPartition(0, 7),)
    named = tuple(OffsetCommitTopic(topic, parts) for topic in topics)
    by_id = tuple(OffsetCommitTopic("", parts, topic_ids[topic]) for topic in topics)
    fetched = tuple(OffsetFetchTopic(topic, (0,)) for topic in topics)
    fetched_by_id = tuple(OffsetFetchTopic("", (0,), topic_ids[topic]) for topic in topics)
    groups = OffsetFetchGroup(names.group, fetched), OffsetFetchGroup(names.other_group, fetched)
    return [
        Probe("OffsetCommit, two topics", OffsetCommit(names.group, named), 9),
        Probe("OffsetCommit, two topics by id", OffsetCommit(names.group, by_id)),
        Probe("OffsetFetch, two groups", OffsetFetch(groups), 9),
        Probe("OffsetFetch, one group in an old version", OffsetFetch(groups[:1]), 5),
        Probe("OffsetFetch, all topics", OffsetFetch((OffsetFetchGroup(names.group, None),)), 9),
        Probe(
            "OffsetFetch, by id",
            OffsetFetch((OffsetFetchGroup(names.group, fetched_by_id, wants_topic_ids=True),)),
        ),
    ]


def _groups(names: Names) -> list[Probe]:
    groups = names.group, names.other_group
    return [
        Probe("FindCoordinator of groups", FindCoordinator(groups)),
        Probe("FindCoordinator of one group in an old version", FindCoordinator(groups[:1]), 3),
        Probe("FindCoordinator of a transactional id", FindCoordinator((names.transactional_id,), 1)),
        Probe("DescribeGroups", DescribeGroups(groups, include_authorized_operations=True)),
        Probe("ConsumerGroupDescribe", ConsumerGroupDescribe(groups, include_authorized_operations=True)),
        Probe("ListGroups", ListGroups()),
    ]


def _records(names: Names, topic_ids: Mapping[str, bytes]) -> list[Probe]:
    topics = names.topic, names.other_topic
    produced = (ProducePartition(0, _BATCH),)
    wanted = (FetchPartition(0, 0),)
    listed = tuple(ListOffsetsTopic(topic, (ListOffsetsPartition(0),)) for topic in topics)
    epochs = tuple(EpochTopic(topic, (EpochPartition(0, 0),)) for topic in topics)
    fetched = tuple(FetchTopic(topic, wanted) for topic in topics)
    fetched_by_id = tuple(FetchTopic("", wanted, topic_ids[topic]) for topic in topics)
    return [
        Probe("Produce", Produce(tuple(ProduceTopic(topic, produced) for topic in topics)), 12),
        Probe("Produce, by id", Produce(tuple(ProduceTopic("", produced, topic_ids[topic]) for topic in topics))),
        Probe("InitProducerId", InitProducerId()),
        Probe("Fetch", Fetch(fetched, max_wait_ms=0), 12),
        Probe("Fetch, by id", Fetch(fetched_by_id, max_wait_ms=0)),
        Probe("ListOffsets", ListOffsets(listed)),
        Probe("OffsetForLeaderEpoch", OffsetForLeaderEpoch(epochs)),
    ]


def _topics(names: Names, topic_ids: Mapping[str, bytes]) -> list[Probe]:
    topics = names.topic, names.other_topic
    ids = tuple(MetadataTopic(None, topic_ids[topic]) for topic in topics)
    absent = f"{names.topic}-absent"
    wanted = tuple(MetadataTopic(topic) for topic in (*topics, absent))
    created = CreatableTopic(names.topic, 1, 1), CreatableTopic(absent, 1, 1)
    grown = GrowingTopic(names.topic, 3), GrowingTopic(absent, 3)
    return [
        Probe("Metadata", Metadata(wanted, include_topic_authorized_operations=True)),
        Probe("Metadata with the cluster's operations", Metadata((), False, True, False), 10),
        Probe("Metadata, by id", Metadata(ids)),
        Probe("Metadata of all topics", Metadata(None)),
        Probe("DescribeTopicPartitions", DescribeTopicPartitions(tuple(map(NamedTopic, (*topics, absent))))),
        Probe("DescribeTopicPartitions of all topics", DescribeTopicPartitions(())),
        Probe("CreateTopics, validated", CreateTopics(created, validate_only=True)),
        Probe("CreatePartitions, validated", CreatePartitions(grown, validate_only=True)),
    ]


def _configs(names: Names) -> list[Probe]:
    places = (
        ("topic", ResourceType.TOPIC, names.topic),
        ("group", ResourceType.GROUP, names.group),
        ("broker", ResourceType.BROKER, "1"),
    )
    keys = {ResourceType.TOPIC: _RETENTION, ResourceType.GROUP: "consumer.session.timeout.ms"}
    found = []
    for title, kind, name in places:
        described = DescribeConfigs((DescribeConfigsResource(kind, name, ()),))
        found.append(Probe(f"DescribeConfigs of a {title}", described))
        if kind not in keys:
            continue
        change = AlterableConfig(keys[kind], 0, "50000")
        replaced = ReplacedConfig(keys[kind], "50000")
        altered = IncrementalAlterConfigs((AlterConfigsResource(kind, name, (change,)),), validate_only=True)
        replacing = AlterConfigs((ReplaceConfigsResource(kind, name, (replaced,)),), validate_only=True)
        found.append(Probe(f"IncrementalAlterConfigs of a {title}, validated", altered))
        found.append(Probe(f"AlterConfigs of a {title}, validated", replacing))
    return found


def _administration(names: Names) -> list[Probe]:
    unlike = AclCreation(3, f"unlike{names.tag}", "User:nobody", "*", 3, 3)
    quota = AlteringQuota((QuotaEntity("user", "nobody"),), (QuotaChange("producer_byte_rate", 1.0),))
    return [
        Probe("DescribeCluster", DescribeCluster(include_cluster_authorized_operations=True)),
        Probe("DescribeAcls", DescribeAcls(3, "none-has-this-name")),
        Probe("CreateAcls", CreateAcls((unlike,))),
        Probe("DeleteAcls", DeleteAcls((AclBindingFilter(3, "none-has-this-name"),))),
        # An Apache Kafka 4.3.1 never answers a principal that may not ask for all users.
        Probe("DescribeUserScramCredentials", DescribeUserScramCredentials((ScramUser("nobody"),))),
        Probe("AlterUserScramCredentials", AlterUserScramCredentials((ScramDeletion("nobody", 1),))),
        Probe("DescribeClientQuotas", DescribeClientQuotas()),
        Probe("AlterClientQuotas, validated", AlterClientQuotas((quota,), validate_only=True)),
    ]


def _removals(names: Names, topic_ids: Mapping[str, bytes]) -> list[Probe]:
    topics = names.topic, names.other_topic
    delete = OffsetDelete(names.group, tuple(OffsetDeleteTopic(topic, (0,)) for topic in topics))
    created = Metadata((MetadataTopic(f"{names.topic}-made"),), allow_auto_topic_creation=True)
    absent = f"{names.topic}-absent"
    return [
        Probe("OffsetDelete, two topics", delete),
        Probe("DeleteGroups", DeleteGroups((names.group, names.other_group))),
        Probe("InitProducerId of a transactional id", InitProducerId(names.transactional_id)),
        Probe("Metadata that creates a topic", created),
        Probe("DeleteTopics, one absent", DeleteTopics((DeletableTopic(names.topic), DeletableTopic(absent))), 5),
        Probe("DeleteTopics, by id", DeleteTopics((DeletableTopic(None, topic_ids[names.other_topic]),))),
    ]
