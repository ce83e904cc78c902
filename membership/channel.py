"""Requests to the coordinator of a group: which node that is, what is under way there, when it is looked for again.

Members of classic groups, streams and client-balanced members share it. It decides nothing about membership.
"""

from collections.abc import Callable, Iterator
from typing import Generic, Protocol, TypeVar

from membership.events import NodeAddress, SendRequest
from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.messages.node import ErrorReply, FindCoordinator, FindCoordinatorReply


class ChannelRequest(Protocol):
    """A request under way, with whatever its sender keeps beside it."""

    @property
    def message(self) -> Message: ...

    @property
    def node(self) -> NodeAddress | None: ...

    @property
    def to_coordinator(self) -> bool: ...

    @property
    def deadline_ms(self) -> int: ...


R = TypeVar("R", bound=ChannelRequest)


class CoordinatorChannel(Generic[R]):
    """Finds the coordinator of one group, keeps what is under way, and forgets the coordinator when it has gone."""

    def __init__(self, group_id: str, backoff_ms: Callable[[int], int]) -> None:
        """`backoff_ms` gives the pause after so many failures."""
        self.coordinator: NodeAddress | None = None
        self.requests: dict[int, R] = {}
        self._group_id = group_id
        self._backoff_ms = backoff_ms
        self._sent = 0
        self._lookup_failures = 0
        self._pause_until_ms: int | None = None
        """While it lasts, no lookup is sent."""

    # -- asking

    def send(self, request: R) -> SendRequest:
        """The effect that sends it."""
        self._sent += 1
        self.requests[self._sent] = request
        return SendRequest(self._sent, request.node, request.message)

    def is_asking(self, kind: type[Message]) -> bool:
        return any(type(request.message) is kind for request in self.requests.values())

    def stop_asking(self, *kinds: type[Message]) -> None:
        """Ignore the answers to these."""
        for number in [number for number, request in self.requests.items() if type(request.message) in kinds]:
            del self.requests[number]

    def answered(self, number: int) -> R | None:
        """The request that a reply belongs to; it is over. None: nobody waits for it."""
        request = self.requests.pop(number, None)
        if request is not None and request.to_coordinator:
            self._lookup_failures = 0
        return request

    def lost(self, number: int) -> R | None:
        """The request that no reply will come to; it is over."""
        return self.requests.pop(number, None)

    def overdue(self, now_ms: int) -> list[tuple[int, R]]:
        return [(number, request) for number, request in self.requests.items() if request.deadline_ms <= now_ms]

    # -- the coordinator

    def wants_lookup(self) -> bool:
        """Tell whether a lookup may be sent to whoever needs the coordinator."""
        return self.coordinator is None and self._pause_until_ms is None and not self.is_asking(FindCoordinator)

    def lookup(self) -> FindCoordinator:
        return FindCoordinator((self._group_id,))

    def hear_lookup(self, reply: FindCoordinatorReply) -> tuple[ErrorCode, str]:
        """Take the coordinator from the reply; NONE if it names one."""
        found = next((one for one in reply.coordinators if one.key == self._group_id), None)
        if found is None:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE, "no coordinator was named"
        if found.error_code == ErrorCode.NONE:
            self.coordinator = NodeAddress(found.host, found.port, found.node_id)
        return found.error_code, found.error_message or ""

    def look_up_later(self, now_ms: int) -> None:
        """Pause before the next lookup, longer after each failure."""
        self._pause_until_ms = now_ms + self._backoff_ms(self._lookup_failures)
        self._lookup_failures += 1

    def note_unreached(self, number: int, now_ms: int) -> None:
        """No connection could be made for a request. Where it was to the coordinator, the next lookup waits: it would
        find the same node at once, and fail again.
        """
        request = self.requests.get(number)
        is_coordinator = request is not None and request.to_coordinator and request.node == self.coordinator
        if is_coordinator and self._pause_until_ms is None:
            self.look_up_later(now_ms)

    def forget(self) -> list[int]:
        """The coordinator is elsewhere, or gone. The numbers of what it was asked."""
        self.coordinator = None
        return [number for number, request in self.requests.items() if request.to_coordinator]

    # -- time

    def pass_time(self, now_ms: int) -> None:
        if self._pause_until_ms is not None and self._pause_until_ms <= now_ms:
            self._pause_until_ms = None

    def end_pause(self) -> None:
        self._pause_until_ms = None

    def deadlines(self) -> Iterator[int]:
        if self._pause_until_ms is not None:
            yield self._pause_until_ms
        for request in self.requests.values():
            yield request.deadline_ms


def normalised(message: Message, reply: Message, reason: str) -> tuple[ErrorCode, str, Message | None]:
    """The error of a reply, its sentence for people, and the reply itself unless the request was refused as a whole. A
    reply of an unexpected kind counts as the server's own error.
    """
    if isinstance(reply, ErrorReply):
        return reply.error_code, reply.error_message or reason, None
    if type(reply).__name__ != f"{type(message).__name__}Reply":
        wrong = f"a {type(reply).__name__} came back to a {type(message).__name__}"
        return ErrorCode.UNKNOWN_SERVER_ERROR, wrong, None
    return getattr(reply, "error_code", ErrorCode.NONE), getattr(reply, "error_message", "") or reason, reply
