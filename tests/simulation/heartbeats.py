"""No member that sends heartbeats in time is evicted for a missed session, whatever the daemon was doing when they
arrived.

In time is by the socket: a heartbeat that has arrived less than a session timeout ago, or since the daemon's last step,
over a connection that is whole. Clients send no other one before it is answered. One exception: on a new
connection it waits behind a request, or for its own permission at a broker, or was refused because no broker said what
its client may do; and nothing that was served there names the member yet.
"""

from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

from coordinator.active_clock import STALL_MS
from coordinator.clock import Moment
from coordinator.gateway.gateway import Gateway
from coordinator.gateway.session.session import ProxySession
from coordinator.groups.classic.events import SessionOverdue
from coordinator.groups.client_balanced.events import LeaseOverdue
from coordinator.node.node import AnyNode, Node
from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.messages.balanced import MemberHeartbeat
from protocol.messages.groups import Heartbeat
from protocol.messages.node import ErrorReply
from protocol.session import RequestRef
from tests.simulation.errors import Broken
from tests.simulation.network import Link

_KEPT = 8


class Beat(NamedTuple):
    """A heartbeat on its way to the daemon. It counts for the member while the group is in this `epoch`: a generation,
    or that of a client-balanced member."""

    arrives_ms: int
    epoch: int
    link: Link


class EndedSession(NamedTuple):
    """A session that ended `late_ms` after its deadline. `names`: the group and the member."""

    names: tuple[str, str]
    epoch: int
    timeout_ms: int
    late_ms: int
    connection: int


class Heartbeats:
    """Last heartbeats sent, by group and member."""

    def __init__(self) -> None:
        self._beats: dict[tuple[str, str], deque[Beat]] = {}
        self._refused_ms: dict[int, int] = {}
        """Time at which a connection's last heartbeat without a known permission was refused."""
        self._stepped_ms = 0
        """End of the step before this one: a heartbeat that arrived since cannot have been read."""

    def sent(self, message: Any, link: Link, now_ms: int) -> None:
        """Note a request just sent on the link; only heartbeats are kept, without those that wait for a login."""
        if link.to_daemon.waits:
            return
        if isinstance(message, Heartbeat):
            member_id, epoch = message.member_id, message.generation_id
        elif isinstance(message, MemberHeartbeat):
            member_id, epoch = message.consumer_id, message.member_epoch
        else:
            return
        beats = self._beats.setdefault((message.group_id, member_id), deque(maxlen=_KEPT))
        beats.append(Beat(now_ms + link.to_daemon.arrives_in_ms, epoch, link))

    def watch(self, watched_node: AnyNode, now_ms: Callable[[], int]) -> None:
        """Check every session that ends."""
        node = watched_node.node if isinstance(watched_node, Gateway) else watched_node
        assert isinstance(node, Node)
        if node is not watched_node:
            self._watch_refusals(node, now_ms)
        silence = node.completions[SessionOverdue]

        def session_overdue(event: SessionOverdue, moment: Moment) -> None:
            known = node.core.find(event.group_id)[1]
            group = None if known is None else known.classic
            if group is not None and (member := group.members.get(event.member_id)) is not None:
                session = EndedSession(
                    (event.group_id, event.member_id),
                    group.generation_id,
                    member.session_timeout_ms,
                    moment.monotonic_ms - member.deadline_ms,
                    member.connection,
                )
                silence(event, moment)
                if group.members.get(event.member_id) is not member:
                    self._ends(node, session, now_ms())

        def lease_overdue(event: LeaseOverdue, moment: Moment) -> None:
            known = node.core.find(event.group_id)[1]
            balanced = None if known is None else known.balanced
            for one in balanced.members.values() if balanced is not None else ():
                late_ms = moment.monotonic_ms - one.deadline_ms
                if late_ms >= 0:  # all whose time is over go at once
                    names = event.group_id, one.consumer_id
                    session = EndedSession(names, one.epoch, one.session_timeout_ms, late_ms, one.connection)
                    self._ends(node, session, now_ms())
            del node.completions[LeaseOverdue]  # the node's own way
            node.complete(event, moment)
            node.completions[LeaseOverdue] = lease_overdue

        assert LeaseOverdue not in node.completions
        node.completions |= {SessionOverdue: session_overdue, LeaseOverdue: lease_overdue}

    def _watch_refusals(self, node: Node, now_ms: Callable[[], int]) -> None:
        """Note heartbeats that are refused because their permission is not known: the client must send another."""
        rewrite = node.serving.rewrite
        assert rewrite is not None

        def rewritten(ref: RequestRef, reply: Message, moment: Moment) -> Message | None:
            sent = rewrite(ref, reply, moment)
            is_refused = isinstance(sent, ErrorReply) and sent.error_code is ErrorCode.COORDINATOR_NOT_AVAILABLE
            if ref.kind is Heartbeat and is_refused:
                self._refused_ms[ref.connection] = now_ms()
            return sent

        node.serving.rewrite = rewritten

    def stepped(self, now_ms: int) -> None:
        """Note the end of a step."""
        self._stepped_ms = now_ms

    def _ends(self, node: Node, session: EndedSession, now_ms: int) -> None:
        if 0 < session.late_ms <= STALL_MS:
            return  # a stall that ended so soon after the deadline is no stall to the daemon
        for beat in self._beats.get(session.names, ()):
            oldest_ms = min(now_ms - session.timeout_ms, self._stepped_ms)
            if (
                oldest_ms < beat.arrives_ms < now_ms
                and beat.epoch == session.epoch
                and beat.link.is_whole
                and not self._does_not_count(node, beat, session)
            ):
                group_id, member_id = session.names
                ago_ms = now_ms - beat.arrives_ms
                raise Broken(f"{group_id}: {member_id} is evicted for silence, its heartbeat came {ago_ms} ms ago")

    def _does_not_count(self, node: Node, beat: Beat, session: EndedSession) -> bool:
        number = beat.link.number
        connection = node.core.connections.get(number)
        if connection is None or session.connection == number:
            return False
        is_judged = isinstance(connection.session, ProxySession) and connection.is_guarded
        waits_for_permission = is_judged and connection.session.unanswered > 0
        was_refused = is_judged and beat.arrives_ms <= self._refused_ms.get(number, -1)
        return waits_for_permission or was_refused or connection.session.has_waiting_request
