"""Cost of a request, counted before any of it is served: a step must stay short, since all other clients' heartbeats
wait behind it.

The unit is an entry: a partition, a member or a group named, some 3 microseconds. Items that take longer count for more
(a new topic some 20; a name, hashed character by character, one for each 32).
"""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from coordinator.core.core import Core
from coordinator.runtime.group import GroupKind
from coordinator.runtime.slices import SLICE_US
from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.messages.balanced import DescribeBalanced, PartitionMeta, StartMember
from protocol.messages.consumer_groups import JOINING, ConsumerGroupDescribe, ConsumerGroupHeartbeat
from protocol.messages.data import Produce
from protocol.messages.groups import DescribeGroups, ListGroups
from protocol.messages.node import ErrorReply
from protocol.messages.offsets import DescribeExpiry, OffsetCommit, OffsetFetch, TxnOffsetCommit
from protocol.messages.topics import CreatePartitions, CreateTopics, DeleteTopics

_ENTRIES_A_TOPIC = _ENTRIES_A_FETCH = 50
"""Cost of a topic with its partitions, and of a fetch; estimates."""
_CONFIGURED_AN_ENTRY = 4
_OFFSETS_AN_ENTRY = 8
"""Offsets that cost one entry if they are only looked at."""
_LISTED_AN_ENTRY = 3
_STEPPED_AN_ENTRY = 8
"""Partitions of a member's target, and subscribed names that a leaver is taken off, that cost one entry."""
_DECIDED_AN_ENTRY = 8
"""Decisions on a permission that cost one entry: most are look-ups."""
_MOST_A_SLICE = SLICE_US // 3
"""Cost that one step serves of a long request (see `slices`)."""
_CHARACTERS_AN_ENTRY = 32
_ENTRIES_TWO_PROTOCOLS = 2
"""Cost of each two protocols of an offer, which are compared with each other."""
_ENTRIES_A_NEW_TOPIC = 20
_NEW_PARTITIONS_AN_ENTRY = 10
_ENTRIES_A_RESOURCE = 20
_ENTRIES_AN_ACL, _ENTRIES_A_USER = 10, 20
_ENTRIES_A_FILTER = 200
"""Cost of a condition that is compared with each access control list; an estimate."""
_ENTRIES_A_GRANT = 3
_MOST_DESCRIBED = 2_000


class Cost(NamedTuple):
    """Cost of a message in entries: one, that of the items its `field` names, and that of the items listed for it. A
    message whose field names too many is refused before anything else is checked."""

    field: str = ""
    named: Callable[[Any], int] = lambda _message: 0
    listed: Callable[[Core, Any], int] | None = None

    def of(self, core: Core, message: Message) -> int:
        """Return the cost. Most messages list nothing."""
        listed = self.listed
        return 1 + self.named(message) + (0 if listed is None else listed(core, message))

    def refusal(self, message: Message, most: int) -> ErrorReply | None:
        """Refuse a request that would take too long for all other clients."""
        entries = self.named(message)
        if entries <= most:
            return None
        text = f"{self.field}: worth {entries} entries, at most {most} are allowed (max.entries.per.request)"
        return ErrorReply(ErrorCode.INVALID_REQUEST, f"{text}; ask in parts")


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


def _beat(message: ConsumerGroupHeartbeat) -> int:
    owned = sum([1 + len(one.partitions) for one in message.topic_partitions or ()])
    return owned + _names(message.subscribed_topic_names or ())


def _beaten(core: Core, message: ConsumerGroupHeartbeat) -> int:
    """Count what the step of a member looks at: one that has reached its target takes none."""
    found = core.directory.get(message.group_id)
    group = None if found is None else found.serving_consumer
    member = None if group is None else group.members.get(message.member_id)
    if group is None or member is None:
        return 0
    if message.member_epoch < JOINING:
        return len(group.names) // _STEPPED_AN_ENTRY
    if group.is_reconciled(member):
        return 0
    target = group.targets.get(message.member_id, {})
    return max(len(target), len(member.current.assigned)) + sum(map(len, target.values())) // _STEPPED_AN_ENTRY


def _listed_consumers(core: Core, message: ConsumerGroupDescribe) -> int:
    found = [core.directory.get(group_id) for group_id in message.group_ids]
    return sum([one.member_count for one in found if one is not None])


def _listed_groups(core: Core, message: DescribeGroups) -> int:
    found = [core.directory.get(group_id) for group_id in message.groups]
    return sum([len(one.classic.members) for one in found if one is not None])


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
    found = core.find(message.group_id)[1]
    group = None if found is None else found.balanced
    is_listed = group is not None and group.on_record.meta_version != message.meta_version
    return len(group.meta) // _CONFIGURED_AN_ENTRY if group is not None and is_listed else 0


def _described(core: Core, message: DescribeBalanced) -> int:
    groups = [one.balanced for shard in core.shards for one in shard.of_kind[GroupKind.CLIENT_BALANCED].values()]
    return sum([len(one.meta) + len(one.members) for one in groups if one is not None])


def _groups_listed(core: Core, message: ListGroups) -> int:
    listed = core.count_groups() if message.limit < 0 else min(core.count_groups(), message.limit)
    return min(listed // _LISTED_AN_ENTRY, _MOST_A_SLICE)


JOIN_GROUP = Cost("protocols", lambda m: _ENTRIES_TWO_PROTOCOLS * len(m.protocols) ** 2)
SYNC_GROUP = Cost("assignments", lambda m: len(m.assignments))
LEAVE_GROUP = Cost("members", lambda m: len(m.members))
DESCRIBE_GROUPS = Cost("groups", lambda m: _names(m.groups), _listed_groups)
REPORT_MEMBER = Cost("facts", lambda m: len(m.facts))
DRAIN_MEMBERS = Cost("member_ids", lambda m: _names(m.member_ids))
DELETE_GROUPS = Cost("groups_names", lambda m: _names(m.groups_names))
LIST_GROUPS = Cost("states_filter, types_filter", lambda m: len(m.states_filter) + len(m.types_filter), _groups_listed)
FIND_COORDINATOR = Cost("coordinator_keys", lambda m: _names(m.coordinator_keys))
OFFSET_COMMIT = Cost("topics", _commit)
TXN_OFFSET_COMMIT = Cost("topics", _commit)
OFFSET_FETCH = Cost("groups", _offset_fetch, _listed_offsets)
LIST_GROUP_OFFSETS = LIST_REFUSALS = Cost("groups", lambda m: _names(m.groups))
APPLY_OFFSETS = Cost("changes", lambda m: len(m.changes))
OFFSET_DELETE = Cost("topics", lambda m: sum(1 + len(topic.partition_indexes) for topic in m.topics))
LIST_OFFSETS = Cost("topics", lambda m: sum(1 + len(topic.partitions) for topic in m.topics))
METADATA = Cost(
    "topics",
    lambda m: len(m.topics or ()),
    lambda core, message: 0 if message.topics is not None else _ENTRIES_A_TOPIC * core.topics.topic_count,
)
DESCRIBE_TOPIC_PARTITIONS = Cost(
    "topics",
    lambda m: _names(topic.name for topic in m.topics) + min(m.response_partition_limit, _MOST_DESCRIBED),
    # a page of all topics looks for those that may be described
    lambda core, message: (
        0 if message.topics or not core.accounts.authorizer.is_on else core.topics.topic_count // _DECIDED_AN_ENTRY
    ),
)
CREATE_ACLS = Cost("creations", lambda m: _ENTRIES_AN_ACL * len(m.creations))
DELETE_ACLS = Cost("filters", lambda m: _ENTRIES_A_FILTER * len(m.filters))
DESCRIBE_USERS = Cost("users", lambda m: len(m.users or ()))
ALTER_USERS = Cost("users", lambda m: _ENTRIES_A_USER * (len(m.deletions) + len(m.upsertions)))
DESCRIBE_QUOTAS = Cost("components", lambda m: len(m.components))
ALTER_QUOTAS = Cost("entries", lambda m: sum(_ENTRIES_A_USER + len(one.ops) + len(one.entity) for one in m.entries))
CREATE_TOPICS = Cost("topics", _new_topics)
DELETE_TOPICS = Cost("topics", lambda m: _ENTRIES_A_NEW_TOPIC * len(m.topics), _deleted_partitions)
CREATE_PARTITIONS = Cost("topics", _more_partitions)
DESCRIBE_CONFIGS = Cost("resources", lambda m: _ENTRIES_A_RESOURCE * len(m.resources))
INCREMENTAL_ALTER_CONFIGS = Cost(
    "resources", lambda m: sum(_ENTRIES_A_RESOURCE + len(resource.configs) for resource in m.resources)
)
ALTER_CONFIGS = Cost(
    "resources", lambda m: sum(_ENTRIES_A_RESOURCE + len(resource.configs) for resource in m.resources)
)
CLAIM_PARTITIONS = Cost("items", lambda m: len(m.items))
RELEASE_PARTITIONS = Cost("items", lambda m: len(m.items))
START_MEMBER = Cost("topics", _start, lambda core, message: partitions_of(core, message.topics) // _CONFIGURED_AN_ENTRY)
MEMBER_HEARTBEAT = Cost("owned", lambda m: len(m.owned or ()) + len(m.released))
REGISTER_PARTITIONS = Cost("items", lambda m: _ENTRIES_A_GRANT * len(m.items))
UNREGISTER_PARTITIONS = Cost("items", lambda m: len(m.items))
FETCH_REGISTERED = Cost("items", lambda m: len(m.items), lambda _core, _message: _ENTRIES_A_FETCH)
CONFIRM_CONSUMED = Cost("items", lambda m: len(m.items))
LEAVE_MEMBER = Cost("released", lambda m: len(m.released))
DESCRIBE_BALANCED = Cost("groups", lambda m: _names(m.groups or ()), _described)
CONSUME_FROM_MAX = Cost("groups", lambda m: _names(m.groups))
DESCRIBE_OWNERSHIP = Cost("topics", lambda m: _names(m.topics or ()))
OFFSET_FOR_LEADER_EPOCH = Cost("topics", lambda m: sum(1 + len(topic.partitions) for topic in m.topics))
PRODUCE = Cost("topic_data", lambda m: sum(1 + len(topic.partition_data) for topic in m.topic_data), _produced)
FETCH = Cost(
    "topics", lambda m: sum(1 + len(topic.partitions) for topic in m.topics), lambda _core, _message: _ENTRIES_A_FETCH
)
CONSUMER_GROUP_HEARTBEAT = Cost("topic_partitions, subscribed_topic_names", _beat, _beaten)
CONSUMER_GROUP_DESCRIBE = Cost("group_ids", lambda m: _names(m.group_ids), _listed_consumers)
DESCRIBE_NODE = Cost(listed=lambda core, _message: len(core.shards))
PARTITION_META = Cost(listed=_configured)
DESCRIBE_EXPIRY = Cost(listed=_inspected)
ONE = Cost()
"""The cost of a message that names one thing."""
