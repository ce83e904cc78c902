"""A fake node made of dictionaries, in place of the client's connections."""

import time
from collections import deque
from collections.abc import Callable

import msgspec
from msgspec.structs import replace

from membership.events import CallFailed, MemberEffect, MemberEvent, NodeAddress, Replied, SendRequest
from muster.errors import CannotConnect
from muster.net.bootstrap import Bootstrap
from muster.net.condition import LockedCondition
from muster.net.cores import Driven
from muster.net.dialects import ClientDialect
from muster.net.refusals import Refusals
from protocol.consumer_protocol import Assignment, TopicPartitions, encode_assignment
from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.messages.acls import (
    AclBindingFilter,
    AclCreation,
    AclCreationResult,
    AclPatternType,
    AlteredUserScram,
    AlterUserScramCredentials,
    AlterUserScramCredentialsReply,
    CreateAcls,
    CreateAclsReply,
    DeleteAcls,
    DeleteAclsFilterResult,
    DeleteAclsReply,
    DeletedAcl,
    DescribeAcls,
    DescribeAclsReply,
    DescribedAcl,
    DescribedAclResource,
    DescribedUserScram,
    DescribeUserScramCredentials,
    DescribeUserScramCredentialsReply,
    ScramCredentialInfo,
    ScramUpsertion,
)
from protocol.messages.configs import (
    AlteredConfigs,
    ConfigSource,
    DescribeConfigs,
    DescribeConfigsReply,
    DescribedConfig,
    DescribedConfigs,
    IncrementalAlterConfigs,
    IncrementalAlterConfigsReply,
    ResourceType,
)
from protocol.messages.consumer_groups import (
    ConsumerGroupDescribe,
    ConsumerGroupDescribeReply,
    DescribedConsumerGroup,
)
from protocol.messages.data import (
    Fetch,
    FetchPartition,
    FetchPartitionReply,
    FetchReply,
    FetchTopicReply,
    InitProducerId,
    InitProducerIdReply,
    Produce,
    ProducePartitionReply,
    ProduceReply,
    ProduceTopicReply,
)
from protocol.messages.groups import (
    ApplyOffsets,
    ApplyOffsetsReply,
    AuditedNote,
    DeletedGroup,
    DeleteGroups,
    DeleteGroupsReply,
    DescribedGroup,
    DescribedMember,
    DescribeGroups,
    DescribeGroupsReply,
    HoldGroup,
    HoldGroupReply,
    LeaveGroup,
    LeaveGroupReply,
    LeavingMember,
    LeftMember,
    ListAudit,
    ListAuditReply,
    ListedGroup,
    ListedNote,
    ListGroups,
    ListGroupsReply,
    ListNotes,
    ListNotesReply,
    ListRefusals,
    ListRefusalsReply,
    OffsetChange,
    RefusedRequest,
)
from protocol.messages.node import (
    ApiVersion,
    ApiVersions,
    ApiVersionsReply,
    DescribeCluster,
    DescribeClusterReply,
    DescribedBroker,
    DescribeNode,
    DescribeNodeReply,
    ErrorReply,
    FindCoordinator,
    FindCoordinatorReply,
    FoundCoordinator,
)
from protocol.messages.offsets import (
    DescribeExpiry,
    DescribeExpiryReply,
    EndSample,
    ExpiringOffset,
    ListEndSamples,
    ListEndSamplesReply,
    ListOffsets,
    ListOffsetsPartitionReply,
    ListOffsetsReply,
    ListOffsetsTopicReply,
    OffsetFetch,
    OffsetFetchGroupReply,
    OffsetFetchPartitionReply,
    OffsetFetchReply,
    OffsetFetchTopicReply,
)
from protocol.messages.ownership import DescribeOwnership, DescribeOwnershipReply, OwnedPartition
from protocol.messages.quotas import (
    AlterClientQuotas,
    AlterClientQuotasReply,
    AlteredQuota,
    DescribeClientQuotas,
    DescribeClientQuotasReply,
    DescribedQuota,
    QuotaEntity,
    QuotaValue,
)
from protocol.messages.reports import DrainedMember, DrainMembers, DrainMembersReply
from protocol.messages.tokens import (
    CreateToken,
    CreateTokenReply,
    DeleteToken,
    DeleteTokenReply,
    ListedToken,
    ListTokens,
    ListTokensReply,
)
from protocol.messages.topics import (
    CreatedTopic,
    CreatePartitions,
    CreatePartitionsReply,
    CreateTopics,
    CreateTopicsReply,
    DeletedTopic,
    DeleteTopics,
    DeleteTopicsReply,
    GrownTopic,
    Metadata,
    MetadataBroker,
    MetadataPartitionReply,
    MetadataReply,
    MetadataTopicReply,
)
from protocol.record_batch import Record, decode_batch, read_header, stamp

UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

ORDERS = DescribedGroup(
    "orders",
    group_state="Stable",
    protocol_type="consumer",
    protocol_data="range",
    generation_id=4,
    leader="m-1",
    rebalance_timeout_ms=60_000,
    state_since_ms=1_700_000_000_000,
    shard=34,
    log="__consumer_offsets-34",
    members=(
        DescribedMember(
            "m-1",
            None,
            "app-1",
            "10.0.0.1",
            member_assignment=encode_assignment(Assignment((TopicPartitions("flights", (0, 1, 2, 5)),))),
        ),
        DescribedMember("m-2", "box-2", "app-2", "10.0.0.2", member_assignment=b"\xff\xff\xff"),
    ),
)
NOTES: tuple[ListedNote, ...] = (
    ListedNote(0, 0, "member joined", "m-1", 1_700_000_001_234, "app-1 at 10.0.0.1", 1, "PreparingRebalance"),
    ListedNote(1, 1, "rebalance completed", "m-1", 1_700_000_004_000, "1 members joined", 1, "Stable", "completed"),
)


NOW_MS = 1_700_000_100_000


class FakeNode:
    """A fake node. `reachable` False: connections are refused."""

    def __init__(self) -> None:
        self.reachable = True
        self.interrupted = False
        self.refused = ErrorCode.NONE
        """Error in the replies about every group."""
        self.questions = 0
        self.apis: tuple[int, ...] = (8, 9, 18)
        """APIs advertised to Kafka's clients."""
        self.at = ("h", 9)
        self.others: dict[NodeAddress, FakeNode] = {}
        """Further nodes of the cluster; one that is not `reachable` closes its connections."""
        self.groups = {"orders": ORDERS}
        self.notes: dict[str, tuple[ListedNote, ...]] = {"orders": NOTES}
        self.begins: dict[tuple[str, int], int] = {}
        self.committed: dict[tuple[str, int], int] = {}
        self.beside: dict[tuple[str, int], int] = {}
        """Ages in milliseconds of log ends from a cluster's brokers; empty: the topics are embedded."""
        self.unreadable: dict[tuple[str, int], int] = {}
        """Offset of each partition from which its records cannot be read from disk."""
        self.topics: dict[str, list[list[bytes]]] = {}
        self.configs: dict[str, dict[str, str | None]] = {}
        self.group_configs: dict[str, dict[str, str | None]] = {}
        self.group_settings: tuple[str, ...] = ("group.offsets.backward", "group.offsets.pinned")
        """Settings that every group has; empty: the node does not report them."""
        self.expiry = DescribeExpiryReply(
            group_state="Empty",
            group_expires_ms=1_700_604_800_000,
            next_run_ms=1_700_000_600_000,
            retention_ms=604_800_000,
        )
        self.expiring: list[ExpiringOffset] = []
        self.expiring_a_page = 2
        self.owned: tuple[OwnedPartition, ...] = ()
        self.bootstraps: list[str] = []
        self.refusals: tuple[RefusedRequest, ...] = ()
        self.left: tuple[LeavingMember, ...] = ()
        self.stays = False
        """True if draining members do not leave."""
        self.audited: tuple[AuditedNote, ...] = ()
        self.end_samples: list[EndSample] = []
        self.gauges: dict[str, int] = {}
        self.server_driven: dict[str, DescribedConsumerGroup] = {}
        self.upstream_problem = ""
        self.users: dict[str, dict[int, ScramUpsertion]] = {}
        self.acls: dict[AclCreation, None] = {}
        self.quotas: dict[tuple[QuotaEntity, ...], dict[str, float]] = {}
        self.tokens: dict[str, CreateToken] = {}
        self.may_alter = True
        self.may_describe_cluster = True
        self.holds: list[HoldGroup] = []
        self.topic_configs: dict[str, dict[str, str]] = {}

    def make_topic(self, name: str, partitions: int) -> None:
        self.topics[name] = [[] for _ in range(partitions)]

    def records(self, topic: str) -> list[list[Record]]:
        """Return the records of each partition."""
        return [[record for batch in log for record in decode_batch(batch)] for log in self.topics[topic]]

    def answer(self, message: Message) -> Message:
        self.questions += 1
        if self.interrupted:
            raise KeyboardInterrupt
        if not self.reachable:
            raise CannotConnect("cannot connect to 127.0.0.1:9390: Connection refused")
        reply = getattr(self, type(message).__name__)(message)
        assert isinstance(reply, Message)
        return reply

    def Metadata(self, message: Metadata) -> Message:  # noqa: N802
        names = [topic.name for topic in message.topics] if message.topics is not None else list(self.topics)
        brokers = (
            MetadataBroker(1, "h", 9),
            *((MetadataBroker(2, "broker", 9, speaks="kafka"),) if self.beside else ()),
        )
        return MetadataReply(brokers, "c", 1, tuple(self._topic(name or "") for name in names))

    def _topic(self, name: str) -> MetadataTopicReply:
        if name not in self.topics:
            return MetadataTopicReply(name, error_code=UNKNOWN)
        partitions = (MetadataPartitionReply(index, 1) for index in range(len(self.topics[name])))
        return MetadataTopicReply(name, b"\x07" * 16, partitions=tuple(partitions))

    def DescribeUserScramCredentials(self, message: DescribeUserScramCredentials) -> Message:  # noqa: N802
        if not self.may_alter:
            return DescribeUserScramCredentialsReply(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        described = []
        for name, known in self.users.items():
            infos = (ScramCredentialInfo(one.mechanism, one.iterations) for one in known.values())
            described.append(DescribedUserScram(name, credential_infos=tuple(infos)))
        return DescribeUserScramCredentialsReply(results=tuple(described))

    def AlterUserScramCredentials(self, message: AlterUserScramCredentials) -> Message:  # noqa: N802
        for gone in message.deletions:
            del self.users[gone.name][gone.mechanism]
        for one in message.upsertions:
            self.users.setdefault(one.name, {})[one.mechanism] = one
        self.users = {name: known for name, known in self.users.items() if known}
        names = dict.fromkeys([one.name for one in message.deletions] + [one.name for one in message.upsertions])
        return AlterUserScramCredentialsReply(tuple(AlteredUserScram(name) for name in names))

    def DescribeAcls(self, message: DescribeAcls) -> Message:  # noqa: N802
        if not self.may_alter:
            return DescribeAclsReply(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        return DescribeAclsReply(
            resources=tuple(
                DescribedAclResource(
                    one.resource_type,
                    one.resource_name,
                    (DescribedAcl(one.principal, one.host, one.operation, one.permission_type),),
                    one.resource_pattern_type,
                )
                for one in self.acls
                if _matches(one, message)
            )
        )

    def CreateAcls(self, message: CreateAcls) -> Message:  # noqa: N802
        self.acls |= dict.fromkeys(message.creations)
        return CreateAclsReply(tuple(AclCreationResult() for _ in message.creations))

    def DeleteAcls(self, message: DeleteAcls) -> Message:  # noqa: N802
        found = [[one for one in self.acls if _matches(one, condition)] for condition in message.filters]
        self.acls = {one: None for one in self.acls if not any(one in gone for gone in found)}
        deleted = (tuple(DeletedAcl(*msgspec.structs.astuple(one)) for one in gone) for gone in found)
        return DeleteAclsReply(tuple(DeleteAclsFilterResult(matching_acls=gone) for gone in deleted))

    def ListTokens(self, message: ListTokens) -> Message:  # noqa: N802
        if not self.may_alter:
            return ListTokensReply(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        listed = (ListedToken(one.name, one.role, "root", 0, one.lifetime_ms) for one in self.tokens.values())
        return ListTokensReply(wall_ms=86_400_000, tokens=tuple(listed))

    def CreateToken(self, message: CreateToken) -> Message:  # noqa: N802
        if message.name in self.tokens:
            return CreateTokenReply(ErrorCode.DUPLICATE_RESOURCE, f"there is a token {message.name!r} already")
        self.tokens[message.name] = message
        return CreateTokenReply(expires_ms=message.lifetime_ms)

    def DeleteToken(self, message: DeleteToken) -> Message:  # noqa: N802
        known = self.tokens.pop(message.name, None)
        return DeleteTokenReply(ErrorCode.RESOURCE_NOT_FOUND if known is None else ErrorCode.NONE)

    def DescribeClientQuotas(self, message: DescribeClientQuotas) -> Message:  # noqa: N802
        if not self.may_alter:
            return DescribeClientQuotasReply(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        return DescribeClientQuotasReply(
            entries=tuple(
                DescribedQuota(entity, tuple(QuotaValue(key, value) for key, value in limits.items()))
                for entity, limits in self.quotas.items()
            )
        )

    def AlterClientQuotas(self, message: AlterClientQuotas) -> Message:  # noqa: N802
        for entry in message.entries:
            limits = self.quotas.setdefault(entry.entity, {})
            for one in entry.ops:
                if one.key == "request_percentage":
                    why = "'request_percentage' is no limit here"
                    return AlterClientQuotasReply((AlteredQuota(entry.entity, ErrorCode.INVALID_REQUEST, why),))
                if one.remove:
                    limits.pop(one.key)
                else:
                    limits[one.key] = one.value
        self.quotas = {entity: limits for entity, limits in self.quotas.items() if limits}
        return AlterClientQuotasReply(tuple(AlteredQuota(entry.entity) for entry in message.entries))

    def DescribeNode(self, message: DescribeNode) -> Message:  # noqa: N802
        if not self.may_describe_cluster:
            return ErrorReply(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "no access rule permits this on the cluster")
        numbers: dict[str, int] = {}
        return DescribeNodeReply(
            1,
            "c",
            "1",
            0,
            1,
            1,
            {},
            numbers,
            numbers,
            numbers,
            self.gauges,
            upstream_problem=self.upstream_problem,
            wall_ms=NOW_MS,
        )

    def ApiVersions(self, message: ApiVersions) -> Message:  # noqa: N802
        return ApiVersionsReply(api_keys=tuple(ApiVersion(key, 0, 9) for key in self.apis))

    def FindCoordinator(self, message: FindCoordinator) -> Message:  # noqa: N802
        return FindCoordinatorReply(tuple(FoundCoordinator(key, 1, *self.at) for key in message.coordinator_keys))

    def DescribeCluster(self, message: DescribeCluster) -> Message:  # noqa: N802
        nodes = (NodeAddress(*self.at, 1), *self.others)
        return DescribeClusterReply("c", 1, tuple(DescribedBroker(one.node_id, one.host, one.port) for one in nodes))

    def ListGroups(self, message: ListGroups) -> Message:  # noqa: N802
        listed = (ListedGroup(g.group_id, g.protocol_type, g.group_state) for g in self.groups.values())
        return ListGroupsReply(groups=tuple(listed))

    def DescribeGroups(self, message: DescribeGroups) -> Message:  # noqa: N802
        if self.refused:
            return DescribeGroupsReply(tuple(DescribedGroup(name, self.refused) for name in message.groups))
        gone = ErrorCode.GROUP_ID_NOT_FOUND
        found = (self.groups.get(name) or DescribedGroup(name, gone, group_state="Dead") for name in message.groups)
        return DescribeGroupsReply(tuple(found))

    def ConsumerGroupDescribe(self, message: ConsumerGroupDescribe) -> Message:  # noqa: N802
        gone = ErrorCode.GROUP_ID_NOT_FOUND
        found = (self.server_driven.get(name) or DescribedConsumerGroup(name, gone) for name in message.group_ids)
        return ConsumerGroupDescribeReply(tuple(found))

    def DeleteGroups(self, message: DeleteGroups) -> Message:  # noqa: N802
        return DeleteGroupsReply(tuple(DeletedGroup(name, self._delete(name)) for name in message.groups_names))

    def _delete(self, name: str) -> ErrorCode:
        if self.refused:
            return self.refused
        if name not in self.groups:
            return ErrorCode.GROUP_ID_NOT_FOUND
        if self.groups[name].members:
            return ErrorCode.NON_EMPTY_GROUP
        del self.groups[name]
        return ErrorCode.NONE

    def ListRefusals(self, message: ListRefusals) -> Message:  # noqa: N802
        return ListRefusalsReply(refusals=self.refusals)

    def DescribeConfigs(self, message: DescribeConfigs) -> Message:  # noqa: N802
        (resource,) = message.resources
        name = resource.resource_name
        if resource.resource_type == ResourceType.GROUP:
            configs = [DescribedConfig(key, None) for key in self.group_settings]
            error = ErrorCode.NONE if configs else ErrorCode.INVALID_REQUEST
            return DescribeConfigsReply(
                (DescribedConfigs(resource.resource_type, name, error, configs=tuple(configs)),)
            )
        if not self.may_alter:
            return DescribeConfigsReply((DescribedConfigs(2, name, ErrorCode.TOPIC_AUTHORIZATION_FAILED),))
        own = self.topic_configs.get(name, {})
        configs = [DescribedConfig(key, value, config_source=ConfigSource.DYNAMIC_TOPIC) for key, value in own.items()]
        configs.append(DescribedConfig("segment.bytes", "1048576", config_source=ConfigSource.DEFAULT))
        return DescribeConfigsReply((DescribedConfigs(2, name, configs=tuple(configs)),))

    def HoldGroup(self, message: HoldGroup) -> Message:  # noqa: N802
        if message.group_id not in self.groups:
            return HoldGroupReply(ErrorCode.GROUP_ID_NOT_FOUND, "there is no such group")
        if not self.may_alter:
            return HoldGroupReply(ErrorCode.GROUP_AUTHORIZATION_FAILED)
        self.holds.append(message)
        return HoldGroupReply(left_ms=message.for_ms)

    def ApplyOffsets(self, message: ApplyOffsets) -> Message:  # noqa: N802
        group = self.groups.get(message.group_id)
        if group is not None and group.members:
            return ApplyOffsetsReply(members=tuple(one.client_id for one in group.members))
        moved = {(one.topic, one.partition_index): one for one in message.changes}
        now = {key: self.committed.get(key, -1) for key in moved}
        stale = [key for key, one in moved.items() if now[key] != one.previous_offset]
        if stale:
            found = tuple(OffsetChange(*key, now[key], moved[key].offset) for key in stale)
            return ApplyOffsetsReply(conflicts=found)
        for key, one in moved.items():
            self.committed.pop(key, None)
            if one.offset >= 0:
                self.committed[key] = one.offset
        kept = self.notes.get(message.group_id, ())
        note = ListedNote(len(kept), 0, "offsets reset", "", 0, kind="admin", act=message.act, changes=message.changes)
        self.notes[message.group_id] = (*kept, note)
        return ApplyOffsetsReply(number=note.number)

    def LeaveGroup(self, message: LeaveGroup) -> Message:  # noqa: N802
        self.left += message.members
        left = tuple(LeftMember(one.member_id, one.group_instance_id, ErrorCode.NONE) for one in message.members)
        return LeaveGroupReply(members=left)

    def DrainMembers(self, message: DrainMembers) -> Message:  # noqa: N802
        """Drain members that report themselves, at once."""
        group = self.groups[message.group_id]
        able = {one.member_id for one in group.members if one.reported}
        if not self.stays:
            staying = tuple(one for one in group.members if one.member_id not in able & {*message.member_ids})
            self.groups[message.group_id] = replace(group, members=staying)
        codes = {one: ErrorCode.NONE if one in able else ErrorCode.UNSUPPORTED_VERSION for one in message.member_ids}
        return DrainMembersReply(members=tuple(DrainedMember(one, code) for one, code in codes.items()))

    def ListEndSamples(self, message: ListEndSamples) -> Message:  # noqa: N802
        start = max(message.position, 0)
        page = tuple(one for one in self.end_samples[start : start + 2] if one.wall_ms >= message.since_ms)
        return ListEndSamplesReply(samples=page, position=start + 2, has_more=start + 2 < len(self.end_samples))

    def ListAudit(self, message: ListAudit) -> Message:  # noqa: N802
        return ListAuditReply(notes=self.audited)

    def ListNotes(self, message: ListNotes) -> Message:  # noqa: N802
        if self.refused:
            return ListNotesReply(error_code=self.refused)
        notes = self.notes.get(message.group_id, ())
        if message.after >= 0:
            notes = tuple(note for note in notes if note.number > message.after)[: message.limit]
        return ListNotesReply(notes=notes[-message.limit :])

    def DescribeExpiry(self, message: DescribeExpiry) -> Message:  # noqa: N802
        if self.refused:
            return DescribeExpiryReply(error_code=self.refused)
        if message.group_id not in self.groups:
            return DescribeExpiryReply(error_code=ErrorCode.GROUP_ID_NOT_FOUND)
        after = (message.after_topic, message.after_partition)
        rest = [one for one in self.expiring if (one.topic, one.partition_index) > after]
        size = min(message.limit, self.expiring_a_page)
        return msgspec.structs.replace(self.expiry, offsets=tuple(rest[:size]), has_more=len(rest) > size)

    def DescribeOwnership(self, message: DescribeOwnership) -> Message:  # noqa: N802
        if message.group_id not in self.groups:
            return DescribeOwnershipReply(error_code=ErrorCode.GROUP_ID_NOT_FOUND)
        return DescribeOwnershipReply(self.refused, self.owned)

    def OffsetFetch(self, message: OffsetFetch) -> Message:  # noqa: N802
        topics = tuple(
            OffsetFetchTopicReply(topic, (OffsetFetchPartitionReply(partition, offset),))
            for (topic, partition), offset in self.committed.items()
        )
        return OffsetFetchReply(tuple(OffsetFetchGroupReply(group.group_id, topics) for group in message.groups))

    def _place(self, topic: str, partition: int, timestamp: int) -> ListOffsetsPartitionReply:
        age_ms = self.beside.get((topic, partition))
        if self.beside and age_ms is None:
            return ListOffsetsPartitionReply(partition, ErrorCode.LEADER_NOT_AVAILABLE)
        offset = self._end(topic, partition) if timestamp == -1 else self.begins.get((topic, partition), 0)
        return ListOffsetsPartitionReply(partition, offset=offset, age_ms=-1 if age_ms is None else age_ms)

    def ListOffsets(self, message: ListOffsets) -> Message:  # noqa: N802
        return ListOffsetsReply(
            tuple(
                ListOffsetsTopicReply(
                    topic.name,
                    tuple(self._place(topic.name, part.partition_index, part.timestamp) for part in topic.partitions),
                )
                for topic in message.topics
            )
        )

    def _end(self, topic: str, partition: int) -> int:
        log = self.topics[topic][partition]
        return read_header(log[-1]).next_offset if log else 0

    def CreateTopics(self, message: CreateTopics) -> Message:  # noqa: N802
        self.configs |= {topic.name: {one.name: one.value for one in topic.configs} for topic in message.topics}
        return CreateTopicsReply(tuple(self._create(topic.name, topic.num_partitions) for topic in message.topics))

    def IncrementalAlterConfigs(self, message: IncrementalAlterConfigs) -> Message:  # noqa: N802
        (one,) = message.resources
        name, unknown = one.resource_name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if one.resource_type == ResourceType.GROUP:
            own = self.group_configs.setdefault(name, {})
            if wrong := [change.name for change in one.configs if not change.name.startswith("group.")]:
                code = ErrorCode.INVALID_CONFIG
                return IncrementalAlterConfigsReply((AlteredConfigs(one.resource_type, name, code, f"no {wrong[0]}"),))
            own |= {change.name: change.value for change in one.configs}
            return IncrementalAlterConfigsReply((AlteredConfigs(one.resource_type, name),))
        if name not in self.topics:
            return IncrementalAlterConfigsReply((AlteredConfigs(one.resource_type, name, unknown, "no topic"),))
        own = self.configs.setdefault(name, {})
        for change in one.configs:
            if change.value is None:
                own.pop(change.name, None)
            else:
                own[change.name] = change.value
        return IncrementalAlterConfigsReply((AlteredConfigs(one.resource_type, name),))

    def CreatePartitions(self, message: CreatePartitions) -> Message:  # noqa: N802
        (topic,) = message.topics
        if topic.count <= len(self.topics[topic.name]):
            code = ErrorCode.INVALID_PARTITIONS
            return CreatePartitionsReply((GrownTopic(topic.name, code, "it has as many already"),))
        self.make_topic(topic.name, topic.count)
        return CreatePartitionsReply((GrownTopic(topic.name),))

    def DeleteTopics(self, message: DeleteTopics) -> Message:  # noqa: N802
        names = [topic.name or "" for topic in message.topics]
        known = [name in self.topics and self.topics.pop(name) is not None for name in names]
        return DeleteTopicsReply(
            tuple(
                DeletedTopic(name, error_code=ErrorCode.NONE if was_there else UNKNOWN)
                for name, was_there in zip(names, known, strict=True)
            )
        )

    def _create(self, name: str, partitions: int) -> CreatedTopic:
        if name in self.topics:
            return CreatedTopic(name, error_code=ErrorCode.TOPIC_ALREADY_EXISTS)
        if partitions == 0:
            return CreatedTopic(name, error_code=ErrorCode.INVALID_PARTITIONS, error_message="0 is no number of them")
        self.make_topic(name, partitions if partitions > 0 else 1)
        return CreatedTopic(name, b"\x07" * 16, num_partitions=len(self.topics[name]))

    def Produce(self, message: Produce) -> Message:  # noqa: N802
        return ProduceReply(
            tuple(
                ProduceTopicReply(
                    topic.name,
                    tuple(self._append(topic.name, part.index, part.records) for part in topic.partition_data),
                )
                for topic in message.topic_data
            )
        )

    def InitProducerId(self, message: InitProducerId) -> Message:  # noqa: N802
        return InitProducerIdReply(producer_id=7, producer_epoch=0)

    def _append(self, topic: str, partition: int, batch: bytes) -> ProducePartitionReply:
        end = self._end(topic, partition)
        self.topics[topic][partition].append(stamp(batch, end))
        return ProducePartitionReply(partition, base_offset=end)

    def Fetch(self, message: Fetch) -> Message:  # noqa: N802
        return FetchReply(
            responses=tuple(
                FetchTopicReply(
                    topic.topic,
                    tuple(self._fetched(topic.topic, part) for part in topic.partitions),
                )
                for topic in message.topics
            )
        )

    def _fetched(self, topic: str, part: FetchPartition) -> FetchPartitionReply:
        end = self._end(topic, part.partition)
        readable = self.unreadable.get((topic, part.partition), end)
        if part.fetch_offset >= readable and part.fetch_offset < end:
            return FetchPartitionReply(part.partition, ErrorCode.KAFKA_STORAGE_ERROR)
        found = [
            batch
            for batch in self.topics[topic][part.partition]
            if read_header(batch).next_offset > part.fetch_offset and read_header(batch).base_offset < readable
        ]
        return FetchPartitionReply(part.partition, high_watermark=end, records=b"".join(found))


def _matches(acl: AclCreation, condition: AclBindingFilter) -> bool:
    return (
        condition.resource_type_filter in (1, acl.resource_type)
        and condition.resource_name_filter in (None, acl.resource_name)
        and condition.pattern_type_filter in (AclPatternType.ANY, acl.resource_pattern_type)
        and condition.principal_filter in (None, acl.principal)
        and condition.host_filter in (None, acl.host)
        and condition.operation in (1, acl.operation)
        and condition.permission_type in (1, acl.permission_type)
    )


class FakeDriver:
    """In place of a client's driver: answers requests at once, in the caller's thread."""

    bootstrap_address = NodeAddress("127.0.0.1", 9390)

    def __init__(self, node: FakeNode, where: Bootstrap) -> None:
        scheme = "kafka://" if where.dialect is ClientDialect.KAFKA else ""
        node.bootstraps.append(f"{scheme}{where.addresses[0]}")
        self.changed = LockedCondition()
        self.trouble = ""
        self.refusals = Refusals()
        self.failures: dict[NodeAddress | None, Exception] = {}
        self._node = node

    @staticmethod
    def time() -> float:
        return time.monotonic()

    @staticmethod
    def now_ms() -> int:
        return time.monotonic_ns() // 1_000_000

    @staticmethod
    def jitter() -> float:
        return 0.5

    @staticmethod
    def is_last_address(address: NodeAddress) -> bool:
        return True

    def add(self, driven: Driven) -> None:
        """Do nothing: there is no thread."""

    def carry_out(self, driven: Driven, action: Callable[[int], list[MemberEffect]]) -> None:
        """Do nothing: only interrupted clients give up requests."""

    def feed(self, driven: Driven, event: MemberEvent) -> None:
        due = deque([event])
        while due:
            for effect in driven.core.step(due.popleft(), time.monotonic_ns() // 1_000_000):
                if isinstance(effect, SendRequest):
                    node = self._node if effect.node is None else self._node.others.get(effect.node, self._node)
                    if node is not self._node and not node.reachable:
                        self.failures[effect.node] = ConnectionRefusedError(111, "Connection refused")
                        due.append(CallFailed(effect.call))
                    else:
                        due.append(Replied(effect.call, node.answer(effect.message)))
                else:
                    driven.on_effect(effect)

    def stop(self) -> None:
        """Do nothing: nothing runs."""
