"""Single requests to nodes, without I/O: each is sent once, and answered or not."""

from dataclasses import dataclass

from membership.events import CallFailed, HangUp, MemberEffect, MemberEvent, NodeAddress, Replied, SendRequest
from protocol.messages import Message


@dataclass(slots=True, eq=False)
class _OpenRequest:
    message: Message
    node: NodeAddress | None
    is_sent: bool = False
    is_over: bool = False
    reply: Message | None = None


class Requests:
    """Numbered requests, until they are taken or forgotten. Driven like `Fetcher`."""

    next_deadline_ms = None
    """No timeouts here: callers have their own."""

    def __init__(self) -> None:
        self._open: dict[int, _OpenRequest] = {}
        self._asked = 0

    def ask(self, message: Message, node: NodeAddress | None) -> int:
        """Send a request to a node, or to any. Return its number; call `step` next."""
        self._asked += 1
        self._open[self._asked] = _OpenRequest(message, node)
        return self._asked

    def is_over(self, number: int) -> bool:
        return self._open[number].is_over

    def take(self, number: int) -> Message | None:
        """Return the reply, None if there will be none, and forget the number."""
        return self._open.pop(number).reply

    def forget(self, number: int) -> list[MemberEffect]:
        """Drop a request whose caller no longer waits. If it is unanswered, close the connection, since the request
        might delay later ones."""
        request = self._open.pop(number)
        return [HangUp(request.node)] if request.is_sent and not request.is_over else []

    def step(self, event: MemberEvent, _now_ms: int) -> list[MemberEffect]:
        effects: list[MemberEffect] = []
        if isinstance(event, Replied | CallFailed) and (request := self._open.get(event.call)) is not None:
            request.is_over = True
            if isinstance(event, Replied):
                request.reply = event.reply
            elif request.node is None:
                effects.append(HangUp(None))  # so that the next request goes to another node
        for number, request in self._open.items():
            if not request.is_sent:
                request.is_sent = True
                effects.append(SendRequest(number, request.node, request.message))
        return effects
