"""The messages of one stream, an iterator without end (docs/spec/consumer-client.md#D4)."""

import threading
import time
from collections.abc import Iterator
from typing import Any, Protocol

import msgspec

from membership.topic_partition import TopicPartition
from muster.core.fetching.records import ConsumerRecord
from muster.core.fetching.settings import Deserializer
from muster.errors import CannotDeserialize, ConsumerTimeout, MusterError
from muster.net.condition import LockedCondition
from muster.streams.queue import NoMessage, StreamQueue

_LOOK_S = 1.0
_LEASE_LOOK_S = 0.05


class OnTaken(Protocol):
    """Called when a stream took a message."""

    def __call__(self, *, made_room: bool) -> None: ...


class MessageStream:
    """Iterate it from one thread: no other stream returns its messages, and those of one partition come in order. The
    iterator waits for ever, or raises ConsumerTimeout after `consumer_timeout_ms`, after which it can be continued; it
    ends when the connector is shut down. A message that cannot be read is raised as an error; if continued, the stream
    returns messages of other partitions and raises the error again, except CannotDeserialize, which skips the message.
    """

    def __init__(
        self,
        queue: StreamQueue,
        condition: LockedCondition,
        has_taken: OnTaken,
        timeout_ms: int,
        key_deserializer: Deserializer | None,
        value_deserializer: Deserializer | None,
    ) -> None:
        self._queue = queue
        self._condition = condition
        self._has_taken = has_taken
        self._timeout_ms = timeout_ms
        self._key_deserializer = key_deserializer
        self._value_deserializer = value_deserializer
        self._thread: int | None = None
        queue.wake = condition.notify_all

    def __iter__(self) -> Iterator[ConsumerRecord]:
        return self

    def __next__(self) -> ConsumerRecord:
        record = self._take()
        if self._key_deserializer is None and self._value_deserializer is None:
            return record
        key = _made(self._key_deserializer, record, "key", record.key)
        value = _made(self._value_deserializer, record, "value", record.value)
        return msgspec.structs.replace(record, key=key, value=value)

    def _take(self) -> ConsumerRecord:
        deadline_ms: int | None = None
        with self._condition.lock:
            self._thread = threading.get_ident()
            while True:
                was_full = self._queue.is_full
                taken = self._queue.take(now_ms())
                self._has_taken(made_room=(was_full and not self._queue.is_full) or isinstance(taken, MusterError))
                if isinstance(taken, ConsumerRecord):
                    return taken
                if isinstance(taken, MusterError):
                    raise taken.with_traceback(None)
                if taken is NoMessage.ENDED:
                    raise StopIteration
                wait_s = _LEASE_LOOK_S if taken is NoMessage.LEASE_OVER else _LOOK_S
                if self._timeout_ms >= 0:
                    deadline_ms = now_ms() + self._timeout_ms if deadline_ms is None else deadline_ms
                    left_ms = deadline_ms - now_ms()
                    if left_ms <= 0:
                        raise ConsumerTimeout(f"no message came within {self._timeout_ms} ms")
                    wait_s = min(wait_s, left_ms / 1000)
                self._condition.wait(wait_s)

    def finish_here(self) -> None:
        """Count the message in hand as processed, if the calling thread has it. Called with the lock."""
        if self._thread == threading.get_ident():
            self._queue.finish()


def _made(deserializer: Deserializer | None, record: ConsumerRecord, part: str, data: bytes | None) -> Any:
    if deserializer is None or data is None:
        return data
    try:
        return deserializer(data)
    except Exception as reason:
        partition = TopicPartition(record.topic, record.partition)
        raise CannotDeserialize(partition, record.offset, part, reason) from reason


def now_ms() -> int:
    """Milliseconds of the cores' clock."""
    return time.monotonic_ns() // 1_000_000
