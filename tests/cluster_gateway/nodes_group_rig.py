"""A rig for the nodes' group: real members, a real coordinator, one clock. Nodes read logs, take over and hand over
shards at once, unless a node `drains`, or `reads_slowly`."""

from collections.abc import Iterator
from typing import Any

from msgspec.structs import replace

from coordinator.cluster_log.events import (
    FollowingWanted,
    OwnershipGiven,
    OwnershipLost,
    OwnershipRevoked,
    ShardEvent,
)
from coordinator.cluster_node.events import LeaseEnded, LeaseRenewed, LeftNodes, NodesFound, ShardChanged, ShardsToRead
from coordinator.cluster_node.nodes import NodeView
from coordinator.gateway.cluster.nodes_group import FollowedShards, GroupStep, NodesGroup, NodesGroupSettings
from coordinator.gateway.cluster.user_data import Candidate
from coordinator.node.events import Call
from membership.events import CallFailed, Replied, SendRequest, TimePassed
from protocol.messages import Message
from protocol.messages.groups import JoinGroup, JoinProtocol
from tests.node.node_rig import NodeRig

TOPIC, SHARDS = "shards", 12
SESSION_MS, BEAT_MS = 6_000, 300


class RigNode:
    """A node with only its shards. `now_ms` follows the rig's clock while it is awake."""

    def __init__(
        self, rig: "NodesGroupRig", node_id: int, incarnation: str, follows: FollowedShards, says: bytes
    ) -> None:
        self.rig = rig
        self._says = says
        self.node_id = node_id
        self.owned: set[int] = set()
        self.followed: set[int] = set()
        self.draining: set[int] = set()
        self.read: set[int] = set()
        """Shards whose state it has."""
        self.unread: set[int] = set()
        """Shards that it owns or follows, and has yet to read if it reads slowly."""
        self.drains = self.reads_slowly = self.is_cut = self.is_leaving = self.is_gone = False
        self.is_behind = False
        """True from when it is cut off until its next assignment: others may own its shards, unknown to it."""
        self.to_read: list[int] = []
        """Numbers of logs to be read that it was told, the newest last."""
        self.leases: list[int] = []
        """Times from which the lease ran, the newest last; emptied when it ends."""
        self.found: NodesFound | None = None
        self.has_left = False
        view = NodeView(node_id, {"kafka": (f"node-{node_id}", 9092)})
        settings = NodesGroupSettings("__muster_nodes", TOPIC, SESSION_MS, BEAT_MS, follows)
        self.group = NodesGroup(settings, Candidate(view, incarnation), lambda: 0.5)
        self.take(self.group.step(TimePassed(), rig.now_ms))

    def take(self, step: GroupStep) -> None:
        for event in step.events:
            match event:
                case LeaseRenewed(sent_boot_ms=sent_ms):
                    self.leases.append(sent_ms)
                case LeaseEnded():
                    self.leases.clear()
                case LeftNodes():
                    self.has_left = True
                case NodesFound():
                    self.found = event
                    self.is_behind = self.is_cut
                case ShardsToRead(count=count):
                    self.to_read.append(count)
                case ShardChanged(shard=shard, event=change):
                    self._change(shard, change)
        for request in step.requests:
            if isinstance(request, SendRequest):
                message = request.message
                if isinstance(message, JoinGroup) and self._says:
                    message = replace(message, protocols=(JoinProtocol(message.protocols[0].name, self._says),))
                self.rig.send(self, request.call, message)

    def _change(self, shard: int, change: ShardEvent) -> None:
        match change:
            case OwnershipGiven():
                self.rig.given(self, shard)
                self._read(shard)
            case OwnershipRevoked() if self.drains:
                self.draining.add(shard)
            case OwnershipRevoked():
                self.rig.later(lambda: self.hand_over(shard))
            case OwnershipLost():
                self.owned.discard(shard)
                self.draining.discard(shard)
                self.unread.discard(shard)
            case FollowingWanted(is_wanted=True):
                self.followed.add(shard)
                self._read(shard)
            case FollowingWanted():
                self.followed.remove(shard)
                if shard not in self.owned:
                    self.unread.discard(shard)

    def _read(self, shard: int) -> None:
        self.unread.add(shard)
        if not self.reads_slowly:
            self.rig.later(lambda: self.catch_up(shard))

    def catch_up(self, *shards: int) -> None:
        """Read these shards to their ends."""
        for shard in self.unread.intersection(shards):
            self.unread.remove(shard)
            self.read.add(shard)
            if not self.is_gone:
                self.take(self.group.caught_up(shard, self.rig.now_ms))

    def hand_over(self, shard: int) -> None:
        self.read.discard(shard)
        if self.group.is_ready and not self.is_leaving:
            self.rig.note_revoked(self, shard)
        self.owned.discard(shard)
        self.draining.discard(shard)
        self.take(self.group.handed_over(shard, self.rig.now_ms))

    def leave(self) -> None:
        self.is_leaving = True
        self.take(self.group.leave(self.rig.now_ms))

    def kill(self) -> None:
        self.is_gone = True
        self.owned.clear()


class NodesGroupRig:
    def __init__(self) -> None:
        self.node_rig = NodeRig()
        self.node_rig.make_topic(TOPIC, SHARDS)
        self.now_ms = self.node_rig.now_ms
        self.nodes: list[RigNode] = []
        self._calls = 1_000
        self._waiting: dict[int, tuple[RigNode, int]] = {}
        self._later: list[Any] = []
        self.checks_reads = False
        """True if nodes that are ready must have read the very shards that they are first given."""
        self.gives_at_once = False
        """True if a node is of the version that is given shards, and gives them, before they are read."""
        self._revoked: dict[int, int] = {}
        """Shards that nodes which are ready, and stay, have handed over: those must not wait for a node that reads."""

    def node(
        self,
        node_id: int,
        incarnation: str = "",
        follows: FollowedShards = FollowedShards.INHERITED,
        says: bytes = b"",
        *,
        reads_slowly: bool = False,
    ) -> RigNode:
        """Start a node. With `says` it joins with these bytes as its subscription."""
        made = RigNode(self, node_id, incarnation or f"{len(self.nodes):03}", follows, says)
        made.reads_slowly = reads_slowly
        self.nodes.append(made)
        return made

    def later(self, happen: Any) -> None:
        self._later.append(happen)

    def given(self, node: RigNode, shard: int) -> None:
        """Give the node a shard; no other node may have it, unless that one is behind."""
        holders = [one.node_id for one in self.nodes if shard in one.owned and not one.is_behind]
        assert not holders, f"shard {shard} is given to {node.node_id} and owned by {holders}"
        served_by = self._revoked.pop(shard, None)
        has_read = shard in node.read if self.checks_reads else node.group.is_ready
        takes_part = has_read or node.owned or self.gives_at_once
        assert served_by is None or takes_part, f"{node.node_id} must read shard {shard} of {served_by} first"
        node.owned.add(shard)

    def note_revoked(self, node: RigNode, shard: int) -> None:
        """Note that a node which is ready has handed the shard over, and stays."""
        self._revoked[shard] = node.node_id

    def send(self, node: RigNode, call: int, message: Message) -> None:
        self._calls += 1
        self._waiting[self._calls] = node, call
        if node.is_cut:
            return
        number = self._calls
        self.later(lambda: self.node_rig.step(Call(number, message)))

    def run(self, for_ms: int) -> None:
        """Let time pass, from deadline to deadline."""
        end_ms = self.now_ms + for_ms
        while True:
            self._settle()
            due_ms = min((one for one in self._deadlines() if one is not None), default=end_ms)
            if due_ms > end_ms:
                break
            self.now_ms = max(due_ms, self.now_ms)
            self.node_rig.wait(self.now_ms - self.node_rig.now_ms)
            for node in self._awake():
                node.take(node.group.step(TimePassed(), self.now_ms))
            self._settle()
            assert not any(due <= self.now_ms for due in self._deadlines() if due is not None), "somebody never rests"
            self.now_ms += 0 if due_ms == end_ms else 1
            if self.now_ms >= end_ms:
                break
        self.now_ms = end_ms
        self.node_rig.wait(max(end_ms - self.node_rig.now_ms, 0))
        self._settle()

    def _awake(self) -> Iterator[RigNode]:
        return (node for node in self.nodes if not node.is_gone and not node.group.is_closed)

    def _deadlines(self) -> Iterator[int | None]:
        yield self.node_rig.node.next_deadline_ms
        yield from (node.group.next_deadline_ms for node in self._awake())

    def _settle(self) -> None:
        while self._later or self._answered():
            happen, self._later = self._later, []
            for one in happen:
                one()
            for number in self._answered():
                node, call = self._waiting.pop(number)
                reply = self.node_rig.replied.pop(number)
                if not node.is_gone and not node.is_cut:
                    node.take(node.group.step(Replied(call, reply), self.now_ms))

    def _answered(self) -> list[int]:
        return [number for number in self._waiting if number in self.node_rig.replied]

    def cut(self, node: RigNode) -> None:
        """Cut a node off, in both directions."""
        node.is_cut = node.is_behind = True

    def mend(self, node: RigNode) -> None:
        node.is_cut = False
        for number, (one, call) in list(self._waiting.items()):
            if one is node:
                del self._waiting[number]
                node.take(node.group.step(CallFailed(call), self.now_ms))
