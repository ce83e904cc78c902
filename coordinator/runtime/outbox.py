"""Replies and pushes to be sent, and replies that wait for the disk.

A reply is sent now (`send`), or held at a write-ahead position (`hold`) and released, in order, once that is durable
(the write rule). The outbox also keeps, for each group, the position that its replies must wait for: that of its last
record, until it is durable. The node encodes ready replies, a bounded slice a step.
"""

from collections import deque

from protocol.messages import Message
from protocol.session import RequestRef

Held = tuple[int, RequestRef, Message]
"""A reply that may be sent when the write-ahead log is durable up to the position."""


class Outbox:
    """Replies and pushes of a node, in order."""

    __slots__ = ("_durable", "_newest", "_positions", "held", "pushes", "ready")

    def __init__(self, durable: int) -> None:
        self.ready: deque[tuple[RequestRef, Message]] = deque()
        self.held: deque[Held] = deque()
        self.pushes: deque[tuple[int, Message]] = deque()
        """Messages without a request, each with its connection."""
        self._durable = durable
        self._positions: dict[str, int] = {}
        self._newest = 0

    def wrote(self, group_id: str, position: int) -> None:
        """Set the position at which the group's last record is durable. Positions only grow."""
        self._positions[group_id] = self._newest = position

    def position_of(self, group_id: str) -> int:
        """Position that a reply about the group waits for; 0 if none."""
        return self._positions.get(group_id, 0)

    def send(self, ref: RequestRef, reply: Message) -> None:
        """Send the reply in this step, or as soon as the slice allows."""
        self.ready.append((ref, reply))

    def hold(self, position: int, ref: RequestRef, reply: Message) -> None:
        """Send the reply when the log is durable up to `position`; at once if it is."""
        if position <= self._durable:
            self.ready.append((ref, reply))
            return
        # In order: a reply behind another never waits for less than it. One flush covers both nearly always.
        if self.held and self.held[-1][0] > position:
            position = self.held[-1][0]
        self.held.append((position, ref, reply))

    def hold_for(self, group_id: str, ref: RequestRef, reply: Message) -> None:
        """Send the reply when the group's last record is durable."""
        self.hold(self._positions.get(group_id, 0), ref, reply)

    def release(self, durable: int) -> None:
        """Release the replies up to this position: the write-ahead log is durable."""
        self._durable = durable
        while self.held and self.held[0][0] <= durable:
            _, ref, reply = self.held.popleft()
            self.ready.append((ref, reply))
        if self._newest <= durable:
            self._positions.clear()
        else:
            self._positions = {group_id: at for group_id, at in self._positions.items() if at > durable}

    def __bool__(self) -> bool:
        return bool(self.ready or self.pushes)
