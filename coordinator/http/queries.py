"""Queries of the HTTP pages, as messages that any client can send; errors in replies become `Problem`s."""

from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import groupby, islice
from typing import TypeVar

from coordinator.http.lag.partitions import (
    GroupPartitions,
    KnownEnds,
    PartitionEnd,
    PartitionLag,
    committed_offsets,
    keys_of,
    lags,
    topic_ids_of,
    topics_of,
)
from diagnosis.assignments import Key, subscribed_topics
from diagnosis.gathering import Commit, by_topic, commits_of
from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.messages.balanced import (
    BALANCED_TYPES,
    BalancedGroupView,
    ConsumeFromMax,
    ConsumeFromMaxReply,
    DescribeBalanced,
    DescribeBalancedReply,
)
from protocol.messages.groups import (
    ApplyOffsets,
    ApplyOffsetsReply,
    DescribedGroup,
    DescribeGroups,
    DescribeGroupsReply,
    HoldGroup,
    HoldGroupReply,
    LeaveGroup,
    LeaveGroupReply,
    LeftMember,
    ListAudit,
    ListAuditReply,
    ListedGroup,
    ListGroups,
    ListGroupsReply,
    ListNotes,
    ListNotesReply,
    ListRefusals,
    ListRefusalsReply,
    ListSuspects,
    ListSuspectsReply,
    RefusedRequest,
)
from protocol.messages.node import (
    DescribeNode,
    DescribeNodeReply,
    ErrorReply,
    FindCoordinator,
    FindCoordinatorReply,
    Measure,
    MeasureReply,
)
from protocol.messages.offsets import (
    DescribeExpiry,
    DescribeExpiryReply,
    GroupOffsets,
    ListGroupOffsets,
    ListGroupOffsetsReply,
    ListOffsets,
    ListOffsetsPartition,
    ListOffsetsPartitionReply,
    ListOffsetsReply,
    ListOffsetsTopic,
    OffsetDelete,
    OffsetDeleteReply,
    OffsetFetch,
    OffsetFetchGroup,
    OffsetFetchGroupReply,
    OffsetFetchReply,
)
from protocol.messages.ownership import DescribeOwnership, DescribeOwnershipReply, OwnedPartition
from protocol.messages.reports import DrainedMember, DrainMembers, DrainMembersReply
from protocol.messages.topics import Metadata, MetadataReply, MetadataTopic, MetadataTopicReply

Ask = Callable[[Message], Awaitable[Message]]
M = TypeVar("M", bound=Message)
T = TypeVar("T")
_PERMITTED = {ErrorCode.NONE, ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.NON_EMPTY_GROUP}
"""Errors of a deletion that are told only to who may delete."""

GROUPS_A_REQUEST = 10
"""A description of them is one step, a third of a millisecond with ten members each."""
PARTITIONS_A_REQUEST = 250
ENDS_MAX_AGE_MS = 1_000
_EARLIEST, _LATEST = -2, -1
_DEAD = "Dead"
_NO_END = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.NOT_LEADER_OR_FOLLOWER)
"""Errors of partitions without an end: they do not exist, or another node leads them."""
_ASK_AGAIN = ErrorCode.THROTTLING_QUOTA_EXCEEDED
"""Error of groups that did not fit into a reply; the first group always fits."""


class Problem(Exception):
    """Raised for an error answer: an HTTP status, Confluent's error code (the status, or the status and two digits) and
    a sentence."""

    def __init__(self, error_code: int, message: str) -> None:
        super().__init__(message)
        self.error_code = error_code
        self.message = message

    @property
    def status(self) -> int:
        return self.error_code if self.error_code < 1_000 else self.error_code // 100


NO_SUCH_GROUP = 40403
_PROBLEMS = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: (503, "the coordinator is still loading; try again"),
    ErrorCode.COORDINATOR_NOT_AVAILABLE: (503, "the coordinator is not available; try again"),
    ErrorCode.NOT_COORDINATOR: (503, "the group's shard is not served here, or could not be loaded: /readyz says why"),
    ErrorCode.REQUEST_TIMED_OUT: (504, "the request took too long"),
    ErrorCode.INVALID_GROUP_ID: (400, "this is no group id"),
    ErrorCode.INVALID_REQUEST: (400, "the request is not valid"),
    ErrorCode.GROUP_ID_NOT_FOUND: (NO_SUCH_GROUP, "there is no such group"),
    ErrorCode.GROUP_AUTHORIZATION_FAILED: (40301, "not allowed on this group"),
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: (40301, "not allowed on a topic of this group"),
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: (40301, "not allowed on this cluster"),
}
_OTHERWISE = 50002  # Confluent's code for a Kafka error without an HTTP status of its own


def problem_of(error: ErrorCode, message: str = "") -> Problem:
    """Return the HTTP form of an error; `message` is preferred to the default sentence."""
    code, sentence = _PROBLEMS.get(error, (_OTHERWISE, f"the coordinator answered {error.name}"))
    return Problem(code, message or sentence)


class Queries:
    """Requests to the node, without a cache.

    Requests about many groups or partitions are sent in slices, so that no step of the node takes long.
    """

    def __init__(self, ask: Ask) -> None:
        self._ask = ask

    async def node(self) -> DescribeNodeReply:
        return await self._answer(DescribeNode(), DescribeNodeReply)

    async def own_cluster(self, cluster_id: str) -> str:
        """Return the cluster's id. Raises Problem if another id is requested."""
        own = (await self.node()).cluster_id
        if cluster_id != own:
            raise Problem(404, f"there is no cluster {cluster_id!r} here, only {own!r}")
        return own

    async def topic(self, name: str) -> MetadataTopicReply | None:
        """Return a topic with its partitions; None if there is none, or the name is invalid."""
        found = (await self._answer(Metadata((MetadataTopic(name),)), MetadataReply)).topics
        return next((topic for topic in found if not topic.error_code and topic.name == name), None)

    async def topology(self, *, topics: bool = False) -> MetadataReply:
        """Return the nodes, with all topics if `topics`."""
        return await self._answer(Metadata(topics=None if topics else ()), MetadataReply)

    async def groups(self, after: str | None = None, limit: int = -1) -> Sequence[ListedGroup]:
        """Return the groups after an id, at most `limit` if it is not negative, sorted by id."""
        reply = await self._answer(ListGroups(after=after, limit=limit), ListGroupsReply)
        _refuse(reply.error_code)
        return reply.groups

    async def describe(self, group_ids: Iterable[str], *, with_facts: bool = False) -> list[DescribedGroup]:
        """Return descriptions of the groups that still exist."""
        found = await self.described(group_ids, with_facts=with_facts)
        return [group for group in found if not group.error_code and group.group_state != _DEAD]

    async def described(self, group_ids: Iterable[str], *, with_facts: bool = False) -> list[DescribedGroup]:
        """Return what the coordinator says of each group, errors too."""
        found: list[DescribedGroup] = []
        for some in _slices(group_ids, GROUPS_A_REQUEST):
            rest = some
            while rest:
                reply = await self._answer(DescribeGroups(tuple(rest), with_facts=with_facts), DescribeGroupsReply)
                found += (group for group in reply.groups if group.error_code is not _ASK_AGAIN)
                rest = [group.group_id for group in reply.groups if group.error_code is _ASK_AGAIN]
        return found

    async def group(self, group_id: str, *, with_facts: bool = False, with_operations: bool = False) -> DescribedGroup:
        """Return the group's description. Raises Problem if there is no such group."""
        wanted = DescribeGroups((group_id,), with_operations, with_facts=with_facts)
        reply = await self._answer(wanted, DescribeGroupsReply)
        group = reply.groups[0]
        if group.error_code not in (ErrorCode.NONE, ErrorCode.GROUP_ID_NOT_FOUND):
            raise problem_of(group.error_code, group.error_message or "")
        if group.error_code or group.group_state == _DEAD:
            raise Problem(NO_SUCH_GROUP, f"there is no consumer group {group_id!r}")
        return group

    async def coordinators(self, group_ids: Iterable[str]) -> dict[str, int]:
        """Return the id of the node that coordinates each group, -1 if none does now."""
        reply = await self._answer(FindCoordinator(tuple(group_ids)), FindCoordinatorReply)
        return {one.key: one.node_id for one in reply.coordinators}

    async def balanced(self, listed: Iterable[ListedGroup]) -> list[BalancedGroupView]:
        """Return all client-balanced groups that are online, by id; none if `listed` has no client-balanced group."""
        if all(group.group_type not in BALANCED_TYPES for group in listed):
            return []
        reply = await self._answer(DescribeBalanced(with_lag=False), DescribeBalancedReply)
        found = [group for group in reply.groups if not group.error_code]
        for rest in [group.group_id for group in reply.groups if group.error_code is _ASK_AGAIN]:
            again = await self._answer(DescribeBalanced((rest,), with_lag=False), DescribeBalancedReply)
            found += [group for group in again.groups if not group.error_code]
        return found

    async def balanced_group(self, group_id: str) -> BalancedGroupView | None:
        """Return the client-balanced group; None if there is none of this id. Raises Problem if that is unknown."""
        reply = await self._answer(DescribeBalanced((group_id,)), DescribeBalancedReply)
        (view,) = reply.groups
        if view.error_code not in (ErrorCode.NONE, ErrorCode.GROUP_ID_NOT_FOUND):
            raise problem_of(view.error_code)
        return view if view.members else None

    async def readers(self, topic: str) -> dict[str, int]:
        """Return the groups that read the topic, with their numbers of members. A group reads it if a member subscribes
        to it or is assigned a partition of it, or if the group has committed offsets for it."""
        listed = await self.groups()
        found = {view.group_id: len(view.members) for view in await self.balanced(listed) if topic in view.topics}
        for some in _slices((group.group_id for group in listed), GROUPS_A_REQUEST):
            committed = await self.committed(some)
            for group in await self.describe(some):
                subscribed = any(topic in subscribed_topics(group, member) for member in group.members)
                if subscribed or topic in topics_of(group, committed.get(group.group_id, ())):
                    found[group.group_id] = len(group.members)
        return found

    async def consume_from_max(self, group_id: str, actor: str) -> ConsumeFromMaxReply:
        return await self._answer(ConsumeFromMax((group_id,), actor), ConsumeFromMaxReply)

    async def notes(self, group_id: str, after: int, limit: int) -> ListNotesReply:
        """Return the journal of a group, which may have been deleted."""
        reply = await self._answer(ListNotes(group_id, after, limit), ListNotesReply)
        _refuse(reply.error_code)
        return reply

    async def acted_on(self, since_ms: int) -> list[str]:
        """Return the groups with acts noted since a wall time; they may have been deleted meanwhile."""
        found: dict[str, None] = {}
        while True:
            reply = await self._answer(ListAudit(since_ms), ListAuditReply)
            _refuse(reply.error_code)
            found |= dict.fromkeys(one.group_id for one in reply.notes if one.group_id)
            if not reply.has_more or reply.notes[-1].note.wall_ms == since_ms:
                return list(found)
            since_ms = reply.notes[-1].note.wall_ms

    async def expiring(self, group_id: str, limit: int, after: Key | None) -> DescribeExpiryReply:
        """Return the expiry of the group's offsets, from the partition after `after` on. Raises Problem if there is no
        such group."""
        topic, partition = after or ("", -1)
        reply = await self._answer(DescribeExpiry(group_id, limit, topic, partition), DescribeExpiryReply)
        if reply.error_code is ErrorCode.GROUP_ID_NOT_FOUND:
            raise Problem(NO_SUCH_GROUP, f"there is no consumer group {group_id!r}")
        _refuse(reply.error_code)
        return reply

    async def ownership(self, group_id: str) -> tuple[OwnedPartition, ...]:
        """Return the present grants of the group's registry, by partition."""
        reply = await self._answer(DescribeOwnership(group_id), DescribeOwnershipReply)
        if reply.error_code is ErrorCode.GROUP_ID_NOT_FOUND:
            raise Problem(NO_SUCH_GROUP, f"there is no consumer group {group_id!r}")
        _refuse(reply.error_code)
        return reply.items

    async def committed(self, group_ids: Sequence[str]) -> dict[str, dict[Key, int]]:
        """Return committed offsets of each group; groups whose reply is an error are left out."""
        return await self._fetch_offsets(group_ids, committed_offsets)

    async def offsets(self, group_id: str) -> OffsetFetchGroupReply:
        """Return the committed offsets with their senders. Raises Problem if there is no such group."""
        await self.group(group_id)
        wanted = OffsetFetchGroup(group_id, with_origins=True)
        (reply,) = (await self._answer(OffsetFetch((wanted,)), OffsetFetchReply)).groups
        _refuse(reply.error_code)
        return reply

    async def group_offsets(self, group_ids: Sequence[str]) -> Sequence[GroupOffsets]:
        """Return the partitions and commits that each group's lag includes, for groups that exist."""
        return (await self._answer(ListGroupOffsets(tuple(group_ids)), ListGroupOffsetsReply)).groups

    async def commits(self, group_ids: Sequence[str], *, with_origins: bool = True) -> dict[str, dict[Key, Commit]]:
        """Return committed offsets of each group with their times; groups whose reply is an error are left out."""
        return await self._fetch_offsets(group_ids, commits_of, with_origins=with_origins)

    async def _fetch_offsets(
        self,
        group_ids: Sequence[str],
        read: Callable[[OffsetFetchGroupReply], dict[Key, T]],
        *,
        with_origins: bool = False,
    ) -> dict[str, dict[Key, T]]:
        found: dict[str, dict[Key, T]] = {}
        for some in _slices(group_ids, GROUPS_A_REQUEST):
            rest = some
            while rest:
                wanted = tuple(OffsetFetchGroup(group_id, with_origins=with_origins) for group_id in rest)
                reply = await self._answer(OffsetFetch(wanted), OffsetFetchReply)
                found |= {group.group_id: read(group) for group in reply.groups if not group.error_code}
                rest = [group.group_id for group in reply.groups if group.error_code is _ASK_AGAIN]
        return found

    async def offsets_at(self, keys: Iterable[Key], timestamp: int) -> dict[Key, int]:
        """Return the first offset of each partition at or after the time, -1 if no record is so late. Partitions that
        are answered with an error are left out."""
        found: dict[Key, int] = {}
        for some in _slices(sorted(keys), PARTITIONS_A_REQUEST):
            topics = tuple(
                ListOffsetsTopic(name, tuple(ListOffsetsPartition(part, timestamp) for part in parts))
                for name, parts in by_topic(some).items()
            )
            reply = await self.list_offsets(topics)
            for topic in reply.topics:
                found |= {
                    (topic.name, part.partition_index): part.offset for part in topic.partitions if not part.error_code
                }
        return found

    async def list_offsets(self, topics: Sequence[ListOffsetsTopic]) -> ListOffsetsReply:
        return await self._answer(ListOffsets(tuple(topics), max_age_ms=ENDS_MAX_AGE_MS), ListOffsetsReply)

    async def refusals(self, group_ids: Sequence[str]) -> Sequence[RefusedRequest]:
        """Return the clients refused lately, in these groups or in all."""
        return (await self._answer(ListRefusals(tuple(group_ids)), ListRefusalsReply)).refusals

    async def measured(self, groups: int) -> MeasureReply:
        """Return counts by group and distributions of durations."""
        return await self._answer(Measure(groups), MeasureReply)

    async def suspects(self, since_ms: int) -> ListSuspectsReply:
        """Return the groups that may have got a problem since a wall time."""
        return await self._answer(ListSuspects(since_ms), ListSuspectsReply)

    async def first_expiry(self, group_id: str) -> int:
        """Return the wall time at which the first of the group's first thousand offsets expires; -1 if none does."""
        reply = await self._answer(DescribeExpiry(group_id), DescribeExpiryReply)
        times = [one.expires_ms for one in reply.offsets if one.expires_ms >= 0]
        return min(times, default=-1)

    async def apply_offsets(self, message: ApplyOffsets) -> ApplyOffsetsReply:
        """Change committed offsets, compared and set in one step."""
        reply = await self._answer(message, ApplyOffsetsReply)
        _refuse(reply.error_code)
        return reply

    async def hold(self, message: HoldGroup) -> int:
        """Hold a group, or release it; return the remaining time of its hold. Raises Problem if that is refused."""
        reply = await self._answer(message, HoldGroupReply)
        if reply.error_code:
            raise problem_of(reply.error_code, reply.error_message)
        return reply.left_ms

    async def leave(self, message: LeaveGroup) -> tuple[LeftMember, ...]:
        """Remove members of a group. Raises Problem if the request as a whole is refused."""
        reply = await self._answer(message, LeaveGroupReply)
        _refuse(reply.error_code)
        return reply.members

    async def check_deletion(self, group_id: str) -> None:
        """Raise Problem if the caller has no DELETE on the group: asked by a deletion of no offsets."""
        reply = await self._answer(OffsetDelete(group_id, ()), OffsetDeleteReply)
        if reply.error_code not in _PERMITTED:
            _refuse(reply.error_code)

    async def drain(self, message: DrainMembers) -> tuple[DrainedMember, ...]:
        """Ask members of a group to drain. Raises Problem if the request as a whole is refused."""
        reply = await self._answer(message, DrainMembersReply)
        _refuse(reply.error_code)
        return reply.members

    async def ends(self, keys: Iterable[Key]) -> dict[Key, PartitionEnd]:
        """Return the end offset of each partition; partitions that do not exist are left out. In front of a cluster an
        answer may be a second old."""
        return await self._offsets(keys, _LATEST)

    async def begins(self, keys: Iterable[Key]) -> dict[Key, PartitionEnd]:
        """Return the start offset of each partition, otherwise like `ends`."""
        return await self._offsets(keys, _EARLIEST)

    async def _offsets(self, keys: Iterable[Key], timestamp: int) -> dict[Key, PartitionEnd]:
        found: dict[Key, PartitionEnd] = {}
        for some in _slices(sorted(keys), PARTITIONS_A_REQUEST):
            topics = tuple(
                ListOffsetsTopic(name, tuple(ListOffsetsPartition(part, timestamp) for _, part in parts))
                for name, parts in groupby(some, key=lambda key: key[0])
            )
            reply = await self.list_offsets(topics)
            for topic in reply.topics:
                for part in topic.partitions:
                    if part.error_code not in _NO_END:
                        found[topic.name, part.partition_index] = _end(part)
        return found

    async def partition_counts(self, topics: Iterable[str]) -> Mapping[str, int]:
        """Return the number of partitions of each topic that exists."""
        return partitions_of((await self.topics(topics)).topics)

    async def topics(self, names: Iterable[str]) -> MetadataReply:
        """Return the metadata of these topics; sends no request if there are none."""
        wanted = tuple(MetadataTopic(name) for name in sorted(names))
        return await self._answer(Metadata(wanted), MetadataReply) if wanted else MetadataReply()

    async def lags(self, group: DescribedGroup) -> list[PartitionLag]:
        """Return a line for each partition of the topics that the group has commits for, is assigned, or, as a
        client-balanced group, is configured with."""
        commits = (await self.commits((group.group_id,), with_origins=False)).get(group.group_id, {})
        own = await self.balanced_group(group.group_id) if group.protocol_type in BALANCED_TYPES else None
        topics = topics_of(group, commits, () if own is None else own.topics)
        found = (await self.topics(topics)).topics
        known = KnownEnds(partitions_of(found), topic_ids=topic_ids_of(found))
        its = GroupPartitions(keys_of(topics, known.counts, commits), commits)
        await self.complete(known, (its,))
        return list(lags(group, its, known))

    async def complete(self, known: KnownEnds, groups: Collection[GroupPartitions]) -> None:
        """Request the unknown ends of these partitions, and the starts of those without a commit."""
        every = {key for its in groups for key in its.keys if key not in known.ends}
        known.ends |= dict.fromkeys(every) | await self.ends(every)
        without = {key for its in groups for key in its.keys if key not in its.commits}
        without.difference_update(known.begins)
        known.begins |= dict.fromkeys(without) | await self.begins(without)

    async def _answer(self, message: Message, kind: type[M]) -> M:
        reply = await self._ask(message)
        if isinstance(reply, ErrorReply):
            raise problem_of(reply.error_code, reply.error_message)
        assert isinstance(reply, kind), f"{type(message).__name__} was answered by {type(reply).__name__}"
        return reply


async def ends_of(queries: Queries, topic: str, indexes: Sequence[int]) -> dict[int, PartitionEnd]:
    """Return the ends of a topic's partitions as `Queries.ends` does."""
    found: dict[int, PartitionEnd] = {}
    for some in _slices(indexes, PARTITIONS_A_REQUEST):
        wanted = ListOffsetsTopic(topic, tuple([ListOffsetsPartition(index, _LATEST) for index in some]))
        for its in (await queries.list_offsets((wanted,))).topics:
            parts = [part for part in its.partitions if part.error_code not in _NO_END]
            found |= {part.partition_index: _end(part) for part in parts}
    return found


def _end(part: ListOffsetsPartitionReply) -> PartitionEnd:
    if part.error_code or part.offset < 0:
        return PartitionEnd(None)
    return PartitionEnd(part.offset, part.age_ms if part.age_ms >= 0 else None)


def partitions_of(topics: Iterable[MetadataTopicReply]) -> Mapping[str, int]:
    """Return the number of partitions of each topic, without internal topics."""
    return {
        topic.name: len(topic.partitions)
        for topic in topics
        if topic.name is not None and not topic.error_code and not topic.is_internal
    }


def _refuse(error: ErrorCode) -> None:
    if error:
        raise problem_of(error)


def _slices(items: Iterable[T], size: int) -> Iterator[list[T]]:
    rest = iter(items)
    while some := list(islice(rest, size)):
        yield some
