"""The table of who answers which message. A message that is not here is not served, and not in `Hello`'s list."""

from collections.abc import Callable
from typing import Any

from coordinator import (
    balanced_fetch,
    balanced_requests,
    balanced_views,
    commit_requests,
    config_requests,
    expiry_requests,
    fetch_requests,
    group_deletions,
    group_lists,
    group_requests,
    node_requests,
    offset_requests,
    ownership_requests,
    produce_requests,
    producer_requests,
    topic_requests,
)
from coordinator.core import Core
from coordinator.moment import Moment
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
    JoinGroup: group_requests.join_group,
    SyncGroup: group_requests.sync_group,
    Heartbeat: group_requests.heartbeat_request,
    LeaveGroup: group_requests.leave_group,
    DescribeGroups: group_requests.describe_groups,
    ListGroups: group_lists.list_groups,
    DeleteGroups: group_deletions.delete_groups,
    ListNotes: group_requests.list_notes,
    OffsetCommit: commit_requests.offset_commit,
    OffsetFetch: offset_requests.offset_fetch,
    OffsetDelete: offset_requests.offset_delete,
    DescribeExpiry: expiry_requests.describe_expiry,
    FindCoordinator: node_requests.find_coordinator,
    DescribeNode: node_requests.describe,
    DescribeCluster: node_requests.describe_cluster,
    Metadata: topic_requests.metadata,
    DescribeTopicPartitions: topic_requests.describe_topic_partitions,
    CreateTopics: topic_requests.create_topics,
    DeleteTopics: topic_requests.delete_topics,
    CreatePartitions: topic_requests.create_partitions,
    DescribeConfigs: config_requests.describe_configs,
    IncrementalAlterConfigs: config_requests.alter_configs,
    AlterConfigs: config_requests.replace_configs,
    Produce: produce_requests.produce,
    InitProducerId: producer_requests.init_producer_id,
    Fetch: fetch_requests.fetch,
    ListOffsets: node_requests.list_offsets,
    ClaimPartitions: ownership_requests.claim_partitions,
    ReleasePartitions: ownership_requests.release_partitions,
    DescribeOwnership: ownership_requests.describe_ownership,
    StartMember: balanced_requests.start_member,
    MemberHeartbeat: balanced_requests.heartbeat,
    PartitionMeta: balanced_requests.partition_meta,
    RegisterPartitions: balanced_requests.register_partitions,
    UnregisterPartitions: balanced_requests.unregister_partitions,
    FetchRegistered: balanced_fetch.fetch_registered,
    ConfirmConsumed: balanced_requests.confirm_consumed,
    LeaveMember: balanced_requests.leave_member,
    DescribeBalanced: balanced_views.describe_balanced,
    ConsumeFromMax: balanced_requests.consume_from_max,
    OffsetForLeaderEpoch: topic_requests.offset_for_leader_epoch,
}

INSIDE: dict[type[Message], Handler] = {
    TxnOffsetCommit: commit_requests.txn_offset_commit,
    EndTransaction: commit_requests.end_transaction,
}
"""The same for what is asked from inside the process alone; no connection's request is looked up here."""
