"""Writing records from an event loop: batched by partition, each stored once, acknowledged when durable."""

import asyncio
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Self

from membership.events import OffsetToCommit
from membership.topic_partition import TopicPartition
from muster.aio.runner import LoopRunner
from muster.aio.sent import Sent
from muster.client.interceptors import ProducerRecord
from muster.client.producer import ProducerProcedures
from muster.client.transactional import CommittingMember, group_offsets
from muster.core.producing.batch import Pending
from muster.core.producing.handles import Headers, pending
from muster.errors import MusterError


class Producer(ProducerProcedures):
    """Appends records to topics, from any number of tasks of one event loop. A batch of a partition is sent when it has
    `batch_bytes` or is `linger_ms` old, and sooner at `flush` and `close`. Settings, errors and guarantees are those of
    `muster.Producer`. The constructor opens no connection, and needs no running event loop.
    """

    _runner_of = LoopRunner

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
        Text is encoded as UTF-8; `timestamp_ms` None: now. The result has the partition at once, and later the offset:
        `await` it. If cancelled while it waits for room or for the topic, it has taken no record.

        Raises `Refused` for a topic that does not exist, ValueError for a partition that does not, `CannotConnect` or
        `RequestTimedOut` without metadata of the topic within `max_block_ms`, `BufferFull` without room within that
        time; `AuthenticationFailed` if it has to wait and a server refuses the login.
        """
        if self._owes_turn:  # otherwise a task that keeps sending would keep the loop from reading replies
            self._owes_turn = False
            await asyncio.sleep(0)
        if self._interceptors:
            taken: Sent = await self._runner.run(
                self._send_intercepted(ProducerRecord(topic, value, key, partition, headers, timestamp_ms))
            )
            return taken
        wall_ms = _now_ms() if timestamp_ms is None else timestamp_ms
        sent = Sent(topic, wall_ms, self._driver.refusals)
        record = pending(key, value, headers, wall_ms, sent)
        if self._append(topic, partition, record, sent) < 0:
            await self._runner.run(self._append_later(topic, partition, record, sent))
        return sent

    def _begin(self, record: ProducerRecord) -> tuple[Sent, Pending]:
        wall_ms = _now_ms() if record.timestamp_ms is None else record.timestamp_ms
        sent = Sent(record.topic, wall_ms, self._driver.refusals, self._interceptors.callbacks)
        return sent, pending(record.key, record.value, record.headers, wall_ms, sent)

    async def begin(self, timeout_s: float | None = None) -> None:
        """Begin a transaction: from now on each record belongs to it, until `commit` or `abort`. The first one fences
        every other producer with this `transactional_id`, and aborts its open transaction. `timeout_s` None:
        `max_block_ms`, here and below.

        Raises `ProducerFenced` once another producer has begun, MusterError if a transaction is open.
        """
        await self._runner.run(self._begin_transaction(timeout_s))

    async def send_offsets(
        self,
        offsets: Mapping[TopicPartition, int | OffsetToCommit],
        group: str | CommittingMember,
        timeout_s: float | None = None,
    ) -> None:
        """Add offsets of a group to the transaction: they count when it is committed. `offsets` are the next to read,
        as in a consumer's `commit`. `group` is the `member` of the consumer that read the records, whose commit is
        refused once the group has given its partitions to another; or a group id, for a group without members.

        Raises `TransactionFailed` where the group's coordinator refuses: abort.
        """
        await self._runner.run(self._send_offsets(group_offsets(offsets, group), timeout_s))

    async def commit(self, timeout_s: float | None = None) -> None:
        """Send the buffered records, wait until all are acknowledged, and commit the transaction: all its records and
        offsets are committed once this returns.

        Raises `TransactionFailed` if a record or an offset was refused: abort. After `RequestTimedOut` or
        `CannotConnect` the result is unknown: call it again, until it returns or raises `TransactionFailed`.
        """
        await self._runner.run(self._commit_transaction(timeout_s))

    async def abort(self, timeout_s: float | None = None) -> None:
        """Give up unacknowledged records, and abort the transaction with all its records and offsets. Consumers with
        "read_committed" never see its records.
        """
        await self._runner.run(self._abort_transaction(timeout_s))

    async def flush(self, timeout_s: float | None = None) -> None:
        """Send the buffered records and wait until all are acknowledged or given up: within `delivery_timeout_ms` at
        the latest, or `timeout_s`. Raises the first failure since the last flush that no `Sent` has reported,
        `CannotConnect` or `RequestTimedOut` after `timeout_s`, and `AuthenticationFailed` at once; the remaining
        records are still being sent then.
        """
        failed: list[Sent] = await self._runner.run(self._flush(timeout_s))
        if failed:
            await failed[0].result()
        self._driver.refusals.raise_failure()

    async def close(self, timeout_s: float | None = None) -> None:
        """Flush, or abort the open transaction, and disconnect; records that are not acknowledged after `timeout_s`, or
        when this is cancelled, are given up. Closing twice is fine.
        """
        if self._is_closed:
            return
        self._is_closed = True
        try:
            await self._runner.run(self._leave_transaction(timeout_s))
            await self.flush(timeout_s)
        finally:
            self._give_up()
            await self._driver.stop()
            await asyncio.sleep(0)  # lets the loop call interceptors and callbacks of abandoned records
            await self._runner.run(self._interceptors.close())

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await self.close()
        except MusterError:
            if error is None:  # the first error is the one to show
                raise


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
