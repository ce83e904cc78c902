"""The connections of a node that stands in front of brokers: bytes to and from both sides, and the guard of groups."""

from coordinator.clock import Moment
from coordinator.gateway.authorization import Authorization
from coordinator.gateway.authorized_parts import GUARDED
from coordinator.gateway.broker_timeout import BrokerTimeouts
from coordinator.gateway.brokers import Brokers
from coordinator.gateway.cluster_topics import UpstreamTopics
from coordinator.gateway.effects import Forward, Splice
from coordinator.gateway.events import Forwarded, Spliced, UpstreamLost
from coordinator.gateway.session.session import ProxySession
from coordinator.handlers.core import Connection, Core
from coordinator.handlers.table import Handler
from coordinator.node.effects import Send
from coordinator.node.events import Opened
from coordinator.node.node import Node
from protocol.errors import ProtocolViolation
from protocol.messages import Message
from protocol.messages.groups import ListGroupsReply
from protocol.session import RequestRef, Session


class NodeInFront(Node):
    """See `Node`."""

    brokers: Brokers
    topics: UpstreamTopics
    silence: BrokerTimeouts

    def _begin_guarding(self, timeout_ms: int) -> None:
        """Set the guard up behind the routes; it sees nothing before the cluster has an authorizer."""
        self._guard = Authorization(self.core, timeout_ms, self._serve_permitted)
        self._unguarded = self._routes
        self._guarded: dict[type[Message], Handler] = dict.fromkeys(GUARDED, self._when_permitted)
        self._guarded = {**self._routes, **self._guarded}
        self._is_guarding = False
        self._handlers.update(
            {Forwarded: self._forwarded, UpstreamLost: self._forwarded, Spliced: self._passed},
        )

    def _guard_or_not(self, *, has_authorizer: bool) -> None:
        """The cluster can be asked."""
        self._guard.is_away = False
        if has_authorizer != self._is_guarding:
            self._is_guarding = has_authorizer
            self._routes = self._guarded if has_authorizer else self._unguarded

    def _when_permitted(self, core: Core, ref: RequestRef, message: Message, moment: Moment) -> None:
        """Serve it when the client's broker permits it. Other listeners are open or not as a whole."""
        connection = core.connections.get(ref.connection)
        if connection is None or connection.broker is None:
            self._serve_permitted(ref, message, moment)
        else:
            self._guard.admit(ref, message, moment)

    def _serve_permitted(self, ref: RequestRef, message: Message, moment: Moment) -> None:
        self._unguarded[type(message)](self.core, ref, message, moment)

    def _serve_requests(self, connection: Connection, moment: Moment) -> None:
        if not self._is_guarding or connection.broker is None:
            super()._serve_requests(connection, moment)
            return
        while self._work_left > 0 and (request := connection.session.next_request()) is not None:
            self._serve(connection, request, moment)

    def _open_session(self, event: Opened) -> Session:
        if event.broker is None:
            return super()._open_session(event)
        return self.brokers.open(event.broker)

    def _forwarded(self, event: Forwarded | UpstreamLost, moment: Moment) -> None:
        """The broker's side of a connection said something, or is gone."""
        connection = self.core.connections.get(event.connection)
        if connection is None:
            return
        session = connection.session
        assert isinstance(session, ProxySession)
        self._touched[connection.number] = connection
        try:
            if isinstance(event, UpstreamLost):
                session.upstream_lost(event.reason)
                self._guard.lost(connection.number, moment)
            else:
                connection.out += session.receive_upstream(event.data)
                if answers := session.take_answers():
                    self._guard.answered(connection.number, answers, moment)
        except ProtocolViolation as violation:
            self._close(connection, str(violation))
            return
        for said in session.take_heard():
            self.topics.overhear(said)
        self._serve_on(connection, moment)

    def _passed(self, event: Spliced, moment: Moment) -> None:
        connection = self.core.connections.get(event.connection)
        if connection is None:
            return
        session = connection.session
        assert isinstance(session, ProxySession)
        if session.passed(event.size):
            self._touched[connection.number] = connection
            self._serve_on(connection, moment)

    def _forget(self, number: int) -> None:
        self.silence.forget(number)
        self._guard.forget(number)
        super()._forget(number)

    def _flush_connection(self, connection: Connection) -> None:
        session = connection.session
        if not isinstance(session, ProxySession):
            super()._flush_connection(connection)
            return
        connection.out.append(session.take_data())
        # Piece by piece, as they came: nothing is copied to make one of them.
        self._effects += [Send(connection.number, piece) for piece in connection.out if piece]
        self._effects += [Forward(connection.number, piece) for piece in session.take_forward()]
        if size := session.take_pass():
            self._effects.append(Splice(connection.number, size))
        connection.out.clear()
        if session.awaits_broker and connection.number in self.core.connections:  # and not just closed
            self.silence.watch(connection.number)

    def _encode(self, ref: RequestRef, reply: Message, moment: Moment) -> int:
        if isinstance(reply, ListGroupsReply):
            reply = self._of_broker(ref.connection, reply)
        told = self._guard.tell(ref, reply, moment) if self._guard.clients else reply
        if told is not None:
            return super()._encode(ref, told, moment)
        self._touched[ref.connection] = self.core.connections[ref.connection]  # with questions for its broker
        return 0

    def _of_broker(self, number: int, reply: ListGroupsReply) -> ListGroupsReply:
        """Tools ask every broker for its groups, and put the answers together."""
        connection = self.core.connections.get(number)
        if connection is None or connection.broker is None:
            return reply
        placement, broker = self.core.placement, connection.broker
        mine = (
            group
            for group in reply.groups
            if placement.node_of_shard(placement.shard_of(group.group_id), "kafka").node_id == broker
        )
        return ListGroupsReply(reply.error_code, tuple(mine))
