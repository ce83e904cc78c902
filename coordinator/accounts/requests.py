"""The permissions that requests need. Denials are in the fields where Apache Kafka (KafkaApis, ControllerApis) puts
them.

`ACCESS` has a row for each request; `coordinator.accounts.division` divides requests by it.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, NamedTuple

from coordinator.accounts.permission import (
    CLUSTER,
    DELETED_TOPIC,
    GROUP,
    IDEMPOTENT_PRODUCER,
    REPLICATED_TOPIC,
    TOPIC,
    TOPIC_OR_CLUSTER,
    TRANSACTIONAL_ID,
    CodeOf,
    Permission,
)
from coordinator.accounts.replies import (
    Finish,
    code_of_creation,
    deny_deletion,
    deny_fetch,
    deny_metadata,
    deny_offset_deletion,
    finish_balanced,
    finish_cluster,
    finish_consumer_groups,
    finish_end_samples,
    finish_group_offsets,
    finish_groups,
    finish_list,
    finish_metadata,
    finish_offsets,
    finish_pages,
)
from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.messages.acls import (
    AclOperation,
    AlterUserScramCredentials,
    CreateAcls,
    DeleteAcls,
    DescribeAcls,
    DescribeUserScramCredentials,
)
from protocol.messages.balanced import (
    ConfirmConsumed,
    ConsumeFromMax,
    DescribeBalanced,
    FetchRegistered,
    LeaveMember,
    MemberHeartbeat,
    PartitionMeta,
    RegisterPartitions,
    StartMember,
    UnregisterPartitions,
)
from protocol.messages.configs import AlterConfigs, DescribeConfigs, IncrementalAlterConfigs, ResourceType
from protocol.messages.consumer_groups import ConsumerGroupDescribe, ConsumerGroupHeartbeat
from protocol.messages.data import Fetch, InitProducerId, OffsetForLeaderEpoch, Produce
from protocol.messages.groups import (
    ApplyOffsets,
    DeleteGroups,
    DescribeGroups,
    Heartbeat,
    HoldGroup,
    JoinGroup,
    LeaveGroup,
    ListAudit,
    ListGroups,
    ListNotes,
    ListRefusals,
    SyncGroup,
)
from protocol.messages.node import DescribeCluster, DescribeNode, FindCoordinator
from protocol.messages.offsets import (
    DescribeExpiry,
    ListEndSamples,
    ListGroupOffsets,
    ListOffsets,
    OffsetCommit,
    OffsetDelete,
    OffsetFetch,
    TxnOffsetCommit,
)
from protocol.messages.ownership import ClaimPartitions, DescribeOwnership, ReleasePartitions
from protocol.messages.quotas import AlterClientQuotas, DescribeClientQuotas
from protocol.messages.reports import DrainMembers, ReportMember
from protocol.messages.tokens import CreateToken, DeleteToken, ListTokens
from protocol.messages.topics import CreatePartitions, CreateTopics, DeleteTopics, DescribeTopicPartitions, Metadata
from protocol.messages.transactions import AddOffsetsToTxn
from protocol.partition_key import parse_key

_READ, _WRITE, _DELETE, _DESCRIBE = AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE, AclOperation.DESCRIBE
_CREATE, _ALTER = AclOperation.CREATE, AclOperation.ALTER

_Whole = Callable[[Any], Iterable[Permission]]


class PartFields(NamedTuple):
    """Parts of a request that are authorized one by one: the fields of request and reply, and a part's permission.
    `deny` makes the reply's parts; None: `REFUSE` does. `creation` decides on a part that the request would create."""

    request_field: str
    reply_field: str
    permission: Callable[[Any, Any], Permission]
    deny: Callable[[Any, ErrorCode], tuple[Any, ...]] | None = None
    creation: Callable[[Any, Any, CodeOf], ErrorCode] | None = None


class Access(NamedTuple):
    """Permissions that a request needs. `title`: resource and operation, for people. `whole`: permissions without which
    the whole request is refused. `finish` makes the client's reply, if that is more than the node's reply and
    denials."""

    title: str
    whole: _Whole | None = None
    parts: PartFields | None = None
    finish: Finish | None = None


# ---------------------------------------------------------------------------------------------------- kinds of rules


def _group(operation: AclOperation) -> _Whole:
    return lambda message: (Permission(GROUP, message.group_id, operation),)


def _cluster(operation: AclOperation) -> _Whole:
    return lambda message: (Permission(CLUSTER, "", operation),)


def _nothing(message: Message) -> tuple[Permission, ...]:
    return ()


def _on_topic(operation: AclOperation, kind: str = TOPIC) -> Callable[[Any, Any], Permission]:
    return lambda message, topic: Permission(kind, topic.name or getattr(topic, "topic_id", b""), operation)


def _on_topic_field(operation: AclOperation, kind: str = TOPIC) -> Callable[[Any, Any], Permission]:
    return lambda message, part: Permission(kind, part.topic or getattr(part, "topic_id", b""), operation)


def _on_group(operation: AclOperation) -> Callable[[Any, Any], Permission]:
    return lambda message, name: Permission(GROUP, name, operation)


def _on_config(operation: AclOperation) -> Callable[[Any, Any], Permission]:
    kinds = {ResourceType.TOPIC: TOPIC, ResourceType.GROUP: GROUP}

    def permission(message: Message, resource: Any) -> Permission:
        kind = kinds.get(resource.resource_type, CLUSTER)
        return Permission(kind, "" if kind == CLUSTER else resource.resource_name, operation)

    return permission


def _on_coordinated(message: FindCoordinator, key: str) -> Permission:
    return Permission(TRANSACTIONAL_ID if message.key_type == 1 else GROUP, key, _DESCRIBE)


def _applied(message: ApplyOffsets) -> Iterator[Permission]:
    """Yield those of the commits and deletions that the changes stand for."""
    yield Permission(GROUP, message.group_id, _READ)
    if any(change.offset < 0 for change in message.changes):
        yield Permission(GROUP, message.group_id, _DELETE)
    yield from (Permission(TOPIC, topic, _READ) for topic in dict.fromkeys(change.topic for change in message.changes))


def _started(message: StartMember) -> Iterator[Permission]:
    yield Permission(GROUP, message.group_id, _READ)
    yield from (Permission(TOPIC, topic, _READ) for topic in message.topics)


def _subscribed(message: ConsumerGroupHeartbeat) -> Iterator[Permission]:
    yield Permission(GROUP, message.group_id, _READ)
    yield from (Permission(TOPIC, topic, _DESCRIBE) for topic in message.subscribed_topic_names or ())


def _of_items(message: RegisterPartitions | FetchRegistered) -> Iterator[Permission]:
    yield Permission(GROUP, message.group_id, _READ)
    keys = (parse_key(one.key) for one in message.items)
    yield from (Permission(TOPIC, topic, _READ) for topic in dict.fromkeys(key.topic for key in keys if key))


def _of_transaction(message: AddOffsetsToTxn | TxnOffsetCommit) -> Iterator[Permission]:
    yield Permission(TRANSACTIONAL_ID, message.transactional_id, _WRITE)
    yield Permission(GROUP, message.group_id, _READ)


def _of_producer(message: InitProducerId) -> Iterator[Permission]:
    if message.transactional_id is not None:
        yield Permission(TRANSACTIONAL_ID, message.transactional_id, _WRITE)
    else:
        yield Permission(IDEMPOTENT_PRODUCER, "", AclOperation.IDEMPOTENT_WRITE)


# -------------------------------------------------------------------------------------------------------- the table

_LISTS: Final = "DESCRIBE on the cluster, else on each group"
_GROUP_READ: Final = Access("READ on the group", _group(_READ))
_GROUP_DESCRIBE: Final = Access("DESCRIBE on the group", _group(_DESCRIBE))
_CLUSTER_ALTER: Final = Access("ALTER on the cluster", _cluster(_ALTER))
_CLUSTER_DESCRIBE: Final = Access("DESCRIBE on the cluster", _cluster(_DESCRIBE))
_ALTERED_CONFIGS: Final = PartFields("resources", "responses", _on_config(AclOperation.ALTER_CONFIGS))

ACCESS: Final[dict[type[Message], Access]] = {
    JoinGroup: _GROUP_READ,
    SyncGroup: _GROUP_READ,
    Heartbeat: _GROUP_READ,
    LeaveGroup: _GROUP_READ,
    OffsetCommit: Access(
        "READ on the group, and on each topic", _group(_READ), PartFields("topics", "topics", _on_topic(_READ))
    ),
    AddOffsetsToTxn: Access("WRITE on the transactional id, READ on the group", _of_transaction),
    TxnOffsetCommit: Access(
        "WRITE on the transactional id, READ on the group, and on each topic",
        _of_transaction,
        PartFields("topics", "topics", _on_topic(_READ)),
    ),
    OffsetDelete: Access(
        "DELETE on the group, READ on each topic",
        _group(_DELETE),
        PartFields("topics", "topics", _on_topic(_READ), deny_offset_deletion),
    ),
    OffsetFetch: Access(
        "DESCRIBE on each group, and on each topic",
        parts=PartFields("groups", "groups", lambda _message, part: Permission(GROUP, part.group_id, _DESCRIBE)),
        finish=finish_offsets,
    ),
    FindCoordinator: Access(
        "DESCRIBE on each group or transactional id",
        parts=PartFields("coordinator_keys", "coordinators", _on_coordinated),
    ),
    DescribeGroups: Access(
        "DESCRIBE on each group", parts=PartFields("groups", "groups", _on_group(_DESCRIBE)), finish=finish_groups
    ),
    DeleteGroups: Access("DELETE on each group", parts=PartFields("groups_names", "results", _on_group(_DELETE))),
    ListGroups: Access(_LISTS, finish=finish_list("groups")),
    ListGroupOffsets: Access(
        "DESCRIBE on each group, and on each topic; others are left out", finish=finish_group_offsets
    ),
    ListAudit: Access(_LISTS, finish=finish_list("notes")),
    ListRefusals: Access(_LISTS, finish=finish_list("refusals")),
    ListEndSamples: Access(
        "DESCRIBE on the group and on the topic of each; others are left out", finish=finish_end_samples
    ),
    DescribeConfigs: Access(
        "DESCRIBE_CONFIGS on each group or topic; on the cluster for brokers",
        parts=PartFields("resources", "results", _on_config(AclOperation.DESCRIBE_CONFIGS)),
    ),
    AlterConfigs: Access("ALTER_CONFIGS on each group or topic; on the cluster for brokers", parts=_ALTERED_CONFIGS),
    IncrementalAlterConfigs: Access(
        "ALTER_CONFIGS on each group or topic; on the cluster for brokers", parts=_ALTERED_CONFIGS
    ),
    ConsumerGroupHeartbeat: Access("READ on the group, DESCRIBE on each topic it subscribes to", _subscribed),
    ConsumerGroupDescribe: Access(
        "DESCRIBE on each group, and on each topic that its members have or get",
        parts=PartFields("group_ids", "groups", _on_group(_DESCRIBE)),
        finish=finish_consumer_groups,
    ),
    # topics and records
    Metadata: Access(
        "DESCRIBE on each topic; CREATE on those it creates, or on the cluster",
        parts=PartFields("topics", "topics", _on_topic(_DESCRIBE), deny_metadata, code_of_creation),
        finish=finish_metadata,
    ),
    DescribeTopicPartitions: Access(
        "DESCRIBE on each topic", parts=PartFields("topics", "topics", _on_topic(_DESCRIBE)), finish=finish_pages
    ),
    CreateTopics: Access(
        "CREATE on the cluster, else on each topic",
        parts=PartFields("topics", "topics", _on_topic(_CREATE, TOPIC_OR_CLUSTER)),
    ),
    DeleteTopics: Access(
        "DELETE and DESCRIBE on each topic, or DELETE on the cluster",
        parts=PartFields("topics", "responses", _on_topic(_DELETE, DELETED_TOPIC), deny_deletion),
    ),
    CreatePartitions: Access("ALTER on each topic", parts=PartFields("topics", "results", _on_topic(_ALTER))),
    Produce: Access("WRITE on each topic", parts=PartFields("topic_data", "responses", _on_topic(_WRITE))),
    InitProducerId: Access(
        "IDEMPOTENT_WRITE on the cluster, or WRITE on any topic; WRITE on the transactional id", _of_producer
    ),
    Fetch: Access("READ on each topic", parts=PartFields("topics", "responses", _on_topic_field(_READ), deny_fetch)),
    ListOffsets: Access("DESCRIBE on each topic", parts=PartFields("topics", "topics", _on_topic(_DESCRIBE))),
    OffsetForLeaderEpoch: Access(
        "DESCRIBE on each topic, or CLUSTER_ACTION on the cluster",
        parts=PartFields("topics", "topics", _on_topic_field(_DESCRIBE, REPLICATED_TOPIC)),
    ),
    # the node
    DescribeCluster: Access("none", _nothing, finish=finish_cluster),
    DescribeNode: _CLUSTER_DESCRIBE,
    DescribeAcls: _CLUSTER_DESCRIBE,
    CreateAcls: _CLUSTER_ALTER,
    DeleteAcls: _CLUSTER_ALTER,
    DescribeUserScramCredentials: _CLUSTER_DESCRIBE,
    AlterUserScramCredentials: _CLUSTER_ALTER,
    ListTokens: _CLUSTER_DESCRIBE,
    CreateToken: _CLUSTER_ALTER,
    DeleteToken: _CLUSTER_ALTER,
    DescribeClientQuotas: Access("DESCRIBE_CONFIGS on the cluster", _cluster(AclOperation.DESCRIBE_CONFIGS)),
    AlterClientQuotas: Access("ALTER_CONFIGS on the cluster", _cluster(AclOperation.ALTER_CONFIGS)),
    # Muster's own
    ApplyOffsets: Access("READ on the group, DELETE where offsets are deleted, READ on each topic", _applied),
    HoldGroup: Access("ALTER_CONFIGS on the group", _group(AclOperation.ALTER_CONFIGS)),
    ListNotes: _GROUP_DESCRIBE,
    DescribeExpiry: _GROUP_DESCRIBE,
    DescribeOwnership: _GROUP_DESCRIBE,
    DescribeBalanced: Access(
        "DESCRIBE on each group, named or listed",
        parts=PartFields("groups", "groups", _on_group(_DESCRIBE)),
        finish=finish_balanced,
    ),
    ClaimPartitions: _GROUP_READ,
    ReleasePartitions: _GROUP_READ,
    StartMember: Access("READ on the group, and on each topic", _started),
    RegisterPartitions: Access("READ on the group, and on each topic", _of_items),
    FetchRegistered: Access("READ on the group, and on each topic", _of_items),
    ReportMember: _GROUP_READ,
    DrainMembers: _GROUP_READ,
    MemberHeartbeat: _GROUP_READ,
    PartitionMeta: _GROUP_READ,
    UnregisterPartitions: _GROUP_READ,
    ConfirmConsumed: _GROUP_READ,
    LeaveMember: _GROUP_READ,
    ConsumeFromMax: Access("READ on each group", parts=PartFields("groups", "refused", _on_group(_READ))),
}

GROUP_REQUESTS: Final[frozenset[type[Message]]] = frozenset(
    {
        *(JoinGroup, SyncGroup, Heartbeat, LeaveGroup, OffsetCommit, OffsetDelete, OffsetFetch, FindCoordinator),
        *(DescribeGroups, DeleteGroups, ListGroups, DescribeConfigs, AlterConfigs, IncrementalAlterConfigs),
        *(ConsumerGroupHeartbeat, ConsumerGroupDescribe, AddOffsetsToTxn, TxnOffsetCommit),
    }
)
"""Requests of Kafka's clients about groups, which a node in front of a cluster answers itself."""
