"""The table of who answers which message. A message that is not here is not served, and not in `Hello`'s list."""

from collections.abc import Callable
from typing import Any

from coordinator.clock import Moment
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

ROUTES: dict[type[Message], Handler] = {
    JoinGroup: join_group.join_group,
    SyncGroup: sync_group.sync_group,
    Heartbeat: heartbeat.heartbeat_request,
    LeaveGroup: leave_group.leave_group,
    DescribeGroups: describe_groups.describe_groups,
    ListGroups: list_groups.list_groups,
    DeleteGroups: delete_groups.delete_groups,
    ListNotes: list_notes.list_notes,
    OffsetCommit: offset_commit.offset_commit,
    OffsetFetch: offset_fetch.offset_fetch,
    OffsetDelete: offset_delete.offset_delete,
    DescribeExpiry: describe_expiry.describe_expiry,
    FindCoordinator: find_coordinator.find_coordinator,
    DescribeNode: describe_node.describe,
    DescribeCluster: describe_cluster.describe_cluster,
    Metadata: metadata.metadata,
    DescribeTopicPartitions: describe_topic_partitions.describe_topic_partitions,
    CreateTopics: create_topics.create_topics,
    DeleteTopics: delete_topics.delete_topics,
    CreatePartitions: create_partitions.create_partitions,
    DescribeConfigs: describe_configs.describe_configs,
    IncrementalAlterConfigs: alter_configs.alter_configs,
    AlterConfigs: alter_configs.replace_configs,
    Produce: produce.produce,
    InitProducerId: init_producer_id.init_producer_id,
    Fetch: fetch.fetch,
    ListOffsets: list_offsets.list_offsets,
    ClaimPartitions: claim_partitions.claim_partitions,
    ReleasePartitions: release_partitions.release_partitions,
    DescribeOwnership: describe_ownership.describe_ownership,
    StartMember: start_member.start_member,
    MemberHeartbeat: member_heartbeat.member_heartbeat,
    PartitionMeta: partition_meta.partition_meta,
    RegisterPartitions: register_partitions.register_partitions,
    UnregisterPartitions: unregister_partitions.unregister_partitions,
    FetchRegistered: fetch_registered.fetch_registered,
    ConfirmConsumed: confirm_consumed.confirm_consumed,
    LeaveMember: leave_member.leave_member,
    DescribeBalanced: describe_balanced.describe_balanced,
    ConsumeFromMax: consume_from_max.consume_from_max,
    OffsetForLeaderEpoch: offset_for_leader_epoch.offset_for_leader_epoch,
}

INSIDE: dict[type[Message], Handler] = {
    TxnOffsetCommit: txn_offset_commit.txn_offset_commit,
    EndTransaction: end_transaction.end_transaction,
}
"""The same for what is asked from inside the process alone; no connection's request is looked up here."""
