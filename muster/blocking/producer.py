"""Writing records: batched by partition, each stored once, acknowledged when durable."""

import time
from collections.abc import Mapping
from types import TracebackType
from typing import Self

from membership.events import OffsetToCommit
from membership.topic_partition import TopicPartition
from muster.blocking.callbacks import Callbacks
from muster.blocking.runner import ThreadRunner
from muster.blocking.sent import Sent
from muster.client.interceptors import ProducerRecord
from muster.client.producer import ProducerProcedures
from muster.client.transactional import CommittingMember, group_offsets
from muster.core.producing.batch import Pending
from muster.core.producing.handles import Headers, pending
from muster.errors import MusterError, RequestTimedOut


class Producer(ProducerProcedures):
    """Appends records to topics, from any number of threads. A separate thread sends them: a batch of a partition is
    sent when it has `batch_bytes` or is `linger_ms` old, and sooner at `flush` and `close`.

    The producer is idempotent with `acks=-1` unless `enable_idempotence` is False: an acknowledged record is in the log
    once, and the records of a partition are in the order of their `send`s, despite lost connections, nodes and replies.
    A record that is not acknowledged within `delivery_timeout_ms` fails, and later records are still sent; it may be in
    the log nevertheless, once.

    The constructor opens no connection. Not for use across a fork.
    """

    _runner_of = ThreadRunner

    def _set_up(self) -> None:
        self._callbacks = Callbacks(self._driver.changed, self._driver.refusals)

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
        """Take a record for `partition`, or for one chosen by the key's hash as by Kafka's clients, or in turn. Text is
        encoded as UTF-8; `timestamp_ms` None: now. The result has the partition at once, and later the offset.

        Raises `Refused` for a topic that does not exist, ValueError for a partition that does not, `CannotConnect` or
        `RequestTimedOut` without metadata of the topic within `max_block_ms`, `BufferFull` without room within that
        time; `AuthenticationFailed` if it has to wait and a server refuses the login.
        """
        if self._interceptors:
            taken: Sent = self._runner.run(
                self._send_intercepted(ProducerRecord(topic, value, key, partition, headers, timestamp_ms))
            )
            return taken
        wall_ms = _now_ms() if timestamp_ms is None else timestamp_ms
        sent = Sent(self._callbacks, topic, wall_ms)
        record = pending(key, value, headers, wall_ms, sent)
        with self._driver.changed.lock:
            placed = self._append(topic, partition, record, sent)
        if placed < 0:
            self._runner.run(self._append_later(topic, partition, record, sent))
        return sent

    def _begin(self, record: ProducerRecord) -> tuple[Sent, Pending]:
        wall_ms = _now_ms() if record.timestamp_ms is None else record.timestamp_ms
        sent = Sent(self._callbacks, record.topic, wall_ms, _wanted=self._interceptors.callbacks)
        return sent, pending(record.key, record.value, record.headers, wall_ms, sent)

    def begin(self, timeout_s: float | None = None) -> None:
        """Begin a transaction: from now on each record belongs to it, until `commit` or `abort`. The first one fences
        every other producer with this `transactional_id`, and aborts its open transaction. `timeout_s` None:
        `max_block_ms`, here and below.

        Raises `ProducerFenced` once another producer has begun, MusterError if a transaction is open.
        """
        self._runner.run(self._begin_transaction(timeout_s))

    def send_offsets(
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
        self._runner.run(self._send_offsets(group_offsets(offsets, group), timeout_s))

    def commit(self, timeout_s: float | None = None) -> None:
        """Send the buffered records, wait until all are acknowledged, and commit the transaction: all its records and
        offsets are committed once this returns.

        Raises `TransactionFailed` if a record or an offset was refused: abort. After `RequestTimedOut` or
        `CannotConnect` the result is unknown: call it again, until it returns or raises `TransactionFailed`.
        """
        self._runner.run(self._commit_transaction(timeout_s))

    def abort(self, timeout_s: float | None = None) -> None:
        """Give up unacknowledged records, and abort the transaction with all its records and offsets. Consumers with
        "read_committed" never see its records.
        """
        self._runner.run(self._abort_transaction(timeout_s))

    def flush(self, timeout_s: float | None = None) -> None:
        """Send the buffered records and wait until all are acknowledged or given up, within `delivery_timeout_ms` at
        the latest, and their callbacks have returned, or for `timeout_s`. Raises the first failure since the last flush
        that no `Sent` has reported, `CannotConnect` or `RequestTimedOut` after `timeout_s`, and `AuthenticationFailed`
        at once; the remaining records are still being sent then. In a callback it waits for no callbacks.
        """
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        failed: list[Sent] = self._runner.run(self._flush(timeout_s))
        if not self._callbacks.wait(_left_s(deadline)):
            raise RequestTimedOut(f"not all callbacks have returned within {timeout_s:g} s")
        if failed:
            failed[0].result()
        self._driver.refusals.raise_failure()

    def close(self, timeout_s: float | None = None) -> None:
        """Flush, or abort the open transaction, and disconnect; records that are not acknowledged after `timeout_s` are
        given up, and their callbacks are called. Raises as `flush` does, once everything is closed. Closing twice is
        fine.
        """
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        with self._driver.changed.lock:
            if self._is_closed:
                return
            self._is_closed = True
        try:
            self._runner.run(self._leave_transaction(timeout_s))
            self.flush(_left_s(deadline))
        finally:
            with self._driver.changed.lock:
                self._give_up()
            self._driver.stop()
            self._callbacks.wait(_left_s(deadline))
            self._callbacks.stop()
            self._runner.run(self._interceptors.close())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.close()
        except MusterError:
            if error is None:  # the first error is the one to show
                raise


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _left_s(deadline: float | None) -> float | None:
    return None if deadline is None else max(deadline - time.monotonic(), 0.0)
