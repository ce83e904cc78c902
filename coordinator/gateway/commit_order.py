"""Order of the commits of one client to one group. A newer commit that need not wait for the cluster must not overtake
an older one that does, or the older offset would remain. Kafka's dialect answers in order anyway."""

from collections import deque

from protocol.messages import Message
from protocol.messages.offsets import OffsetCommit
from protocol.session import RequestRef

PendingCommit = tuple[RequestRef, Message]
_QueueKey = tuple[int, str]
"""A connection and a group."""


class CommitOrder:
    """Queues of commits. All commits of a queue may wait for the cluster at the same time, so none waits longer than
    the ones before it, which started earlier."""

    def __init__(self) -> None:
        self._queues: dict[_QueueKey, deque[PendingCommit]] = {}
        self._finished: set[RequestRef] = set()

    def start(self, ref: RequestRef, message: Message) -> None:
        """Queue a commit that waits for the cluster until `finish`."""
        if isinstance(message, OffsetCommit):
            self._queues.setdefault(_key_of(ref, message), deque()).append((ref, message))

    def enqueue_behind(self, ref: RequestRef, message: Message) -> bool:
        """Queue a commit behind waiting ones, to be returned by `finish`; return false if there are none."""
        queue = self._queues.get(_key_of(ref, message)) if isinstance(message, OffsetCommit) else None
        if queue is None:
            return False
        queue.append((ref, message))
        self._finished.add(ref)
        return True

    def finish(self, ref: RequestRef, message: Message) -> list[PendingCommit]:
        """Note that the request no longer waits; return the requests to serve now, in order."""
        if not isinstance(message, OffsetCommit):
            return [(ref, message)]
        self._finished.add(ref)
        key = _key_of(ref, message)
        queue, served = self._queues[key], list[PendingCommit]()
        while queue and queue[0][0] in self._finished:
            served.append(queue.popleft())
            self._finished.discard(served[-1][0])
        if not queue:
            del self._queues[key]
        return served


def _key_of(ref: RequestRef, message: OffsetCommit) -> _QueueKey:
    return ref.connection, message.group_id
