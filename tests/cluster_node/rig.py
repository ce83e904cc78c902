"""Nodes over one cluster, whose brokers answer at once or hold writes until the test releases them."""

from collections import deque
from random import Random
from typing import Any

from msgspec.structs import replace

from coordinator.clock import Moment
from coordinator.cluster_log.effects import AskProducerId, ReadLog, WriteBatch
from coordinator.cluster_log.events import (
    BatchAnswered,
    LogRead,
    OwnershipGiven,
    OwnershipLost,
    ProducerIdAnswered,
    ShardEvent,
)
from coordinator.cluster_log.settings import ClusterLogSettings
from coordinator.cluster_node.cluster_shards import Addresses, ClusterShards
from coordinator.cluster_node.effects import CaughtUp, HandedOver, PublishNews, ShardRequest
from coordinator.cluster_node.events import LeaseRenewed, NewsReceived, NodesFound, ShardChanged
from coordinator.cluster_node.nodes import News, NodeView
from coordinator.config.config import Config
from coordinator.node.effects import Effect, Flush, LogError, Return, RunJob
from coordinator.node.events import Call, Event, Flushed, JobDone, Woke
from coordinator.node.node import Node
from coordinator.runtime.shard import ShardState
from partition_log.store.log_store import LogStore
from protocol.messages import Message
from protocol.messages.topics import CreatableTopic, CreateTopics
from tests.groups.checks import CountingIds
from tests.node.node_rig import LIMITS, WALL_MS
from tests.simulation.cluster.coordinators import ProducerIds
from tests.simulation.cluster.partition import Partition
from tests.simulation.disk import SimDisk

SHARDS = 3
SETTINGS = ClusterLogSettings()
SESSION_MS = SETTINGS.session_ms
FOREVER_MS = 2**60


class Cluster:
    """Brokers, and a clock for all."""

    def __init__(self) -> None:
        self.now_ms = 1_000_000
        self.partitions = [Partition(Random(1), FOREVER_MS, FOREVER_MS) for _ in range(SHARDS)]
        self.ids = ProducerIds(32_767, FOREVER_MS)
        self.holds = False
        """True while writes are stored, but not answered."""
        self.loses = False
        """True while writes are lost."""
        self.held: deque[tuple[LogNode, int, BatchAnswered]] = deque()
        self.nodes: list[LogNode] = []
        self.told: list[News] = []
        """Everything that the nodes told each other."""

    def start(self, node_id: int, **settings: Any) -> "LogNode":
        node = LogNode(self, node_id, settings)
        self.nodes.append(node)
        return node

    def serve(self, request: AskProducerId | WriteBatch | ReadLog) -> ShardEvent:
        if isinstance(request, AskProducerId):
            given = self.ids.init(request.shard, request.producer_id, request.producer_epoch, self.now_ms)
            return ProducerIdAnswered(request.number, *given)
        partition = self.partitions[request.shard]
        if isinstance(request, ReadLog):
            error, data, end = partition.fetch(request.offset, 10**6)
            return LogRead(request.number, error, data, end)
        error, base, _ = partition.append(request.batch, self.now_ms)
        partition.replicate(self.now_ms)
        return BatchAnswered(request.number, error, base)

    def tell(self, teller: "LogNode", news: tuple[News, ...]) -> None:
        self.told.extend(news)
        for node in self.nodes:
            if node is not teller:
                node.step(NewsReceived(news))

    def answer_writes(self) -> None:
        """Answer held writes, and hold no more."""
        self.holds = False
        while self.held:
            node, shard, event = self.held.popleft()
            node.step(ShardChanged(shard, event))

    def give_all(self, node: "LogNode", unsettled_boot_ms: int = -1) -> None:
        """Give the node every shard, and tell all others."""
        owners = (node.node_id,) * SHARDS
        views = tuple(NodeView(one.node_id, {"native": (f"n{one.node_id}", 9)}) for one in self.nodes)
        for one in self.nodes:
            one.step(NodesFound(views, owners, unsettled_boot_ms))
        for shard in range(SHARDS):
            node.step(ShardChanged(shard, OwnershipGiven()))
        node.rest()


class LogNode:
    """A node. `replied` has the answers to requests by the number of their call."""

    def __init__(self, cluster: Cluster, node_id: int, settings: dict[str, Any]) -> None:
        self.node_id = node_id
        self._cluster = cluster
        self._disk = SimDisk(1)
        store = LogStore(self._disk, "data", LIMITS, cluster_id="c", node_id=node_id)
        store.open()
        self.side = ClusterShards(replace(SETTINGS, node_id=node_id), self.moment, 1 << 20)
        config = Config(
            node_id=node_id, offsets_topic_num_partitions=SHARDS, group_initial_rebalance_delay_ms=0, **settings
        )
        addresses = {"native": (f"n{node_id}", 9)}
        self.node = Node(config, store, CountingIds(), addresses, self.moment, None, self.side.make)
        self.shared: list[tuple[Addresses, Addresses]] = []
        """Addresses that it told its clients: listeners by broker, and coordinators."""
        self.side.take_part(self.node, lambda *told: self.shared.append(told))
        self.replied: dict[int, Message] = {}
        self.logged: list[str] = []
        self.handed_over: list[int] = []
        self.caught_up: list[tuple[int, int]] = []
        """Shards whose logs it told to have read, each with the records that it had applied."""
        self._calls = 0
        self.step(NewsReceived(tuple(cluster.told)))
        self.ask(CreateTopics((CreatableTopic("t", 4),)))
        self.beat()

    @property
    def moment(self) -> Moment:
        now_ms = self._cluster.now_ms
        return Moment(now_ms, WALL_MS + now_ms, now_ms)

    def beat(self) -> None:
        """Answer a heartbeat of the node, which renews its lease."""
        self.step(LeaseRenewed(self._cluster.now_ms))

    def step_down(self) -> None:
        """Let the nodes' group take every shard from the node."""
        for shard in range(SHARDS):
            self.step(ShardChanged(shard, OwnershipLost()))
        self.rest()

    def ask(self, message: Message) -> Message | None:
        """Send a request from within the process; return the reply if there is one now."""
        call = self.send(message)
        return self.replied.get(call)

    def send(self, message: Message) -> int:
        self._calls += 1
        self.step(Call(self._calls, message))
        self.rest()
        return self._calls

    def pass_ms(self, ms: int) -> None:
        """Let time pass in pieces, with heartbeats of the node."""
        for _ in range(ms // 500):
            self._cluster.now_ms += 500
            self.beat()
            self.rest()

    def rest(self) -> None:
        """Wake the node as the edge does, until its next deadline lies ahead."""
        for _ in range(10_000):
            deadline_ms = self.node.next_deadline_ms
            if deadline_ms is None or deadline_ms > self._cluster.now_ms:
                return
            self.step(Woke())
        raise AssertionError("the node never rests")

    def step(self, event: Event) -> None:
        self.step_at_once(event)

    def step_at_once(self, *events: Event) -> None:
        """Hand the node all events before any effect is carried out."""
        for effect in self.side.step_many(events, self.moment):
            self._carry_out(effect)

    def _carry_out(self, effect: Effect) -> None:
        match effect:
            case ShardRequest(request=WriteBatch()) if self._cluster.loses:
                pass
            case ShardRequest(request=request):
                answer = self._cluster.serve(request)
                if self._cluster.holds and isinstance(answer, BatchAnswered):
                    self._cluster.held.append((self, request.shard, answer))
                else:
                    self.step(ShardChanged(request.shard, answer))
            case PublishNews(news=news):
                self._cluster.tell(self, news)
            case HandedOver(shard=shard):
                self.handed_over.append(shard)
            case CaughtUp(shard=shard):
                self.caught_up.append((shard, self.node.core.shards[shard].loaded_records))
            case LogError(sentence=sentence):
                self.logged.append(sentence)
            case Return(call_id=call, reply=reply):
                self.replied[call] = reply
            case Flush(job=job):
                job.run(self._disk)
                self.step(Flushed(job.up_to))
            case RunJob(call_id=call, job=job):
                job.run(self._disk)
                self.step(JobDone(call, job))

    @property
    def states(self) -> set[ShardState]:
        return {shard.state for shard in self.node.core.shards}
