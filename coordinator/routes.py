"""The table of who answers which message. A message that is not here is not served, and not in `Hello`'s list."""

from collections.abc import Callable
from typing import Any

from coordinator import commit_requests, group_requests, node_requests, offset_requests, producer_requests
from coordinator.core import Core
from coordinator.moment import Moment
from protocol.messages import Message
from protocol.messages.data import Fetch, InitProducerId, Produce
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
from protocol.messages.node import DescribeNode, FindCoordinator
from protocol.messages.offsets import (
    EndTransaction,
    ListOffsets,
    OffsetCommit,
    OffsetDelete,
    OffsetFetch,
    TxnOffsetCommit,
)
from protocol.messages.topics import CreateTopics, Metadata
from protocol.session import RequestRef

Handler = Callable[[Core, RequestRef, Any, Moment], None]

ROUTES: dict[type[Message], Handler] = {
    JoinGroup: group_requests.join_group,
    SyncGroup: group_requests.sync_group,
    Heartbeat: group_requests.heartbeat_request,
    LeaveGroup: group_requests.leave_group,
    DescribeGroups: group_requests.describe_groups,
    ListGroups: group_requests.list_groups,
    DeleteGroups: group_requests.delete_groups,
    ListNotes: group_requests.list_notes,
    OffsetCommit: commit_requests.offset_commit,
    OffsetFetch: offset_requests.offset_fetch,
    OffsetDelete: offset_requests.offset_delete,
    FindCoordinator: node_requests.find_coordinator,
    Metadata: node_requests.metadata,
    DescribeNode: node_requests.describe,
    CreateTopics: node_requests.create_topics,
    Produce: node_requests.produce,
    InitProducerId: producer_requests.init_producer_id,
    Fetch: node_requests.fetch,
    ListOffsets: node_requests.list_offsets,
}

INSIDE: dict[type[Message], Handler] = {
    TxnOffsetCommit: commit_requests.txn_offset_commit,
    EndTransaction: commit_requests.end_transaction,
}
"""The same for what is asked from inside the process alone; no connection's request is looked up here."""
