"""The table of requests and their handlers. A message that is not listed is not served, and not in `Hello`'s list."""

from collections.abc import Callable
from typing import Any, NamedTuple

from coordinator.clock import Moment
from coordinator.groups.table import Path
from coordinator.handlers import (
    alter_configs,
    claim_partitions,
    confirm_consumed,
    consume_from_max,
    create_partitions,
    create_topics,
    delete_groups,
    delete_topics,
    describe_balanced,
    describe_cluster,
    describe_configs,
    describe_expiry,
    describe_groups,
    describe_node,
    describe_ownership,
    describe_topic_partitions,
    end_transaction,
    fetch,
    fetch_registered,
    find_coordinator,
    heartbeat,
    init_producer_id,
    join_group,
    leave_group,
    leave_member,
    list_groups,
    list_notes,
    list_offsets,
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
    start_member,
    sync_group,
    txn_offset_commit,
    unregister_partitions,
)
from coordinator.handlers.core import Core
from protocol.messages import Message
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
from protocol.messages.configs import AlterConfigs, DescribeConfigs, IncrementalAlterConfigs
from protocol.messages.data import Fetch, InitProducerId, OffsetForLeaderEpoch, Produce
from protocol.messages.groups import (
    DeleteGroups,
    DescribeGroups,
    Heartbeat,
    JoinGroup,
    LeaveGroup,
    ListGroups,
    ListNotes,
    SyncGroup,
)
from protocol.messages.node import DescribeCluster, DescribeNode, FindCoordinator
from protocol.messages.offsets import (
    DescribeExpiry,
    EndTransaction,
    ListOffsets,
    OffsetCommit,
    OffsetDelete,
    OffsetFetch,
    TxnOffsetCommit,
)
from protocol.messages.ownership import ClaimPartitions, DescribeOwnership, ReleasePartitions
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
    """One request. Its cost is in `request_cost`, the order of its checks in `admission`."""

    message: type[Message]
    handler: Handler
    path: Path
    is_internal: bool = False
    """True if only the process itself may send it: no dialect offers the message."""


APIS: tuple[Api, ...] = (
    Api(JoinGroup, join_group.join_group, Path.FULL),
    Api(SyncGroup, sync_group.sync_group, Path.FULL),
    Api(Heartbeat, heartbeat.heartbeat_request, Path.READ_ONLY),
    Api(LeaveGroup, leave_group.leave_group, Path.FULL),
    Api(DescribeGroups, describe_groups.describe_groups, Path.READ_ONLY),
    Api(ListGroups, list_groups.list_groups, Path.SLICED),
    Api(DeleteGroups, delete_groups.delete_groups, Path.SLICED),
    Api(ListNotes, list_notes.list_notes, Path.READ_ONLY),
    Api(OffsetCommit, offset_commit.offset_commit, Path.APPEND_ONLY),
    Api(OffsetFetch, offset_fetch.offset_fetch, Path.READ_ONLY),
    Api(OffsetDelete, offset_delete.offset_delete, Path.FULL),
    Api(DescribeExpiry, describe_expiry.describe_expiry, Path.READ_ONLY),
    Api(FindCoordinator, find_coordinator.find_coordinator, Path.READ_ONLY),
    Api(DescribeNode, describe_node.describe, Path.READ_ONLY),
    Api(DescribeCluster, describe_cluster.describe_cluster, Path.READ_ONLY),
    Api(Metadata, metadata.metadata, Path.READ_ONLY),
    Api(DescribeTopicPartitions, describe_topic_partitions.describe_topic_partitions, Path.READ_ONLY),
    Api(CreateTopics, create_topics.create_topics, Path.APPEND_ONLY),
    Api(DeleteTopics, delete_topics.delete_topics, Path.SLICED),
    Api(CreatePartitions, create_partitions.create_partitions, Path.APPEND_ONLY),
    Api(DescribeConfigs, describe_configs.describe_configs, Path.READ_ONLY),
    Api(IncrementalAlterConfigs, alter_configs.alter_configs, Path.APPEND_ONLY),
    Api(AlterConfigs, alter_configs.replace_configs, Path.APPEND_ONLY),
    Api(Produce, produce.produce, Path.SLICED),
    Api(InitProducerId, init_producer_id.init_producer_id, Path.READ_ONLY),
    Api(Fetch, fetch.fetch, Path.READ_ONLY),
    Api(ListOffsets, list_offsets.list_offsets, Path.READ_ONLY),
    Api(ClaimPartitions, claim_partitions.claim_partitions, Path.FULL),
    Api(ReleasePartitions, release_partitions.release_partitions, Path.FULL),
    Api(DescribeOwnership, describe_ownership.describe_ownership, Path.READ_ONLY),
    Api(StartMember, start_member.start_member, Path.FULL),
    Api(MemberHeartbeat, member_heartbeat.member_heartbeat, Path.FULL),
    Api(PartitionMeta, partition_meta.partition_meta, Path.FULL),
    Api(RegisterPartitions, register_partitions.register_partitions, Path.FULL),
    Api(UnregisterPartitions, unregister_partitions.unregister_partitions, Path.FULL),
    Api(FetchRegistered, fetch_registered.fetch_registered, Path.FULL),
    Api(ConfirmConsumed, confirm_consumed.confirm_consumed, Path.FULL),
    Api(LeaveMember, leave_member.leave_member, Path.FULL),
    Api(DescribeBalanced, describe_balanced.describe_balanced, Path.READ_ONLY),
    Api(ConsumeFromMax, consume_from_max.consume_from_max, Path.FULL),
    Api(OffsetForLeaderEpoch, offset_for_leader_epoch.offset_for_leader_epoch, Path.READ_ONLY),
    Api(TxnOffsetCommit, txn_offset_commit.txn_offset_commit, Path.APPEND_ONLY, is_internal=True),
    Api(EndTransaction, end_transaction.end_transaction, Path.APPEND_ONLY, is_internal=True),
)

HANDLERS: dict[type[Message], Handler] = {api.message: api.handler for api in APIS if not api.is_internal}
INTERNAL_HANDLERS: dict[type[Message], Handler] = {api.message: api.handler for api in APIS if api.is_internal}
