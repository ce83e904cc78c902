"""What is said over one connection, without I/O: calls in, and what becomes of each out. Both edges use it."""

from collections.abc import Iterable

from muster.dialects import Push, Session
from muster.events import Call, CallFailed, MemberEvent, Pushed, Replied
from protocol.messages import Message
from protocol.messages.data import Produce


class Exchange:
    """A session, and the calls that wait for their answers there."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._waiting: dict[int, Call] = {}  # by the connection's numbers
        self._has_silent = False

    def say(self, call: Call) -> bytes:
        """What to send now. The session may refuse it itself: call `hear` next, with nothing."""
        number, data = self._session.encode_request(call.message)
        if isinstance(call.message, Produce) and call.message.acks == 0:
            self._has_silent = True
        else:
            self._waiting[number] = call
        return data

    def hear(self, data: bytes) -> list[MemberEvent]:
        """What it says to the core; `take_data` is to be sent then. Raises ProtocolViolation."""
        events: list[MemberEvent] = []
        for said in self._session.receive_data(data):
            if isinstance(said, Push):
                events.append(Pushed(said.message))
                continue
            call = self._waiting.pop(said.number, None)
            if call is not None:
                events.append(Replied(call.call, said.reply, said.error_message))
        return events

    def take_data(self) -> bytes:
        """As that of `Session`."""
        return self._session.take_data()

    def lost(self) -> list[CallFailed]:
        """The connection is gone: nothing of this will be answered."""
        failed = [CallFailed(call.call) for call in self._waiting.values()]
        self._waiting.clear()
        return failed

    @property
    def unanswered(self) -> Iterable[Message]:
        return [call.message for call in self._waiting.values()]

    def owes(self, *, has_unsent: bool) -> bool:
        """Whether something that is never answered may still be here: then it is too soon to close."""
        return self._has_silent and (has_unsent or not self._session.is_ready)
