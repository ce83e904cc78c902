"""The node's connections: bytes in, requests served in turn, replies out.

A connection is served at once when its bytes arrive. Requests beyond one step's budget wait for the next steps; the
node meanwhile reads no more from their client and serves others, so that a flood of requests cannot fill the memory.

A gateway takes part by `open_session`, `handlers`, `guards`, `flushers`, `on_closed` and `rewrite`.
"""

from collections.abc import Callable, Mapping
from typing import Final

from coordinator.clock import Moment
from coordinator.core.budget import COST_A_STEP
from coordinator.core.core import INTERNAL, Connection, Core, HttpCaller
from coordinator.core.request_cost import ONE
from coordinator.handlers.heartbeat import HEARTBEATS, answer_at_once
from coordinator.handlers.repeated_commit import RepeatedCommits
from coordinator.handlers.table import COSTS, HANDLERS, INTERNAL_HANDLERS, Handler
from coordinator.node.effects import Close, Effect, Pause, Resume, Return, Send
from coordinator.node.events import Call, Ended, Idle, Lost, Opened, Received
from coordinator.node.receive_backlog import largest_backlogs
from protocol.errors import ErrorCode, ProtocolViolation
from protocol.messages import Message
from protocol.messages.data import Produce
from protocol.messages.node import ErrorReply
from protocol.session import RepeatedCommit, Request, RequestRef, Session

_CHECKS_A_LIMIT: Final = 16
"""The receive backlogs are checked after every max.unfinished.bytes/16 received."""


class Serving:
    """All connections of a node. Effects are appended to `effects`."""

    def __init__(self, core: Core, effects: list[Effect], open_session: Callable[[Opened], Session]) -> None:
        self.open_session = open_session
        self.handlers: Mapping[type[Message], Handler] = HANDLERS
        """The handlers of clients' requests."""
        self.flushers: dict[type, Callable[[Connection], None]] = {}
        """Flushes of sessions that send more than `take_data`, by the session's type."""
        self.on_opened: list[Callable[[Connection, Opened, Moment], None]] = []
        """Called with each new connection."""
        self.admit: Callable[[Connection, Message, Moment], None] | None = None
        """Raises ProtocolViolation for a request that is not allowed. Called while `session_ends_ms` is not ahead."""
        self.on_ended: list[Callable[[Connection], None]] = []
        """Called with each connection whose client has shut down its sending side."""
        self.on_closed: list[Callable[[int], None]] = []
        """Called with the number of each connection that is dropped."""
        self.rewrite: Callable[[RequestRef, Message, Moment], Message | None] | None = None
        """Turns each reply into the one that is sent; None: it is sent later."""
        self.on_reply: Callable[[Connection, Message, Moment], Message] | None = None
        """Turns each reply to a client into the one that is encoded."""
        self.guard_call: Callable[[type[Message], Handler], Handler] | None = None
        """Wraps the handler of a request from inside the process with the authorization of its caller."""
        self.guards: Callable[[int | None], bool] = lambda _broker: False
        """Returns true if heartbeats of a connection on this broker's listener need its permission."""
        self.touched: dict[int, Connection] = {}
        """Connections that may have something to send in this step."""
        self.waiting: dict[int, Connection] = {}
        """Connections that sent more than one step may serve; nothing is read from them meanwhile."""
        self._dropped: list[int] = []
        """Connections dropped since the end of the last step."""
        self.repeated = RepeatedCommits(core)
        self._core = core
        self._effects = effects
        self._most_entries = core.config.max_entries_per_request
        self._bytes_to_check = self._check_every_bytes = core.config.max_unfinished_bytes // _CHECKS_A_LIMIT

    # --- events ---

    def opened(self, event: Opened, moment: Moment) -> None:
        """Accept the connection unless there are too many."""
        core = self._core
        session = self.open_session(event)
        connection = Connection(
            event.connection, event.dialect, event.peer_host, session, event.broker, event.peer_port
        )
        connection.is_guarded = self.guards(event.broker)
        if len(core.connections) >= core.config.max_connections:
            core.count("connections_refused")
            self._effects.append(Close(event.connection, f"more than {core.config.max_connections} connections"))
            return
        core.connections[event.connection] = connection
        if session.takes_pushes:
            core.outbox.listening.add(event.connection)
        for opened in self.on_opened:
            opened(connection, event, moment)
            if event.connection not in core.connections:
                return
        core.count("connections_opened")

    def ended(self, event: Ended, moment: Moment) -> None:
        """Close the connection as soon as all its requests are answered."""
        if (connection := self._core.connections.get(event.connection)) is not None:
            connection.has_ended = True
            self.touched[event.connection] = connection
            for ended in self.on_ended:
                ended(connection)

    def idle(self, event: Idle, moment: Moment) -> None:
        """Close the connection unless a request of it is pending: then it is not idle, however long the reply takes."""
        connection = self._core.connections.get(event.connection)
        if connection is not None and connection.session.is_idle and event.connection not in self.waiting:
            self._core.count("connections_idle_closed")
            self.drop(event.connection)
            self._effects.append(Close(event.connection))

    def lost(self, event: Lost, moment: Moment) -> None:
        """Drop the connection. Its members live on until their sessions end, as in Kafka: the client may be back on
        another connection."""
        self.touched.pop(event.connection, None)
        self.drop(event.connection)

    def received(self, event: Received, moment: Moment) -> None:
        """Receive the bytes that arrived, and serve them."""
        connection = self._core.connections.get(event.connection)
        if connection is None:
            return
        self.touched[event.connection] = connection
        try:
            connection.session.receive_data(event.data)
        except ProtocolViolation as violation:
            self.close(connection, str(violation))
            return
        self._bytes_to_check -= len(event.data)
        if self._bytes_to_check < 0:
            self._check_backlogs()
            if event.connection not in self._core.connections:
                return
        if connection.is_heavy and connection.session.buffered_bytes:
            self.waiting.setdefault(connection.number, connection)
            self.pause_or_resume(connection)
        else:
            self.serve(connection, moment)

    def called(self, event: Call, moment: Moment) -> None:
        """Serve a request from inside the process, as any other."""
        ref = RequestRef(INTERNAL, event.call_id)
        if event.principal or event.certificate:
            authorizer = self._core.accounts.authorizer
            access = authorizer.of(event.principal, event.peer_host) if event.principal else self._core.anonymous
            caller = HttpCaller(event.principal, event.peer_host, event.certificate, access)
            self._core.callers[event.call_id] = caller
        handler = self.handlers.get(type(event.message)) or INTERNAL_HANDLERS.get(type(event.message))
        if handler is not None and event.principal and self.guard_call is not None:
            handler = self.guard_call(type(event.message), handler)
        if handler is None:
            text = f"{type(event.message).__name__} is not served"
            self._core.outbox.send(ref, ErrorReply(ErrorCode.UNSUPPORTED_VERSION, text))
        elif (refused := COSTS.get(type(event.message), ONE).refusal(event.message, self._most_entries)) is not None:
            self._core.outbox.send(ref, refused)
        else:
            handler(self._core, ref, event.message, moment)

    def _check_backlogs(self) -> None:
        self._bytes_to_check = self._check_every_bytes
        for one in largest_backlogs(self._core):
            self.close(one, f"all unfinished requests are above {self._core.config.max_unfinished_bytes} bytes")

    # --- serving ---

    def serve(self, connection: Connection, moment: Moment) -> None:
        """Serve the connection's requests within the step's budget."""
        session, core, now_ms = connection.session, self._core, moment.monotonic_ms
        budget = core.budget
        try:
            while budget.cost > 0 and not connection.throttled_until_ms:
                if (request := session.next_request()) is None:
                    break
                number, message = request
                if (
                    isinstance(message, HEARTBEATS)
                    and (not connection.is_guarded or connection.may_heartbeat(message, now_ms))
                    and (reply := answer_at_once(core, connection, message, moment)) is not None
                ):
                    budget.cost -= 1
                    connection.say(session.encode_reply(number, reply))
                elif type(message) is RepeatedCommit:
                    if not self.repeated.serve(connection, number, message, moment):
                        self._serve_request(connection, (number, message.whole()), moment)
                        self.repeated.learn(connection, message.first)
                else:
                    self._serve_request(connection, request, moment)
        except ProtocolViolation as violation:
            self.close(connection, str(violation))
            return
        if self.waiting:
            self.waiting.pop(connection.number, None)
        if budget.cost <= 0 and session.buffered_bytes and not connection.throttled_until_ms:
            self.waiting[connection.number] = connection  # behind the other connections
        if connection.is_paused or connection.throttled_until_ms or self.waiting or session.is_behind:
            self.pause_or_resume(connection)

    def serve_waiting(self, moment: Moment) -> None:
        """Serve the connections that wait for their turn, within the step's budget."""
        for number, connection in list(self.waiting.items()):
            if self._core.budget.cost <= 0:
                break
            self.touched[number] = connection
            self.serve(connection, moment)

    def keeps_waiting(self, number: int) -> bool:
        """Return true if a reply of the connection is held until its record is durable, or if its further requests wait
        for an earlier one that this node, the disk or a broker has not completed, or are unread: heartbeats may be
        among them."""
        connection = self._core.connections.get(number)
        if connection is None:
            return False
        session = connection.session
        return (
            connection.throttled_until_ms > 0
            or session.has_waiting_request
            or (session.unanswered > 0 and self._core.outbox.held_replies > 0)
        )

    def _serve_request(self, connection: Connection, request: Request, moment: Moment) -> None:
        core = self._core
        number, message = request
        kind = type(message)
        now_ms = moment.monotonic_ms
        ref = RequestRef(connection.number, number, kind, now_ms)
        if now_ms >= connection.session_ends_ms and self.admit is not None:
            self.admit(connection, message, moment)
        if connection.session.unanswered > core.config.max_requests_per_connection:
            text = f"more than {core.config.max_requests_per_connection} requests of this connection wait"
            core.outbox.send(ref, ErrorReply(ErrorCode.THROTTLING_QUOTA_EXCEEDED, text))
            return
        cost_of_kind = COSTS.get(kind, ONE)
        cost = cost_of_kind.of(core, message)
        core.budget.cost -= cost
        connection.is_heavy = cost > COST_A_STEP and kind is not Produce
        if cost > self._most_entries and (refused := cost_of_kind.refusal(message, self._most_entries)):
            core.outbox.send(ref, refused)
            return
        self.handlers[kind](core, ref, message, moment)

    def pause_or_resume(self, connection: Connection) -> None:
        """Stop reading while the connection is throttled, waits for its turn or has too many requests; or resume."""
        number = connection.number
        should_pause = connection.throttled_until_ms > 0 or number in self.waiting or connection.session.is_behind
        if should_pause != connection.is_paused:
            connection.is_paused = should_pause
            self._effects.append(Pause(number) if should_pause else Resume(number))

    # --- sending ---

    def send(self, moment: Moment) -> None:
        """Encode the replies that are ready, a slice a step; they may release further requests of their connection."""
        outbox, budget = self._core.outbox, self._core.budget
        while outbox.ready and budget.replies > 0:
            ref, reply = outbox.ready.popleft()
            budget.sent(self._encode(ref, reply, moment))
        last: tuple[Message | None, str] = (None, "")  # a whole group gets the same reply: encoded once
        data = b""
        while outbox.pushes and budget.replies > 0:
            number, message = outbox.pushes.popleft()
            connection = self._core.connections.get(number)
            if connection is not None:
                if message is not last[0] or connection.dialect != last[1]:
                    last, data = (message, connection.dialect), connection.session.encode_push(message)
                connection.say(data)
                self.touched[number] = connection
                budget.sent(len(data))
        for number, connection in self.touched.items():
            self._flush(connection)
            if connection.has_ended and connection.session.is_idle and number not in self.waiting:
                self.drop(number)
                self._effects.append(Close(number))
        self.touched.clear()
        for number in self._dropped:
            self._core.closed.add(number, moment.monotonic_ms)
        self._dropped.clear()

    def _encode(self, ref: RequestRef, reply: Message, moment: Moment) -> int:
        if self.rewrite is not None:
            if (rewritten := self.rewrite(ref, reply, moment)) is None:
                return 0
            reply = rewritten
        asker, number, kind = ref.connection, ref.number, ref.kind
        if asker == INTERNAL:
            self._core.callers.pop(number, None)
            self._effects.append(Return(number, reply))
            return 0
        if (connection := self._core.connections.get(asker)) is None:
            return 0
        if self.on_reply is not None:
            reply = self.on_reply(connection, reply, moment)
        if kind is not None:
            self._core.timings.answered(kind, moment.monotonic_ms - ref.read_ms)
        data = connection.session.encode_reply(number, reply)
        connection.say(data)
        self.touched[asker] = connection
        if connection.session.buffered_bytes or connection.is_paused:
            self.serve(connection, moment)
        return len(data)

    def _flush(self, connection: Connection) -> None:
        if self.flushers and (flush := self.flushers.get(type(connection.session))) is not None:
            flush(connection)
            return
        if own := connection.session.take_data():
            connection.say(own)
        if (out := connection.out) is not None:
            connection.out = None
            data = out[0] if len(out) == 1 else b"".join(out)
            if data:
                self._effects.append(Send(connection.number, data))

    # --- closing ---

    def close(self, connection: Connection, reason: str) -> None:
        """Close the connection of a client that broke the protocol or a limit."""
        self._core.count("connections_violating")
        self._flush(connection)
        self.drop(connection.number)
        self._effects.append(Close(connection.number, reason))

    def drop(self, number: int) -> None:
        """Drop all state kept for the connection."""
        core = self._core
        if core.connections.pop(number, None) is not None:
            self._dropped.append(number)
        core.outbox.listening.discard(number)
        core.slices.leave(number)
        self.waiting.pop(number, None)
        for key in core.fetches.leave(number):
            core.purgatory.cancel(key)
        for closed in self.on_closed:
            closed(number)
