"""Writing records: batched by partition, each stored once, acknowledged when durable."""

import random
import time
from collections import deque
from types import TracebackType
from typing import Literal, Self

from muster.blocking.background import Background, Driven
from muster.blocking.callbacks import Callbacks
from muster.blocking.sent import Sent
from muster.dialects import Dialect
from muster.dialects.bootstrap import parse_bootstrap
from muster.errors import ClientClosed, ClientFailed, MusterError, RequestTimedOut
from muster.events import Effect, Woke
from muster.producing import Producing
from muster.producing.batch import Pending
from muster.producing.handles import (
    CompressionName,
    Headers,
    hand_over,
    not_answered,
    not_taken,
    pending,
    producer_settings,
)
from muster.security import SecurityLike

_REMEMBERED_FAILURES = 1_000


class Producer:
    """Appends records to topics, from any number of threads. A thread of its own sends them: a batch of a partition
    goes out when it has `batch_bytes` or is `linger_ms` old, and sooner at `flush` and `close`.

    Idempotent, which it is with `acks=-1` unless `enable_idempotence` is False: a record that is acknowledged is in the
    log once, and the records of a partition stand there in the order of their `send`s, whatever connections, nodes and
    answers were lost meanwhile. One that is not acknowledged within `delivery_timeout_ms` fails, and those after it go
    on; it may be in the log nevertheless, once.

    Making one connects to nothing. Not for use across a fork.
    """

    def __init__(
        self,
        bootstrap: str,
        *,
        acks: int | Literal["all"] = -1,
        enable_idempotence: bool | None = None,
        compression: CompressionName = "none",
        batch_bytes: int = 16_384,
        linger_ms: int = 5,
        buffer_memory_bytes: int = 32 * 1024 * 1024,
        max_request_bytes: int = 1024 * 1024,
        max_block_ms: int = 60_000,
        request_timeout_ms: int = 30_000,
        delivery_timeout_ms: int = 120_000,
        retry_backoff_ms: int = 100,
        retry_backoff_max_ms: int = 1_000,
        client_id: str = "muster",
        dialect: Dialect | str | None = None,
        security: SecurityLike | None = None,
        broker_security: SecurityLike | None = None,
    ) -> None:
        """`acks` -1 or "all": on disk; 1: appended; 0: written to the connection, and nothing is heard of what goes
        wrong from there on. `max_block_ms` is what `send` waits for a topic to be known and for room in
        `buffer_memory_bytes`. Raises ValueError for what cannot work.
        """
        self._core = Producing(
            producer_settings(
                acks=acks,
                enable_idempotence=enable_idempotence,
                compression=compression,
                batch_bytes=batch_bytes,
                linger_ms=linger_ms,
                buffer_memory_bytes=buffer_memory_bytes,
                max_request_bytes=max_request_bytes,
                request_timeout_ms=request_timeout_ms,
                delivery_timeout_ms=delivery_timeout_ms,
                retry_backoff_ms=retry_backoff_ms,
                retry_backoff_max_ms=retry_backoff_max_ms,
            ),
            random.randrange(1 << 16),  # noqa: S311 - else all short-lived producers begin with partition 0
        )
        self._max_block_s = max_block_ms / 1000
        self._background = Background(parse_bootstrap(bootstrap, dialect, security, broker_security), client_id)
        self._driven = Driven(self._core, self._take)
        self._background.add(self._driven)
        self._background.on_failure = self._fail
        self._changed = self._background.changed
        self._callbacks = Callbacks(self._changed, self._background.refusals)
        self._failed: deque[Sent] = deque(maxlen=_REMEMBERED_FAILURES)
        self._is_closed = False

    def send(
        self,
        topic: str,
        value: bytes | str | None,
        key: bytes | str | None = None,
        partition: int | None = None,
        *,
        headers: Headers = (),
        timestamp_ms: int | None = None,
    ) -> Sent:
        """Take a record to be written to `partition`, or by the key's hash as Kafka's clients place it, or in turns.
        Text is encoded as UTF-8; `timestamp_ms` None: now. What is returned knows the partition at once, and later the
        offset.

        Raises `Refused` for a topic that is not there, ValueError for a partition that is not, `CannotConnect` or
        `RequestTimedOut` if nothing is known of the topic in `max_block_ms`, `BufferFull` if there is no room so long;
        `AuthenticationFailed` if it has to wait and a server does not let us in.
        """
        wall_ms = time.time_ns() // 1_000_000 if timestamp_ms is None else timestamp_ms
        sent = Sent(self._callbacks, topic, wall_ms)
        record = pending(key, value, headers, wall_ms, sent)
        with self._changed:
            placed = self._append(topic, partition, record)
            if placed < 0:
                placed = self._append_later(topic, partition, record)
            sent.partition = placed
            if self._core.wants_step:
                self._background.feed(self._driven, Woke())
        return sent

    def flush(self, timeout_s: float | None = None) -> None:
        """Send what was collected and wait until all of it is acknowledged or given up, within `delivery_timeout_ms`
        at the latest, and its callbacks have returned: or `timeout_s`. Raises the first failure since the last flush
        that nobody was told of by its `Sent`, `CannotConnect` or `RequestTimedOut` after `timeout_s`, and
        `AuthenticationFailed` at once; what remains is still on its way then. From a callback it waits for no
        callbacks.
        """
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        with self._changed:
            number = self._core.close_batches()
            if not self._core.is_flushed(number):
                self._background.feed(self._driven, Woke())
            refusals = self._background.refusals
            self._changed.wait_for(lambda: self._core.is_flushed(number) or not refusals.is_told, timeout_s)
            if not self._core.is_flushed(number):
                refusals.raise_last()
                sentence = f"not all records were acknowledged within {timeout_s:g} s"
                raise self._explained(not_answered(sentence, self._background.trouble))
            failed = [sent for sent in self._failed if not sent.is_told]
            self._failed.clear()
        if not self._callbacks.wait(_left_s(deadline)):
            raise RequestTimedOut(f"not all callbacks have returned within {timeout_s:g} s")
        if failed:
            failed[0].result()
        self._background.refusals.raise_failure()

    def close(self, timeout_s: float | None = None) -> None:
        """Flush and disconnect; what is not acknowledged after `timeout_s` is given up, and its callbacks are called.
        Raises as `flush` does, once everything is closed. Closing twice is fine.
        """
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        with self._changed:
            if self._is_closed:
                return
            self._is_closed = True
        try:
            self.flush(timeout_s)
        finally:
            with self._changed:
                self._abandon(ClientClosed("the producer was closed before the record was acknowledged"))
                self._changed.notify_all()
            self._background.stop()
            self._callbacks.wait(_left_s(deadline))
            self._callbacks.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.close()
        except MusterError:
            if error is None:  # what came first is what people must see
                raise

    # -- under the lock

    def _append(self, topic: str, partition: int | None, record: Pending) -> int:
        if self._is_closed:
            raise ClientClosed("this producer was closed")
        self._background.refusals.raise_failure()
        return self._core.append(topic, partition, record, _now_ms())

    def _append_later(self, topic: str, partition: int | None, record: Pending) -> int:
        """The topic is asked for, or whatever is collected goes out, which makes room."""
        deadline = time.monotonic() + self._max_block_s
        while True:
            if self._core.wants_step:
                self._background.feed(self._driven, Woke())
            placed = self._append(topic, partition, record)
            if placed >= 0:
                return placed
            if self._core.wants_step:
                continue
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                raise not_taken(placed, topic, self._max_block_s, self._background.trouble)
            self._background.refusals.raise_last()
            self._changed.wait(left_s)

    def _take(self, effect: Effect) -> None:
        for failed in hand_over(effect, self._explained):
            assert isinstance(failed, Sent)
            self._failed.append(failed)

    def _fail(self) -> None:
        """Give up all records: the client failed."""
        try:
            self._background.refusals.raise_failure()
        except ClientFailed as failed:
            self._abandon(failed)

    def _abandon(self, error: MusterError) -> None:
        self._core.abandon(error)
        for effect in self._core.step(Woke(), _now_ms()):
            self._take(effect)

    def _explained(self, error: MusterError) -> MusterError:
        return self._background.refusals.explained(error, self._background.trouble)


def _left_s(deadline: float | None) -> float | None:
    return None if deadline is None else max(deadline - time.monotonic(), 0.0)


def _now_ms() -> int:
    return time.monotonic_ns() // 1_000_000
