"""The state of a member, and the methods with which the actions of the table change it."""

import enum
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from re import Pattern
from typing import Protocol, TypedDict

import msgspec

from membership.assignors import RebalanceProtocol, common_protocol
from membership.backoff import backoff_ms
from membership.channel import CoordinatorChannel
from membership.events import Fatal, HangUp, LostPartitions, MemberEffect, NodeAddress, Revoked
from membership.nodes import Nodes
from membership.topic_partition import TopicPartition
from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.messages.groups import NO_GENERATION, JoinGroupMember, SyncGroupAssignment
from protocol.messages.topics import MetadataReply

COORDINATOR_GONE = frozenset(
    {ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NETWORK_EXCEPTION}
)
"""Errors after which a member looks up its coordinator again; NETWORK_EXCEPTION stands for a lost connection."""


class State(enum.Enum):
    UNJOINED = "unjoined"
    RELEASING = "releasing"  # the application releases its partitions, then the member joins
    JOINING = "joining"
    SYNCING = "syncing"
    STEADY = "steady"
    LEAVING = "leaving"


class Timer(enum.IntEnum):
    """Timers of a member; timers of one deadline fire in this order."""

    SESSION = 0
    POLL = 1
    HEARTBEAT = 2
    RETRY = 3  # pause before a retry: while armed, no JoinGroup is sent
    REFRESH = 4  # refresh of the leader's partition counts
    TOPICS = 5  # refresh of the list of all topics, for a pattern: while armed, it is not requested


GROUP_PROTOCOLS = ("classic", "consumer", "auto")


class MemberSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of a member, with the names and defaults of docs/spec/consumer-client.md#A1. Raises ValueError for
    invalid settings."""

    group_id: str
    group_instance_id: str | None = None
    assignors: tuple[str, ...] = ("range", "roundrobin")
    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 3_000
    max_poll_interval_ms: int = 300_000
    request_timeout_ms: int = 30_000
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 1_000
    metadata_max_age_ms: int = 300_000
    rack_id: str | None = None
    group_protocol: str = "classic"
    """"consumer": the coordinator assigns (KIP-848); "classic": the members do; "auto": the coordinator does if it
    can."""
    server_assignor: str | None = None
    """Assignor for the coordinator, if that assigns; None: its default."""
    rebalance_timeout_ms: int | None = None
    """Time that a rebalance waits for this member to rejoin; None: max.poll.interval.ms."""

    def __post_init__(self) -> None:
        if not isinstance(self.group_id, str):
            raise ValueError(f"group_id is {self.group_id!r}: a text is wanted")
        if not self.group_id:
            raise ValueError("group_id is empty: a member needs the name of its group")
        if not 0 < self.heartbeat_interval_ms < self.session_timeout_ms:
            raise ValueError(
                f"heartbeat_interval_ms is {self.heartbeat_interval_ms}, it must be above 0 and below "
                f"session_timeout_ms, which is {self.session_timeout_ms}"
            )
        if self.max_poll_interval_ms <= 0:
            raise ValueError(f"max_poll_interval_ms is {self.max_poll_interval_ms}, it must be above 0")
        if self.group_protocol not in GROUP_PROTOCOLS:
            known = ", ".join(GROUP_PROTOCOLS)
            raise ValueError(f"group_protocol is {self.group_protocol!r}, it must be one of {known}")
        if self.group_protocol == "classic" and self.server_assignor is not None:
            raise ValueError("server_assignor is of groups that the coordinator balances: set group_protocol")
        if not self.assignors:
            raise ValueError("assignors is empty: a member needs at least one way of sharing out")
        common_protocol(self.assignors)

    @property
    def join_within_ms(self) -> int:
        """Rebalance timeout of JoinGroup requests."""
        return self.max_poll_interval_ms if self.rebalance_timeout_ms is None else self.rebalance_timeout_ms

    @property
    def is_cooperative(self) -> bool:
        """True if a rebalance revokes only the partitions that move, which all assignors must support (KIP-429)."""
        return common_protocol(self.assignors) is RebalanceProtocol.COOPERATIVE


class GroupProtocol(Protocol):
    """Metadata and assignments of one protocol type, which are opaque to the coordinator."""

    @property
    def protocol_type(self) -> str: ...

    def offered(self, m: "MemberState") -> tuple[str, ...]:
        """Return the names of the assignors that the member supports, the preferred one first."""

    def encode_subscription(self, m: "MemberState", protocol: str) -> bytes:
        """Encode the metadata of a JoinGroup."""

    def topics_of(self, metadata: bytes) -> tuple[str, ...]:
        """Decode the topics of another member's subscription; none if it cannot be decoded."""

    def assign(
        self, m: "MemberState", partition_counts: Mapping[str, int], reply: MetadataReply
    ) -> Mapping[str, bytes]:
        """Assign the partitions to members, encoded. Raises CannotShareOut."""

    def encode_nothing(self) -> bytes:
        """Encode the assignment of members that `assign` leaves out."""

    def decode_assignment(self, assignment: bytes) -> tuple[TopicPartition, ...]:
        """Decode an assignment. Raises ProtocolViolation."""


def assignor_names(assignors: Iterable[str]) -> tuple[str, ...]:
    """Return the names for `MemberSettings`; a string is one name."""
    return (assignors,) if isinstance(assignors, str) else tuple(assignors)


class MemberOptions(TypedDict, total=False):
    """Settings that clients pass to `MemberSettings`."""

    group_instance_id: str | None
    group_protocol: str
    assignors: Iterable[str]
    server_assignor: str | None
    session_timeout_ms: int
    heartbeat_interval_ms: int
    max_poll_interval_ms: int
    request_timeout_ms: int
    retry_backoff_ms: int
    retry_backoff_max_ms: int
    metadata_max_age_ms: int


@dataclass(slots=True)
class PendingOperation:
    """A commit, an offset fetch or a claim under way: it waits for the coordinator, is retried, and ends by its
    deadline."""

    number: int
    deadline_ms: int
    retry_at_ms: int = field(default=0, kw_only=True)
    failures: int = field(default=0, kw_only=True)
    call: int | None = field(default=None, kw_only=True)
    error_code: ErrorCode = field(default=ErrorCode.REQUEST_TIMED_OUT, kw_only=True)

    def may_go(self, _m: "MemberState") -> bool:
        """Return true if the operation can be sent, apart from the pause before a retry."""
        return self.call is None

    def request(self, m: "MemberState") -> Message | None:
        """Return the request to send now; None if the operation has ended instead."""
        raise NotImplementedError

    def end(self, m: "MemberState", error_code: ErrorCode) -> None:
        """Report the result to the application."""
        raise NotImplementedError


class SentCall(msgspec.Struct, frozen=True):
    """A request in flight, with the member id and generation at its sending, by which late replies are recognized."""

    message: Message
    to_coordinator: bool
    generation_id: int
    member_id: str
    deadline_ms: int
    operation: int | None = None
    node: NodeAddress | None = None
    sent_ms: int = 0


@dataclass(slots=True)
class MemberState:
    """All mutable state of a member. Only the actions of `membership.core`'s table change it."""

    settings: MemberSettings
    jitter: Callable[[], float]
    topics: tuple[str, ...]
    kind: GroupProtocol
    now_ms: int = 0
    state: State = State.UNJOINED
    closed: bool = False
    member_id: str = ""
    generation_id: int = NO_GENERATION
    held: tuple[TopicPartition, ...] = ()
    """Partitions that the application holds; some may be lost without its knowledge yet."""
    releasing: tuple[TopicPartition, ...] = ()
    """Partitions that the application was told to release, and has not released yet."""
    last_assigned: tuple[TopicPartition, ...] = ()
    last_generation_id: int = NO_GENERATION
    """The newest assignment and its generation, for sticky assignors."""
    is_by_hand: bool = False
    pattern: Pattern[str] | None = None
    internal_too: bool = False
    topics_failures: int = 0
    looked_at_ms: int | None = None
    """Time at which the topics of the pattern were last refreshed; None: never for this pattern."""
    looks_first: bool = False
    """True if a join waits for a new list of topics."""
    rejoin: str = "joining for the first time"
    """Reason to join again; empty while there is none."""
    fenced: bool = False
    nodes: Nodes = field(default_factory=Nodes)
    joined_topics: tuple[str, ...] = ()
    protocol_name: str = ""
    is_leader: bool = False
    roster: tuple[JoinGroupMember, ...] = ()
    plan: tuple[SyncGroupAssignment, ...] | None = None
    """Assignments to send in SyncGroup; None until the leader has computed them."""
    watched: dict[str, int] | None = None
    """Partition counts that the leader's assignment was made for."""
    join_failures: int = 0
    sync_failures: int = 0
    heartbeat_failures: int = 0
    lease_from_ms: int | None = None
    """Send time of the newest request that restarted the session, according to its answer."""
    joining_from_ms: int | None = None
    """Send time of the first JoinGroup that may be in the next rebalance, or in one whose answer was lost."""
    timers: dict[Timer, int] = field(default_factory=dict)
    operations: dict[int, PendingOperation] = field(default_factory=dict)
    failed: deque[tuple[int, ErrorCode]] = field(default_factory=deque)
    effects: list[MemberEffect] = field(default_factory=list)
    channel: CoordinatorChannel[SentCall] = field(init=False)

    def __post_init__(self) -> None:
        self.channel = CoordinatorChannel(self.settings.group_id, self.backoff_ms)

    @property
    def coordinator(self) -> NodeAddress | None:
        return self.channel.coordinator

    # -- requests

    def call(self, message: Message, *, timeout_ms: int, anywhere: bool = False, operation: int | None = None) -> int:
        """Send a request to the coordinator, or to any node."""
        assert anywhere or self.coordinator is not None, message
        call = self.channel.send(
            SentCall(
                message,
                not anywhere,
                self.generation_id,
                self.member_id,
                self.now_ms + timeout_ms,
                operation,
                self._any_node() if anywhere else self.coordinator,
                self.now_ms,
            )
        )
        self.effects.append(call)
        return call.call

    def _any_node(self) -> NodeAddress | None:
        in_flight = Counter(sent.node for sent in self.channel.requests.values() if not sent.to_coordinator)
        return self.nodes.least_loaded(in_flight, self.jitter())

    def is_asking(self, kind: type[Message]) -> bool:
        return self.channel.is_asking(kind)

    def stop_asking(self, *kinds: type[Message]) -> None:
        """Ignore replies to requests of these types."""
        self.channel.stop_asking(*kinds)

    def forget_coordinator(self) -> None:
        """Forget the coordinator, which has moved or is lost. Its requests in flight fail; member id and generation
        stay."""
        if self.coordinator is None:
            return
        self.effects.append(HangUp(self.coordinator))
        self.failed.extend((number, ErrorCode.NETWORK_EXCEPTION) for number in self.channel.forget())

    # -- time

    def arm(self, timer: Timer, delay_ms: int) -> None:
        self.timers[timer] = self.now_ms + delay_ms

    def disarm(self, *timers: Timer) -> None:
        for timer in timers:
            self.timers.pop(timer, None)

    def backoff_ms(self, failures: int) -> int:
        settings = self.settings
        return backoff_ms(settings.retry_backoff_ms, settings.retry_backoff_max_ms, failures, self.jitter())

    def deadlines(self) -> Iterator[int]:
        yield from self.timers.values()
        yield from self.channel.deadlines()
        for operation in self.operations.values():
            yield operation.deadline_ms
            if self.coordinator is not None and operation.may_go(self):
                yield max(operation.retry_at_ms, self.now_ms)

    # -- membership

    @property
    def is_static(self) -> bool:
        return self.settings.group_instance_id is not None

    def is_current(self, sent: SentCall) -> bool:
        """Return true if the request had the present member id and generation (docs/spec/consumer-client.md#A5, "if
        current")."""
        return sent.generation_id == self.generation_id and sent.member_id == self.member_id

    def reset(self, reason: str, *, forget_id: bool) -> None:
        """End the generation for this member; `forget_id`: drop its member id too, which the coordinator does not
        know."""
        self.generation_id = NO_GENERATION
        if forget_id:
            self.member_id = ""
        self.rejoin = reason
        self.is_leader = False
        self.watched = None

    def join_again(self, reason: str, delay_ms: int = 0) -> None:
        """Send JoinGroup, at once or after a delay; held partitions are kept meanwhile (cooperative rebalances)."""
        self.state = State.JOINING
        self.rejoin = reason
        self.disarm(Timer.SESSION, Timer.HEARTBEAT, Timer.REFRESH, Timer.RETRY)
        if delay_ms:
            self.arm(Timer.RETRY, delay_ms)

    def unjoin(self) -> None:
        """Leave the group until the next poll."""
        self.state = State.UNJOINED
        self.disarm(Timer.SESSION, Timer.HEARTBEAT, Timer.REFRESH, Timer.RETRY, Timer.POLL)

    def lose(self, *, still_counts: bool = False) -> None:
        """Tell the application that its partitions are lost."""
        self.releasing = self.held
        self.effects.append(LostPartitions(self.held, self.rejoin, still_counts))

    def revoke(self, partitions: tuple[TopicPartition, ...]) -> None:
        """Tell the application to release these partitions; it may commit them before."""
        self.releasing = partitions
        self.effects.append(Revoked(partitions))

    def released(self) -> None:
        """Note that the application has released the partitions."""
        gone = set(self.releasing)
        self.held = tuple(one for one in self.held if one not in gone)
        self.releasing = ()

    def accepts(self, topic: str) -> bool:
        """Return true if the application is known to subscribe to the topic."""
        return topic in self.topics or self.matches(topic)

    def matches(self, topic: str) -> bool:
        """Return true if the topic matches the subscribed pattern."""
        if self.pattern is None or (topic.startswith("__") and not self.internal_too):
            return False
        return self.pattern.fullmatch(topic) is not None

    def fail(self, error_code: ErrorCode, reason: str) -> None:
        """Fail permanently (docs/spec/consumer-client.md#A5, "fatal"). A fenced member stays fenced, since it would
        fence its successor otherwise."""
        self.fenced = self.fenced or error_code == ErrorCode.FENCED_INSTANCE_ID
        self.effects.append(Fatal(error_code, reason))
        if self.state is not State.LEAVING:
            self.unjoin()
