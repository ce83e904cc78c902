"""Reading exactly the records of one range of one partition, as a task of a planned batch does."""

import time
from collections.abc import Iterator
from functools import partial
from types import TracebackType
from typing import Any, Self

from membership.topic_partition import TopicPartition
from muster.blocking.background_call import BackgroundCall
from muster.blocking.cluster import RETRY_S, ClusterClient, expect
from muster.core.fetching.records import AbortedBatches
from muster.core.fetching.settings import Isolation, isolation
from muster.errors import CannotConnect, CorruptRecords, OffsetOutOfRange, Refused, RequestTimedOut
from muster.net.security import SecurityLike
from protocol.errors import ErrorCode
from protocol.messages.data import Fetch, FetchPartition, FetchPartitionReply, FetchReply, FetchTopic
from protocol.record_batch import (
    HEADER_BYTES,
    BatchHeader,
    CorruptBatch,
    Record,
    batches,
    check_batch,
    decode_batch,
    extent,
)

_MAX_WAIT_MS = 500
_LEAST_BYTES = 16 * 1024
_REQUEST_S = 30.0
"""Timeout of one request, which is repeated until `timeout_s` is over."""


class RangeReader:
    """The records of [start, end) of a partition, in order, and no others; needs no group.

    Offsets may have gaps (compaction, control records), so fewer than `end - start` records are no error. The
    constructor opens no connection, and a reader can be pickled. `timeout_s` is how long it waits for new records
    before it gives up.
    """

    def __init__(
        self,
        bootstrap: str,
        topic: str,
        partition: int,
        start: int,
        end: int,
        *,
        timeout_s: float = 30.0,
        outage_timeout_s: float | None = None,
        fetch_bytes: int = 4 * 1024 * 1024,
        client_id: str = "muster",
        dialect: str | None = None,
        security: SecurityLike | None = None,
        broker_security: SecurityLike | None = None,
        waits_for_disk: bool = True,
        isolation_level: str = "read_uncommitted",
        reads_ahead: bool = False,
        record_bytes: float | None = None,
        cluster: ClusterClient | None = None,
    ) -> None:
        """Without `waits_for_disk` KAFKA_STORAGE_ERROR is raised at once, not retried until `timeout_s` is over.
        `isolation_level` "read_committed" leaves out records of aborted transactions. `outage_timeout_s`: how long
        nodes may not answer at all, `timeout_s` by default. `reads_ahead`: another thread fetches the next reply while
        the application works on the batches of one. `record_bytes`: estimated size of a record, so that little is
        fetched beyond the range's end. `cluster`: connections to share with other readers of this process; they outlive
        the reader."""
        if not 0 <= start <= end:
            raise ValueError(f"[{start}, {end}) is no range of offsets")
        self._arguments: dict[str, Any] = {
            "timeout_s": timeout_s,
            "outage_timeout_s": outage_timeout_s,
            "fetch_bytes": fetch_bytes,
            "client_id": client_id,
            "dialect": dialect,
            "security": security,
            "broker_security": broker_security,
            "waits_for_disk": waits_for_disk,
            "isolation_level": isolation_level,
            "reads_ahead": reads_ahead,
            "record_bytes": record_bytes,
        }
        self._lasting = frozenset() if waits_for_disk else frozenset({ErrorCode.KAFKA_STORAGE_ERROR})
        self._isolation = isolation(isolation_level)
        self._bootstrap = bootstrap
        self._partition = TopicPartition(topic, partition)
        self._start = start
        self._end = end
        self._timeout_s = timeout_s
        self._outage_s = timeout_s if outage_timeout_s is None else outage_timeout_s
        self._fetch_bytes = fetch_bytes
        self._reads_ahead = reads_ahead
        self.record_bytes = record_bytes
        """Stored size of a record, estimated from the last reply."""
        self._cluster = cluster or ClusterClient(
            bootstrap, dialect=dialect, client_id=client_id, security=security, broker_security=broker_security
        )
        self._owns_cluster = cluster is None

    def __reduce__(self) -> tuple[Any, ...]:
        topic, partition = self._partition
        return (_make, (self._bootstrap, topic, partition, self._start, self._end, self._arguments))

    def batches(self) -> Iterator[tuple[BatchHeader, memoryview]]:
        """Whole batches, checksums verified, as stored: the first may begin before `start` and the last may end beyond
        `end`, which the decoder must cut. Control batches are skipped.

        Raises `OffsetOutOfRange` if the log begins after `start` or ends before it, `RequestTimedOut` if it does not
        reach `end` in time, and `CorruptRecords`, `Refused`, `CannotConnect`.
        """
        position = self._start
        empty_since_s: float | None = None
        ahead: BackgroundCall[FetchPartitionReply] | None = None
        while position < self._end:
            answer = self._fetch(position) if ahead is None else ahead.result()
            behind = self._measure(answer.records, position)
            ahead = None
            if self._reads_ahead and position < behind < self._end:
                ahead = BackgroundCall(partial(self._fetch, behind))
            yield from self._wanted(answer, position)
            if behind > position:
                position, empty_since_s = behind, None
                continue
            now_s = time.monotonic()
            empty_since_s = empty_since_s or now_s
            if now_s - empty_since_s > self._timeout_s:
                raise RequestTimedOut(
                    f"{self._partition} gave nothing at offset {position} for {self._timeout_s:g} s; its end is at "
                    f"{answer.high_watermark}, {self._end} was wanted"
                )

    def records(self) -> Iterator[Record]:
        """The decoded records. Raises as `batches` does."""
        for _, batch in self.batches():
            try:
                decoded = decode_batch(batch)
            except CorruptBatch as corrupt:
                raise CorruptRecords(f"{self._partition}: {corrupt}") from corrupt
            for record in decoded:
                if self._start <= record.offset < self._end:
                    yield record

    def close(self) -> None:
        """Disconnect, unless the connections are a `cluster`'s."""
        if self._owns_cluster:
            self._cluster.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _measure(self, data: bytes, position: int) -> int:
        """Return the offset after the last whole batch, and store the size of its records."""
        at, behind = 0, position
        try:
            while len(data) - at >= HEADER_BYTES:
                _, next_offset, size, _ = extent(data, at)
                if at + size > len(data):
                    break
                at, behind = at + size, max(behind, next_offset)
        except CorruptBatch:
            pass  # `_checked` reports the position once the batches before it are returned
        # If not even one batch fitted, the next fetch must not be small.
        self.record_bytes = at / (behind - position) if behind > position else None
        return behind

    def _wanted(self, answer: FetchPartitionReply, position: int) -> Iterator[tuple[BatchHeader, memoryview]]:
        """Yield the batches of a reply that begin before the end, without control batches and aborted transactions."""
        is_committed = self._isolation == Isolation.READ_COMMITTED
        aborted = AbortedBatches(answer.aborted_transactions) if is_committed and answer.aborted_transactions else None
        for header, batch in self._checked(answer.records, position):
            if header.base_offset >= self._end:
                return
            is_hidden = aborted is not None and header.producer_id >= 0 and aborted.hide(header, batch)
            if not (is_hidden or header.is_control):
                yield header, batch

    def _bytes_from(self, position: int) -> int:
        """Return the size to fetch: slightly more than the rest of the range, but at least the size of a batch."""
        if self.record_bytes is None:
            return self._fetch_bytes
        return min(self._fetch_bytes, _LEAST_BYTES + int(1.1 * self.record_bytes * (self._end - position)))

    def _fetch(self, position: int) -> FetchPartitionReply:
        """Return a reply without an error; the request is repeated after retriable errors."""
        topic, number = self._partition
        fetch_bytes = self._bytes_from(position)
        partition = FetchPartition(number, position, fetch_bytes)
        request = Fetch(
            (FetchTopic(topic, (partition,)),),
            _MAX_WAIT_MS,
            max_bytes=fetch_bytes,
            isolation_level=int(self._isolation),
        )
        request_s = min(self._outage_s, _REQUEST_S)
        asked_s = time.monotonic()
        while True:
            failure: Refused | CannotConnect | RequestTimedOut
            try:
                node = self._cluster.leader(self._partition, request_s)
                reply = expect(FetchReply, self._cluster.ask(request, request_s, node=node))
                answer = reply.responses[0].partitions[0]
                code = answer.error_code
                if code == ErrorCode.NONE:
                    return answer
                failure = Refused(code, f"{self._partition} cannot be read at {position}: {code.name}")
            except (CannotConnect, RequestTimedOut) as lost:
                failure, code = lost, ErrorCode.NETWORK_EXCEPTION
            if code == ErrorCode.OFFSET_OUT_OF_RANGE:
                raise self._out_of_range(position)
            if not code.retriable or code in self._lasting or time.monotonic() - asked_s > self._outage_s:
                raise failure
            self._cluster.forget_leader(self._partition)
            time.sleep(RETRY_S)

    def _out_of_range(self, position: int) -> OffsetOutOfRange:
        return OffsetOutOfRange(
            self._partition,
            position,
            f"{self._partition} does not have offset {position} (any more, or yet): [{self._start}, {self._end}) was "
            "wanted; was its log trimmed, or its topic made anew?",
        )

    def _checked(self, data: bytes, position: int) -> Iterator[tuple[BatchHeader, memoryview]]:
        try:
            for header, batch in batches(data):
                if header.next_offset > position:
                    check_batch(batch)
                    yield header, batch
        except CorruptBatch as corrupt:
            raise CorruptRecords(f"{self._partition} after offset {position}: {corrupt}") from corrupt


def _make(bootstrap: str, topic: str, partition: int, start: int, end: int, arguments: dict[str, Any]) -> RangeReader:
    return RangeReader(bootstrap, topic, partition, start, end, **arguments)
