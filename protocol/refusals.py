"""Error replies to requests that are rejected as a whole, in the form of each reply type."""

from collections.abc import Callable
from typing import Any, Final

from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.messages.acls import (
    AclCreationResult,
    AlteredUserScram,
    AlterUserScramCredentials,
    AlterUserScramCredentialsReply,
    CreateAcls,
    CreateAclsReply,
    DeleteAcls,
    DeleteAclsFilterResult,
    DeleteAclsReply,
    DescribeAcls,
    DescribeAclsReply,
    DescribeUserScramCredentials,
    DescribeUserScramCredentialsReply,
)
from protocol.messages.balanced import (
    BalancedGroupView,
    ConsumeFromMax,
    ConsumeFromMaxReply,
    DescribeBalanced,
    DescribeBalancedReply,
    RefusedGroup,
)
from protocol.messages.configs import (
    AlterConfigs,
    AlterConfigsReply,
    AlteredConfigs,
    DescribeConfigs,
    DescribeConfigsReply,
    DescribedConfigs,
    IncrementalAlterConfigs,
    IncrementalAlterConfigsReply,
)
from protocol.messages.consumer_groups import (
    ConsumerGroupDescribe,
    ConsumerGroupDescribeReply,
    ConsumerGroupHeartbeat,
    ConsumerGroupHeartbeatReply,
    DescribedConsumerGroup,
)
from protocol.messages.data import (
    EpochEndOffset,
    EpochTopicReply,
    Fetch,
    FetchPartitionReply,
    FetchReply,
    FetchTopicReply,
    InitProducerId,
    InitProducerIdReply,
    OffsetForLeaderEpoch,
    OffsetForLeaderEpochReply,
    Produce,
    ProducePartitionReply,
    ProduceReply,
    ProduceTopicReply,
)
from protocol.messages.groups import (
    DeletedGroup,
    DeleteGroups,
    DeleteGroupsReply,
    DescribedGroup,
    DescribeGroups,
    DescribeGroupsReply,
    Heartbeat,
    HeartbeatReply,
    JoinGroup,
    JoinGroupReply,
    LeaveGroup,
    LeaveGroupReply,
    ListGroups,
    ListGroupsReply,
    SyncGroup,
    SyncGroupReply,
)
from protocol.messages.node import (
    DescribeCluster,
    DescribeClusterReply,
    FindCoordinator,
    FindCoordinatorReply,
    FoundCoordinator,
)
from protocol.messages.offsets import (
    ListOffsets,
    ListOffsetsPartitionReply,
    ListOffsetsReply,
    ListOffsetsTopicReply,
    OffsetCommit,
    OffsetCommitPartitionReply,
    OffsetCommitReply,
    OffsetCommitTopicReply,
    OffsetDelete,
    OffsetDeleteReply,
    OffsetFetch,
    OffsetFetchGroup,
    OffsetFetchGroupReply,
    OffsetFetchPartitionReply,
    OffsetFetchReply,
    OffsetFetchTopicReply,
    TxnOffsetCommit,
    TxnOffsetCommitReply,
)
from protocol.messages.quotas import (
    AlterClientQuotas,
    AlterClientQuotasReply,
    AlteredQuota,
    DescribeClientQuotas,
    DescribeClientQuotasReply,
)
from protocol.messages.tokens import (
    CreateToken,
    CreateTokenReply,
    DeleteToken,
    DeleteTokenReply,
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
    DescribedTopic,
    DescribeTopicPartitions,
    DescribeTopicPartitionsReply,
    GrownTopic,
    Metadata,
    MetadataReply,
    MetadataTopicReply,
)
from protocol.messages.transactions import AddOffsetsToTxn, AddOffsetsToTxnReply


def on_each_partition(group: OffsetFetchGroup, error: ErrorCode) -> OffsetFetchGroupReply:
    """Return the error on the group and on every partition of the request."""
    topics = tuple(
        OffsetFetchTopicReply(
            topic.name,
            tuple(OffsetFetchPartitionReply(index, error_code=error) for index in topic.partition_indexes),
            topic.topic_id,
        )
        for topic in group.topics or ()
    )
    return OffsetFetchGroupReply(group.group_id, topics, error)


def _refuse_produce(request: Produce, error: ErrorCode, text: str | None) -> ProduceReply:
    return ProduceReply(
        tuple(
            ProduceTopicReply(
                topic.name,
                tuple(ProducePartitionReply(part.index, error, error_message=text) for part in topic.partition_data),
                topic.topic_id,
            )
            for topic in request.topic_data
        )
    )


def _refuse_fetch(request: Fetch, error: ErrorCode, _text: str | None) -> FetchReply:
    """Return the error at the top level and on each named partition: versions before 7 have only the partitions'
    errors, and versions that name topics by id have the top level."""
    named = tuple(
        FetchTopicReply(topic.topic, tuple(FetchPartitionReply(part.partition, error) for part in topic.partitions))
        for topic in request.topics
        if topic.topic
    )
    return FetchReply(error, named)


def _refuse_commit(request: OffsetCommit | TxnOffsetCommit, error: ErrorCode, _text: str | None) -> OffsetCommitReply:
    return OffsetCommitReply(
        tuple(
            OffsetCommitTopicReply(
                topic.name,
                tuple(OffsetCommitPartitionReply(part.partition_index, error) for part in topic.partitions),
                topic.topic_id,
            )
            for topic in request.topics
        )
    )


def _refuse_list_offsets(request: ListOffsets, error: ErrorCode, _text: str | None) -> ListOffsetsReply:
    return ListOffsetsReply(
        tuple(
            ListOffsetsTopicReply(
                topic.name, tuple(ListOffsetsPartitionReply(part.partition_index, error) for part in topic.partitions)
            )
            for topic in request.topics
        )
    )


def _refuse_epochs(request: OffsetForLeaderEpoch, error: ErrorCode, _text: str | None) -> OffsetForLeaderEpochReply:
    return OffsetForLeaderEpochReply(
        tuple(
            EpochTopicReply(topic.topic, tuple(EpochEndOffset(part.partition, error) for part in topic.partitions))
            for topic in request.topics
        )
    )


def _refuse_transactional(request: TxnOffsetCommit, error: ErrorCode, text: str | None) -> TxnOffsetCommitReply:
    return TxnOffsetCommitReply(_refuse_commit(request, error, text).topics)


REFUSE: Final[dict[type[Message], Callable[[Any, ErrorCode, str | None], Message]]] = {
    Produce: _refuse_produce,
    Fetch: _refuse_fetch,
    ListOffsets: _refuse_list_offsets,
    OffsetForLeaderEpoch: _refuse_epochs,
    InitProducerId: lambda _request, error, _text: InitProducerIdReply(error),
    Metadata: lambda request, error, _text: MetadataReply(
        topics=tuple(MetadataTopicReply(one.name, one.topic_id, error) for one in request.topics or ()),
        error_code=error,
    ),
    CreateTopics: lambda request, error, text: CreateTopicsReply(
        tuple(CreatedTopic(one.name, error_code=error, error_message=text) for one in request.topics)
    ),
    DeleteTopics: lambda request, error, text: DeleteTopicsReply(
        tuple(DeletedTopic(one.name, one.topic_id, error, text) for one in request.topics)
    ),
    CreatePartitions: lambda request, error, text: CreatePartitionsReply(
        tuple(GrownTopic(one.name, error, text) for one in request.topics)
    ),
    DescribeTopicPartitions: lambda request, error, _text: DescribeTopicPartitionsReply(
        tuple(DescribedTopic(one.name, error_code=error) for one in request.topics)
    ),
    DescribeConfigs: lambda request, error, text: DescribeConfigsReply(
        tuple(DescribedConfigs(one.resource_type, one.resource_name, error, text) for one in request.resources)
    ),
    AlterConfigs: lambda request, error, text: AlterConfigsReply(
        tuple(AlteredConfigs(one.resource_type, one.resource_name, error, text) for one in request.resources)
    ),
    IncrementalAlterConfigs: lambda request, error, text: IncrementalAlterConfigsReply(
        tuple(AlteredConfigs(one.resource_type, one.resource_name, error, text) for one in request.resources)
    ),
    DescribeCluster: lambda _request, error, text: DescribeClusterReply("", error_code=error, error_message=text),
    FindCoordinator: lambda request, error, text: FindCoordinatorReply(
        tuple(FoundCoordinator(key, error_code=error, error_message=text) for key in request.coordinator_keys)
    ),
    JoinGroup: lambda request, error, _text: JoinGroupReply(error, member_id=request.member_id),
    SyncGroup: lambda _request, error, _text: SyncGroupReply(error),
    Heartbeat: lambda _request, error, _text: HeartbeatReply(error),
    LeaveGroup: lambda _request, error, _text: LeaveGroupReply(error),
    DescribeGroups: lambda request, error, _text: DescribeGroupsReply(
        tuple(DescribedGroup(group_id, error) for group_id in request.groups)
    ),
    ListGroups: lambda _request, error, _text: ListGroupsReply(error),
    DeleteGroups: lambda request, error, _text: DeleteGroupsReply(
        tuple(DeletedGroup(group_id, error) for group_id in request.groups_names)
    ),
    OffsetCommit: _refuse_commit,
    TxnOffsetCommit: _refuse_transactional,
    AddOffsetsToTxn: lambda _request, error, _text: AddOffsetsToTxnReply(error),
    OffsetFetch: lambda request, error, _text: OffsetFetchReply(
        tuple(OffsetFetchGroupReply(one.group_id, error_code=error) for one in request.groups)
    ),
    ConsumerGroupHeartbeat: lambda _request, error, text: ConsumerGroupHeartbeatReply(error, text),
    ConsumerGroupDescribe: lambda request, error, text: ConsumerGroupDescribeReply(
        tuple(DescribedConsumerGroup(group_id, error, text) for group_id in request.group_ids)
    ),
    DescribeBalanced: lambda request, error, _text: DescribeBalancedReply(
        tuple(BalancedGroupView(group_id, error) for group_id in request.groups or ())
    ),
    ConsumeFromMax: lambda request, error, text: ConsumeFromMaxReply(
        refused=tuple(RefusedGroup(group_id, error, text or "") for group_id in request.groups)
    ),
    OffsetDelete: lambda _request, error, _text: OffsetDeleteReply(error),
    DescribeAcls: lambda _request, error, text: DescribeAclsReply(error, text),
    CreateAcls: lambda request, error, text: CreateAclsReply(
        tuple(AclCreationResult(error, text) for _one in request.creations)
    ),
    DeleteAcls: lambda request, error, text: DeleteAclsReply(
        tuple(DeleteAclsFilterResult(error, text) for _one in request.filters)
    ),
    DescribeUserScramCredentials: lambda _request, error, text: DescribeUserScramCredentialsReply(error, text),
    AlterUserScramCredentials: lambda request, error, text: AlterUserScramCredentialsReply(
        tuple(
            AlteredUserScram(name, error, text)
            for name in dict.fromkeys(one.name for one in (*request.deletions, *request.upsertions))
        )
    ),
    DescribeClientQuotas: lambda _request, error, text: DescribeClientQuotasReply(error, text),
    AlterClientQuotas: lambda request, error, text: AlterClientQuotasReply(
        tuple(AlteredQuota(one.entity, error, text) for one in request.entries)
    ),
    CreateToken: lambda _request, error, text: CreateTokenReply(error, text),
    ListTokens: lambda _request, error, text: ListTokensReply(error, text),
    DeleteToken: lambda _request, error, text: DeleteTokenReply(error, text),
}
"""Functions from request, error and message to the error reply."""
