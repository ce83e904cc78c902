"""A consumer group and its members (docs/spec/consumer-group-protocol.md#1): data, and the bookkeeping that must never
drift.

Hard state is the content of the records; only `apply` (in `applying.py`) changes it, live and at load alike. Soft
state, of sessions and of checked topics, is lost in a crash.
"""

import enum
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec

from coordinator.config.keys import MigrationPolicy
from coordinator.groups.consumer.delayed import DelayedSession
from coordinator.groups.consumer.topics import TopicImage
from coordinator.groups.hold import Hold
from coordinator.records.consumer_records import ConsumerMemberRecord, ReconciliationState, RegexRecord
from protocol.messages.consumer_groups import JOINING, LEAVING_FOR_NOW, ConsumerGroupHeartbeatReply
from protocol.messages.groups import Origin

Assigned = Mapping[bytes, Mapping[int, int]]
"""Partitions by topic id, each with its assignment epoch: the target epoch at which the member received it."""
Target = Mapping[bytes, frozenset[int]]
"""Partitions by topic id."""
NONE_ASSIGNED: Assigned = {}
INITIAL_EPOCH = 1


class ConsumerGroupState(enum.IntEnum):
    """The five states. The value is the index of the state's cell in a row of the table."""

    EMPTY = 0
    ASSIGNING = 1
    RECONCILING = 2
    STABLE = 3
    DEAD = 4

    @property
    def title(self) -> str:
        """Kafka's name of the state."""
        return self.name.capitalize()


MAY_BECOME: dict[ConsumerGroupState, frozenset[ConsumerGroupState]] = {
    state: frozenset(ConsumerGroupState) - {state} for state in ConsumerGroupState
} | {ConsumerGroupState.DEAD: frozenset({ConsumerGroupState.DEAD})}
"""States that follow each other: with members, the epochs alone decide."""


class ConsumerGroupSettings(msgspec.Struct, frozen=True, gc=False):
    """Configuration of consumer groups (docs/spec/consumer-group-protocol.md#15)."""

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5_000
    assignment_interval_ms: int = 1_000
    max_size: int = 2_147_483_647
    assignors: tuple[str, ...] = ("uniform", "range")
    regex_refresh_interval_ms: int = 600_000
    migration_policy: MigrationPolicy = MigrationPolicy.BIDIRECTIONAL
    classic_max_size: int = 2_147_483_647
    """Members that the group may have as a classic one."""
    max_batch_bytes: int = 16_777_216
    """Bytes of a batch of records: a change of the protocol is one batch."""


class Current(NamedTuple):
    """The current assignment of a member: partitions held, partitions still to be revoked, and epochs. Immutable."""

    epoch: int
    previous_epoch: int
    state: ReconciliationState
    assigned: Assigned
    pending: Assigned

    @property
    def held(self) -> Iterable[tuple[bytes, int, int]]:
        """Partitions assigned or pending revocation, with their assignment epochs."""
        for partitions in (self.assigned, self.pending):
            for topic_id, epochs in partitions.items():
                for partition, epoch in epochs.items():
                    yield topic_id, partition, epoch


NEW = Current(JOINING, JOINING, ReconciliationState.STABLE, NONE_ASSIGNED, NONE_ASSIGNED)
"""The current assignment of a new member before it is reconciled."""


@dataclass(slots=True, eq=False)
class ConsumerMember:
    """A member. `subscription` is its last record; it may come after the one of its assignment. `session` is the
    operation that fences the member, while watched. `rejoin_until_ms` and `sync_until_ms`: time by which a classic
    member must join again, or sync; -1: it need not."""

    member_id: str
    subscription: ConsumerMemberRecord
    current: Current = NEW
    deadline_ms: int = 0
    connection: int = -1
    told_connection: int = -1
    """Connection on which it was last told its assignment; -1: none since a load."""
    joined_connection: int = -1
    """Connection of its last JoinGroup; -1: none since a load."""
    sender: Origin | None = None
    """Sender of its last request. None: no request since a load."""
    session: DelayedSession | None = None
    rejoin_until_ms: int = -1
    sync_until_ms: int = -1
    revoking: tuple[int, int] | None = None
    """Time at which it was last told to revoke partitions, or as a classic member to join again, and the target epoch
    that this was for."""
    committed_ms: int = -1
    """Time of its last commit; -1: none since a load."""
    idle_reply: ConsumerGroupHeartbeatReply | None = None
    """Reply to its last heartbeat that changed nothing."""

    @property
    def is_classic(self) -> bool:
        """True if the member uses the classic protocol."""
        return self.subscription.classic is not None

    @property
    def principal(self) -> str | None:
        """Principal of its last request; empty without a login. None: no request since a load."""
        return None if self.sender is None else self.sender.principal

    @property
    def is_away(self) -> bool:
        """True for a static member that left temporarily."""
        return self.current.epoch == LEAVING_FOR_NOW


@dataclass(slots=True, eq=False)
class Computing:
    """A computation of the target assignment that takes many steps, for the group epoch at its beginning, caused by the
    heartbeat of a member."""

    epoch: int
    member_id: str


class ResolvedRegex(NamedTuple):
    """A regular expression with the matching topics, from its last record."""

    record: RegexRecord
    topics: frozenset[str]


class DigestedTopics(NamedTuple):
    """Topics that members subscribe to, by name and by each regular expression, in a version of all topics."""

    version: int
    names: frozenset[str]
    matched: frozenset[frozenset[str]]


@dataclass(slots=True, eq=False)
class ConsumerGroup:
    """One consumer group. Only `groups/consumer` changes it."""

    group_id: str
    settings: ConsumerGroupSettings
    topics: TopicImage
    """All present topics, also those that the group does not read."""
    epoch: int = INITIAL_EPOCH
    target_epoch: int = INITIAL_EPOCH
    target_timestamp_ms: int = 0
    """Wall clock at the last computation of the target; 0: never."""
    metadata_hash: int = 0
    members: dict[str, ConsumerMember] = field(default_factory=dict)
    static_members: dict[str, str] = field(default_factory=dict)
    targets: dict[str, Target] = field(default_factory=dict)
    targeted: int = 0
    """Number of partitions in the targets."""
    shared: int = 0
    """Number of partitions in the targets when all were written last: those of members that have left since, too,
    unless all have."""
    resolved: dict[str, ResolvedRegex] = field(default_factory=dict)
    holders: dict[bytes, dict[int, str]] = field(default_factory=dict)
    """The member that has a partition assigned or pending revocation, by topic id; none: the partition is free."""
    waiting: dict[bytes, dict[int, str]] = field(default_factory=dict)
    """The member that waits for a partition, by topic id: one in the state L, with the partition in its target."""
    names: Counter[str] = field(default_factory=Counter)
    """Numbers of members that subscribe to a topic by name."""
    regexes: Counter[str] = field(default_factory=Counter)
    """Numbers of members with a regular expression."""
    assignors: Counter[str] = field(default_factory=Counter)
    """Numbers of members that request an assignor, by its name."""
    classic_members: int = 0
    offers: Counter[str] = field(default_factory=Counter)
    """Numbers of classic members that offer a client-side assignor, by its name."""
    settled: Counter[int] = field(default_factory=Counter)
    """Numbers of members in the state STABLE, by member epoch."""
    metadata_bytes: int = 0
    """Estimated size of the fields that members choose freely; the node's limits count it."""
    has_partition_metadata: bool = False
    """True if an old record of partition metadata is still to be deleted."""
    is_dead: bool = False
    must_rebalance: bool = False
    """True if the classic group that it was had a rebalance to end: the request that converts it moves the epoch."""
    topics_version: int = -1
    """Version of the topics when the metadata hash was last compared; -1: not since the load."""
    regexes_version: int = -1
    """Version of the topics when the last resolution of regular expressions began; -1: they must be resolved again."""
    regexes_resolved_ms: int = -1
    """Wall clock at the last resolution of regular expressions; -1: there was none."""
    regexes_failed_ms: int = -1
    """Wall clock when a result of regular expressions last could not be written; -1: none since the load."""
    digested: tuple[DigestedTopics, int] | None = None
    """The last metadata hash of many topics that was computed, and of which."""
    computing: Computing | None = None
    """The computation of the target assignment that is under way; at most one."""
    hold: Hold | None = None
    """The last hold, which may be over."""
    is_resolving: bool = False
    """True while regular expressions are resolved."""
    state_since_ms: int = -1
    """Wall clock when its state changed last; -1: not since the load."""
    phase: None = None
    """Phase key, always None: a consumer group has no phases."""
    counted: Any = None
    """Contribution of the group to the shard's counts."""

    @property
    def state(self) -> ConsumerGroupState:
        """Return the state, which follows from epochs and members (docs/spec/consumer-group-protocol.md#1.3)."""
        if self.is_dead:
            return ConsumerGroupState.DEAD
        if not self.members:
            return ConsumerGroupState.EMPTY
        if self.epoch > self.target_epoch:
            return ConsumerGroupState.ASSIGNING
        is_stable = self.settled[self.target_epoch] == len(self.members)
        return ConsumerGroupState.STABLE if is_stable else ConsumerGroupState.RECONCILING

    def is_reconciled(self, member: ConsumerMember) -> bool:
        """Return true if the member has reached its target assignment."""
        current = member.current
        return current.state == ReconciliationState.STABLE and current.epoch == self.target_epoch

    def awaited_by(self, member: ConsumerMember) -> Iterable[tuple[bytes, int]]:
        """Return the partitions of its target that the member waits for."""
        if member.current.state == ReconciliationState.UNRELEASED_PARTITIONS:
            for topic_id, numbers in self.targets.get(member.member_id, {}).items():
                for number in numbers - member.current.assigned.get(topic_id, {}).keys():
                    yield topic_id, number

    def topics_of(self, regex: str | None) -> frozenset[str]:
        """Return the topics that match the regular expression; an unresolved one matches nothing."""
        resolved = self.resolved.get(regex) if regex else None
        return frozenset() if resolved is None else resolved.topics

    def subscribed_by(self, member: ConsumerMember) -> tuple[str, ...]:
        """Return the topics that the member subscribes to, by name or by its regular expression."""
        line = member.subscription
        return tuple(sorted(self.topics_of(line.subscribed_topic_regex).union(line.subscribed_topic_names)))

    @property
    def subscribed(self) -> frozenset[str]:
        """Topics that a member subscribes to, by name or by a regular expression."""
        return frozenset(self.names).union(*[self.topics_of(regex) for regex in self.regexes])

    def check(self) -> None:
        """Assert the invariants between any two steps (docs/spec/consumer-group-protocol.md#1.4); tests call it after
        each."""
        members = self.members.values()
        held = [(topic_id, number) for one in members for topic_id, number, _ in one.current.held]
        assert len(held) == len(set(held)), "a partition has two holders"
        owned = {(topic_id, number) for topic_id, ones in self.holders.items() for number in ones}
        assert owned == set(held), "holders are not those of the members"
        awaited = {(one.member_id, *partition) for one in members for partition in self.awaited_by(one)}
        assert awaited == {(one, topic_id, n) for topic_id, ones in self.waiting.items() for n, one in ones.items()}
        assert self.target_epoch <= self.epoch
        assert all(one.current.epoch == LEAVING_FOR_NOW or one.current.epoch <= self.target_epoch for one in members)
        wanted = [(topic_id, number) for one in self.targets.values() for topic_id, ns in one.items() for number in ns]
        assert len(wanted) == len(set(wanted)), "a partition is in two targets"
        assert self.targets.keys() <= self.members.keys()
        assert self.targeted == len(wanted)
        lines = [one.subscription for one in members]
        names = [line.subscribed_topic_names for line in lines]
        assert all(list(ones) == sorted(set(ones)) for ones in names), "names are not in their order"
        assert self.names == Counter(name for line in lines for name in line.subscribed_topic_names)
        assert self.regexes == Counter(line.subscribed_topic_regex for line in lines if line.subscribed_topic_regex)
        assert self.assignors == Counter(line.server_assignor for line in lines if line.server_assignor)
        assert self.classic_members == sum(one.is_classic for one in members)
        classic = [line.classic for line in lines if line.classic is not None]
        assert self.offers == Counter(name for one in classic for name in dict(one.protocols))
        settled = Counter(one.current.epoch for one in members if one.current.state == ReconciliationState.STABLE)
        assert +self.settled == settled
        assert self.metadata_bytes == sum(map(bytes_of, lines))
        instances = {one.subscription.instance_id: one.member_id for one in members}
        instances.pop(None, None)
        assert self.static_members == instances
        assert self.resolved.keys() <= self.regexes.keys(), "a regular expression that nobody uses is kept"


def bytes_of(line: ConsumerMemberRecord) -> int:
    """Estimate the bytes that a group keeps for the fields that the member chooses freely."""
    protocols = line.classic.protocols if line.classic is not None else ()
    texts = (line.member_id, line.instance_id, line.rack_id, line.subscribed_topic_regex, *line.subscribed_topic_names)
    return sum([len(text) for text in texts if text]) + sum([len(metadata) for _, metadata in protocols])


def size_of(target: Target) -> int:
    """Return the number of partitions of a target."""
    return sum(map(len, target.values()))
