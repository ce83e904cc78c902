"""Commits of one client to one group, stored in their order: a newer one that need not wait for the cluster must not go
before an older one that does, or the older would be what remains. Kafka's dialect answers one request after the other
anyway."""

from collections import deque

from protocol.messages import Message
from protocol.messages.offsets import OffsetCommit
from protocol.session import RequestRef

Waiting = tuple[RequestRef, Message]
_Line = tuple[int, str]
"""A connection, and a group."""


class CommitOrder:
    """Who stands behind whom. All of a line may wait for the cluster at the same time, so nobody waits longer than who
    stands before, who began earlier."""

    def __init__(self) -> None:
        self._lines: dict[_Line, deque[Waiting]] = {}
        self._ready: set[RequestRef] = set()

    def wait(self, ref: RequestRef, message: Message) -> None:
        """It waits for the cluster from now on, until `ready`."""
        if isinstance(message, OffsetCommit):
            self._lines.setdefault(_line(ref, message), deque()).append((ref, message))

    def is_behind(self, ref: RequestRef, message: Message) -> bool:
        """Whether it stands behind somebody who waits: `ready` will hand it out then."""
        line = self._lines.get(_line(ref, message)) if isinstance(message, OffsetCommit) else None
        if line is None:
            return False
        line.append((ref, message))
        self._ready.add(ref)
        return True

    def ready(self, ref: RequestRef, message: Message) -> list[Waiting]:
        """It need not wait any more: who is to be served now, in this order."""
        if not isinstance(message, OffsetCommit):
            return [(ref, message)]
        self._ready.add(ref)
        key = _line(ref, message)
        line, served = self._lines[key], list[Waiting]()
        while line and line[0][0] in self._ready:
            served.append(line.popleft())
            self._ready.discard(served[-1][0])
        if not line:
            del self._lines[key]
        return served


def _line(ref: RequestRef, message: OffsetCommit) -> _Line:
    return ref.connection, message.group_id
