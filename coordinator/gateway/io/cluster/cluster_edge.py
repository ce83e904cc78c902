"""EDGE: everything between a node whose shards are in the cluster's log and that cluster: topics, requests of shards,
and the nodes' group."""

import asyncio
import contextlib
import random
import ssl
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import structlog

from coordinator.cluster_log.events import ShardEvent
from coordinator.cluster_log.settings import OFFSETS_LOG_TOPIC, ClusterLogSettings
from coordinator.cluster_node.effects import CaughtUp, HandedOver, PublishNews, ShardRequest
from coordinator.cluster_node.events import LogProblems, NewsReceived, NodesFound, ShardChanged
from coordinator.cluster_node.nodes import NodeView, Taken
from coordinator.config.config import ConfigError
from coordinator.gateway.cluster.nodes_group import FollowedShards, NodesGroup, NodesGroupSettings
from coordinator.gateway.cluster.user_data import Candidate
from coordinator.gateway.io.broker_client import RequestFailed
from coordinator.gateway.io.cluster.link import ClusterLink
from coordinator.gateway.io.cluster.log_requests import LogRequests
from coordinator.gateway.io.cluster.member import NodesMember
from coordinator.gateway.io.cluster.notes_topic import NotesTopic
from coordinator.gateway.io.cluster.peers import Peers
from coordinator.gateway.io.cluster.predecessor import Predecessor
from coordinator.gateway.io.cluster.preparation import Preparation
from coordinator.gateway.io.tasks import Tasks
from coordinator.node.effects import Effect
from coordinator.node.events import Event

log = structlog.get_logger()

_RETRY_S = 1.0
_NOTES_WITHIN_S, _NOTES_TOLD_WITHIN_S = 10.0, 1.0
"""Time for reading all notes at a start, and for writing the last ones at the end."""
_TAKEN_WITHIN_S = 1.0
"""Time for which a node that has left waits for the next owners of its shards, at most."""
_REDIRECTS_S = 1.0
"""Time for which it then answers its clients: one that was refused asks again after 0.1 to 0.3 s, often here, and waits
twice as long if it is refused a connection (franz-go)."""


class NodeServer(Protocol):
    """Server of the node: source of effects and target of events."""

    def carry_out(self, kind: type[Effect], how: Callable[[Any], None]) -> None: ...
    def happen(self, event: Event) -> None: ...


class ClusterPlan(NamedTuple):
    """Configuration of the edge. `copies`: replicas of topics that it makes."""

    node_id: int
    shards: int
    copies: int
    group_id: str
    heartbeat_ms: int
    follows: FollowedShards
    settings: ClusterLogSettings
    leaves_within_s: float = 10.0
    """Time for which a node that hands over its shards waits for brokers that do not answer."""
    notes_bytes: int = 32 << 20
    """Size of the topic of notes."""
    peers_tls: Callable[[], ssl.SSLContext] | None = None
    """Makes the context of a connection to another node's HTTP listener; None: plaintext."""
    folder: Path | None = None
    """Data folder, which the node has locked; None: the next process knows nothing of this one."""


class ClusterEdge:
    """One node's part in the cluster's log."""

    def __init__(self, server: NodeServer, plan: ClusterPlan, link: ClusterLink) -> None:
        self._server = server
        self._plan = plan
        self._link = link
        self._requests = LogRequests(link, OFFSETS_LOG_TOPIC, self._answer)
        self._incarnation = f"{time.time_ns():020}-{random.getrandbits(32):08x}"
        self._notes = NotesTopic(link, self._incarnation, self._on_news)
        self._peers = Peers(plan.node_id, plan.peers_tls, server.happen)
        self._predecessor = None if plan.folder is None else Predecessor(plan.folder, plan.group_id)
        self._tasks = Tasks("ClusterEdge")
        self._member: NodesMember | None = None
        self._has_left = False
        self._untaken: set[int] = set()
        """Shards that this node has handed over, and that no other node is known to serve."""
        self._all_taken = asyncio.Event()
        self._log_id = ""
        self._problems: tuple[str, ...] | None = None
        self._told: tuple[str, ...] | None = None
        self._shared_out: tuple[list[int], int] | None = None
        """Nodes of the last assignment, and the number of this one's shards."""
        server.carry_out(ShardRequest, self._send)
        server.carry_out(HandedOver, self._handed_over)
        server.carry_out(CaughtUp, self._caught_up)
        server.carry_out(PublishNews, self._notes.publish)

    # --- the start ---

    async def prepare(self) -> None:
        """Create and check the topics, and test that the brokers fence; wait for a cluster that cannot be reached.
        Raises ConfigError."""
        plan, why = self._plan, ""
        preparation = Preparation(self._link, plan.shards, plan.copies, plan.node_id, plan.settings, plan.notes_bytes)
        while self._problems is None:
            try:
                self._problems = await preparation.run()
                self._log_id = preparation.log_id
            except RequestFailed as failed:
                if str(failed) != why:
                    why = str(failed)
                    log.warning("the log of the cluster cannot be prepared yet: no group is served", why=why)
                await asyncio.sleep(_RETRY_S)
        for problem in self._problems:
            log.warning("the log of the cluster is not safe", why=problem)

    async def start(self, node: NodeView) -> None:
        """Join the nodes' group, and return once the shards' owners are known. The node must be running. Raises
        ConfigError."""
        await self.prepare()
        if self._predecessor is not None:
            await self._predecessor.evict(self._link)
        await self._notes.start(_NOTES_WITHIN_S, self._log_id)
        plan = self._plan
        settings = NodesGroupSettings(
            plan.group_id, OFFSETS_LOG_TOPIC, plan.settings.session_ms, plan.heartbeat_ms, plan.follows
        )
        group = NodesGroup(settings, Candidate(node, self._incarnation), random.random)
        member = self._member = NodesMember(group, self._link, self._on_member_event, self._on_member_id)
        member.start()
        while not group.is_placed:
            if refusal := group.problem:
                await self.leave()  # a later rebalance of the others would wait for this member's session to end
                raise ConfigError(refusal)
            await member.changed.wait()
            member.changed.clear()
        self._tasks.start(self._watch(member))

    async def _watch(self, member: NodesMember) -> None:
        """Report each change of the member's problem to the node."""
        while True:
            problem = member.group.problem
            if problem and (self._told is None or problem not in self._told):
                log.error("this node is given no shards", why=problem)
            problems = (*(self._problems or ()), *((problem,) if problem else ()))
            if problems != self._told:
                self._told = problems
                self._server.happen(LogProblems(problems))
            await member.changed.wait()
            member.changed.clear()

    def _on_member_event(self, event: Event) -> None:
        self._server.happen(event)
        if isinstance(event, NodesFound):
            self._peers.found(event.nodes)
            nodes, shards = sorted(node.node_id for node in event.nodes), event.owners.count(self._plan.node_id)
            if (nodes, shards) != self._shared_out:
                self._shared_out = nodes, shards
                log.info("the nodes have shared out the shards", nodes=nodes, shards=shards, of=len(event.owners))

    def _on_member_id(self, member_id: str) -> None:
        if self._predecessor is not None:
            self._predecessor.record(member_id)

    # --- the end ---

    async def leave(self) -> None:
        """Hand all shards over, while the node still serves, and leave the nodes' group; once. Return some time after
        other nodes serve the shards, so that clients of this one are told by which and find nobody gone."""
        await self._tasks.stop()
        if self._member is not None and not self._has_left:
            self._has_left = True
            was_placed = self._member.group.is_placed
            await self._member.leave(self._plan.leaves_within_s)
            await self._notes.drain(_NOTES_TOLD_WITHIN_S)
            if was_placed and self._member.group.has_successors:
                if self._untaken:
                    with contextlib.suppress(TimeoutError):
                        await asyncio.wait_for(self._all_taken.wait(), _TAKEN_WITHIN_S)
                await asyncio.sleep(_REDIRECTS_S)

    async def stop(self) -> None:
        """Leave, and close the connections."""
        await self.leave()
        if self._member is not None:
            await self._member.stop()
        await self._peers.stop()
        await self._requests.stop()
        await self._notes.stop()
        await self._link.stop()

    # --- the node's effects ---

    def _send(self, effect: ShardRequest) -> None:
        self._requests.send(effect.request)

    def _answer(self, shard: int, event: ShardEvent) -> None:
        self._server.happen(ShardChanged(shard, event))

    def _on_news(self, event: NewsReceived) -> None:
        self._server.happen(event)
        self._untaken -= {news.shard for news in event.news if isinstance(news, Taken)}
        if not self._untaken:
            self._all_taken.set()

    def _handed_over(self, effect: HandedOver) -> None:
        self._untaken.add(effect.shard)
        self._all_taken.clear()
        if self._member is not None:
            self._member.handed_over(effect.shard)

    def _caught_up(self, effect: CaughtUp) -> None:
        if self._member is not None:
            self._member.caught_up(effect.shard)
