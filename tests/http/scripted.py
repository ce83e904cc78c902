"""A coordinator that answers from a script, and records the requests."""

from collections.abc import Callable
from typing import Any

import msgspec

from diagnosis.assignments import assigned_partitions
from protocol.consumer_protocol import Assignment, TopicPartitions, encode_assignment
from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.messages.groups import (
    DescribedGroup,
    DescribedMember,
    DescribeGroups,
    DescribeGroupsReply,
    ListedGroup,
    ListedNote,
    ListGroups,
    ListGroupsReply,
    ListNotes,
    ListNotesReply,
    ListRefusals,
    ListRefusalsReply,
    ListSuspects,
    ListSuspectsReply,
)
from protocol.messages.node import (
    DescribeNode,
    DescribeNodeReply,
    FindCoordinator,
    FindCoordinatorReply,
    FoundCoordinator,
    Measure,
    MeasureReply,
)
from protocol.messages.offsets import (
    DescribeExpiry,
    DescribeExpiryReply,
    ExpiringOffset,
    GroupOffsets,
    ListGroupOffsets,
    ListGroupOffsetsReply,
    ListOffsets,
    ListOffsetsPartition,
    ListOffsetsPartitionReply,
    ListOffsetsReply,
    ListOffsetsTopicReply,
    OffsetFetch,
    OffsetFetchGroupReply,
    OffsetFetchPartitionReply,
    OffsetFetchReply,
    OffsetFetchTopicReply,
)
from protocol.messages.ownership import DescribeOwnership, DescribeOwnershipReply, OwnedPartition
from protocol.messages.topics import (
    Metadata,
    MetadataBroker,
    MetadataPartitionReply,
    MetadataReply,
    MetadataTopicReply,
)

CLUSTER = "c-1"

NODE = DescribeNodeReply(
    node_id=7,
    cluster_id=CLUSTER,
    version="0.1.0",
    started_wall_ms=1_700_000_000_500,
    shards_total=50,
    shards_loaded=50,
    addresses={"native": "127.0.0.1:9390"},
    group_states={"Empty": 1, "Stable": 1},
    rebalances_by_cause={"member joined": 3, "session expired": 1},
    counters={"connections_opened": 12},
    gauges={"groups": 2, "members": 2, "wal_position_bytes": 4096},
    waiting={"heartbeat": 2, "produce": 0},
)

ORDERS = DescribedGroup(
    "orders",
    group_state="Stable",
    protocol_type="consumer",
    protocol_data="range",
    generation_id=4,
    leader="m-1",
    members=(
        DescribedMember(
            "m-1",
            None,
            "app-1",
            "10.0.0.1",
            member_assignment=encode_assignment(Assignment((TopicPartitions("t", (0, 1)),))),
        ),
        DescribedMember(
            "m-2",
            "box-2",
            "app-2",
            "10.0.0.2",
            member_assignment=encode_assignment(Assignment((TopicPartitions("t", (2,)),))),
        ),
    ),
)
IDLE = DescribedGroup("idle", group_state="Empty", protocol_type="consumer")

NOTES = (
    ListedNote(0, 0, "member joined", "m-1", 1_700_000_001_000, "m-1 joined", 1, "PreparingRebalance"),
    ListedNote(1, 1, "rebalance completed", "", 1_700_000_004_000, "", 1, "Stable", "completed"),
)


EXPIRING = (
    ExpiringOffset("a-b", 0, 5, 1_700_000_000_000, 1_700_604_800_000),
    ExpiringOffset("t", 0, 7, 1_700_000_000_000, kept_because="a member subscribes to the topic"),
    ExpiringOffset("t", 1, kept_because="a transaction has an offset pending for the partition"),
)


OWNED = tuple(OwnedPartition("t", number, "m-1", number % 2, 4, 9, 1_700_000_000_000) for number in range(3))


class ScriptedCoordinator:
    """`groups`, `committed`, `ends` and `notes` are what it knows; `answers` overrides the reply to a message type."""

    def __init__(self) -> None:
        self.node = NODE
        self.groups = {group.group_id: group for group in (ORDERS, IDLE)}
        self.committed = {"orders": {("t", 0): 5, ("t", 1): 10, ("t", 3): 1}}
        self.ends = {("t", 0): 30, ("t", 1): 10, ("t", 2): 8, ("t", 3): 4}
        self.committed_ms: dict[tuple[str, int], int] = {}
        """Times of commits; a commit without one is from before they were kept."""
        self.begins = {("t", 2): 2}
        """Start offsets other than 0."""
        self.ages_ms: dict[tuple[str, int], int] = {}
        """Ages of end offsets that the cluster's brokers reported; a partition without an end is unknown."""
        self.notes = {"orders": NOTES}
        self.expiring = EXPIRING
        self.measured = MeasureReply()
        self.suspects: list[str] = []
        """Groups that the node lists as suspects."""
        self.answers: dict[type[Message], Any] = {}
        self.asked: list[Message] = []

    async def ask(self, message: Message) -> Message:
        self.asked.append(message)
        answer = self.answers.get(type(message))
        if callable(answer):
            answer = await answer(message)
        if answer is None:
            answer = _SCRIPT[type(message)](self, message)
        assert isinstance(answer, Message)
        return answer

    def turn(self, group_id: str, **changes: Any) -> None:
        """Change fields of a group."""
        self.groups[group_id] = msgspec.structs.replace(self.groups[group_id], **changes)

    def _refusals(self, message: ListRefusals) -> Message:
        return ListRefusalsReply()

    def _suspects(self, message: ListSuspects) -> Message:
        return ListSuspectsReply(groups=tuple(self.suspects), wall_ms=self.node.wall_ms)

    def _describe(self, message: DescribeGroups) -> Message:
        return DescribeGroupsReply(tuple(self.groups.get(group_id) or _dead(group_id) for group_id in message.groups))

    def _list(self, message: ListGroups) -> Message:
        rest = [name for name in sorted(self.groups) if message.after is None or name > message.after]
        some = [self.groups[name] for name in (rest if message.limit < 0 else rest[: message.limit])]
        return ListGroupsReply(groups=tuple([ListedGroup(g.group_id, g.protocol_type, g.group_state) for g in some]))

    def _list_notes(self, message: ListNotes) -> Message:
        kept = [note for note in self.notes.get(message.group_id, ()) if note.number > message.after]
        return ListNotesReply(notes=tuple(kept[: message.limit]))

    def _find(self, message: FindCoordinator) -> Message:
        return FindCoordinatorReply(tuple(FoundCoordinator(key, NODE.node_id) for key in message.coordinator_keys))

    def _expiry(self, message: DescribeExpiry) -> Message:
        if message.group_id not in self.groups:
            return DescribeExpiryReply(error_code=ErrorCode.GROUP_ID_NOT_FOUND)
        after = (message.after_topic, message.after_partition)
        rest = [one for one in self.expiring if (one.topic, one.partition_index) > after]
        return DescribeExpiryReply(
            group_state="Stable",
            group_kept_because="" if message.after_topic else "the group has members",
            next_run_ms=1_700_000_600_000,
            retention_ms=604_800_000,
            offsets=tuple(rest[: message.limit]),
            has_more=len(rest) > message.limit,
        )

    def _owned(self, message: DescribeOwnership) -> Message:
        if message.group_id not in self.groups:
            return DescribeOwnershipReply(error_code=ErrorCode.GROUP_ID_NOT_FOUND)
        return DescribeOwnershipReply(items=OWNED)

    def _offsets(self, message: OffsetFetch) -> Message:
        return OffsetFetchReply(
            tuple(
                OffsetFetchGroupReply(
                    wanted.group_id,
                    tuple(
                        OffsetFetchTopicReply(topic, (self._commit(topic, partition, offset),))
                        for (topic, partition), offset in self.committed.get(wanted.group_id, {}).items()
                    ),
                )
                for wanted in message.groups
            )
        )

    def _commit(self, topic: str, partition: int, offset: int) -> OffsetFetchPartitionReply:
        at_ms = self.committed_ms.get((topic, partition), -1)
        return OffsetFetchPartitionReply(partition, offset, commit_timestamp_ms=at_ms)

    def _group_offsets(self, message: ListGroupOffsets) -> Message:
        found = []
        for group in filter(None, map(self.groups.get, message.groups)):
            topics: dict[str, dict[int, int]] = {
                topic: {} for member in group.members for topic, _part in assigned_partitions(group, member)
            }
            for (topic, partition), offset in self.committed.get(group.group_id, {}).items():
                topics.setdefault(topic, {})[partition] = offset
            found.append(GroupOffsets(group.group_id, len(group.members), topics))
        return ListGroupOffsetsReply(tuple(found))

    def _ends(self, message: ListOffsets) -> Message:
        return ListOffsetsReply(
            tuple(
                ListOffsetsTopicReply(topic.name, tuple(self._offset(topic.name, part) for part in topic.partitions))
                for topic in message.topics
            )
        )

    def _offset(self, topic: str, part: ListOffsetsPartition) -> ListOffsetsPartitionReply:
        if part.timestamp == -2 and (topic, part.partition_index) in self.ends:
            return ListOffsetsPartitionReply(
                part.partition_index, offset=self.begins.get((topic, part.partition_index), 0)
            )
        return self._end(topic, part.partition_index)

    def _end(self, topic: str, partition: int) -> ListOffsetsPartitionReply:
        end = self.ends.get((topic, partition))
        age_ms = self.ages_ms.get((topic, partition), -1)
        if end is None and age_ms >= 0:
            return ListOffsetsPartitionReply(partition, ErrorCode.LEADER_NOT_AVAILABLE)
        if end is None:
            return ListOffsetsPartitionReply(partition, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return ListOffsetsPartitionReply(partition, offset=end, age_ms=age_ms)

    def _metadata(self, message: Metadata) -> Message:
        counts: dict[str, int] = {}
        named = None if message.topics is None else {topic.name for topic in message.topics}
        for topic, _ in self.ends:
            if named is None or topic in named:
                counts[topic] = counts.get(topic, 0) + 1
        topics = (
            MetadataTopicReply(name, partitions=tuple(MetadataPartitionReply(index, 7) for index in range(count)))
            for name, count in counts.items()
        )
        return MetadataReply((MetadataBroker(7, "127.0.0.1", 9390),), CLUSTER, 7, tuple(topics))


def _dead(group_id: str) -> DescribedGroup:
    return DescribedGroup(group_id, ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.", "Dead")


_SCRIPT: dict[type[Message], Callable[[ScriptedCoordinator, Any], Message]] = {
    DescribeNode: lambda coordinator, _: coordinator.node,
    DescribeOwnership: ScriptedCoordinator._owned,
    DescribeGroups: ScriptedCoordinator._describe,
    FindCoordinator: ScriptedCoordinator._find,
    ListGroups: ScriptedCoordinator._list,
    ListNotes: ScriptedCoordinator._list_notes,
    Measure: lambda coordinator, _: coordinator.measured,
    ListSuspects: ScriptedCoordinator._suspects,
    ListRefusals: ScriptedCoordinator._refusals,
    DescribeExpiry: ScriptedCoordinator._expiry,
    OffsetFetch: ScriptedCoordinator._offsets,
    ListGroupOffsets: ScriptedCoordinator._group_offsets,
    ListOffsets: ScriptedCoordinator._ends,
    Metadata: ScriptedCoordinator._metadata,
}
