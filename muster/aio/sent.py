"""The future of a record that was sent."""

import asyncio
from collections.abc import Callable, Generator
from typing import Final

from membership.topic_partition import TopicPartition
from muster.core.producing.handles import Written
from muster.errors import MusterError, RequestTimedOut
from muster.net.refusals import Refusals

_LOOK_S: Final = 0.5


class Sent:
    """The future of a sent record: its position in the log, or its error. `topic` and `partition` are known at once.
    `await sent` is `await sent.result()`.
    """

    __slots__ = (
        "_callbacks",
        "_ended",
        "_error",
        "_refusals",
        "_timestamp_ms",
        "_written",
        "is_told",
        "partition",
        "topic",
    )

    def __init__(
        self,
        topic: str,
        timestamp_ms: int,
        refusals: Refusals | None = None,
        callbacks: "tuple[Callable[[Sent], object], ...]" = (),
    ) -> None:
        self.topic = topic
        self.partition = -1
        self.is_told = False
        """True if the application has asked for the result, so that a failure need not be reported otherwise."""
        self._timestamp_ms = timestamp_ms
        self._refusals = refusals
        self._written: Written | None = None
        self._error: MusterError | None = None
        self._ended: asyncio.Future[None] | None = None
        self._callbacks = callbacks

    @property
    def topic_partition(self) -> TopicPartition:
        """The record's partition."""
        return TopicPartition(self.topic, self.partition)

    @property
    def is_done(self) -> bool:
        """True if it was acknowledged or given up."""
        return self._written is not None or self._error is not None

    async def result(self, timeout_s: float | None = None) -> Written:
        """Wait until the record is acknowledged. Raises the record's error, `RequestTimedOut` if it has no outcome in
        `timeout_s`, and `AuthenticationFailed` within a second if a server refuses the login; in the last two cases, or
        when this is cancelled, the record is still being sent.
        """
        error = await self.exception(timeout_s)
        if error is not None:
            raise error
        assert self._written is not None
        return self._written

    async def exception(self, timeout_s: float | None = None) -> MusterError | None:
        """Wait as `result` does; return the record's error, None if it was acknowledged."""
        if not self.is_done:
            self._ended = self._ended or asyncio.get_running_loop().create_future()
            loop = asyncio.get_running_loop()
            deadline = None if timeout_s is None else loop.time() + timeout_s
            while not self.is_done:
                left_s = _LOOK_S if deadline is None else min(_LOOK_S, deadline - loop.time())
                if left_s <= 0:
                    what = f"a record for {self.topic_partition} is not acknowledged after {timeout_s:g} s"
                    raise RequestTimedOut(what)
                # Has a future of its own, since thousands may wait, and each event of the client would wake all of
                # them.
                await asyncio.wait((self._ended,), timeout=left_s)
                if self._refusals is not None and not self._ended.done():
                    self._refusals.raise_last()
        self.is_told = True
        return self._error

    def __await__(self) -> Generator[object, None, Written]:
        return self.result().__await__()

    def add_done_callback(self, callback: Callable[["Sent"], object]) -> None:
        """Have the event loop call `callback` soon after this is done."""
        self.is_told = True
        self._callbacks = (*self._callbacks, callback)
        if self.is_done:
            self._end()

    # -- for the producer

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
        if self._ended is not None and not self._ended.done():
            self._ended.set_result(None)
        if self._callbacks:
            callbacks, self._callbacks = self._callbacks, ()
            loop = asyncio.get_running_loop()
            for callback in callbacks:
                loop.call_soon(callback, self)
