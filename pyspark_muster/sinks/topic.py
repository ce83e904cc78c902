"""EDGE: topics of a Kafka cluster, for `foreachBatch`: records and their positions in one transaction."""

import random
import time
from collections.abc import Iterable, Iterator
from itertools import count
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

from muster import Consumer, Producer, ProducerFenced, TopicPartition, TransactionFailed
from muster.core.producing.handles import CompressionName
from muster.net.security import Security
from protocol.errors import ErrorCode
from pyspark_muster.sinks.batches import bounds_of, check_columns, rows_from
from pyspark_muster.sinks.bounds import Bounds, Positions, new_rows, positions_after

_CONTENT = ("key", "value", "headers")
_TIMEOUT_S = 120.0
_SUPERSEDED = (
    ErrorCode.PRODUCER_FENCED,
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    ErrorCode.UNKNOWN_SERVER_ERROR,
)
"""Errors of a writer after whose begin another one has begun. Apache Kafka 4.3.1 answers EndTxn with the last of them
while the other's InitProducerId is being written: an IllegalStateException, before anything is committed."""
_MOST_TRIES = 50


class TopicSink:
    """A topic that has each record once for consumers with `isolation.level=read_committed`. Pass `write` to
    `foreachBatch`; several queries, of one group or of none, may write with one `sink`. If two write at once, the later
    one supersedes the other, which writes again after it. The positions of the sink are
    offsets of a group with its name, in the topics that rows come from, so the cluster must have these topics too. They
    are committed in the transaction of the records.
    """

    def __init__(
        self,
        bootstrap: str,
        topic: str,
        *,
        sink: str,
        compression: CompressionName = "none",
        transaction_timeout_ms: int = 300_000,
        security: Security | None = None,
    ) -> None:
        """`bootstrap` is `kafka://HOST:PORT`, of a broker or of musterd with `offsets.log=cluster`. `sink` names the
        transactional id and the group, which has no members. A batch must take less than `transaction_timeout_ms`.
        """
        self._bootstrap = bootstrap
        self._topic = topic
        self._sink = sink
        self._compression = compression
        self._transaction_timeout_ms = transaction_timeout_ms
        self._security = security

    def write(self, batch: DataFrame, _batch_id: int = 0) -> None:
        """Append the rows whose offset the sink does not have yet, by the columns `key`, `value` and `headers`. Raises
        the client's errors; and ValueError for rows without `value`, `topic`, `partition` or `offset`.
        """
        if "value" not in batch.columns:
            raise ValueError("the column value is missing: it is what the records of the sink's topic hold")
        check_columns(batch.columns)
        # Spark's work comes before the transaction: the shorter that is, the seldomer two writers meet.
        ordered = batch.repartition("topic", "partition").sortWithinPartitions("topic", "partition", "offset")
        with bounds_of(ordered) as bounds:
            for tries in count(1):
                began_s = time.monotonic()
                try:
                    self._write(ordered, bounds)
                except (ProducerFenced, TransactionFailed) as error:
                    took_s = time.monotonic() - began_s
                    is_late = took_s * 1_000 >= self._transaction_timeout_ms
                    if error.error_code not in _SUPERSEDED or is_late or tries == _MOST_TRIES:
                        raise
                else:
                    return
                # The other writer needs about as long; chance keeps two from fencing each other for ever.
                time.sleep(took_s * random.uniform(0.5, 2))  # noqa: S311 # nothing is secret in it

    def _write(self, ordered: DataFrame, bounds: Bounds) -> None:
        """Write in one transaction those of the rows that the sink lacks. Raises ProducerFenced, or TransactionFailed
        with the same codes, if another writer of the sink has begun meanwhile: then nothing is written.
        """
        with self._producer() as producer:
            # First, so that a superseded writer can commit nothing from here on, and its open transaction is aborted.
            producer.begin(_TIMEOUT_S)
            positions = self._positions(bounds)
            wanted = new_rows(positions, bounds)
            if not wanted:
                producer.abort(_TIMEOUT_S)
                return
            for key, value, headers in _records(rows_from(ordered, wanted)):
                producer.send(self._topic, value, key, headers=headers)
            producer.send_offsets(positions_after(positions, {one: bounds[one] for one in wanted}), self._sink)
            producer.commit(_TIMEOUT_S)

    def _producer(self) -> Producer:
        return Producer(
            self._bootstrap,
            transactional_id=self._sink,
            transaction_timeout_ms=self._transaction_timeout_ms,
            compression=self._compression,
            client_id=self._sink,
            security=self._security,
        )

    def _positions(self, partitions: Iterable[TopicPartition]) -> Positions:
        """Return the sink's positions in these partitions; waits for pending commits."""
        with Consumer(self._bootstrap, self._sink, client_id=self._sink, security=self._security) as consumer:
            found = consumer.committed(partitions, _TIMEOUT_S)
        return {one: offset for one, offset in found.items() if offset is not None}


def _records(rows: DataFrame) -> Iterator[tuple[Any, Any, tuple[tuple[str, bytes | None], ...]]]:
    """Yield key, value and headers, in the order of the rows."""
    columns = [name if name in rows.columns else sql.lit(None).alias(name) for name in _CONTENT]
    for key, value, headers in rows.select(*columns).toLocalIterator(prefetchPartitions=True):
        yield key, value, tuple((one["key"], one["value"]) for one in headers or ())
