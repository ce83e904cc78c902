"""Reading exactly the records of one range of one partition: what a task of a planned batch does."""

import time
from collections.abc import Iterator
from types import TracebackType
from typing import Any, Self

from membership.topic_partition import TopicPartition
from muster.blocking.cluster import RETRY_S, ClusterClient, expect
from muster.errors import CannotConnect, CorruptRecords, OffsetOutOfRange, Refused, RequestTimedOut
from muster.net.security import SecurityLike
from protocol.errors import ErrorCode
from protocol.messages.data import Fetch, FetchPartition, FetchPartitionReply, FetchReply, FetchTopic
from protocol.record_batch import BatchHeader, CorruptBatch, Record, batches, check_batch, decode_batch

_MAX_WAIT_MS = 500


class RangeReader:
    """The records of [start, end) of a partition, in order, and no others; needs no group.

    Offsets may have gaps (compaction, control records), so fewer than `end - start` records are no error. Making one
    connects to nothing, and pickles. `timeout_s` is how long it may get nothing new before it gives up.
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
        fetch_bytes: int = 4 * 1024 * 1024,
        client_id: str = "muster",
        dialect: str | None = None,
        security: SecurityLike | None = None,
        broker_security: SecurityLike | None = None,
        waits_for_disk: bool = True,
        cluster: ClusterClient | None = None,
    ) -> None:
        """Without `waits_for_disk` KAFKA_STORAGE_ERROR is raised at once, not asked about until `timeout_s` is over.
        `cluster`: connections to share with other readers of this process; they outlive the reader."""
        if not 0 <= start <= end:
            raise ValueError(f"[{start}, {end}) is no range of offsets")
        self._arguments: dict[str, Any] = {
            "timeout_s": timeout_s,
            "fetch_bytes": fetch_bytes,
            "client_id": client_id,
            "dialect": dialect,
            "security": security,
            "broker_security": broker_security,
            "waits_for_disk": waits_for_disk,
        }
        self._lasting = frozenset() if waits_for_disk else frozenset({ErrorCode.KAFKA_STORAGE_ERROR})
        self._bootstrap = bootstrap
        self._partition = TopicPartition(topic, partition)
        self._start = start
        self._end = end
        self._timeout_s = timeout_s
        self._fetch_bytes = fetch_bytes
        self._cluster = cluster or ClusterClient(
            bootstrap, dialect=dialect, client_id=client_id, security=security, broker_security=broker_security
        )
        self._owns_cluster = cluster is None

    def __reduce__(self) -> tuple[Any, ...]:
        topic, partition = self._partition
        return (_make, (self._bootstrap, topic, partition, self._start, self._end, self._arguments))

    def batches(self) -> Iterator[tuple[BatchHeader, memoryview]]:
        """Whole batches, checksums verified, as stored: the first may begin before `start` and the last go on beyond
        `end`, which is the decoder's to cut. Control batches are left out.

        Raises `OffsetOutOfRange` if the log begins after `start` or ends before it, `RequestTimedOut` if it does not
        reach `end` in time, and `CorruptRecords`, `Refused`, `CannotConnect`.
        """
        position = self._start
        heard_s = time.monotonic()
        while position < self._end:
            answer = self._fetch(position, heard_s)
            moved = position
            for header, batch in self._checked(answer.records, position):
                if moved >= self._end:
                    break
                moved = header.next_offset
                if not header.is_control:
                    yield header, batch
            if moved > position:
                position, heard_s = moved, time.monotonic()
            elif time.monotonic() - heard_s > self._timeout_s:
                raise RequestTimedOut(
                    f"{self._partition} gave nothing at offset {position} for {self._timeout_s:g} s; its end is at "
                    f"{answer.high_watermark}, {self._end} was wanted"
                )

    def records(self) -> Iterator[Record]:
        """The records themselves. Raises as `batches` does."""
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

    def _fetch(self, position: int, heard_s: float) -> FetchPartitionReply:
        """One answer with no error, asked for again while its node cannot give one."""
        topic, number = self._partition
        partition = FetchPartition(number, position, self._fetch_bytes)
        request = Fetch((FetchTopic(topic, (partition,)),), _MAX_WAIT_MS, max_bytes=self._fetch_bytes)
        while True:
            failure: Refused | CannotConnect
            try:
                node = self._cluster.leader(self._partition, self._timeout_s)
                reply = expect(FetchReply, self._cluster.ask(request, self._timeout_s, node=node))
                answer = reply.responses[0].partitions[0]
                code = answer.error_code
                if code == ErrorCode.NONE:
                    return answer
                failure = Refused(code, f"{self._partition} cannot be read at {position}: {code.name}")
            except CannotConnect as lost:
                failure, code = lost, ErrorCode.NETWORK_EXCEPTION
            if code == ErrorCode.OFFSET_OUT_OF_RANGE:
                raise self._out_of_range(position)
            if not code.retriable or code in self._lasting or time.monotonic() - heard_s > self._timeout_s:
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
