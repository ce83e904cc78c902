"""Proxied connections: bytes to and from both sides, and the authorization of group requests.

They hook into a node's serving by the attributes that `coordinator.node.serving` has for it.
"""

from coordinator.accounts.requests import ACCESS, GROUP_REQUESTS
from coordinator.clock import Moment
from coordinator.core.core import Connection, Core
from coordinator.gateway.authorization import Authorization
from coordinator.gateway.broker_timeout import BrokerTimeouts
from coordinator.gateway.cluster_topics import UpstreamTopics
from coordinator.gateway.effects import Forward, Splice
from coordinator.gateway.events import Forwarded, Spliced, UpstreamLost
from coordinator.gateway.handlers import REJECTED
from coordinator.gateway.native import FORWARDED_APIS, is_local
from coordinator.gateway.relayed.logins import RelayedLogins
from coordinator.gateway.relayed.session import RelayedSession
from coordinator.gateway.server_driven import resolves_patterns
from coordinator.gateway.session.session import ProxySession
from coordinator.gateway.session.usernames import ClaimedUser
from coordinator.groups.consumer.events import TopicFilter, sees_all
from coordinator.handlers.table import Handler
from coordinator.node.effects import Send
from coordinator.node.node import Node
from protocol.errors import ProtocolViolation
from protocol.messages import Message
from protocol.messages.consumer_groups import ConsumerGroupHeartbeat
from protocol.messages.groups import ListGroupsReply
from protocol.messages.node import Login
from protocol.session import RequestRef


class ProxiedConnections:
    """The proxied connections of a node, and the native ones that log in at a broker. `handlers` serve clients'
    requests once they are permitted."""

    def __init__(
        self,
        node: Node,
        topics: UpstreamTopics,
        timeouts: BrokerTimeouts,
        ask_timeout_ms: int,
        handlers: dict[type[Message], Handler],
    ) -> None:
        self.authorization = Authorization(node.core, ask_timeout_ms, self._serve_permitted)
        self.timeouts = timeouts
        self.logins = RelayedLogins(node.core, node.serving, node.effects, topics.brokers)
        handlers = {**handlers, Login: self.logins.login}
        self._core = node.core
        self._serving = node.serving
        self._effects = node.effects
        self._topics = topics
        self._unguarded = handlers
        guarded = dict.fromkeys(ACCESS.keys() & handlers.keys() - REJECTED.keys(), self._when_permitted)
        self._guarded: dict[type[Message], Handler] = {**handlers, **guarded}
        self._is_guarding = False
        self._has_owners = node.core.config.upstream_sasl_username is not None
        node.handlers |= {Forwarded: self._on_upstream, UpstreamLost: self._on_upstream, Spliced: self._on_spliced}
        node.serving.handlers = handlers
        node.serving.guards = self.guards
        node.serving.flushers[ProxySession] = node.serving.flushers[RelayedSession] = self._flush
        node.serving.on_closed.append(timeouts.remove)
        node.serving.on_closed.append(self.authorization.remove)
        node.serving.rewrite = self._rewrite
        node.core.topics_seen = self._topics_seen

    def set_guarded(self, *, has_authorizer: bool) -> None:
        """Begin or stop to authorize requests, as the cluster has an authorizer or not; it can be asked again."""
        self.authorization.is_offline = False
        if has_authorizer != self._is_guarding:
            self._is_guarding = has_authorizer
            self._serving.handlers = self._guarded if has_authorizer else self._unguarded
            for connection in self._core.connections.values():
                connection.is_guarded = self.guards(connection.broker)
        self.logins.require(is_required=has_authorizer)

    def guards(self, broker: int | None) -> bool:
        """Return whether heartbeats of connections to this broker are checked: authorized, or the member's owner asked
        for, which is known where clients log in."""
        return self._has_owners or (self._is_guarding and broker is not None)

    def _when_permitted(self, core: Core, ref: RequestRef, message: Message, moment: Moment) -> None:
        """Serve the request once the client's broker permits it. Listeners without a broker are open or closed as a
        whole."""
        is_clusters = isinstance(message, FORWARDED_APIS) and not is_local(message)  # authorized by the cluster
        if not is_clusters and self._is_judged(ref.connection, type(message)):
            self.authorization.admit(ref, message, moment, needs_topics=resolves_patterns(core, message, moment))
        else:
            self._serve_permitted(ref, message, moment)

    def _is_judged(self, number: int, message: type[Message]) -> bool:
        """Return whether a request of the connection needs a broker's permission. Other requests of proxied clients are
        forwarded to their broker, unless none can be reached."""
        connection = self._core.connections.get(number)
        if connection is None or not self._is_guarding:
            return False
        if isinstance(connection.session, RelayedSession):
            return True
        return connection.broker is not None and message in GROUP_REQUESTS

    def _topics_seen(self, number: int) -> TopicFilter | None:
        is_judged = self._is_judged(number, ConsumerGroupHeartbeat)
        return self.authorization.topics_seen(number) if is_judged else sees_all

    def _serve_permitted(self, ref: RequestRef, message: Message, moment: Moment) -> None:
        self._unguarded[type(message)](self._core, ref, message, moment)

    def _on_upstream(self, event: Forwarded | UpstreamLost, moment: Moment) -> None:
        """Handle bytes of the broker's side, or its loss."""
        connection = self._core.connections.get(event.connection)
        if connection is None:
            return
        session = connection.session
        assert isinstance(session, ProxySession | RelayedSession)
        self._serving.touched[connection.number] = connection
        try:
            if isinstance(event, UpstreamLost):
                session.upstream_lost(event.reason)
                self.authorization.on_broker_lost(connection.number, moment)
            else:
                for data in session.receive_upstream(event.data):
                    connection.say(data)
                if replies := session.take_query_replies():
                    self.authorization.on_replies(connection.number, replies, moment)
                if isinstance(session, ProxySession):
                    _name(connection, session.user)
                else:
                    for on_reply, reply in session.take_replies():
                        on_reply(reply, moment)
        except ProtocolViolation as violation:
            self._serving.close(connection, str(violation))
            return
        for observed in session.take_observed_metadata():
            self._topics.observe(observed, moment.monotonic_ms)
        self._serving.serve(connection, moment)

    def _on_spliced(self, event: Spliced, moment: Moment) -> None:
        connection = self._core.connections.get(event.connection)
        if connection is None:
            return
        session = connection.session
        assert isinstance(session, ProxySession)
        if session.spliced(event.size):
            self._serving.touched[connection.number] = connection
            self._serving.serve(connection, moment)

    def _flush(self, connection: Connection) -> None:
        session = connection.session
        assert isinstance(session, ProxySession | RelayedSession)
        pieces, connection.out = [*(connection.out or ()), session.take_data()], None
        # Piece by piece: joining them would copy every byte.
        self._effects += [Send(connection.number, piece) for piece in pieces if piece]
        self._effects += [Forward(connection.number, piece) for piece in session.take_forward()]
        if size := session.take_splice():
            self._effects.append(Splice(connection.number, size))
        if session.awaits_broker and connection.number in self._core.connections:  # else just closed
            self.timeouts.watch(connection.number)

    def _rewrite(self, ref: RequestRef, reply: Message, moment: Moment) -> Message | None:
        if isinstance(reply, ListGroupsReply):
            reply = self._coordinated_by_broker(ref.connection, reply)
        if not self.authorization.clients:
            return reply
        filtered = self.authorization.filter_reply(ref, reply, moment)
        if filtered is None:  # sent later, once the client's broker has answered
            self._serving.touched[ref.connection] = self._core.connections[ref.connection]
        return filtered

    def _coordinated_by_broker(self, number: int, reply: ListGroupsReply) -> ListGroupsReply:
        """Keep the groups whose coordinator is the connection's broker, since tools ask every broker."""
        connection = self._core.connections.get(number)
        if connection is None or connection.broker is None:
            return reply
        placement, broker = self._core.placement, connection.broker
        coordinated = (
            group for group in reply.groups if placement.is_listed_by(placement.shard_of(group.group_id), broker)
        )
        return ListGroupsReply(reply.error_code, tuple(coordinated))


def _name(connection: Connection, user: ClaimedUser | None) -> None:
    """Set the connection's principal to the one that the broker serves, if it is known, for notes and for members that
    join from now on."""
    principal = None if user is None else user.principal
    if principal is not None and principal != connection.principal:
        connection.principal, connection.client = principal, None
