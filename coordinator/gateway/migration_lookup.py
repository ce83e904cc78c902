"""The lookup of a group at the cluster's own coordinator, as steps of a few requests each. Pure: the replies lead to
the next requests or to a result.

A group counts as migrated once this node has state for it; deletion or expiry resets that.
"""

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum

import msgspec

from coordinator.core.core import Core
from coordinator.gateway.upstream_requests import BrokerRequest
from coordinator.records.records import CommittedOffset
from coordinator.runtime.shard import ShardState
from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.messages.groups import (
    DescribedGroup,
    DescribeGroups,
    DescribeGroupsReply,
    ListGroups,
    ListGroupsReply,
)
from protocol.messages.node import FindCoordinator, FindCoordinatorReply
from protocol.messages.offsets import (
    OffsetFetch,
    OffsetFetchGroup,
    OffsetFetchGroupReply,
    OffsetFetchPartitionReply,
    OffsetFetchReply,
    OffsetFetchTopicReply,
)
from protocol.messages.topics import NO_TOPIC_ID, Metadata, MetadataReply, MetadataTopic

OFFSETS_TOPIC = "__consumer_offsets"
_EMPTY_STATES = ("Empty", "Dead", "")
_MAX_LISTED_MEMBERS = 10
_NO_OFFSET = -1
_MAX_TOPIC_NAME_CHARS = 249
"""Kafka's limit for a topic name."""
_MAX_METADATA_BYTES = 2**15 - 1
"""Longest metadata that every version of OffsetFetch can encode."""
_MAX_CLIENT_ID_CHARS = 200
"""Characters of a client id in an error message."""


class LookupStage(Enum):
    """Step of a lookup: does the offsets topic exist; who coordinates the group; its state and offsets; its state if
    DescribeGroups does not know this kind of group."""

    TOPIC = 0
    COORDINATOR = 1
    GROUP = 2
    LISTED = 3


class MigrationLookup(Message):
    """Progress of a lookup. `found` has the offsets during the last step."""

    group_id: str
    stage: LookupStage = LookupStage.TOPIC
    coordinator: int = -1
    found: OffsetFetchGroupReply | None = None


class NextRequests(msgspec.Struct, frozen=True):
    """Requests of the next step."""

    lookup: MigrationLookup
    requests: tuple[BrokerRequest, ...]


class NoOffsets(msgspec.Struct, frozen=True):
    """The cluster has no offsets of the group."""


class ClusterOffsets(msgspec.Struct, frozen=True):
    """The cluster has offsets of the group, and no members. `truncated`: offsets whose metadata was too long for some
    version."""

    reply: OffsetFetchGroupReply
    truncated: int = 0


class ActiveMembers(msgspec.Struct, frozen=True):
    """The group has members at the cluster."""

    names: tuple[str, ...]

    @property
    def reason(self) -> str:
        """Error message for the operator."""
        listed = ", ".join(self.names[:_MAX_LISTED_MEMBERS]) or "whose names are not told"
        more = f" and {len(self.names) - _MAX_LISTED_MEMBERS} more" if len(self.names) > _MAX_LISTED_MEMBERS else ""
        return f"still has members at the cluster's own coordinator: {listed}{more}; stop them first"


class LookupFailed(msgspec.Struct, frozen=True):
    """The cluster gave no usable reply; clients retry. `needs_operator`: retrying helps only after an operator has
    acted."""

    reason: str
    needs_operator: bool = False


LookupResult = NoOffsets | ClusterOffsets | ActiveMembers | LookupFailed


def is_migrated(core: Core, group_id: str) -> bool:
    """Return whether this node has state for the group. Groups whose requests are rejected anyway count as migrated: an
    empty id, or a shard that is not active."""
    if not group_id or group_id in core.directory:
        return True
    shard = core.shard_of(group_id)
    return shard.state is not ShardState.ACTIVE or shard.offsets.holds(group_id)


def start_lookup(group_id: str, brokers: Iterable[int] = (), *, has_offsets: bool = False) -> NextRequests:
    """Return the first requests. FindCoordinator would make the cluster create its offsets topic, so the topic is
    checked first. Unless it is known to exist (`has_offsets`), all `brokers` are asked: one may be behind."""
    lookup = MigrationLookup(group_id)
    if has_offsets:
        return _find_coordinator(lookup)
    wanted = Metadata((MetadataTopic(OFFSETS_TOPIC),))
    return NextRequests(lookup, tuple((wanted, broker) for broker in brokers) or ((wanted, None),))


def continue_lookup(lookup: MigrationLookup, answers: Sequence[Message | None]) -> NextRequests | LookupResult:
    """Return the next requests or the result, given the replies to the last ones; None stands for a missing reply."""
    match lookup.stage:
        case LookupStage.TOPIC:
            return _after_metadata(lookup, answers)
        case LookupStage.COORDINATOR:
            return _after_find_coordinator(lookup, answers[0])
        case LookupStage.GROUP:
            return _after_describe(lookup, *answers)
        case LookupStage.LISTED:
            return _after_list_groups(lookup, answers[0])


def _after_metadata(lookup: MigrationLookup, answers: Sequence[Message | None]) -> NextRequests | LookupResult:
    replies = [answer.topics[0] for answer in answers if isinstance(answer, MetadataReply) and answer.topics]
    if any(topic.error_code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION for topic in replies):
        return _find_coordinator(lookup)
    if len(replies) < len(answers):
        return LookupFailed("not every broker answered whether the cluster has offsets")
    return NoOffsets()


def _find_coordinator(lookup: MigrationLookup) -> NextRequests:
    next_lookup = msgspec.structs.replace(lookup, stage=LookupStage.COORDINATOR)
    return NextRequests(next_lookup, ((FindCoordinator((lookup.group_id,), 0), None),))


def _after_find_coordinator(lookup: MigrationLookup, answer: Message | None) -> NextRequests | LookupResult:
    if not isinstance(answer, FindCoordinatorReply) or not answer.coordinators:
        return LookupFailed("the cluster named no coordinator of the group")
    found = answer.coordinators[0]
    if found.error_code:
        return LookupFailed(f"the cluster's coordinator of the group: {found.error_code.name}")
    wanted = OffsetFetch((OffsetFetchGroup(lookup.group_id),), require_stable=True)
    next_lookup = msgspec.structs.replace(lookup, stage=LookupStage.GROUP, coordinator=found.node_id)
    return NextRequests(next_lookup, ((DescribeGroups((lookup.group_id,)), found.node_id), (wanted, found.node_id)))


def _after_describe(
    lookup: MigrationLookup, described: Message | None, fetched: Message | None
) -> NextRequests | LookupResult:
    if not isinstance(described, DescribeGroupsReply) or not isinstance(fetched, OffsetFetchReply):
        return LookupFailed("the cluster's coordinator of the group did not answer")
    if not described.groups or not fetched.groups:
        return LookupFailed("the cluster's coordinator left the group out of its reply")
    group = described.groups[0]
    offsets = msgspec.structs.replace(fetched.groups[0], group_id=lookup.group_id)  # old versions omit it
    if group.error_code not in (ErrorCode.NONE, ErrorCode.GROUP_ID_NOT_FOUND):
        return LookupFailed(f"the cluster's coordinator of the group: {group.error_code.name}")
    if group.members or group.group_state not in _EMPTY_STATES:
        return ActiveMembers(_describe_members(group))
    if offsets.error_code:
        return LookupFailed(f"the cluster's coordinator of the group: {offsets.error_code.name}")
    unstable = [part for topic in offsets.topics for part in topic.partitions if part.error_code]
    if unstable:
        return LookupFailed(f"offsets of the group at the cluster: {unstable[0].error_code.name}")
    if group.group_state != "Empty":
        # DescribeGroups does not know other kinds of groups, nor offsets without a group: ListGroups does.
        next_lookup = msgspec.structs.replace(lookup, stage=LookupStage.LISTED, found=offsets)
        return NextRequests(next_lookup, ((ListGroups(), lookup.coordinator),))
    return _validated(offsets)


def _describe_members(group: DescribedGroup) -> tuple[str, ...]:
    return tuple(
        f"{member.client_id[:_MAX_CLIENT_ID_CHARS]} at {member.client_host.lstrip('/')}" for member in group.members
    )


def _after_list_groups(lookup: MigrationLookup, answer: Message | None) -> LookupResult:
    if not isinstance(answer, ListGroupsReply) or answer.error_code or lookup.found is None:
        return LookupFailed("the cluster's coordinator of the group did not list its groups")
    for group in answer.groups:
        if group.group_id == lookup.group_id and group.group_state not in _EMPTY_STATES:
            return ActiveMembers(())
    return _validated(lookup.found)


def _validated(offsets: OffsetFetchGroupReply) -> LookupResult:
    if problem := _invalid_offset(offsets):
        return LookupFailed(
            f"the cluster's coordinator sent an invalid offset of the group: {problem}", needs_operator=True
        )
    truncated = 0
    topics = []
    for topic in offsets.topics:
        kept = []
        for part in topic.partitions:
            metadata = part.metadata or ""
            shortened = _truncate(metadata)
            if part.committed_offset >= 0:
                truncated += shortened is not metadata
                kept.append(part if shortened is metadata else msgspec.structs.replace(part, metadata=shortened))
        if kept:
            topics.append(msgspec.structs.replace(topic, partitions=tuple(kept)))
    reply = msgspec.structs.replace(offsets, topics=tuple(topics))
    return ClusterOffsets(reply, truncated) if topics else NoOffsets()


def _invalid_offset(offsets: OffsetFetchGroupReply) -> str:
    """Return a description of an offset that no coordinator would send, and that could not be stored or read; else an
    empty string."""
    seen = set()
    for topic in offsets.topics:
        if not 0 < len(topic.name) <= _MAX_TOPIC_NAME_CHARS:
            return f"a topic with a name of {len(topic.name)} characters"
        for part in topic.partitions:
            if part.partition_index < 0:
                return f"partition {part.partition_index} of {topic.name}"
            if part.committed_offset < _NO_OFFSET:
                return f"offset {part.committed_offset} of {topic.name}-{part.partition_index}"
            if (topic.name, part.partition_index) in seen:
                return f"two offsets of {topic.name}-{part.partition_index}"
            seen.add((topic.name, part.partition_index))
    return ""


def _truncate(metadata: str) -> str:
    """Return the longest part of the metadata that every version of OffsetFetch can encode."""
    if len(metadata) <= _MAX_METADATA_BYTES // 4:
        return metadata
    data = metadata.encode()
    return metadata if len(data) <= _MAX_METADATA_BYTES else data[:_MAX_METADATA_BYTES].decode(errors="ignore")


def offset_records(
    offsets: OffsetFetchGroupReply, wall_ms: int, ids: Mapping[str, bytes], *, with_metadata: bool = True
) -> list[CommittedOffset]:
    """Return the records that import the offsets, with the topics' `ids` by name. `offset.metadata.max.bytes` does not
    apply: this is not a client's commit."""
    return [
        CommittedOffset(
            offsets.group_id,
            topic.name,
            part.partition_index,
            part.committed_offset,
            part.committed_leader_epoch,
            (part.metadata or "") if with_metadata else "",
            wall_ms,
            topic_id=None if ids[topic.name] == NO_TOPIC_ID else ids[topic.name],
        )
        for topic in offsets.topics
        for part in topic.partitions
    ]


def offset_fetch_reply(
    wanted: OffsetFetchGroup, offsets: OffsetFetchGroupReply, ids: dict[str, bytes]
) -> OffsetFetchReply:
    """Answer an OffsetFetch from the cluster's offsets; `ids` are topic ids by name."""
    by_name = {topic.name: {part.partition_index: part for part in topic.partitions} for topic in offsets.topics}
    names = {topic_id: name for name, topic_id in ids.items()}
    if wanted.topics is None:
        topics = [
            OffsetFetchTopicReply(name, tuple(parts.values()), ids.get(name, bytes(16)))
            for name, parts in by_name.items()
            if not wanted.wants_topic_ids or name in ids
        ]
    else:
        topics = []
        for topic in wanted.topics:
            parts = by_name.get(topic.name or names.get(topic.topic_id, ""), {})
            partitions = [parts.get(index) or OffsetFetchPartitionReply(index) for index in topic.partition_indexes]
            topics.append(OffsetFetchTopicReply(topic.name, tuple(partitions), topic.topic_id))
    return OffsetFetchReply((OffsetFetchGroupReply(wanted.group_id, tuple(topics)),))
