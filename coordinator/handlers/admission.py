"""Admission: checks made before any group is read, in the order clients can observe (docs/spec/group-protocol.md#0.3,
the newer coordinator's): group id, session timeout, then the placement and the load state of the group's shard."""

from collections.abc import Callable, Iterable
from typing import Any

from coordinator.groups.client_balanced.state import bytes_of, bytes_of_member
from coordinator.handlers.core import Core
from coordinator.handlers.request_cost import COSTS
from coordinator.runtime.shard import Shard, ShardState
from coordinator.runtime.slices import SLICE_US
from protocol.errors import ErrorCode
from protocol.messages import LONGEST_GROUP_ID, Message
from protocol.messages.balanced import DescribeBalanced, FetchRegistered, PartitionMeta, StartMember
from protocol.messages.data import Fetch, Produce
from protocol.messages.groups import DescribeGroups, JoinGroup, ListGroups, SyncGroup
from protocol.messages.node import DescribeNode, ErrorReply
from protocol.messages.offsets import DescribeExpiry, OffsetFetch
from protocol.messages.topics import DeleteTopics, Metadata

_ENTRIES_A_TOPIC = _ENTRIES_A_FETCH = 50
"""Cost of a topic with its partitions, and of a fetch; estimates."""

_CONFIGURED_AN_ENTRY = 4
_OFFSETS_AN_ENTRY = 8
"""Offsets that cost one entry if they are only looked at."""

_LISTED_AN_ENTRY = 3
_MOST_A_SLICE = SLICE_US // 3
"""Cost that one step serves of a long request (see `slices`)."""

_SHARD_REFUSALS = {
    ShardState.LOADING: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ShardState.FAILED: ErrorCode.NOT_COORDINATOR,
    ShardState.UNLOADED: ErrorCode.NOT_COORDINATOR,
    ShardState.ACTIVE: ErrorCode.NONE,
}


def admit(core: Core, group_id: str, *, may_be_empty: bool = False) -> ErrorCode:
    """Check the group id and that this node serves the group."""
    if (not group_id and not may_be_empty) or len(group_id) > LONGEST_GROUP_ID:
        return ErrorCode.INVALID_GROUP_ID
    return admit_to_group(core, core.find(group_id)[0], group_id)


def admit_to_group(core: Core, shard: Shard, group_id: str) -> ErrorCode:
    """Check that the shard is served here now, and that the group is not being deleted: deletion ends, as
    loading does."""
    return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if group_id in shard.deleting else admit_to_shard(core, shard)


def admit_to_shard(core: Core, shard: Shard) -> ErrorCode:
    """Check that the shard is served here now."""
    if not core.placement.is_mine(shard.index):
        return ErrorCode.NOT_COORDINATOR
    return _SHARD_REFUSALS[shard.state]


def admit_join(core: Core, message: JoinGroup) -> ErrorCode:
    """Admit a JoinGroup, with its own limits."""
    if not message.group_id or len(message.group_id) > LONGEST_GROUP_ID:
        return ErrorCode.INVALID_GROUP_ID
    lowest, highest = core.group_configs.session_timeouts(message.group_id)
    if not lowest <= message.session_timeout_ms <= highest:
        return ErrorCode.INVALID_SESSION_TIMEOUT
    if refused := admit(core, message.group_id) or (admit_operation(core) if not message.member_id else ErrorCode.NONE):
        return refused
    return _admit_metadata(core, message)


def _admit_metadata(core: Core, message: JoinGroup) -> ErrorCode:
    added = sum(len(protocol.metadata) for protocol in message.protocols)
    group = core.find(message.group_id)[1]
    held = 0
    if group is not None:
        held = group.metadata_bytes
        member = group.members.get(message.member_id)
        added -= 0 if member is None else sum(len(protocol.metadata) for protocol in member.protocols)
    return _room_for(core, held, added)


def admit_start(core: Core, message: StartMember) -> ErrorCode:
    """Check the limits of memory for a StartMember of a client-balanced group."""
    group = core.find(message.group_id)[0].balanced.get(message.group_id)
    added = bytes_of_member(message)
    if group is None or not group.members:
        return _room_for(core, 0, added + bytes_of(message.topics, message.filters.items()))
    return ErrorCode.NONE if message.consumer_id in group.members else _room_for(core, group.metadata_bytes, added)


def _room_for(core: Core, held: int, added: int) -> ErrorCode:
    if held + added > core.config.group_max_metadata_bytes:
        return ErrorCode.MESSAGE_TOO_LARGE
    if (
        added > 0
        and sum([shard.counts.metadata_bytes for shard in core.shards]) + added > core.config.max_metadata_bytes
    ):
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    return ErrorCode.NONE


def admit_operation(core: Core) -> ErrorCode:
    """Check the limit of delayed operations for one more."""
    is_full = len(core.purgatory) >= core.config.max_watched_operations
    return ErrorCode.COORDINATOR_NOT_AVAILABLE if is_full else ErrorCode.NONE


def admit_sync(core: Core, message: SyncGroup) -> ErrorCode:
    """Admit a SyncGroup: the newest version must name its protocol. While the shard loads the error is
    REBALANCE_IN_PROGRESS, since clients take error 14 here as fatal (docs/spec/group-protocol.md#0.3)."""
    if message.must_name_protocol and (message.protocol_type is None or message.protocol_name is None):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    refused = admit(core, message.group_id)
    return ErrorCode.REBALANCE_IN_PROGRESS if refused is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS else refused


def _listed_groups(core: Core, message: DescribeGroups) -> int:
    found = [core.directory.get(group_id) for group_id in message.groups]
    return sum([len(one[1].members) for one in found if one is not None])


def _listed_offsets(core: Core, message: OffsetFetch) -> int:
    listed = 0
    for group in message.groups:
        if group.topics is None:
            listed += core.shard_of(group.group_id).offsets.count_of(group.group_id)
    return listed


def _inspected(core: Core, message: DescribeExpiry) -> int:
    kept = core.find(message.group_id)[0].offsets.count_of(message.group_id)
    return min(max(message.limit, 0), kept) + min(kept // _OFFSETS_AN_ENTRY, _MOST_A_SLICE)


def _produced(core: Core, message: Produce) -> int:
    return sum([len(part.records) for topic in message.topic_data for part in topic.partition_data]) // 64


def _deleted_partitions(core: Core, message: DeleteTopics) -> int:
    names = [topic.name or core.topics.name_of(topic.topic_id) or "" for topic in message.topics]
    return sum([core.topics.partition_count(name) or 0 for name in names])


def partitions_of(core: Core, topics: Iterable[str]) -> int:
    """Number of partitions of these topics."""
    return sum([core.topics.partition_count(topic) or 0 for topic in dict.fromkeys(topics)])


def _configured(core: Core, message: PartitionMeta) -> int:
    group = core.find(message.group_id)[0].balanced.get(message.group_id)
    is_listed = group is not None and group.on_record.meta_version != message.meta_version
    return len(group.meta) // _CONFIGURED_AN_ENTRY if group is not None and is_listed else 0


def _described(core: Core, message: DescribeBalanced) -> int:
    shards = core.shards
    return sum([len(one.meta) + len(one.members) for shard in shards for one in shard.balanced.values()])


def _groups_listed(core: Core, message: ListGroups) -> int:
    listed = core.count_groups() if message.limit < 0 else min(core.count_groups(), message.limit)
    return min(listed // _LISTED_AN_ENTRY, _MOST_A_SLICE)


_LISTED: dict[type[Message], Callable[[Core, Any], int]] = {
    ListGroups: _groups_listed,
    DescribeNode: lambda core, _message: len(core.shards),
    Metadata: lambda core, message: 0 if message.topics is not None else _ENTRIES_A_TOPIC * core.topics.topic_count,
    Fetch: lambda _core, _message: _ENTRIES_A_FETCH,
    Produce: _produced,
    StartMember: lambda core, message: partitions_of(core, message.topics) // _CONFIGURED_AN_ENTRY,
    FetchRegistered: lambda _core, _message: _ENTRIES_A_FETCH,
    PartitionMeta: _configured,
    DescribeBalanced: _described,
    DeleteTopics: _deleted_partitions,
    DescribeGroups: _listed_groups,
    OffsetFetch: _listed_offsets,
    DescribeExpiry: _inspected,
}


def cost_of(core: Core, message: Message) -> int:
    """Cost of the request: of the items it names, and of the items to be listed for it."""
    kind = type(message)
    size, listed = COSTS.get(kind), _LISTED.get(kind)
    entries = 1 if size is None else 1 + size.cost(message)
    return entries if listed is None else entries + listed(core, message)


def admit_size(core: Core, message: Message) -> ErrorReply | None:
    """Refuse a request that would take too long for all other clients; checked before anything else is."""
    size = COSTS.get(type(message))
    if size is None:
        return None
    entries, most = size.cost(message), core.config.max_entries_per_request
    if entries <= most:
        return None
    text = f"{size.field}: worth {entries} entries, at most {most} are allowed (max.entries.per.request); ask in parts"
    return ErrorReply(ErrorCode.INVALID_REQUEST, text)


def admit_write(core: Core) -> ErrorCode:
    """Check the limits of held replies and unflushed bytes for one more write."""
    if len(core.outbox.held) >= core.config.max_held_replies:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if core.store.position - core.store.flushed >= core.config.max_unflushed_bytes:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    return ErrorCode.NONE
