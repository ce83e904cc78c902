"""Writing records: batched by partition, acknowledged when durable."""

import random
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Self

from muster.blocking.cluster import RETRY_S, Cluster, expect
from muster.errors import CannotConnect, ClientClosed, MusterError, Refused
from muster.events import NodeAddress
from muster.partitioner import partition_of
from muster.topic_partition import TopicPartition
from protocol.errors import ErrorCode
from protocol.messages.data import Produce, ProducePartition, ProduceReply, ProduceTopic
from protocol.record_batch import encode_batch

_STAY_RECORDS = 100
_RECORD_OVERHEAD_BYTES = 20


class Producer:
    """Appends records to topics. `send` only collects; what was collected goes out when it is `batch_bytes`, or is
    `linger_ms` old at the next `send`, and at `flush` and `close`. `acks` -1: on disk; 1: appended.

    A batch whose answer was lost is sent again, so its records may stand in the log twice. From one thread at a time.
    """

    def __init__(
        self,
        bootstrap: str,
        *,
        acks: int = -1,
        batch_bytes: int = 256 * 1024,
        linger_ms: int = 100,
        timeout_s: float = 30.0,
        client_id: str = "muster",
        dialect: str | None = None,
    ) -> None:
        if acks not in {-1, 1}:
            raise ValueError(f"acks is {acks}, it must be -1 (on disk) or 1 (appended)")
        self._cluster = Cluster(bootstrap, dialect=dialect, client_id=client_id)
        self._acks = acks
        self._batch_bytes = batch_bytes
        self._linger_s = linger_ms / 1000
        self._timeout_s = timeout_s
        self._batches: dict[TopicPartition, list[tuple[bytes | None, bytes | None]]] = {}
        self._bytes = 0
        self._oldest_s = 0.0
        self._turn = random.randrange(1 << 16)  # noqa: S311 - else all short-lived producers begin with partition 0
        self._stayed = 0
        self._is_closed = False

    def send(
        self,
        topic: str,
        value: bytes | str | None,
        key: bytes | str | None = None,
        partition: int | None = None,
    ) -> TopicPartition:
        """Collect a record and say which partition it goes to: `partition`, or by the key's hash as Kafka's clients
        place it, or in turns. Text is encoded as UTF-8. Raises what an earlier batch that goes out now met.
        """
        if self._is_closed:
            raise ClientClosed("this producer was closed")
        raw_value = value.encode() if isinstance(value, str) else value
        raw_key = key.encode() if isinstance(key, str) else key
        count = self._cluster.partition_count(topic, self._timeout_s)
        if partition is None:
            partition = self._next_turn() % count if raw_key is None else partition_of(raw_key, count)
        elif not 0 <= partition < count:
            raise ValueError(f"topic {topic!r} has partitions 0 to {count - 1}, not {partition}")
        if not self._batches:
            self._oldest_s = time.monotonic()
        one = TopicPartition(topic, partition)
        self._batches.setdefault(one, []).append((raw_key, raw_value))
        self._bytes += len(raw_value or b"") + len(raw_key or b"") + _RECORD_OVERHEAD_BYTES
        if self._bytes >= self._batch_bytes or time.monotonic() - self._oldest_s >= self._linger_s:
            self.flush()
        return one

    def _next_turn(self) -> int:
        """Records without a key stay together for a while, which makes batches; then the next partition's turn."""
        self._stayed += 1
        if self._stayed >= _STAY_RECORDS:
            self._turn, self._stayed = self._turn + 1, 0
        return self._turn

    def flush(self) -> Mapping[TopicPartition, int]:
        """Write what was collected and wait until it is acknowledged; the first offset of each partition's batch.
        Raises `Refused`, `CannotConnect`, `RequestTimedOut`: what was not acknowledged is then dropped.
        """
        waiting, self._batches, self._bytes = self._batches, {}, 0
        now_ms = time.time_ns() // 1_000_000
        encoded = {one: encode_batch(records, timestamp_ms=now_ms) for one, records in waiting.items()}
        written: dict[TopicPartition, int] = {}
        deadline = time.monotonic() + self._timeout_s
        while encoded:
            failure: MusterError | None = None
            for node, ones in self._by_leader(encoded).items():
                try:
                    failure = self._produce(node, {one: encoded[one] for one in ones}, written) or failure
                except CannotConnect as lost:
                    failure = lost
                    for one in ones:
                        self._cluster.forget_leader(one)
            for one in written:
                encoded.pop(one, None)
            if encoded:
                if time.monotonic() + RETRY_S >= deadline:
                    raise failure or MusterError("a produce was answered without naming its partitions")
                time.sleep(RETRY_S)
        return written

    def close(self) -> None:
        """Flush and disconnect. Closing twice is fine."""
        if not self._is_closed:
            try:
                self.flush()
            finally:
                self._is_closed = True
                self._cluster.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _by_leader(self, encoded: Mapping[TopicPartition, bytes]) -> dict[NodeAddress, list[TopicPartition]]:
        by_leader: dict[NodeAddress, list[TopicPartition]] = {}
        for one in encoded:
            by_leader.setdefault(self._cluster.leader(one, self._timeout_s), []).append(one)
        return by_leader

    def _produce(
        self, node: NodeAddress, data: Mapping[TopicPartition, bytes], written: dict[TopicPartition, int]
    ) -> MusterError | None:
        """Notes what was written; returns what may pass, raises what will not."""
        topics: dict[str, list[ProducePartition]] = {}
        for one, batch in data.items():
            topics.setdefault(one.topic, []).append(ProducePartition(one.partition, batch))
        request = Produce(
            tuple(ProduceTopic(name, tuple(ones)) for name, ones in topics.items()),
            self._acks,
            int(self._timeout_s * 1000),
        )
        failure: MusterError | None = None
        for topic in expect(ProduceReply, self._cluster.ask(request, self._timeout_s, node=node)).responses:
            for answer in topic.partition_responses:
                one, code = TopicPartition(topic.name, answer.index), answer.error_code
                if code == ErrorCode.NONE:
                    written[one] = answer.base_offset
                    continue
                said = answer.error_message or code.name
                failure = Refused(code, f"{one} did not take the records: {said}")
                if not code.retriable:
                    raise failure
                self._cluster.forget_leader(one)
        return failure
