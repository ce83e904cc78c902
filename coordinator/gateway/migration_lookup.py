"""A group that this node meets for the first time, and what the cluster's own coordinator knows of it: looked up in
steps, each a few questions. Pure: what was answered to what is to be asked next, or to a verdict.

Met is who is here. A group that was deleted here, or has expired, is met anew.
"""

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum

import msgspec

from coordinator.gateway.upstream_requests import Question
from coordinator.handlers.core import Core
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
_AT_REST = ("Empty", "Dead", "")
_MOST_NAMED = 10
_NO_OFFSET = -1
_LONGEST_NAME = 249
"""Characters of a topic's name, as Kafka has it."""
_LONGEST_TEXT = 2**15 - 1
"""Bytes."""
_LONGEST_TOLD = 200
"""Characters of a member's name in a sentence for people."""


class Stage(Enum):
    """What was asked: is there a topic of offsets at all; who coordinates the group; what of it; is it of a kind that
    DescribeGroups does not know."""

    TOPIC = 0
    COORDINATOR = 1
    GROUP = 2
    LISTED = 3


class MigrationLookup(Message):
    """How far it has come."""

    group_id: str
    stage: Stage = Stage.TOPIC
    coordinator: int = -1
    found: OffsetFetchGroupReply | None = None


class NextQuestions(msgspec.Struct, frozen=True):
    """What is to be asked next."""

    looking: MigrationLookup
    questions: tuple[Question, ...]


class NothingFound(msgspec.Struct, frozen=True):
    """The cluster has no offsets of the group."""


class FoundOffsets(msgspec.Struct, frozen=True):
    """It has these, and no members. `cut`: of how many the metadata is longer than any version can say."""

    reply: OffsetFetchGroupReply
    cut: int = 0


class FoundMembers(msgspec.Struct, frozen=True):
    """The group still has members there."""

    names: tuple[str, ...]

    @property
    def sentence(self) -> str:
        """For whoever wonders why it is refused."""
        told = ", ".join(self.names[:_MOST_NAMED]) or "whose names are not told"
        more = f" and {len(self.names) - _MOST_NAMED} more" if len(self.names) > _MOST_NAMED else ""
        return f"still has members at the cluster's own coordinator: {told}{more}; stop them first"


class Unclear(msgspec.Struct, frozen=True):
    """Nobody could say. Whoever waits is to try again. `lasts`: that helps once somebody has done something."""

    reason: str
    lasts: bool = False


Verdict = NothingFound | FoundOffsets | FoundMembers | Unclear


def is_migrated(core: Core, group_id: str) -> bool:
    """Whether the group is this node's already; so is one about which a gate will refuse everything anyway."""
    if not group_id or group_id in core.directory:
        return True
    shard = core.shard_of(group_id)
    return shard.state is not ShardState.ACTIVE or group_id in shard.balanced or shard.offsets.holds(group_id)


def begin(group_id: str, brokers: Iterable[int] = (), *, has_offsets: bool = False) -> NextQuestions:
    """The first questions. A cluster that never had a group must not make the topic for it just because it is asked.
    Unless it is known to have it (`has_offsets`), each of the `brokers` is asked, for one may be behind."""
    looking = MigrationLookup(group_id)
    if has_offsets:
        return _to_coordinator(looking)
    wanted = Metadata((MetadataTopic(OFFSETS_TOPIC),))
    return NextQuestions(looking, tuple((wanted, broker) for broker in brokers) or ((wanted, None),))


def go_on(looking: MigrationLookup, answers: Sequence[Message | None]) -> NextQuestions | Verdict:
    """What the answers to the last questions amount to."""
    match looking.stage:
        case Stage.TOPIC:
            return _after_topic(looking, answers)
        case Stage.COORDINATOR:
            return _after_coordinator(looking, answers[0])
        case Stage.GROUP:
            return _after_group(looking, *answers)
        case Stage.LISTED:
            return _after_list(looking, answers[0])


def _after_topic(looking: MigrationLookup, answers: Sequence[Message | None]) -> NextQuestions | Verdict:
    told = [answer.topics[0] for answer in answers if isinstance(answer, MetadataReply) and answer.topics]
    if any(topic.error_code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION for topic in told):
        return _to_coordinator(looking)
    if len(told) < len(answers):
        return Unclear("not every broker said whether the cluster has offsets")
    return NothingFound()


def _to_coordinator(looking: MigrationLookup) -> NextQuestions:
    asked = msgspec.structs.replace(looking, stage=Stage.COORDINATOR)
    return NextQuestions(asked, ((FindCoordinator((looking.group_id,), 0), None),))


def _after_coordinator(looking: MigrationLookup, answer: Message | None) -> NextQuestions | Verdict:
    if not isinstance(answer, FindCoordinatorReply) or not answer.coordinators:
        return Unclear("the cluster did not say who coordinates the group there")
    found = answer.coordinators[0]
    if found.error_code:
        return Unclear(f"the cluster's coordinator of the group: {found.error_code.name}")
    wanted = OffsetFetch((OffsetFetchGroup(looking.group_id),), require_stable=True)
    asked = msgspec.structs.replace(looking, stage=Stage.GROUP, coordinator=found.node_id)
    return NextQuestions(asked, ((DescribeGroups((looking.group_id,)), found.node_id), (wanted, found.node_id)))


def _after_group(
    looking: MigrationLookup, described: Message | None, fetched: Message | None
) -> NextQuestions | Verdict:
    if not isinstance(described, DescribeGroupsReply) or not isinstance(fetched, OffsetFetchReply):
        return Unclear("the cluster's coordinator of the group did not answer")
    if not described.groups or not fetched.groups:
        return Unclear("the cluster's coordinator of the group says nothing of it")
    group = described.groups[0]
    offsets = msgspec.structs.replace(fetched.groups[0], group_id=looking.group_id)  # old versions do not say it
    if group.error_code not in (ErrorCode.NONE, ErrorCode.GROUP_ID_NOT_FOUND):
        return Unclear(f"the cluster's coordinator of the group: {group.error_code.name}")
    if group.members or group.group_state not in _AT_REST:
        return FoundMembers(_names(group))
    if offsets.error_code:
        return Unclear(f"the cluster's coordinator of the group: {offsets.error_code.name}")
    unstable = [part for topic in offsets.topics for part in topic.partitions if part.error_code]
    if unstable:
        return Unclear(f"offsets of the group at the cluster: {unstable[0].error_code.name}")
    if group.group_state != "Empty":
        # Not of the classic kind, or only offsets: the list tells of both.
        asked = msgspec.structs.replace(looking, stage=Stage.LISTED, found=offsets)
        return NextQuestions(asked, ((ListGroups(), looking.coordinator),))
    return _of(offsets)


def _names(group: DescribedGroup) -> tuple[str, ...]:
    return tuple(f"{member.client_id[:_LONGEST_TOLD]} at {member.client_host.lstrip('/')}" for member in group.members)


def _after_list(looking: MigrationLookup, answer: Message | None) -> Verdict:
    if not isinstance(answer, ListGroupsReply) or answer.error_code or looking.found is None:
        return Unclear("the cluster's coordinator of the group did not list its groups")
    for group in answer.groups:
        if group.group_id == looking.group_id and group.group_state not in _AT_REST:
            return FoundMembers(())
    return _of(looking.found)


def _of(offsets: OffsetFetchGroupReply) -> Verdict:
    if lie := _lie_in(offsets):
        return Unclear(f"what the cluster's coordinator of the group says cannot be: {lie}", lasts=True)
    cut = 0
    there = []
    for topic in offsets.topics:
        kept = []
        for part in topic.partitions:
            text = part.metadata or ""
            short = _cut(text)
            if part.committed_offset >= 0:
                cut += short is not text
                kept.append(part if short is text else msgspec.structs.replace(part, metadata=short))
        if kept:
            there.append(msgspec.structs.replace(topic, partitions=tuple(kept)))
    reply = msgspec.structs.replace(offsets, topics=tuple(there))
    return FoundOffsets(reply, cut) if there else NothingFound()


def _lie_in(offsets: OffsetFetchGroupReply) -> str:
    """What no coordinator means, if there is something: it could not be kept, or would be for nobody."""
    places = set()
    for topic in offsets.topics:
        if not 0 < len(topic.name) <= _LONGEST_NAME:
            return f"a topic with a name of {len(topic.name)} characters"
        for part in topic.partitions:
            if part.partition_index < 0:
                return f"partition {part.partition_index} of {topic.name}"
            if part.committed_offset < _NO_OFFSET:
                return f"offset {part.committed_offset} of {topic.name}-{part.partition_index}"
            if (topic.name, part.partition_index) in places:
                return f"two offsets of {topic.name}-{part.partition_index}"
            places.add((topic.name, part.partition_index))
    return ""


def _cut(text: str) -> str:
    """As much of it as has a length in every version of OffsetFetch."""
    if len(text) <= _LONGEST_TEXT // 4:
        return text
    data = text.encode()
    return text if len(data) <= _LONGEST_TEXT else data[:_LONGEST_TEXT].decode(errors="ignore")


def records_of(
    offsets: OffsetFetchGroupReply, wall_ms: int, ids: Mapping[str, bytes], *, with_metadata: bool = True
) -> list[CommittedOffset]:
    """What puts them here. How long a client's metadata may be is no matter: this is not the client's commit."""
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


def answer_of(wanted: OffsetFetchGroup, offsets: OffsetFetchGroupReply, ids: dict[str, bytes]) -> OffsetFetchReply:
    """Who only asks is told what the cluster has; `ids` are those of topics by name."""
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
            told = [parts.get(index) or OffsetFetchPartitionReply(index) for index in topic.partition_indexes]
            topics.append(OffsetFetchTopicReply(topic.name, tuple(told), topic.topic_id))
    return OffsetFetchReply((OffsetFetchGroupReply(wanted.group_id, tuple(topics)),))
