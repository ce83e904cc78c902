"""EDGE: reads a range on an executor, over connections that the worker's tasks share."""

import gc
from collections.abc import Iterator

import pyarrow as pa
from pyspark import TaskContext

from muster import ErrorCode, MusterError, OffsetOutOfRange, Refused, RequestTimedOut, TopicPartition
from muster.blocking import RangeReader
from muster.blocking.cluster import EARLIEST, LATEST, ClusterClient
from muster.net.security import Security
from pyspark_muster.decode import decode_range
from pyspark_muster.tasks import ReadSettings

_clusters: dict[tuple[str, Security | None, Security | None], ClusterClient] = {}
"""Connections of this process, shared by the many tasks of a Python worker."""


_record_bytes: dict[TopicPartition, float] = {}
"""Sizes of records in the last tasks, so that the next task of a small range fetches little more than it needs."""
_freezes_left = 2


def read_range(settings: ReadSettings, topic: str, partition: int, start: int, end: int) -> Iterator[pa.RecordBatch]:
    """Read the records `[start, end)` of one partition, in a few large batches. Raises the errors of `RangeReader`; if
    data may be lost, deleted records are skipped instead.
    """
    one = TopicPartition(topic, partition)
    cluster = _cluster(settings)
    while start < end:
        try:
            for batch in _read(settings, cluster, one, start, end):
                start = batch["offset"][-1].as_py() + 1
                yield batch
            start = end
        except (OffsetOutOfRange, Refused) as refused:
            if settings.fail_on_data_loss or not _is_loss(refused):
                raise
            start = _next_there(cluster, one, start, end)
        except RequestTimedOut:
            log_end = None if settings.fail_on_data_loss else _end_before(cluster, one, end)
            if log_end is None:
                raise
            end = log_end  # and once more, since what was read last has not been handed over


def _read(
    settings: ReadSettings, cluster: ClusterClient, one: TopicPartition, start: int, end: int
) -> Iterator[pa.RecordBatch]:
    topic, partition = one
    _freeze_imported()
    with RangeReader(
        settings.bootstrap,
        topic,
        partition,
        start,
        end,
        outage_timeout_s=settings.outage_timeout_ms / 1000,
        isolation_level=settings.isolation_level,
        reads_ahead=True,
        record_bytes=_record_bytes.get(one),
        cluster=cluster,
    ) as reader:
        yield from decode_range(reader.batches(), topic, partition, start, end, with_headers=settings.include_headers)
        if reader.record_bytes is not None:
            _record_bytes[one] = reader.record_bytes


def _freeze_imported() -> None:
    """Exclude imported modules from garbage collection, since Spark's worker runs a full collection after each task.
    The second task excludes the modules that the first has imported.
    """
    global _freezes_left  # noqa: PLW0603  (of the process)
    if _freezes_left and TaskContext.get() is not None:
        gc.collect()
        gc.freeze()
        _freezes_left -= 1


def _is_loss(refused: Refused) -> bool:
    return refused.error_code in (ErrorCode.OFFSET_OUT_OF_RANGE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


def _next_there(cluster: ClusterClient, one: TopicPartition, start: int, end: int) -> int:
    """Return the first offset from `start` on that the log still has; `end` if it has none of the range."""
    try:
        begins, ends = cluster.offsets([one], EARLIEST), cluster.offsets([one], LATEST)
    except Refused as refused:
        if not _is_loss(refused):
            raise
        return end
    return min(begins[one], end) if start < begins[one] < ends[one] else end


def _end_before(cluster: ClusterClient, one: TopicPartition, end: int) -> int | None:
    """Return the log's end if it is known to lie before this offset: the topic was made again, or replicas lost
    records."""
    try:
        log_end = cluster.offsets([one], LATEST)[one]
    except MusterError:
        return None
    return log_end if log_end < end else None


def _cluster(settings: ReadSettings) -> ClusterClient:
    where = (settings.bootstrap, settings.security, settings.broker_security)
    if where not in _clusters:
        bootstrap, security, broker_security = where
        _clusters[where] = ClusterClient(
            bootstrap, client_id="spark-task", security=security, broker_security=broker_security
        )
    return _clusters[where]
