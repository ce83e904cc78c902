"""Writing records from an event loop: batched by partition, each stored once, acknowledged when durable."""

import asyncio
import random
import time
from collections import deque
from types import TracebackType
from typing import Literal, Self

from muster.aio.driver import Driver
from muster.aio.sent import Sent
from muster.dialects import Dialect
from muster.dialects.bootstrap import parse_bootstrap
from muster.driven import Driven
from muster.errors import ClientClosed, ClientFailed, MusterError
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
    """Appends records to topics, from any number of tasks of one event loop. A batch of a partition goes out when it
    has `batch_bytes` or is `linger_ms` old, and sooner at `flush` and `close`. Settings, errors and what is promised
    are those of `muster.Producer`. Making one connects to nothing, and needs no event loop yet.
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
        """As `muster.Producer`. Raises ValueError for what cannot work."""
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
        self._driver = Driver(parse_bootstrap(bootstrap, dialect, security, broker_security), client_id)
        self._driven = Driven(self._core, self._take)
        self._driver.add(self._driven)
        self._driver.on_failure = self._fail
        self._failed: deque[Sent] = deque(maxlen=_REMEMBERED_FAILURES)
        self._owes_turn = False
        self._is_closed = False

    async def send(
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
        offset: `await` it. Cancelled while it waits for room or for the topic, this has taken nothing.

        Raises `Refused` for a topic that is not there, ValueError for a partition that is not, `CannotConnect` or
        `RequestTimedOut` if nothing is known of the topic in `max_block_ms`, `BufferFull` if there is no room so long;
        `AuthenticationFailed` if it has to wait and a server does not let us in.
        """
        if self._owes_turn:  # else one who sends and sends would keep the loop from hearing answers
            self._owes_turn = False
            await asyncio.sleep(0)
        wall_ms = time.time_ns() // 1_000_000 if timestamp_ms is None else timestamp_ms
        sent = Sent(topic, wall_ms, self._driver.refusals)
        record = pending(key, value, headers, wall_ms, sent)
        placed = self._append(topic, partition, record)
        if placed < 0:
            placed = await self._append_later(topic, partition, record)
        sent.partition = placed
        self._step_if_wanted()
        return sent

    async def flush(self, timeout_s: float | None = None) -> None:
        """Send what was collected and wait until all of it is acknowledged or given up: within `delivery_timeout_ms`
        at the latest, or `timeout_s`. Raises the first failure since the last flush that nobody was told of by its
        `Sent`, `CannotConnect` or `RequestTimedOut` after `timeout_s`, and `AuthenticationFailed` at once; what remains
        is still on its way then.
        """
        number = self._core.close_batches()
        if not self._core.is_flushed(number):
            self._driver.feed(self._driven, Woke())
        refusals = self._driver.refusals
        await self._driver.changed.wait_for(lambda: self._core.is_flushed(number) or not refusals.is_told, timeout_s)
        if not self._core.is_flushed(number):
            refusals.raise_last()
            sentence = f"not all records were acknowledged within {timeout_s:g} s"
            raise self._explained(not_answered(sentence, self._driver.trouble))
        failed = [sent for sent in self._failed if not sent.is_told]
        self._failed.clear()
        if failed:
            await failed[0].result()
        self._driver.refusals.raise_failure()

    async def close(self, timeout_s: float | None = None) -> None:
        """Flush and disconnect; what is not acknowledged after `timeout_s`, or when this is cancelled, is given up.
        Closing twice is fine.
        """
        if self._is_closed:
            return
        self._is_closed = True
        try:
            await self.flush(timeout_s)
        finally:
            self._abandon(ClientClosed("the producer was closed before the record was acknowledged"))
            self._driver.changed.notify_all()
            await self._driver.stop()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await self.close()
        except MusterError:
            if error is None:  # what came first is what people must see
                raise

    def _append(self, topic: str, partition: int | None, record: Pending) -> int:
        if self._is_closed:
            raise ClientClosed("this producer was closed")
        self._driver.refusals.raise_failure()
        return self._core.append(topic, partition, record, self._driver.now_ms())

    async def _append_later(self, topic: str, partition: int | None, record: Pending) -> int:
        """The topic is asked for, or whatever is collected goes out, which makes room."""
        loop = self._driver.loop
        deadline = loop.time() + self._max_block_s
        while True:
            self._step_if_wanted()
            placed = self._append(topic, partition, record)
            if placed >= 0:
                return placed
            if self._core.wants_step:
                continue
            left_s = deadline - loop.time()
            if left_s <= 0:
                raise not_taken(placed, topic, self._max_block_s, self._driver.trouble)
            self._driver.refusals.raise_last()
            await self._driver.changed.wait(left_s)

    def _step_if_wanted(self) -> None:
        if self._core.wants_step:
            self._owes_turn = True
            self._driver.feed(self._driven, Woke())

    def _take(self, effect: Effect) -> None:
        for failed in hand_over(effect, self._explained):
            assert isinstance(failed, Sent)
            self._failed.append(failed)

    def _fail(self) -> None:
        """Give up all records: the client failed."""
        try:
            self._driver.refusals.raise_failure()
        except ClientFailed as failed:
            self._abandon(failed)

    def _abandon(self, error: MusterError) -> None:
        self._core.abandon(error)
        for effect in self._core.step(Woke(), self._driver.now_ms()):
            self._take(effect)

    def _explained(self, error: MusterError) -> MusterError:
        return self._driver.refusals.explained(error, self._driver.trouble)
