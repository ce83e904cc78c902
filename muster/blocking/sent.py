"""The future of a record that was sent."""

from collections.abc import Callable
from functools import partial

import msgspec

from membership.topic_partition import TopicPartition
from muster.blocking.callbacks import Callbacks
from muster.core.producing.handles import Written
from muster.errors import MusterError, RequestTimedOut


class Sent(msgspec.Struct, eq=False):
    """The future of a sent record: its position in the log, or its error. Usable from several threads. `topic` and
    `partition` are known at once.
    """

    _callbacks: Callbacks
    topic: str
    _timestamp_ms: int
    partition: int = -1
    _written: Written | None = None
    _error: MusterError | None = None
    _wanted: tuple[Callable[["Sent"], object], ...] = ()
    is_told: bool = False
    """True if the application has asked for the result, so that a failure need not be reported otherwise."""

    @property
    def topic_partition(self) -> TopicPartition:
        """The record's partition."""
        return TopicPartition(self.topic, self.partition)

    @property
    def is_done(self) -> bool:
        """True if it was acknowledged or given up."""
        return self._written is not None or self._error is not None

    def result(self, timeout_s: float | None = None) -> Written:
        """Wait until the record is acknowledged. Raises the record's error, `RequestTimedOut` if it has no outcome in
        `timeout_s`, and `AuthenticationFailed` at once if a server refuses the login; in the last two cases the record
        is still being sent.
        """
        error = self.exception(timeout_s)
        if error is not None:
            raise error
        assert self._written is not None
        return self._written

    def exception(self, timeout_s: float | None = None) -> MusterError | None:
        """Wait as `result` does; return the record's error, None if it was acknowledged."""
        changed = self._callbacks.changed
        with changed.lock:
            refusals = self._callbacks.refusals
            changed.wait_for(lambda: self.is_done or not refusals.is_clear, timeout_s)
            if not self.is_done:
                refusals.raise_last()
                raise RequestTimedOut(f"a record for {self.topic_partition} is not acknowledged after {timeout_s:g} s")
            self.is_told = True
            return self._error

    def add_done_callback(self, callback: Callable[["Sent"], object]) -> None:
        """Call `callback(sent)` once this is done, or soon if it is already. Callbacks of one producer are called in a
        separate thread, one after the other, in the order in which records were done: they may send, wait and close;
        their exceptions are logged. `flush` and `close` wait for them.
        """
        with self._callbacks.changed.lock:
            self.is_told = True
            if self.is_done:
                self._callbacks.put(partial(callback, self))
            else:
                self._wanted = (*self._wanted, callback)

    # -- for the producer, under the lock

    @property
    def outcome(self) -> tuple[Written, MusterError | None]:
        """The record's position in the log, or its error, once it is done."""
        return self._written or Written(self.topic, self.partition, -1, self._timestamp_ms), self._error

    def deliver(self, offset: int, append_time_ms: int) -> None:
        timestamp_ms = self._timestamp_ms if append_time_ms < 0 else append_time_ms
        self._written = Written(self.topic, self.partition, offset, timestamp_ms)
        self._end()

    def fail(self, error: MusterError) -> None:
        self._error = error
        self._end()

    def _end(self) -> None:
        wanted, self._wanted = self._wanted, ()
        for callback in wanted:
            self._callbacks.put(partial(callback, self))
