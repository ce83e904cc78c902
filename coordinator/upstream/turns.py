"""Commits of one client to one group, one after the other: while one waits for the cluster, a newer one must not be
stored before it, or the older would be what remains. Kafka's dialect answers one request after the other anyway."""

from collections import deque

from protocol.messages import Message
from protocol.messages.offsets import OffsetCommit
from protocol.session import RequestRef

Waiting = tuple[RequestRef, Message]


class Turns:
    """Who waits behind whom, by connection and group."""

    def __init__(self) -> None:
        self._behind: dict[tuple[int, str], deque[Waiting]] = {}

    def must_wait(self, ref: RequestRef, message: Message) -> bool:
        """Whether a commit before it is still waiting; `over` will hand it out then."""
        if not isinstance(message, OffsetCommit):
            return False
        behind = self._behind.get((ref.connection, message.group_id))
        if behind is None:
            return False
        behind.append((ref, message))
        return True

    def begin(self, ref: RequestRef, message: Message) -> None:
        """It waits for the cluster from now on."""
        if isinstance(message, OffsetCommit):
            self._behind[ref.connection, message.group_id] = deque()

    def over(self, ref: RequestRef, message: Message) -> deque[Waiting]:
        """It has been served: those that are to be served now, in their order. One of them may have to wait itself."""
        if not isinstance(message, OffsetCommit):
            return deque()
        return self._behind.pop((ref.connection, message.group_id), deque())
