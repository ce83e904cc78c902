"""Nobody who sends heartbeats in time is evicted for silence, whatever the daemon was doing when they came.

In time is by the socket: a heartbeat that has arrived less than a session timeout ago over a connection that is whole,
read or not.
"""

from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

from coordinator.active_clock import STALL_MS
from coordinator.clock import Moment
from coordinator.gateway.gateway import Gateway
from coordinator.groups.classic.events import SessionOverdue
from coordinator.groups.client_balanced.events import LeaseOverdue
from coordinator.node.node import AnyNode, Node
from protocol.messages.balanced import MemberHeartbeat
from protocol.messages.groups import Heartbeat
from tests.simulation.errors import Broken
from tests.simulation.network import Link

_KEPT = 8


class Beat(NamedTuple):
    """A heartbeat on its way to the daemon. It counts for the member while the group is in this `epoch`: a generation,
    or that of a client-balanced member."""

    arrives_ms: int
    epoch: int
    link: Link


class Heartbeats:
    """Last heartbeats sent, by group and member."""

    def __init__(self) -> None:
        self._beats: dict[tuple[str, str], deque[Beat]] = {}

    def sent(self, message: Any, link: Link, now_ms: int) -> None:
        """A request has just left on the link; only heartbeats are kept."""
        if isinstance(message, Heartbeat):
            member_id, epoch = message.member_id, message.generation_id
        elif isinstance(message, MemberHeartbeat):
            member_id, epoch = message.consumer_id, message.member_epoch
        else:
            return
        beats = self._beats.setdefault((message.group_id, member_id), deque(maxlen=_KEPT))
        beats.append(Beat(now_ms + link.to_daemon.arrives_in_ms, epoch, link))

    def watch(self, watched_node: AnyNode, now_ms: Callable[[], int]) -> None:
        """Look at every session that ends."""
        node = watched_node.node if isinstance(watched_node, Gateway) else watched_node
        assert isinstance(node, Node)
        happen = node.complete

        def watched(event: Any, moment: Moment) -> None:
            if isinstance(event, SessionOverdue):
                group = node.core.find(event.group_id)[1]
                if group is not None and (member := group.members.get(event.member_id)) is not None:
                    self._ends(event.group_id, event.member_id, group.generation_id, member, moment, now_ms())
            elif isinstance(event, LeaseOverdue):
                balanced = node.core.shard_of(event.group_id).balanced.get(event.group_id)
                for one in balanced.members.values() if balanced is not None else ():
                    if one.deadline_ms <= moment.monotonic_ms:  # all whose time is over go at once
                        self._ends(event.group_id, one.consumer_id, one.epoch, one, moment, now_ms())
            happen(event, moment)

        node.complete = watched  # type: ignore[method-assign]

    def _ends(self, group_id: str, member_id: str, epoch: int, member: Any, moment: Moment, now_ms: int) -> None:
        if 0 < moment.monotonic_ms - member.deadline_ms <= STALL_MS:
            return  # a stall that ended so soon after the deadline is no stall to the daemon
        for beat in self._beats.get((group_id, member_id), ()):
            in_time = now_ms - member.session_timeout_ms < beat.arrives_ms < now_ms
            if in_time and beat.epoch == epoch and beat.link.is_whole:
                ago_ms = now_ms - beat.arrives_ms
                raise Broken(f"{group_id}: {member_id} is evicted for silence, its heartbeat came {ago_ms} ms ago")
