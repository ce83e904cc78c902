"""Parts of a node that handlers use."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from sortedcontainers import SortedDict

from coordinator.accounts.accounts import Accounts
from coordinator.accounts.audit import AuditTrail
from coordinator.accounts.authorizer import Decisions
from coordinator.accounts.oauth import TokenVerifier
from coordinator.clock import Moment
from coordinator.config.config import Config
from coordinator.config.principals import ANONYMOUS
from coordinator.core.budget import Budget
from coordinator.core.closed_connections import ClosedConnections
from coordinator.core.member_reports import MemberReports
from coordinator.core.timings import Timings
from coordinator.groups.classic.events import Client
from coordinator.groups.classic.subscriptions import SubscriptionCache
from coordinator.groups.consumer.events import TopicFilter
from coordinator.groups.outcome import IdSource
from coordinator.placement import Placement
from coordinator.runtime.group import Group
from coordinator.runtime.group_configs import GroupConfigs
from coordinator.runtime.journal import Journal
from coordinator.runtime.kinds.commit_plan import CommitPlan
from coordinator.runtime.loader import Loadings
from coordinator.runtime.offset_and_metadata import Committer
from coordinator.runtime.outbox import Outbox
from coordinator.runtime.refusals import RefusedRequests
from coordinator.runtime.shard import Shard
from coordinator.runtime.slices import SlicedRequests
from coordinator.tasks.balancing import BalancingPass
from coordinator.tasks.end_sampling import EndSampling
from coordinator.tasks.expiration import Expiry
from coordinator.tasks.retention import Retention
from coordinator.tasks.scheduled_task import ScheduledTask
from coordinator.tasks.topic_deletion import Deletions
from coordinator.topics.embedded import EmbeddedTopics
from coordinator.topics.fetch import WaitingFetches
from coordinator.topics.produce import ProducerIdSource
from coordinator.topics.produce_queue import ProduceQueue
from coordinator.topics.topics import Topics
from partition_log.compaction.cleaner import Cleaner
from partition_log.log.partition_log import PartitionLog
from partition_log.store.log_store import LogStore
from protocol.messages.consumer_groups import ConsumerGroupHeartbeat
from protocol.messages.groups import Heartbeat
from protocol.messages.offsets import OffsetCommit, TxnOffsetCommit
from protocol.session import RequestRef, Session
from purgatory.purgatory import DelayedOperationPurgatory

INTERNAL = -1
"""The connection of a request that came from inside the process: its number is the id of the call."""
HTTP = "http"
"""Dialect of connections from inside the process that stand for logins over HTTP; they speak the native protocol."""
NEVER_MS = 2**62
"""End of a login that does not expire."""


class HttpCaller(NamedTuple):
    """Sender of a request over HTTP: its principal, empty without a login, its certificate, empty without one, and the
    decisions on it."""

    principal: str
    host: str
    certificate: str
    access: Decisions


@dataclass(slots=True)
class Connection:
    """One client. `out` gathers the bytes to send in this step, None before the first; while `is_paused` nothing of it
    is read. `broker`: the connection is on the listener of the broker with this id."""

    number: int
    dialect: str
    peer_host: str
    session: Session
    broker: int | None = None
    peer_port: int = -1
    committer: Committer | None = None
    """Sender of its last commit."""
    commit_plan: CommitPlan | None = None
    """Reply and records of commits like its last one."""
    client: Client | None = None
    """The client as its members keep it, made when a request needs it; a login makes it None again."""
    out: list[bytes] | None = None
    is_paused: bool = False
    is_heavy: bool = False
    """True if its last request cost more than a step: the next waits for its turn."""
    is_guarded: bool = False
    """True if its heartbeats need a permission, of this node or of its broker."""
    principal: str = ANONYMOUS
    certificate: str = ""
    """Subject and serial number of the certificate that it showed."""
    access: Decisions | None = None
    """Decisions on its principal; None where nobody is held to access rules."""
    permitted: tuple[Heartbeat | ConsumerGroupHeartbeat, int] | None = None
    """Last heartbeat that was permitted, and the epoch of the decisions by which it was."""
    session_ends_ms: int = NEVER_MS
    """Time at which its login expires."""
    throttled_until_ms: int = 0
    """Time until which nothing is read and served, since it used more than its limits; 0: it did not."""
    has_ended: bool = False
    """True if the client has shut down its sending side: the connection closes when all requests are answered."""

    def say(self, data: bytes) -> None:
        """Send the bytes in this step."""
        if self.out is None:
            self.out = [data]
        else:
            self.out.append(data)

    @property
    def shown_principal(self) -> str:
        """Principal in notes; empty without a login."""
        return "" if self.principal == ANONYMOUS else self.principal

    def present_client(self) -> Client:
        """Return the client as it names itself now: the same object while nothing changes."""
        client, session = self.client, self.session
        if client is None or client.client_id != session.client_id or client.software != session.client_software:
            listener = self.dialect if self.broker is None else f"{self.dialect} of broker {self.broker}"
            host, port = f"/{self.peer_host}", self.peer_port
            software, principal = session.client_software, self.shown_principal
            client = Client(session.client_id, host, port, listener, software, principal, self.certificate)
            self.client = client
        return client

    def may_heartbeat(self, message: Heartbeat | ConsumerGroupHeartbeat, now_ms: int) -> bool:
        """Return whether this heartbeat was permitted before, and nothing has changed since. Sessions hand out the same
        object for the same bytes."""
        access = self.access
        return (
            self.permitted is not None
            and message is self.permitted[0]
            and access is not None
            and access.epoch == self.permitted[1]
            and now_ms < self.session_ends_ms
        )

    def permit(self, message: Heartbeat | ConsumerGroupHeartbeat) -> None:
        """Remember that the heartbeat is permitted."""
        if self.access is not None:
            self.permitted = message, self.access.epoch


@dataclass(slots=True)
class Core:
    """State shared by all requests of a node."""

    config: Config
    placement: Placement
    store: LogStore
    topics: Topics
    embedded: EmbeddedTopics
    """Topics whose records this node has: `topics` itself, or none that clients see, behind a gateway."""
    purgatory: DelayedOperationPurgatory[Any]
    journal: Journal
    outbox: Outbox
    shards: list[Shard]
    cluster_id: str
    started: Moment
    directory: SortedDict[str, Group]
    """Every group of the node, by id."""
    ids: IdSource
    producer_ids: ProducerIdSource
    group_configs: GroupConfigs
    retention: Retention
    end_sampling: EndSampling
    cleaner: Cleaner
    own_logs: tuple[PartitionLog, ...]
    """Compacted lists of the node: of topics, of groups' settings, of accounts."""
    accounts: Accounts
    anonymous: Decisions
    """Decisions on requests from inside the process for which nobody logged in."""
    loads: Loadings
    expiry: Expiry
    subscriptions: SubscriptionCache
    tokens: TokenVerifier | None = None
    """Check of tokens of an identity provider; None if they are no login."""
    audit: AuditTrail = field(default_factory=AuditTrail)
    balancing: BalancingPass = field(default_factory=BalancingPass)
    deletions: Deletions = field(default_factory=Deletions)
    waiting_produces: ProduceQueue = field(default_factory=ProduceQueue)
    slices: SlicedRequests = field(default_factory=SlicedRequests)
    connections: dict[int, Connection] = field(default_factory=dict)
    callers: dict[int, HttpCaller] = field(default_factory=dict)
    """Senders of requests over HTTP that logged in or showed a certificate, by the id of the call."""
    refusals: RefusedRequests = field(default_factory=RefusedRequests)
    reports: MemberReports = field(default_factory=MemberReports)
    timings: Timings = field(default_factory=Timings)
    closed: ClosedConnections = field(default_factory=ClosedConnections)
    counters: dict[str, int] = field(default_factory=dict)
    gauges: dict[str, int] = field(default_factory=dict)
    """Gauges reported by the edge, by the name of the metric."""
    log_problems: tuple[str, ...] = ()
    """Sentences on what is unsafe about the log of groups and offsets, where that is a cluster's."""
    topics_seen: Callable[[int], TopicFilter | None] | None = None
    """Returns a check of the topics that the client of a connection may describe, where others than this node decide.
    """
    fetches: WaitingFetches = field(default_factory=WaitingFetches)
    budget: Budget = field(default_factory=Budget)
    """Remainder of the present step's budget."""
    unsent_bytes: int = 0
    """Size of replies that clients have not taken: the edge's last count, and the bytes read since."""

    def count(self, name: str, by: int = 1) -> None:
        """Add to a counter; its name is that of the metric."""
        self.counters[name] = self.counters.get(name, 0) + by

    def schedule(self, task: str, at_ms: int) -> None:
        """Schedule the task's next slice at this time, in place of an earlier schedule."""
        self.purgatory.try_complete_else_watch(ScheduledTask(task, at_ms))

    def shard_of(self, group_id: str) -> Shard:
        """Return the shard the group's id hashes to, wherever it is served."""
        return self.shards[self.placement.shard_of(group_id)]

    def find(self, group_id: str) -> tuple[Shard, Group | None]:
        """Return the group's shard, and the group if it exists."""
        group = self.directory.get(group_id)
        return (self.shard_of(group_id), None) if group is None else (group.shard, group)

    def client(self, connection: int) -> Client:
        """Return the client at the other end of the connection."""
        known = self.connections.get(connection)
        return Client("", "/") if known is None else known.present_client()

    def sender(self, ref: RequestRef) -> Client:
        """Return the client that sent the request; over HTTP, who logged in or showed a certificate."""
        if ref.connection != INTERNAL:
            return self.client(ref.connection)
        caller = self.callers.get(ref.number)
        if caller is None:
            return Client("", "/")
        return Client(
            "http",
            f"/{caller.host}",
            listener="http",
            principal=caller.principal,
            certificate=caller.certificate,
        )

    def committer(self, connection: int, message: OffsetCommit | TxnOffsetCommit) -> Committer:
        """Return the sender of a commit: the same object for all commits of a member in a generation."""
        member_id, generation_id = message.member_id, message.generation_id
        found = self.connections.get(connection)
        if found is None:
            return Committer(member_id, generation_id, self.client(connection))
        client, known = found.present_client(), found.committer
        if (
            known is None
            or known.client is not client
            or known.generation_id != generation_id
            or known.member_id != member_id
        ):
            known = found.committer = Committer(member_id, generation_id, client)
        return known

    def access_of(self, ref: RequestRef) -> Decisions:
        """Return the decisions on the sender of the request."""
        if ref.connection == INTERNAL:
            caller = self.callers.get(ref.number)
            return self.anonymous if caller is None else caller.access
        known = self.connections.get(ref.connection)
        return self.anonymous if known is None or known.access is None else known.access

    def dialect(self, connection: int) -> str:
        """Return the dialect of the connection; requests from inside the process get native addresses."""
        known = self.connections.get(connection)
        return "native" if known is None else known.dialect

    def own_shards(self) -> list[Shard]:
        """Return the shards that this node serves."""
        return [shard for shard in self.shards if self.placement.is_mine(shard.index)]

    def count_groups(self) -> int:
        """Number of groups of all shards."""
        return len(self.directory)
