"""Authorization of group requests in front of a cluster with ACLs. The client's own broker decides: it is queried on
the client's connection, as the client's principal."""

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, NamedTuple, Protocol, cast

from coordinator.accounts.division import divide, merge_reply, permissions_for, permissions_for_reply
from coordinator.accounts.permission import Permission
from coordinator.clock import Moment
from coordinator.core.core import Core
from coordinator.gateway.permissions import PermissionCache, PermissionQuery, denied, permission_queries, topics_query
from coordinator.handlers.audited import audit_refusal
from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.messages.node import ErrorReply
from protocol.messages.offsets import OffsetFetch
from protocol.messages.topics import MetadataReply
from protocol.session import RequestRef

Serve = Callable[[RequestRef, Message, Moment], None]
_Continuation = Callable[[Moment], None]

_MAX_IN_FLIGHT: Final = 32
"""Queries in flight on a connection; the next are sent once all of these are answered."""
_RETRY_AFTER_MS: Final = 1_000
"""Pause on a connection after a query that failed."""
_UNKNOWN: Final = "the client's broker does not answer what the client may do"


class QuerySession(Protocol):
    """A client's connection on which its broker can be asked."""

    def send_query(self, message: Message, oldest: int, newest: int) -> bool:
        """Send the broker a query as the client. Return False if it speaks none of these versions."""


class _Request(NamedTuple):
    """The permitted part of a client's request, and the reply to the other part."""

    message: Message
    denied: Message | None


class _ClientState:
    """Authorization state of one connection.

    `requests` are those being served, by their numbers. `continuation` runs once the `pending` queries are answered,
    or at `deadline_ms`; requests that arrived meanwhile are `behind` it.
    """

    __slots__ = (
        "behind",
        "cache",
        "continuation",
        "deadline_ms",
        "in_flight",
        "pending",
        "requests",
        "retry_at_ms",
    )

    def __init__(self) -> None:
        self.cache = PermissionCache()
        self.requests: dict[int, _Request] = {}
        self.pending: deque[PermissionQuery] = deque()
        self.in_flight: deque[tuple[PermissionQuery, int]] = deque()
        self.continuation: _Continuation | None = None
        self.behind: deque[tuple[Sequence[Permission], _Continuation, bool]] = deque()
        self.deadline_ms = 0
        self.retry_at_ms = 0


class Authorization:
    """Connections whose requests their brokers authorize. `serve` gets the permitted part of a request."""

    def __init__(self, core: Core, timeout_ms: int, serve: Serve) -> None:
        self._core = core
        self._timeout_ms = timeout_ms
        self._serve = serve
        self.clients: dict[int, _ClientState] = {}
        self._waiting: set[int] = set()
        self.is_offline = False
        """True while no broker can be queried: the last answers remain valid."""

    def admit(self, ref: RequestRef, message: Message, moment: Moment, *, needs_topics: bool = False) -> None:
        """Serve the permitted part of the request once the permissions are known; deny the rest. `needs_topics`: the
        list of topics that the client may describe is requested too."""
        client = self.clients.get(ref.connection)
        if client is None:
            client = self.clients[ref.connection] = _ClientState()
        client.requests[ref.number] = _Request(message, None)
        required = tuple(permissions_for(message))
        decide = partial(self._decide, ref, client, required)
        self._ensure_known(ref.connection, client, required, decide, moment, needs_topics=needs_topics)

    def topics_seen(self, number: int) -> Callable[[str], bool] | None:
        """Return a check of the topics that the client may describe, by the list that came with its present request;
        None: there was none."""
        client = self.clients.get(number)
        seen = None if client is None else client.cache.seen_topics
        return None if seen is None else seen.__contains__

    def _decide(self, ref: RequestRef, client: _ClientState, required: tuple[Permission, ...], moment: Moment) -> None:
        message = client.requests[ref.number].message
        if not client.cache.knows(required):
            self._core.outbox.send(ref, self._finish(ref, client, _retriable_denial(message)))
            return
        missing: list[Permission] = []

        def code_of(permission: Permission) -> ErrorCode:
            code = client.cache.code(permission)
            if code:
                missing.append(permission)
            return code

        division = divide(message, code_of)
        if missing:
            audit_refusal(self._core, ref, message, missing, moment)
        client.requests[ref.number] = _Request(message, division.denied)
        if division.permitted is not None:
            self._serve(ref, division.permitted, moment)
        else:
            assert division.denied is not None
            self._core.outbox.send(ref, self._finish(ref, client, division.denied))

    def filter_reply(self, ref: RequestRef, reply: Message, moment: Moment) -> Message | None:
        """Return the reply for the client in place of the node's; None if it follows through the outbox."""
        client = self.clients.get(ref.connection)
        request = None if client is None else client.requests.get(ref.number)
        if client is None or request is None:
            return reply
        message, denied = request
        if isinstance(reply, ErrorReply):
            return self._finish(ref, client, reply)
        required = tuple(permissions_for_reply(message, reply, client.cache.code))
        if not client.cache.unknown(required, moment.monotonic_ms):
            return self._finish(ref, client, merge_reply(message, reply, denied, client.cache.code))
        finish = partial(self._finish_reply, ref, client, required, reply)
        self._ensure_known(ref.connection, client, required, finish, moment)
        return None

    def _finish_reply(
        self, ref: RequestRef, client: _ClientState, required: tuple[Permission, ...], reply: Message, moment: Moment
    ) -> None:
        message, denied = client.requests[ref.number]
        if client.cache.knows(required):
            reply = merge_reply(message, reply, denied, client.cache.code)
        else:
            reply = _retriable_denial(message)
        self._core.outbox.send(ref, self._finish(ref, client, reply))

    def _finish(self, ref: RequestRef, client: _ClientState, reply: Message) -> Message:
        del client.requests[ref.number]
        client.cache.seen_topics = None
        client.cache.trim()
        return reply

    def remove(self, number: int) -> None:
        """Forget a closed connection."""
        self.clients.pop(number, None)
        self._waiting.discard(number)

    # ---------------------------------------------------------------------------------------------------------- queries

    def _ensure_known(
        self,
        number: int,
        client: _ClientState,
        required: Sequence[Permission],
        continuation: _Continuation,
        moment: Moment,
        *,
        needs_topics: bool = False,
    ) -> None:
        """Run the continuation once these permissions are known, or cannot be queried now."""
        if client.continuation is not None:
            client.behind.append((required, continuation, needs_topics))
            return
        now_ms = moment.monotonic_ms
        unknown = client.cache.unknown(required, now_ms)
        # Queries in flight here are overdue ones: no request waits behind them.
        queries = [*permission_queries(unknown), *((topics_query(),) if needs_topics else ())]
        if not queries or self.is_offline or client.in_flight or now_ms < client.retry_at_ms:
            continuation(moment)
            return
        client.pending.extend(queries)
        client.continuation = continuation
        self._waiting.add(number)
        self._send_queries(number, client, moment)

    def _send_queries(self, number: int, client: _ClientState, moment: Moment) -> None:
        session = cast(QuerySession, self._core.connections[number].session)
        client.deadline_ms = moment.monotonic_ms + self._timeout_ms
        while client.pending and len(client.in_flight) < _MAX_IN_FLIGHT:
            query = client.pending.popleft()
            if session.send_query(query.message, query.oldest, query.newest):
                client.in_flight.append((query, moment.monotonic_ms))
            else:
                client.cache.learn(denied(query), moment.monotonic_ms)
        if not client.in_flight:
            self._resume(number, client, moment)

    def _resume(self, number: int, client: _ClientState, moment: Moment) -> None:
        """Run the continuation with the known permissions, and continue with the requests behind it."""
        self._waiting.discard(number)
        client.pending.clear()
        continuation, client.continuation = client.continuation, None
        if continuation is not None:
            continuation(moment)
        while client.behind and client.continuation is None:
            required, following, needs_topics = client.behind.popleft()
            self._ensure_known(number, client, required, following, moment, needs_topics=needs_topics)

    def on_replies(self, number: int, replies: list[Message], moment: Moment) -> None:
        """Store the broker's replies, in the order of the queries."""
        client = self.clients.get(number)
        if client is None or not replies:
            return
        for reply in replies:
            query, sent_ms = client.in_flight.popleft()
            client.cache.learn(query.read(query.permissions, reply), sent_ms)
            if not query.permissions and isinstance(reply, MetadataReply) and client.requests:
                client.cache.learn_topics(reply)
        if not client.in_flight and client.continuation is not None:
            self._send_queries(number, client, moment)

    def on_broker_lost(self, number: int, moment: Moment) -> None:
        """Fail the queries in flight: the connection's broker side is closed."""
        client = self.clients.get(number)
        if client is not None and client.in_flight:
            client.in_flight.clear()
            self._fail(number, client, moment)

    def _fail(self, number: int, client: _ClientState, moment: Moment) -> None:
        client.retry_at_ms = moment.monotonic_ms + _RETRY_AFTER_MS
        self._resume(number, client, moment)

    def on_unreachable(self, moment: Moment) -> None:
        """Fail all queries: no broker can be reached."""
        self.is_offline = True
        self._fail_all(moment, lambda _client: True)

    def expire(self, moment: Moment) -> None:
        """Resume requests whose deadline has passed with what is known."""
        self._fail_all(moment, lambda client: client.deadline_ms <= moment.monotonic_ms)

    def _fail_all(self, moment: Moment, matches: Callable[[_ClientState], bool]) -> None:
        for number in sorted(self._waiting):
            client = self.clients.get(number)
            if client is not None and matches(client):
                self._fail(number, client, moment)


def _retriable_denial(message: Message) -> ErrorReply:
    # Both errors are retriable, but librdkafka's AdminClient (2.16) crashes on the other one in an OffsetFetch.
    is_fetch = isinstance(message, OffsetFetch)
    return ErrorReply(
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if is_fetch else ErrorCode.COORDINATOR_NOT_AVAILABLE, _UNKNOWN
    )
