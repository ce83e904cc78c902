"""The guard of groups beside a cluster that has an authorizer: a request is served when the client's own broker has
said, on the client's own connection, what its principal may do."""

from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from typing import Final

from coordinator.clock import Moment
from coordinator.gateway.authorized_parts import divide, join, needs_of, needs_of_reply
from coordinator.gateway.permissions import Need, Permissions, Question, questions, refused
from coordinator.gateway.session.session import ProxySession
from coordinator.handlers.core import Core
from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.messages.node import ErrorReply
from protocol.messages.offsets import OffsetFetch
from protocol.session import RequestRef

Serve = Callable[[RequestRef, Message, Moment], None]
_Then = Callable[[Moment], None]

_MOST_UNDER_WAY: Final = 32
"""Questions of one connection; the next are asked when all of these are answered."""
_PAUSE_MS: Final = 1_000
"""No question is put on a connection for so long after one that failed."""
_UNKNOWN: Final = "the client's broker does not answer what the client may do"


class _Client:
    """One connection. `message` and `refused`: the request that is out, and the reply to the part of it that is not
    permitted. `then` goes on when the permissions that wait in `todo` are known, or at `deadline_ms`."""

    __slots__ = (
        "asked_ms",
        "deadline_ms",
        "message",
        "paused_until_ms",
        "permissions",
        "refused",
        "then",
        "todo",
        "under_way",
    )

    def __init__(self) -> None:
        self.permissions = Permissions()
        self.message: Message | None = None
        self.refused: Message | None = None
        self.todo: deque[Question] = deque()
        self.under_way: deque[tuple[Question, int]] = deque()
        self.then: _Then | None = None
        self.deadline_ms = 0
        self.asked_ms = 0
        self.paused_until_ms = 0


class Authorization:
    """All connections in front of brokers that asked for groups. `serve` serves what is permitted."""

    def __init__(self, core: Core, timeout_ms: int, serve: Serve) -> None:
        self._core = core
        self._timeout_ms = timeout_ms
        self._serve = serve
        self.clients: dict[int, _Client] = {}
        self._waiting: set[int] = set()
        self.is_away = False
        """True while no broker can be asked: the last answers hold."""

    def admit(self, ref: RequestRef, message: Message, moment: Moment) -> None:
        """Serve the permitted part of the request, once it is known; refuse the rest."""
        client = self.clients.get(ref.connection)
        if client is None:
            client = self.clients[ref.connection] = _Client()
        client.message, client.refused = message, None
        needs = tuple(needs_of(message))
        self._know(ref.connection, client, needs, partial(self._decide, ref, client, needs), moment)

    def _decide(self, ref: RequestRef, client: _Client, needs: tuple[Need, ...], moment: Moment) -> None:
        message = client.message
        assert message is not None
        if not client.permissions.knows(needs):
            self._core.outbox.send(ref, self._told(client, _unknown(message)))
            return
        division = divide(message, client.permissions.code)
        client.refused = division.refused
        if division.permitted is not None:
            self._serve(ref, division.permitted, moment)
        else:
            assert division.refused is not None
            self._core.outbox.send(ref, self._told(client, division.refused))

    def tell(self, ref: RequestRef, reply: Message, moment: Moment) -> Message | None:
        """The reply to the client in place of the node's; None if it is told later, through the outbox."""
        client = self.clients.get(ref.connection)
        if client is None or client.message is None:
            return reply
        message = client.message
        if isinstance(reply, ErrorReply):
            return self._told(client, reply)
        needs = tuple(needs_of_reply(message, reply, client.permissions.code))
        if not client.permissions.unknown(needs, moment.monotonic_ms):
            return self._told(client, join(message, reply, client.refused, client.permissions.code))
        self._know(ref.connection, client, needs, partial(self._tell_later, ref, client, needs, reply), moment)
        return None

    def _tell_later(
        self, ref: RequestRef, client: _Client, needs: tuple[Need, ...], reply: Message, moment: Moment
    ) -> None:
        message = client.message
        assert message is not None
        if client.permissions.knows(needs):
            reply = join(message, reply, client.refused, client.permissions.code)
        else:
            reply = _unknown(message)
        self._core.outbox.send(ref, self._told(client, reply))

    def _told(self, client: _Client, reply: Message) -> Message:
        client.message = client.refused = None
        client.permissions.trim()
        return reply

    def forget(self, number: int) -> None:
        """The connection is over."""
        self.clients.pop(number, None)
        self._waiting.discard(number)

    # ------------------------------------------------------------------------------------------------------ questions

    def _know(self, number: int, client: _Client, needs: Iterable[Need], then: _Then, moment: Moment) -> None:
        """Go on when these permissions are known, or when it is known that they cannot be had now."""
        now_ms = moment.monotonic_ms
        unknown = client.permissions.unknown(needs, now_ms)
        # While an answer is overdue, nobody waits behind its question.
        if not unknown or self.is_away or client.under_way or now_ms < client.paused_until_ms:
            then(moment)
            return
        client.todo.extend(questions(unknown))
        client.then = then
        self._waiting.add(number)
        self._ask_on(number, client, moment)

    def _ask_on(self, number: int, client: _Client, moment: Moment) -> None:
        session = self._core.connections[number].session
        assert isinstance(session, ProxySession)
        client.deadline_ms = moment.monotonic_ms + self._timeout_ms
        while client.todo and len(client.under_way) < _MOST_UNDER_WAY:
            question = client.todo.popleft()
            if session.ask(question.message, question.oldest, question.newest):
                client.under_way.append((question, moment.monotonic_ms))
            else:
                client.permissions.learn(refused(question), moment.monotonic_ms)
        if not client.under_way:
            self._go_on(number, client, moment)

    def _go_on(self, number: int, client: _Client, moment: Moment) -> None:
        """Nobody waits for an answer any more."""
        self._waiting.discard(number)
        client.todo.clear()
        then, client.then = client.then, None
        if then is not None:
            then(moment)

    def answered(self, number: int, replies: list[Message], moment: Moment) -> None:
        """Answers of the broker, in the order of the questions."""
        client = self.clients.get(number)
        for reply in replies if client is not None else ():
            assert client is not None
            question, asked_ms = client.under_way.popleft()
            client.permissions.learn(question.read(question.needs, reply), asked_ms)
        if client is not None and replies and not client.under_way and client.then is not None:
            self._ask_on(number, client, moment)

    def lost(self, number: int, moment: Moment) -> None:
        """The connection's broker is gone, and answers no question any more."""
        client = self.clients.get(number)
        if client is not None and client.under_way:
            client.under_way.clear()
            self._fail(number, client, moment)

    def _fail(self, number: int, client: _Client, moment: Moment) -> None:
        client.paused_until_ms = moment.monotonic_ms + _PAUSE_MS
        self._go_on(number, client, moment)

    def away(self, moment: Moment) -> None:
        """No broker can be reached: nobody waits for one."""
        self.is_away = True
        self._fail_all(moment, lambda _client: True)

    def look(self, moment: Moment) -> None:
        """Requests that have waited for too long go on with what is known."""
        self._fail_all(moment, lambda client: client.deadline_ms <= moment.monotonic_ms)

    def _fail_all(self, moment: Moment, which: Callable[[_Client], bool]) -> None:
        for number in sorted(self._waiting):
            client = self.clients.get(number)
            if client is not None and which(client):
                self._fail(number, client, moment)


def _unknown(message: Message) -> ErrorReply:
    # librdkafka's AdminClient (2.16) dies of the other error to OffsetFetch; both are a reason to try again.
    is_fetch = isinstance(message, OffsetFetch)
    return ErrorReply(
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if is_fetch else ErrorCode.COORDINATOR_NOT_AVAILABLE, _UNKNOWN
    )
