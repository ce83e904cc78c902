"""Requests that wait for room in the write-ahead log, the first come first."""

from collections import deque

from protocol.messages.data import Produce
from protocol.session import RequestRef


class WaitingProduces:
    """`bytes` is what their records take."""

    __slots__ = ("bytes", "waiting")

    def __init__(self) -> None:
        self.waiting: deque[tuple[RequestRef, Produce, int]] = deque()
        self.bytes = 0

    def add(self, ref: RequestRef, message: Produce, size: int) -> None:
        self.waiting.append((ref, message, size))
        self.bytes += size

    def take(self) -> tuple[RequestRef, Produce]:
        """The one that has waited longest."""
        ref, message, size = self.waiting.popleft()
        self.bytes -= size
        return ref, message
