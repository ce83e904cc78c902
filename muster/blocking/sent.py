"""What becomes of a record that was sent."""

import contextlib
import logging
import threading
from collections.abc import Callable

import msgspec

from muster.errors import MusterError, RequestTimedOut
from muster.producing.handles import Written
from muster.topic_partition import TopicPartition


class Sent(msgspec.Struct, eq=False):
    """A record on its way, and then where it stands or why it does not. Usable from several threads."""

    _changed: threading.Condition
    topic: str
    _timestamp_ms: int
    partition: int = -1
    _written: Written | None = None
    _error: MusterError | None = None
    _callbacks: list[Callable[["Sent"], None]] | None = None
    is_told: bool = False
    """Whether somebody has asked, so that a failure needs no other way to be heard of."""

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    @property
    def is_done(self) -> bool:
        return self._written is not None or self._error is not None

    def result(self, timeout_s: float | None = None) -> Written:
        """Wait until the record is acknowledged. Raises why it was given up, and `RequestTimedOut` if it is not decided
        in `timeout_s`; then it is still on its way.
        """
        error = self.exception(timeout_s)
        if error is not None:
            raise error
        assert self._written is not None
        return self._written

    def exception(self, timeout_s: float | None = None) -> MusterError | None:
        """Wait as `result` does; why the record was given up, None if it was not."""
        with self._changed:
            if not self._changed.wait_for(lambda: self.is_done, timeout_s):
                raise RequestTimedOut(f"a record for {self.topic_partition} is not acknowledged after {timeout_s:g} s")
            self.is_told = True
            return self._error

    def add_done_callback(self, callback: Callable[["Sent"], None]) -> None:
        """Have it called once this is done, in the client's own thread: it must not wait. At once if it is."""
        with self._changed:
            self.is_told = True
            if not self.is_done:
                self._callbacks = [*(self._callbacks or ()), callback]
                return
        _call(callback, self)

    # -- by the producer, under the lock

    def deliver(self, offset: int, append_time_ms: int) -> None:
        timestamp_ms = self._timestamp_ms if append_time_ms < 0 else append_time_ms
        self._written = Written(self.topic, self.partition, offset, timestamp_ms)
        self._end()

    def fail(self, error: MusterError) -> None:
        self._error = error
        self._end()

    def _end(self) -> None:
        callbacks, self._callbacks = self._callbacks, None
        for callback in callbacks or ():
            _call(callback, self)


def _call(callback: Callable[[Sent], None], sent: Sent) -> None:
    with contextlib.suppress(Exception):
        try:
            callback(sent)
        except Exception:
            logging.getLogger("muster").exception("a callback of Sent.add_done_callback failed")
            raise
