"""Requests to a group's coordinator: its address, the requests in flight, and pauses between lookups. Members of
classic groups, streams and client-balanced members share this. It decides nothing about membership.
"""

from collections.abc import Callable, Iterator
from typing import Generic, Protocol, TypeVar

from membership.events import NodeAddress, SendRequest
from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.messages.node import ErrorReply, FindCoordinator, FindCoordinatorReply


class ChannelRequest(Protocol):
    """A request in flight, with its sender's own data."""

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
    """Finds the coordinator of one group, keeps the requests in flight, and forgets a lost coordinator."""

    def __init__(self, group_id: str, backoff_ms: Callable[[int], int]) -> None:
        """`backoff_ms` returns the pause after a number of failures."""
        self.coordinator: NodeAddress | None = None
        self.requests: dict[int, R] = {}
        self._group_id = group_id
        self._backoff_ms = backoff_ms
        self._sent = 0
        self._lookup_failures = 0
        self._pause_until_ms: int | None = None
        """End of the pause in which no lookup is sent."""

    # -- requests

    def send(self, request: R) -> SendRequest:
        """Register the request, and return the effect that sends it."""
        self._sent += 1
        self.requests[self._sent] = request
        return SendRequest(self._sent, request.node, request.message)

    def is_asking(self, kind: type[Message]) -> bool:
        return any(type(request.message) is kind for request in self.requests.values())

    def stop_asking(self, *kinds: type[Message]) -> None:
        """Ignore replies to the requests of these types in flight."""
        for number in [number for number, request in self.requests.items() if type(request.message) in kinds]:
            del self.requests[number]

    def answered(self, number: int) -> R | None:
        """Remove and return the request that a reply belongs to; None if it is no longer wanted."""
        request = self.requests.pop(number, None)
        if request is not None and request.to_coordinator:
            self._lookup_failures = 0
        return request

    def lost(self, number: int) -> R | None:
        """Remove and return a request that will get no reply."""
        return self.requests.pop(number, None)

    def overdue(self, now_ms: int) -> list[tuple[int, R]]:
        return [(number, request) for number, request in self.requests.items() if request.deadline_ms <= now_ms]

    # -- the coordinator

    def wants_lookup(self) -> bool:
        """Return true if the coordinator is unknown, and a lookup may be sent now."""
        return self.coordinator is None and self._pause_until_ms is None and not self.is_asking(FindCoordinator)

    def lookup(self) -> FindCoordinator:
        return FindCoordinator((self._group_id,))

    def on_lookup_reply(self, reply: FindCoordinatorReply) -> tuple[ErrorCode, str]:
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
        """Note that no connection could be made for a request. If it was one to the coordinator, the next lookup waits,
        since it would find the same node and fail again.
        """
        request = self.requests.get(number)
        is_coordinator = request is not None and request.to_coordinator and request.node == self.coordinator
        if is_coordinator and self._pause_until_ms is None:
            self.look_up_later(now_ms)

    def forget(self) -> list[int]:
        """Forget the coordinator, which moved or is lost. Return the numbers of its requests in flight."""
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
    """Return the error of a reply, its message for people, and the reply itself unless the request was rejected as a
    whole. A reply of an unexpected type counts as UNKNOWN_SERVER_ERROR.
    """
    if isinstance(reply, ErrorReply):
        return reply.error_code, reply.error_message or reason, None
    if type(reply).__name__ != f"{type(message).__name__}Reply":
        wrong = f"a {type(reply).__name__} came back to a {type(message).__name__}"
        return ErrorCode.UNKNOWN_SERVER_ERROR, wrong, None
    return getattr(reply, "error_code", ErrorCode.NONE), getattr(reply, "error_message", "") or reason, reply
