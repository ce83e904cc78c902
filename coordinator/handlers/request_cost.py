"""Cost of a request, counted before any of it is served: a step must stay short, since all other clients' heartbeats
wait behind it.

The unit is an entry: a partition, a member or a group named, some 3 microseconds. Items that take longer count for more
(a new topic some 20; a name, hashed character by character, one for each 32).
"""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from protocol.messages import Message
from protocol.messages.balanced import (
    ConfirmConsumed,
    ConsumeFromMax,
    DescribeBalanced,
    FetchRegistered,
    LeaveMember,
    MemberHeartbeat,
    RegisterPartitions,
    StartMember,
    UnregisterPartitions,
)
from protocol.messages.configs import AlterConfigs, DescribeConfigs, IncrementalAlterConfigs
from protocol.messages.data import Fetch, OffsetForLeaderEpoch, Produce
from protocol.messages.groups import DeleteGroups, DescribeGroups, JoinGroup, LeaveGroup, ListGroups, SyncGroup
from protocol.messages.node import FindCoordinator
from protocol.messages.offsets import ListOffsets, OffsetCommit, OffsetDelete, OffsetFetch, TxnOffsetCommit
from protocol.messages.ownership import ClaimPartitions, DescribeOwnership, ReleasePartitions
from protocol.messages.topics import (
    CreatePartitions,
    CreateTopics,
    DeleteTopics,
    DescribeTopicPartitions,
    Metadata,
)

_CHARACTERS_AN_ENTRY = 32
_ENTRIES_A_PROTOCOL = 200
_ENTRIES_A_NEW_TOPIC = 20
_NEW_PARTITIONS_AN_ENTRY = 10
_ENTRIES_A_RESOURCE = 20
_ENTRIES_A_GRANT = 3
_MOST_DESCRIBED = 2_000


class Cost(NamedTuple):
    """The field that grows, and its cost in entries."""

    field: str
    cost: Callable[[Any], int]


def _names(names: Iterable[str]) -> int:
    return sum(1 + len(name) // _CHARACTERS_AN_ENTRY for name in names)


def _new_topics(message: CreateTopics) -> int:
    return sum(
        _ENTRIES_A_NEW_TOPIC
        + len(topic.configs)
        + len(topic.assignments)
        + max(topic.num_partitions, 0) // _NEW_PARTITIONS_AN_ENTRY
        for topic in message.topics
    )


def _more_partitions(message: CreatePartitions) -> int:
    return sum(
        _ENTRIES_A_NEW_TOPIC + len(topic.assignments or ()) + max(topic.count, 0) // _NEW_PARTITIONS_AN_ENTRY
        for topic in message.topics
    )


def _offset_fetch(message: OffsetFetch) -> int:
    entries = 0
    for group in message.groups:
        entries += 1 + len(group.group_id) // _CHARACTERS_AN_ENTRY
        for topic in group.topics or ():
            entries += 1 + len(topic.partition_indexes)
    return entries


def _start(message: StartMember) -> int:
    texts = sum([len(ones) for ones in message.filters.values()])
    return _names(message.topics) + len(message.filters) + texts + len(message.held)


def _commit(message: OffsetCommit | TxnOffsetCommit) -> int:
    entries = len(message.topics)
    for topic in message.topics:
        entries += len(topic.partitions)
    return entries


COSTS: dict[type[Message], Cost] = {
    JoinGroup: Cost("protocols", lambda m: _ENTRIES_A_PROTOCOL * len(m.protocols)),
    SyncGroup: Cost("assignments", lambda m: len(m.assignments)),
    LeaveGroup: Cost("members", lambda m: len(m.members)),
    DescribeGroups: Cost("groups", lambda m: _names(m.groups)),
    DeleteGroups: Cost("groups_names", lambda m: _names(m.groups_names)),
    ListGroups: Cost("states_filter, types_filter", lambda m: len(m.states_filter) + len(m.types_filter)),
    FindCoordinator: Cost("coordinator_keys", lambda m: _names(m.coordinator_keys)),
    OffsetCommit: Cost("topics", _commit),
    TxnOffsetCommit: Cost("topics", _commit),
    OffsetFetch: Cost("groups", _offset_fetch),
    OffsetDelete: Cost("topics", lambda m: sum(1 + len(topic.partition_indexes) for topic in m.topics)),
    ListOffsets: Cost("topics", lambda m: sum(1 + len(topic.partitions) for topic in m.topics)),
    Metadata: Cost("topics", lambda m: len(m.topics or ())),
    DescribeTopicPartitions: Cost(
        "topics", lambda m: _names(topic.name for topic in m.topics) + min(m.response_partition_limit, _MOST_DESCRIBED)
    ),
    CreateTopics: Cost("topics", _new_topics),
    DeleteTopics: Cost("topics", lambda m: _ENTRIES_A_NEW_TOPIC * len(m.topics)),
    CreatePartitions: Cost("topics", _more_partitions),
    DescribeConfigs: Cost("resources", lambda m: _ENTRIES_A_RESOURCE * len(m.resources)),
    IncrementalAlterConfigs: Cost(
        "resources", lambda m: sum(_ENTRIES_A_RESOURCE + len(resource.configs) for resource in m.resources)
    ),
    AlterConfigs: Cost(
        "resources", lambda m: sum(_ENTRIES_A_RESOURCE + len(resource.configs) for resource in m.resources)
    ),
    ClaimPartitions: Cost("items", lambda m: len(m.items)),
    ReleasePartitions: Cost("items", lambda m: len(m.items)),
    StartMember: Cost("topics", _start),
    MemberHeartbeat: Cost("owned", lambda m: len(m.owned or ()) + len(m.released)),
    RegisterPartitions: Cost("items", lambda m: _ENTRIES_A_GRANT * len(m.items)),
    UnregisterPartitions: Cost("items", lambda m: len(m.items)),
    FetchRegistered: Cost("items", lambda m: len(m.items)),
    ConfirmConsumed: Cost("items", lambda m: len(m.items)),
    LeaveMember: Cost("released", lambda m: len(m.released)),
    DescribeBalanced: Cost("groups", lambda m: _names(m.groups or ())),
    ConsumeFromMax: Cost("groups", lambda m: _names(m.groups)),
    DescribeOwnership: Cost("topics", lambda m: _names(m.topics or ())),
    OffsetForLeaderEpoch: Cost("topics", lambda m: sum(1 + len(topic.partitions) for topic in m.topics)),
    Produce: Cost("topic_data", lambda m: sum(1 + len(topic.partition_data) for topic in m.topic_data)),
    Fetch: Cost("topics", lambda m: sum(1 + len(topic.partitions) for topic in m.topics)),
}
"""Costs of the messages that can be of any size."""
