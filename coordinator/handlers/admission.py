"""What is checked before any group is looked at, in the order clients can observe (docs/spec/group-protocol.md#0.3, the
newer coordinator's): group id, session timeout, then whether this node serves the group's shard and has loaded it."""

from collections.abc import Callable, Iterable
from typing import Any

from coordinator.groups.client_balanced.state import bytes_of, bytes_of_member
from coordinator.handlers.core import Core
from coordinator.handlers.request_cost import COSTS
from coordinator.runtime.shard import Shard, ShardState
from coordinator.runtime.slices import SLICE_US
from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.messages.balanced import DescribeBalanced, FetchRegistered, PartitionMeta, StartMember
from protocol.messages.data import Fetch, Produce
from protocol.messages.groups import DescribeGroups, JoinGroup, ListGroups, SyncGroup
from protocol.messages.node import DescribeNode, Refused
from protocol.messages.offsets import DescribeExpiry, OffsetFetch
from protocol.messages.topics import DeleteTopics, Metadata

_ENTRIES_A_TOPIC = _ENTRIES_A_FETCH = 50
"""What a topic with its partitions, and reading, are worth; roughly."""

_CONFIGURED_AN_ENTRY = 4
_OFFSETS_AN_ENTRY = 8
"""That are only looked at."""

_LISTED_AN_ENTRY = 3
_MOST_A_SLICE = SLICE_US // 3
"""Entries that one step serves of a request that takes many (see `slices`)."""

_SHARD_REFUSALS = {
    ShardState.LOADING: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ShardState.FAILED: ErrorCode.NOT_COORDINATOR,
    ShardState.UNLOADED: ErrorCode.NOT_COORDINATOR,
    ShardState.ACTIVE: ErrorCode.NONE,
}


def admit(core: Core, group_id: str, *, may_be_empty: bool = False) -> ErrorCode:
    """Whether this node answers for the group at all."""
    if not group_id and not may_be_empty:
        return ErrorCode.INVALID_GROUP_ID
    return serving_gate(core, core.find(group_id)[0], group_id)


def serving_gate(core: Core, shard: Shard, group_id: str) -> ErrorCode:
    """Whether the shard is served here, now, and the group not about to go: that passes, as loading does."""
    return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if group_id in shard.deleting else admit_to_shard(core, shard)


def admit_to_shard(core: Core, shard: Shard) -> ErrorCode:
    """Whether the shard is served here, now."""
    if not core.placement.is_mine(shard.index):
        return ErrorCode.NOT_COORDINATOR
    return _SHARD_REFUSALS[shard.state]


def admit_join(core: Core, message: JoinGroup) -> ErrorCode:
    """The same for a JoinGroup, with its limits."""
    if not message.group_id:
        return ErrorCode.INVALID_GROUP_ID
    lowest, highest = core.group_configs.session_timeouts(message.group_id)
    if not lowest <= message.session_timeout_ms <= highest:
        return ErrorCode.INVALID_SESSION_TIMEOUT
    if refused := admit(core, message.group_id) or (admit_operation(core) if not message.member_id else ErrorCode.NONE):
        return refused
    return _metadata_gate(core, message)


def _metadata_gate(core: Core, message: JoinGroup) -> ErrorCode:
    added = sum(len(protocol.metadata) for protocol in message.protocols)
    group = core.find(message.group_id)[1]
    held = 0
    if group is not None:
        held = group.metadata_bytes
        member = group.members.get(message.member_id)
        added -= 0 if member is None else sum(len(protocol.metadata) for protocol in member.protocols)
    return _room_for(core, held, added)


def admit_start(core: Core, message: StartMember) -> ErrorCode:
    """Whether there is room for what a member of a client-balanced group says of itself and of what it reads."""
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
    """Whether there is room for something more that waits for events."""
    is_full = len(core.purgatory) >= core.config.max_watched_operations
    return ErrorCode.COORDINATOR_NOT_AVAILABLE if is_full else ErrorCode.NONE


def admit_sync(core: Core, message: SyncGroup) -> ErrorCode:
    """The same for a SyncGroup: the newest version must name its protocol; while the shard loads the member is told
    to try again, since clients take error 14 here as fatal (docs/spec/group-protocol.md#0.3)."""
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


def _looked_at(core: Core, message: DescribeExpiry) -> int:
    kept = core.find(message.group_id)[0].offsets.count_of(message.group_id)
    return min(max(message.limit, 0), kept) + kept // _OFFSETS_AN_ENTRY


def _produced(core: Core, message: Produce) -> int:
    return sum([len(part.records) for topic in message.topic_data for part in topic.partition_data]) // 64


def _deleted_partitions(core: Core, message: DeleteTopics) -> int:
    names = [topic.name or core.topics.name_of(topic.topic_id) or "" for topic in message.topics]
    return sum([core.topics.partition_count(name) or 0 for name in names])


def partitions_of(core: Core, topics: Iterable[str]) -> int:
    """How many there are of these topics."""
    return sum([core.topics.partition_count(topic) or 0 for topic in dict.fromkeys(topics)])


def _configured(core: Core, message: PartitionMeta) -> int:
    group = core.find(message.group_id)[0].balanced.get(message.group_id)
    is_told = group is not None and group.on_record.meta_version != message.meta_version
    return len(group.meta) // _CONFIGURED_AN_ENTRY if group is not None and is_told else 0


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
    DescribeExpiry: _looked_at,
}


def cost_of(core: Core, message: Message) -> int:
    """How much work the request is: what it names, and what is there to be listed."""
    kind = type(message)
    size, listed = COSTS.get(kind), _LISTED.get(kind)
    entries = 1 if size is None else 1 + size.entries(message)
    return entries if listed is None else entries + listed(core, message)


def admit_size(core: Core, message: Message) -> Refused | None:
    """Whether serving the request takes too long for everyone else; asked before anything else is."""
    size = COSTS.get(type(message))
    if size is None:
        return None
    entries, most = size.entries(message), core.config.max_entries_per_request
    if entries <= most:
        return None
    text = f"{size.field}: worth {entries} entries, at most {most} are allowed (max.entries.per.request); ask in parts"
    return Refused(ErrorCode.INVALID_REQUEST, text)


def admit_write(core: Core) -> ErrorCode:
    """Whether there is room for one more write that waits for the disk."""
    if len(core.outbox.held) >= core.config.max_held_replies:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if core.store.position - core.store.flushed >= core.config.max_unflushed_bytes:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    return ErrorCode.NONE
