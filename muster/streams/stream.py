"""What applications iterate: the messages of one stream, for ever (docs/spec/consumer-client.md#D4)."""

import threading
import time
from collections.abc import Iterator
from typing import Any, Protocol

import msgspec

from muster.errors import CannotDeserialize, ConsumerTimeout, MusterError
from muster.fetching import ConsumerRecord, Deserializer
from muster.streams.queue import StreamQueue, Taken
from muster.topic_partition import TopicPartition

_LOOK_S = 1.0
_LEASE_LOOK_S = 0.05


class HasTaken(Protocol):
    """Called when a stream has gone on."""

    def __call__(self, *, made_room: bool) -> None: ...


class MessageStream:
    """Iterate it from one thread: each of its messages comes to nobody else, those of one partition in their order.

    The iterator waits for ever, or raises ConsumerTimeout after `consumer_timeout_ms` and can be asked again; it ends
    when the connector is shut down. What cannot be read is raised in the place of the message; asked again, the stream
    goes on with other partitions and raises it again, but for CannotDeserialize, which skips the message.
    """

    def __init__(
        self,
        queue: StreamQueue,
        condition: threading.Condition,
        has_taken: HasTaken,
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
        with self._condition:
            self._thread = threading.get_ident()
            while True:
                was_full = self._queue.is_full
                taken = self._queue.take(now_ms())
                self._has_taken(made_room=(was_full and not self._queue.is_full) or isinstance(taken, MusterError))
                if isinstance(taken, ConsumerRecord):
                    return taken
                if isinstance(taken, MusterError):
                    raise taken.with_traceback(None)
                if taken is Taken.ENDED:
                    raise StopIteration
                wait_s = _LEASE_LOOK_S if taken is Taken.LEASE_OVER else _LOOK_S
                if self._timeout_ms >= 0:
                    deadline_ms = now_ms() + self._timeout_ms if deadline_ms is None else deadline_ms
                    left_ms = deadline_ms - now_ms()
                    if left_ms <= 0:
                        raise ConsumerTimeout(f"no message came within {self._timeout_ms} ms")
                    wait_s = min(wait_s, left_ms / 1000)
                self._condition.wait(wait_s)

    def finish_here(self) -> None:
        """The message in hand counts as done if this is the thread that has it. Called under the lock."""
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
    """As cores are told it."""
    return time.monotonic_ns() // 1_000_000
