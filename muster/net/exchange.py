"""The requests of one connection, without I/O: requests in, their outcomes out. Both edges use it."""

from collections import deque
from collections.abc import Iterable

from membership.events import CallFailed, Departed, MemberEvent, Pushed, Replied, SendRequest
from muster.net.dialects import ClientSession, NativeAnswer, Push
from muster.net.dialects.handshake_errors import closed, spoken_in_tls, unsayable
from protocol.errors import ProtocolViolation
from protocol.messages import Message
from protocol.messages.data import Produce


def receive_data(session: ClientSession, data: bytes) -> list[NativeAnswer | Push]:
    """Same as `ClientSession.receive_data`, with an error of its own for a server with TLS."""
    try:
        return session.receive_data(data)
    except ProtocolViolation as violation:
        raise spoken_in_tls(data) or violation from None


class Exchange:
    """A session, and its pending requests."""

    def __init__(self, session: ClientSession) -> None:
        self._session = session
        self._waiting: dict[int, SendRequest] = {}  # by the connection's numbers
        self._given = 0
        self._silent: deque[tuple[int, int]] = deque()
        """Requests that are never answered: the number, and the count of sent bytes at which it is sent."""
        self.has_sent_unacknowledged = False
        """True if a request was sent that is never answered; only the server's close of the connection shows that it
        arrived."""
        self._unsent: list[int] = []
        """Such requests that wait in the session until it is ready."""
        self._failed: list[MemberEvent] = []
        self._words = self._answers = 0

    def encode_request(self, call: SendRequest, now_ms: int = 0) -> bytes:
        """Return the bytes to send now, at `now_ms` of the connection's clock. The session may refuse a request, for
        instance if it cannot be encoded: call `receive_data` next, with no bytes.
        """
        try:
            number, data = self._session.encode_request(call.message, now_ms)
        except Exception as reason:  # noqa: BLE001  (a text that is no text, a number that is too large, ...)
            refused = unsayable(call.message, reason)
            self._failed.append(Replied(call.call, refused, refused.error_message))
            return b""
        self._waiting[number] = call
        if isinstance(call.message, Produce) and call.message.acks == 0:
            self._unsent.append(number)
            self.has_sent_unacknowledged = True
        return self._give(data)

    def receive_data(self, data: bytes) -> list[MemberEvent]:
        """Return the events for the core; then send `take_data`. Raises ProtocolViolation."""
        events, self._failed = self._failed, []
        self._words += bool(data)
        for said in receive_data(self._session, data):
            if isinstance(said, Push):
                self._answers += 1
                events.append(Pushed(said.message))
                continue
            call = self._waiting.pop(said.number, None)
            if call is not None:
                self._answers += 1
                events.append(Replied(call.call, said.reply, said.error_message))
        return events

    def closed(self, *, is_tls: bool, is_up: bool) -> str:
        """Same as the function `closed` of the handshake's errors."""
        return closed(words=self._words, answers=self._answers, is_tls=is_tls, is_up=is_up)

    def take_data(self) -> bytes:
        """Same as that of `ClientSession`."""
        return self._give(self._session.take_data())

    def departed(self, unsent: int) -> list[Departed]:
        """End requests that are never answered, once they are sent: all given bytes except the last `unsent` are."""
        gone: list[Departed] = []
        while self._silent and self._silent[0][1] <= self._given - unsent:
            call = self._waiting.pop(self._silent.popleft()[0], None)
            if call is not None:
                gone.append(Departed(call.call))
        return gone

    def lost(self) -> list[CallFailed]:
        """Fail all pending requests, since the connection is lost."""
        failed = [CallFailed(call.call, not self.has_answered) for call in self._waiting.values()]
        self._waiting.clear()
        self._silent.clear()
        self._unsent.clear()
        return failed

    @property
    def unanswered(self) -> Iterable[Message]:
        return [call.message for call in self._waiting.values()]

    @property
    def has_answered(self) -> bool:
        """True if the server has answered more than the handshake, or sent a notification."""
        return self._answers > 0

    @property
    def is_let_in(self) -> bool:
        """True once the handshake, and a login if there is one, are done."""
        return self._session.is_ready

    @property
    def owes(self) -> bool:
        """True if a request without a reply is not sent yet, so that the connection must stay open."""
        return bool(self._silent or self._unsent)

    def _give(self, data: bytes) -> bytes:
        self._given += len(data)
        if self._unsent and self._session.is_ready:
            self._silent.extend((number, self._given) for number in self._unsent)
            self._unsent.clear()
        return data
