"""The table of requests and their handlers. A message without a row is not served, and is not in `Hello`'s list."""

from collections.abc import Callable
from typing import Any, NamedTuple

from coordinator.accounts.requests import ACCESS, Access
from coordinator.clock import Moment
from coordinator.core import request_cost as cost
from coordinator.core.admission import Admission, Found, admit_any_id, to_group
from coordinator.core.core import Core
from coordinator.core.request_cost import Cost
from coordinator.groups.table import Path
from coordinator.handlers import (
    alter_client_quotas,
    alter_configs,
    alter_user_scram_credentials,
    apply_offsets,
    claim_partitions,
    confirm_consumed,
    consume_from_max,
    consumer_group_describe,
    consumer_group_heartbeat,
    create_acls,
    create_partitions,
    create_token,
    create_topics,
    delete_acls,
    delete_groups,
    delete_token,
    delete_topics,
    describe_acls,
    describe_balanced,
    describe_client_quotas,
    describe_cluster,
    describe_configs,
    describe_expiry,
    describe_groups,
    describe_node,
    describe_ownership,
    describe_topic_partitions,
    describe_user_scram_credentials,
    end_transaction,
    fetch,
    fetch_registered,
    find_coordinator,
    heartbeat,
    hold_group,
    init_producer_id,
    join_group,
    leave_group,
    leave_member,
    list_audit,
    list_end_samples,
    list_group_offsets,
    list_groups,
    list_notes,
    list_offsets,
    list_refusals,
    list_suspects,
    list_tokens,
    measure,
    member_heartbeat,
    metadata,
    offset_commit,
    offset_delete,
    offset_fetch,
    offset_for_leader_epoch,
    partition_meta,
    produce,
    register_partitions,
    release_partitions,
    report_member,
    start_member,
    sync_group,
    txn_offset_commit,
    unregister_partitions,
)
from coordinator.handlers.client_balanced import admit_client_balanced
from protocol.messages import Message
from protocol.messages.acls import (
    AlterUserScramCredentials,
    CreateAcls,
    DeleteAcls,
    DescribeAcls,
    DescribeUserScramCredentials,
)
from protocol.messages.balanced import (
    ConfirmConsumed,
    ConfirmConsumedReply,
    ConsumeFromMax,
    DescribeBalanced,
    FetchRegistered,
    FetchRegisteredReply,
    LeaveMember,
    LeaveMemberReply,
    MemberHeartbeat,
    MemberHeartbeatReply,
    PartitionMeta,
    PartitionMetaReply,
    RegisterPartitions,
    RegisterPartitionsReply,
    StartMember,
    UnregisterPartitions,
    UnregisterPartitionsReply,
)
from protocol.messages.configs import AlterConfigs, DescribeConfigs, IncrementalAlterConfigs
from protocol.messages.consumer_groups import ConsumerGroupDescribe, ConsumerGroupHeartbeat
from protocol.messages.data import Fetch, InitProducerId, OffsetForLeaderEpoch, Produce
from protocol.messages.groups import (
    ApplyOffsets,
    ApplyOffsetsReply,
    DeleteGroups,
    DescribeGroups,
    Heartbeat,
    HoldGroup,
    HoldGroupReply,
    JoinGroup,
    LeaveGroup,
    LeaveGroupReply,
    ListAudit,
    ListGroups,
    ListNotes,
    ListNotesReply,
    ListRefusals,
    ListSuspects,
    SyncGroup,
)
from protocol.messages.node import DescribeCluster, DescribeNode, FindCoordinator, Measure
from protocol.messages.offsets import (
    DescribeExpiry,
    EndTransaction,
    ListEndSamples,
    ListGroupOffsets,
    ListOffsets,
    OffsetCommit,
    OffsetDelete,
    OffsetFetch,
    TxnOffsetCommit,
)
from protocol.messages.ownership import (
    ClaimPartitions,
    ClaimPartitionsReply,
    DescribeOwnership,
    DescribeOwnershipReply,
    ReleasePartitions,
    ReleasePartitionsReply,
)
from protocol.messages.quotas import AlterClientQuotas, DescribeClientQuotas
from protocol.messages.reports import DrainMembers, DrainMembersReply, ReportMember, ReportMemberReply
from protocol.messages.tokens import CreateToken, DeleteToken, ListTokens
from protocol.messages.topics import (
    CreatePartitions,
    CreateTopics,
    DeleteTopics,
    DescribeTopicPartitions,
    Metadata,
)
from protocol.session import RequestRef

Handler = Callable[[Core, RequestRef, Any, Moment], None]


class Api(NamedTuple):
    """One request. `admit` finds the one group that the request names, and is called before the handler, which gets
    its result. It is None if the handler admits by itself: for instance a request that names no group, or several, that
    is admitted anew in each of its slices, or that is refused by partition, as a commit is."""

    message: type[Message]
    admit: Admission | None
    cost: Cost
    handler: Callable[..., None]
    path: Path
    is_internal: bool = False
    """True if only the process itself may send it: no dialect offers the message."""

    @property
    def access(self) -> Access | None:
        """Permissions that the request needs; None if only the process itself sends it."""
        return None if self.is_internal else ACCESS[self.message]

    def serving(self) -> Handler:
        """Return the handler with its admission before it."""
        admit, handler = self.admit, self.handler
        if admit is None:
            return handler

        def serve(core: Core, ref: RequestRef, message: Any, moment: Moment) -> None:
            found = admit(core, message)
            if isinstance(found, Found):
                handler(core, ref, message, found, moment)
            else:
                list_refusals.note_refused_join(core, ref, message, found, moment)
                core.outbox.send(ref, found)

        return serve


APIS: tuple[Api, ...] = (
    Api(JoinGroup, join_group.admit_join, cost.JOIN_GROUP, join_group.join_group, Path.FULL),
    Api(SyncGroup, sync_group.admit_sync, cost.SYNC_GROUP, sync_group.sync_group, Path.FULL),
    Api(Heartbeat, None, cost.ONE, heartbeat.heartbeat_request, Path.READ_ONLY),
    Api(LeaveGroup, to_group(LeaveGroupReply), cost.LEAVE_GROUP, leave_group.leave_group, Path.FULL),
    Api(DescribeGroups, None, cost.DESCRIBE_GROUPS, describe_groups.describe_groups, Path.READ_ONLY),
    Api(ListGroups, None, cost.LIST_GROUPS, list_groups.list_groups, Path.SLICED),
    Api(DeleteGroups, None, cost.DELETE_GROUPS, delete_groups.delete_groups, Path.SLICED),
    Api(ListNotes, to_group(ListNotesReply, admit_any_id), cost.ONE, list_notes.list_notes, Path.READ_ONLY),
    Api(
        ApplyOffsets,
        to_group(ApplyOffsetsReply, writes=True),
        cost.APPLY_OFFSETS,
        apply_offsets.apply_offsets,
        Path.APPEND_ONLY,
    ),
    Api(HoldGroup, to_group(HoldGroupReply), cost.ONE, hold_group.hold_group, Path.FULL),
    Api(ListAudit, None, cost.ONE, list_audit.list_audit, Path.SLICED),
    Api(ReportMember, to_group(ReportMemberReply), cost.REPORT_MEMBER, report_member.report_member, Path.READ_ONLY),
    Api(DrainMembers, to_group(DrainMembersReply), cost.DRAIN_MEMBERS, report_member.drain_members, Path.READ_ONLY),
    Api(ListGroupOffsets, None, cost.LIST_GROUP_OFFSETS, list_group_offsets.list_group_offsets, Path.SLICED),
    Api(ListEndSamples, None, cost.ONE, list_end_samples.list_end_samples, Path.SLICED),
    Api(ListRefusals, None, cost.LIST_REFUSALS, list_refusals.list_refusals, Path.READ_ONLY),
    Api(OffsetCommit, None, cost.OFFSET_COMMIT, offset_commit.offset_commit, Path.APPEND_ONLY),
    Api(OffsetFetch, None, cost.OFFSET_FETCH, offset_fetch.offset_fetch, Path.READ_ONLY),
    Api(OffsetDelete, None, cost.OFFSET_DELETE, offset_delete.offset_delete, Path.FULL),
    Api(DescribeExpiry, None, cost.DESCRIBE_EXPIRY, describe_expiry.describe_expiry, Path.READ_ONLY),
    Api(FindCoordinator, None, cost.FIND_COORDINATOR, find_coordinator.find_coordinator, Path.READ_ONLY),
    Api(DescribeNode, None, cost.DESCRIBE_NODE, describe_node.describe, Path.READ_ONLY),
    Api(DescribeCluster, None, cost.ONE, describe_cluster.describe_cluster, Path.READ_ONLY),
    Api(Metadata, None, cost.METADATA, metadata.metadata, Path.READ_ONLY),
    Api(
        DescribeTopicPartitions,
        None,
        cost.DESCRIBE_TOPIC_PARTITIONS,
        describe_topic_partitions.describe_topic_partitions,
        Path.READ_ONLY,
    ),
    Api(CreateTopics, None, cost.CREATE_TOPICS, create_topics.create_topics, Path.APPEND_ONLY),
    Api(DeleteTopics, None, cost.DELETE_TOPICS, delete_topics.delete_topics, Path.SLICED),
    Api(CreatePartitions, None, cost.CREATE_PARTITIONS, create_partitions.create_partitions, Path.APPEND_ONLY),
    Api(DescribeConfigs, None, cost.DESCRIBE_CONFIGS, describe_configs.describe_configs, Path.READ_ONLY),
    Api(
        IncrementalAlterConfigs,
        None,
        cost.INCREMENTAL_ALTER_CONFIGS,
        alter_configs.alter_configs,
        Path.APPEND_ONLY,
    ),
    Api(AlterConfigs, None, cost.ALTER_CONFIGS, alter_configs.replace_configs, Path.APPEND_ONLY),
    Api(DescribeAcls, None, cost.ONE, describe_acls.describe_acls, Path.READ_ONLY),
    Api(CreateAcls, None, cost.CREATE_ACLS, create_acls.create_acls, Path.APPEND_ONLY),
    Api(DeleteAcls, None, cost.DELETE_ACLS, delete_acls.delete_acls, Path.APPEND_ONLY),
    Api(
        DescribeUserScramCredentials,
        None,
        cost.DESCRIBE_USERS,
        describe_user_scram_credentials.describe_user_scram_credentials,
        Path.READ_ONLY,
    ),
    Api(
        AlterUserScramCredentials,
        None,
        cost.ALTER_USERS,
        alter_user_scram_credentials.alter_user_scram_credentials,
        Path.APPEND_ONLY,
    ),
    Api(
        DescribeClientQuotas,
        None,
        cost.DESCRIBE_QUOTAS,
        describe_client_quotas.describe_client_quotas,
        Path.READ_ONLY,
    ),
    Api(AlterClientQuotas, None, cost.ALTER_QUOTAS, alter_client_quotas.alter_client_quotas, Path.APPEND_ONLY),
    Api(ListTokens, None, cost.ONE, list_tokens.list_tokens, Path.READ_ONLY),
    Api(CreateToken, None, cost.ONE, create_token.create_token, Path.APPEND_ONLY),
    Api(DeleteToken, None, cost.ONE, delete_token.delete_token, Path.APPEND_ONLY),
    Api(Produce, None, cost.PRODUCE, produce.produce, Path.SLICED),
    Api(InitProducerId, None, cost.ONE, init_producer_id.init_producer_id, Path.READ_ONLY),
    Api(Fetch, None, cost.FETCH, fetch.fetch, Path.READ_ONLY),
    Api(ListOffsets, None, cost.LIST_OFFSETS, list_offsets.list_offsets, Path.READ_ONLY),
    Api(
        ClaimPartitions,
        to_group(ClaimPartitionsReply, writes=True),
        cost.CLAIM_PARTITIONS,
        claim_partitions.claim_partitions,
        Path.FULL,
    ),
    Api(
        ReleasePartitions,
        to_group(ReleasePartitionsReply, writes=True),
        cost.RELEASE_PARTITIONS,
        release_partitions.release_partitions,
        Path.FULL,
    ),
    Api(
        DescribeOwnership,
        to_group(DescribeOwnershipReply),
        cost.DESCRIBE_OWNERSHIP,
        describe_ownership.describe_ownership,
        Path.READ_ONLY,
    ),
    Api(StartMember, start_member.admit_start, cost.START_MEMBER, start_member.start_member, Path.FULL),
    Api(
        MemberHeartbeat,
        to_group(MemberHeartbeatReply, admit_client_balanced),
        cost.MEMBER_HEARTBEAT,
        member_heartbeat.member_heartbeat,
        Path.FULL,
    ),
    Api(
        PartitionMeta,
        to_group(PartitionMetaReply, admit_client_balanced),
        cost.PARTITION_META,
        partition_meta.partition_meta,
        Path.FULL,
    ),
    Api(
        RegisterPartitions,
        to_group(RegisterPartitionsReply, admit_client_balanced, writes=True),
        cost.REGISTER_PARTITIONS,
        register_partitions.register_partitions,
        Path.FULL,
    ),
    Api(
        UnregisterPartitions,
        to_group(UnregisterPartitionsReply, admit_client_balanced, writes=True),
        cost.UNREGISTER_PARTITIONS,
        unregister_partitions.unregister_partitions,
        Path.FULL,
    ),
    Api(
        FetchRegistered,
        to_group(FetchRegisteredReply, admit_client_balanced),
        cost.FETCH_REGISTERED,
        fetch_registered.fetch_registered,
        Path.FULL,
    ),
    Api(
        ConfirmConsumed,
        to_group(ConfirmConsumedReply, admit_client_balanced, writes=True),
        cost.CONFIRM_CONSUMED,
        confirm_consumed.confirm_consumed,
        Path.FULL,
    ),
    Api(
        LeaveMember,
        to_group(LeaveMemberReply, admit_client_balanced, writes=True),
        cost.LEAVE_MEMBER,
        leave_member.leave_member,
        Path.FULL,
    ),
    Api(DescribeBalanced, None, cost.DESCRIBE_BALANCED, describe_balanced.describe_balanced, Path.READ_ONLY),
    Api(ConsumeFromMax, None, cost.CONSUME_FROM_MAX, consume_from_max.consume_from_max, Path.FULL),
    Api(
        ConsumerGroupHeartbeat,
        consumer_group_heartbeat.admit_heartbeat,
        cost.CONSUMER_GROUP_HEARTBEAT,
        consumer_group_heartbeat.consumer_group_heartbeat,
        Path.FULL,
    ),
    Api(
        ConsumerGroupDescribe,
        None,
        cost.CONSUMER_GROUP_DESCRIBE,
        consumer_group_describe.consumer_group_describe,
        Path.READ_ONLY,
    ),
    Api(
        OffsetForLeaderEpoch,
        None,
        cost.OFFSET_FOR_LEADER_EPOCH,
        offset_for_leader_epoch.offset_for_leader_epoch,
        Path.READ_ONLY,
    ),
    Api(
        TxnOffsetCommit,
        None,
        cost.TXN_OFFSET_COMMIT,
        txn_offset_commit.txn_offset_commit,
        Path.APPEND_ONLY,
        is_internal=True,
    ),
    Api(ListSuspects, None, cost.ONE, list_suspects.list_suspects, Path.SLICED, is_internal=True),
    Api(Measure, None, cost.ONE, measure.measure, Path.SLICED, is_internal=True),
    Api(EndTransaction, None, cost.ONE, end_transaction.end_transaction, Path.APPEND_ONLY, is_internal=True),
)

HANDLERS: dict[type[Message], Handler] = {api.message: api.serving() for api in APIS if not api.is_internal}
INTERNAL_HANDLERS: dict[type[Message], Handler] = {api.message: api.serving() for api in APIS if api.is_internal}
COSTS: dict[type[Message], Cost] = {api.message: api.cost for api in APIS}
