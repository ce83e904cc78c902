"""A node as a member of the nodes' group: the shards that it owns, those that it follows, and the owners of the others
(docs/spec/shared-log.md#5).

`Membership` decides as for any member; its partitions are shards here. There is no application to wait for: the group
is polled at each step. Times are those of CLOCK_BOOTTIME, so that a member notices that the machine was suspended.
"""

import enum
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from coordinator.cluster_log.events import (
    FollowingWanted,
    OwnershipGiven,
    OwnershipLost,
    OwnershipRevoked,
    ShardEvent,
)
from coordinator.cluster_node.events import LeaseEnded, LeaseRenewed, LeftNodes, NodesFound, ShardChanged, ShardsToRead
from coordinator.cluster_node.nodes import NOBODY
from coordinator.gateway.cluster.nodes_protocol import NodesProtocol
from coordinator.gateway.cluster.readiness import Readiness
from coordinator.gateway.cluster.user_data import Candidate, OwnerTable
from coordinator.node.events import Event
from membership.core import Membership
from membership.events import (
    Assigned,
    Closed,
    Closing,
    Fatal,
    HangUp,
    LostPartitions,
    MemberEffect,
    MemberEvent,
    Polled,
    RejoinAsked,
    Released,
    Revoked,
    SendRequest,
    TimePassed,
)
from membership.member import MemberSettings
from membership.topic_partition import TopicPartition

_ASSIGNOR = "cooperative-sticky"
_REFUSED_PAUSE_MS = 1_000
"""Pause after a refusal, before the member tries again."""
_REQUEST_TIMEOUT_MS = 2_000
"""Silence after which another broker is asked: a coordinator that hangs must be noticed within a session."""
_NO_POLL_LIMIT_MS = 2**31 - 1
"""No limit: this module polls at each step."""


class FollowedShards(enum.Enum):
    """Choice of the other nodes' shards whose logs a node follows."""

    INHERITED = "inherited"
    ALL = "all"
    NONE = "none"


class NodesGroupSettings(NamedTuple):
    """Settings of the member. `topic` has a partition for each shard."""

    group_id: str
    topic: str
    session_ms: int
    heartbeat_ms: int
    follows: FollowedShards


class GroupStep(NamedTuple):
    """Results of an event: requests to brokers, and events for the node, each in order."""

    requests: list[SendRequest | HangUp]
    events: list[Event]


class NodesGroup:
    """The member. `problem` says for the operator why it gets no shards; empty if there is no problem."""

    def __init__(self, settings: NodesGroupSettings, me: Candidate, jitter: Callable[[], float]) -> None:
        self.problem = ""
        self.is_id_taken = False
        """True once it is certain that another living node has the id: this node will get no shards."""
        self.table: OwnerTable | None = None
        self._settings = settings
        self._me = me
        self._readiness = Readiness()
        self._protocol = NodesProtocol(settings.topic, me, self._readiness)
        self._membership = Membership(self._member_settings(settings), (settings.topic,), jitter, self._protocol)
        self._unreleased: set[int] = set()
        """Shards that the node is handing over."""
        self._followed: frozenset[int] = frozenset()
        self._unread = 0
        """Number of logs to be read that the node was told."""
        self._lease_from_ms = -1
        self._pause_until_ms = 0
        self._rival: tuple[Candidate, int] | None = None
        """The other node with this id, and when it was first seen."""
        self._is_member = self._is_leaving = False
        self._unsettled_ms = -1
        """Time of the last change of the members that this node has seen; -1 before it was a member."""

    @staticmethod
    def _member_settings(settings: NodesGroupSettings) -> MemberSettings:
        return MemberSettings(
            group_id=settings.group_id,
            assignors=(_ASSIGNOR,),
            session_timeout_ms=settings.session_ms,
            heartbeat_interval_ms=settings.heartbeat_ms,
            max_poll_interval_ms=_NO_POLL_LIMIT_MS,
            rebalance_timeout_ms=2 * settings.session_ms,
            request_timeout_ms=_REQUEST_TIMEOUT_MS,
        )

    # --- in ---

    def step(self, event: MemberEvent, now_ms: int) -> GroupStep:
        """Handle an answer or the passing of time; return the results."""
        done = GroupStep([], [])
        was_steady = self._membership.is_steady
        self._hand(event, now_ms, done)
        self._note_eviction(done)
        if self._membership.is_steady and self._readiness.judge(now_ms):
            self._hand(RejoinAsked("the node has read the logs of its shards"), now_ms, done)
        if now_ms >= self._pause_until_ms and not self._is_leaving:
            self._pause_until_ms = 0
            self._hand(Polled(), now_ms, done)
        if was_steady and not self._membership.is_steady:
            self._unsettled_ms = now_ms
        self._note_lease(done)
        self._note_unread(done)
        self._judge_rival()
        return done

    def leave(self, now_ms: int) -> GroupStep:
        """Hand all shards over, then leave."""
        self._is_leaving = True
        return self.step(Closing(), now_ms)

    def handed_over(self, shard: int, now_ms: int) -> GroupStep:
        """Note that another node may claim the shard; with the last revoked shard, the member continues its
        rebalance."""
        was_waiting = bool(self._unreleased)
        self._unreleased.discard(shard)
        return self.step(Released() if was_waiting and not self._unreleased else TimePassed(), now_ms)

    def caught_up(self, shard: int, now_ms: int) -> GroupStep:
        """Note that the node has read the shard's log to its end. Once it has read all that it owns or would be given,
        it joins again for its share."""
        self._readiness.caught_up(shard, now_ms)
        return self.step(TimePassed(), now_ms)

    @property
    def is_ready(self) -> bool:
        """True once the node may be given shards that other nodes serve."""
        return self._readiness.is_ready

    @property
    def next_deadline_ms(self) -> int | None:
        """Return when `TimePassed` is due; None if only an answer can change anything."""
        deadlines = [self._membership.next_deadline_ms, self._pause_until_ms or None]
        if self._membership.is_steady:
            deadlines.append(self._readiness.due_ms)
        return min((one for one in deadlines if one is not None), default=None)

    @property
    def is_placed(self) -> bool:
        """True while shards are assigned to this node too."""
        holder = None if self.table is None else self.table.holder(self._me.node.node_id)
        return holder is not None and holder.incarnation == self._me.incarnation

    @property
    def has_successors(self) -> bool:
        """True if other nodes are known that can take shards over."""
        return self.table is not None and len(self.table.nodes) > 1

    @property
    def member_id(self) -> str:
        """Member id in the nodes' group; empty while its coordinator has given none."""
        return self._membership.member_id

    @property
    def is_closed(self) -> bool:
        """True once the member has left."""
        return self._membership.is_closed

    # --- out ---

    def _hand(self, event: MemberEvent, now_ms: int, done: GroupStep) -> None:
        self._carry_out(self._membership.step(event, now_ms), now_ms, done)

    def _carry_out(self, effects: Iterable[MemberEffect], now_ms: int, done: GroupStep) -> None:
        for effect in effects:
            match effect:
                case SendRequest() | HangUp():
                    done.requests.append(effect)
                case Revoked(partitions=partitions) | LostPartitions(partitions=partitions, still_counts=True):
                    self._revoke(partitions, done)
                case LostPartitions(partitions=partitions):
                    self._lose(partitions, now_ms, done)
                case Assigned():
                    self._assigned(effect, now_ms, done)
                case Fatal(reason=reason):
                    self.problem = reason
                    self._pause_until_ms = now_ms + _REFUSED_PAUSE_MS
                case Closed():
                    done.events.extend((LeaseEnded(), LeftNodes()))

    def _revoke(self, partitions: tuple[TopicPartition, ...], done: GroupStep) -> None:
        self._unreleased = {one.partition for one in partitions}
        self._readiness.revoked(self._unreleased)
        done.events.extend(_all(self._unreleased, OwnershipRevoked()))

    def _lose(self, partitions: tuple[TopicPartition, ...], now_ms: int, done: GroupStep) -> None:
        """Stop at once, since other nodes may own the shards already."""
        self._unreleased.clear()
        done.events.append(LeaseEnded())
        done.events.extend(_all((one.partition for one in partitions), OwnershipLost()))
        self._hand(Released(), now_ms, done)

    def _note_eviction(self, done: GroupStep) -> None:
        """Begin anew with reading if the node is no member any more, whether it had shards or not."""
        was_member, self._is_member = self._is_member, self._membership.generation_id >= 0
        if was_member and not self._is_member and not self._is_leaving:
            self._readiness.lost()
            done.events.extend(_all(self._followed, FollowingWanted(is_wanted=False)))
            self._followed = frozenset()

    def _assigned(self, effect: Assigned, now_ms: int, done: GroupStep) -> None:
        self._note_lease(done)  # a shard is claimed only within the lease
        self.problem = ""
        table = self.table = self._protocol.table
        if table is None:
            self.problem = "the leader of the nodes' group sent no table of owners that this version can read"
            return
        self._note_rival(table, now_ms)
        nodes = tuple(one.node for one in table.nodes)
        done.events.append(NodesFound(nodes, table.owners, self._unsettled_ms))
        done.events.extend(_all((one.partition for one in effect.added), OwnershipGiven()))
        me = self._me.node.node_id
        awaited = table.awaited.get(me, ())
        self._follow(table, awaited, done)
        own = (shard for shard, owner in enumerate(table.owners) if owner == me)
        self._readiness.assigned(own, awaited, self._followed, now_ms, is_whole=NOBODY not in table.owners)

    def _follow(self, table: OwnerTable, awaited: Sequence[int], done: GroupStep) -> None:
        me = self._me.node.node_id
        others = {shard for shard, owner in enumerate(table.owners) if owner != me}
        if self._settings.follows is FollowedShards.NONE:
            wanted = frozenset[int]()
        elif self._settings.follows is FollowedShards.ALL:
            wanted = frozenset(others)
        else:
            wanted = frozenset(one for one in others if table.heirs[one] == me or one in awaited)
        done.events.extend(_all(self._followed - wanted, FollowingWanted(is_wanted=False)))
        done.events.extend(_all(wanted - self._followed, FollowingWanted(is_wanted=True)))
        self._followed = wanted

    def _note_unread(self, done: GroupStep) -> None:
        if self._readiness.unread != self._unread:
            self._unread = self._readiness.unread
            done.events.append(ShardsToRead(self._unread))

    def _note_lease(self, done: GroupStep) -> None:
        sent_ms = self._membership.lease_from_ms
        if sent_ms is not None and sent_ms > self._lease_from_ms:
            self._lease_from_ms = sent_ms
            done.events.append(LeaseRenewed(sent_ms))

    # --- another node with this one's id ---

    def _note_rival(self, table: OwnerTable, now_ms: int) -> None:
        """Check whether another node has this node's id."""
        holder = table.holder(self._me.node.node_id)
        if holder is None or self.is_placed:
            self._rival = None
        elif self._rival is None or self._rival[0].incarnation != holder.incarnation:
            self._rival = holder, now_ms

    def _judge_rival(self) -> None:
        """Report that the id is taken once the other node must be alive. A node that was killed while it joined is
        evicted within a session, which the members notice."""
        if self._rival is None or not self._membership.is_steady:
            return
        holder, since_ms = self._rival
        if self._lease_from_ms > since_ms + self._settings.session_ms:
            self.is_id_taken = True
            told = ", ".join(f"{host}:{port}" for host, port in holder.node.addresses.values())
            self.problem = (
                f"node.id {holder.node.node_id} is that of a musterd which lives ({told}): give this one another"
            )


def _all(shards: Iterable[int], event: ShardEvent) -> list[Event]:
    return [ShardChanged(shard, event) for shard in sorted(shards)]
