"""Parts of a node that handlers use."""

from dataclasses import dataclass, field
from typing import Any

from sortedcontainers import SortedDict

from coordinator.clock import Moment
from coordinator.config.config import Config
from coordinator.groups.classic.events import Client
from coordinator.groups.classic.state import Group
from coordinator.groups.classic.subscriptions import SubscriptionCache
from coordinator.handlers.budget import Budget
from coordinator.placement import Placement
from coordinator.runtime.group_configs import GroupConfigs
from coordinator.runtime.journal import Journal
from coordinator.runtime.loader import Loadings
from coordinator.runtime.outbox import Outbox
from coordinator.runtime.shard import Shard
from coordinator.runtime.slices import SlicedRequests
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
from protocol.session import Session
from purgatory.purgatory import DelayedOperationPurgatory

INTERNAL = -1
"""The connection of a request that came from inside the process: its number is the id of the call."""


@dataclass(slots=True)
class Connection:
    """One client. `out` gathers the bytes to send in this step; while `is_paused` nothing of it is read. `broker`: the
    connection is on the listener of the broker with this id."""

    number: int
    dialect: str
    peer_host: str
    session: Session
    broker: int | None = None
    out: list[bytes] = field(default_factory=list)
    is_paused: bool = False
    is_heavy: bool = False
    """True if its last request cost more than a step: the next waits for its turn."""
    is_guarded: bool = False
    """True if its heartbeats need the permission of its broker, too."""
    has_ended: bool = False
    """True if the client has shut down its sending side: the connection closes when all requests are answered."""


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
    directory: SortedDict[str, tuple[Shard, Group]]
    """Every group of the node, by id."""
    producer_ids: ProducerIdSource
    group_configs: GroupConfigs
    retention: Retention
    cleaner: Cleaner
    own_logs: tuple[PartitionLog, ...]
    """Compacted lists of the node: of topics, of groups' settings."""
    loads: Loadings
    expiry: Expiry
    subscriptions: SubscriptionCache
    deletions: Deletions = field(default_factory=Deletions)
    waiting_produces: ProduceQueue = field(default_factory=ProduceQueue)
    slices: SlicedRequests = field(default_factory=SlicedRequests)
    connections: dict[int, Connection] = field(default_factory=dict)
    counters: dict[str, int] = field(default_factory=dict)
    gauges: dict[str, int] = field(default_factory=dict)
    """Gauges reported by the edge, by the name of the metric."""
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
        found = self.directory.get(group_id)
        return found if found is not None else (self.shard_of(group_id), None)

    def client(self, connection: int) -> Client:
        """Return the client at the other end of the connection."""
        known = self.connections.get(connection)
        if known is None:
            return Client("", "/")
        return Client(known.session.client_id, f"/{known.peer_host}")

    def dialect(self, connection: int) -> str:
        """Return the dialect of the connection; requests from inside the process get native addresses."""
        known = self.connections.get(connection)
        return "native" if known is None else known.dialect

    def count_groups(self) -> int:
        """Number of groups of all shards."""
        return len(self.directory)
