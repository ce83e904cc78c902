"""The limit of a batch in bytes: offsets count records, so the size of records is sampled where the batch begins."""

from collections.abc import Callable, Mapping

from muster import OffsetOutOfRange, TopicPartition
from muster.blocking.cluster import ClusterClient
from pyspark_muster.options import Options
from pyspark_muster.plan import share

SAMPLE_RECORDS = 100
_SAMPLE_BYTES = 64 * 1024
_ANSWER_S = 5.0
Offsets = Mapping[TopicPartition, int]
Measure = Callable[[TopicPartition, int, int], float | None]
"""Measures the mean size of a partition's records between two offsets; None if there are none."""


def within_bytes(
    positions: Offsets, ends: Offsets, sizes: Mapping[TopicPartition, float], limit: int
) -> dict[TopicPartition, int]:
    """Return ends such that at most `limit` bytes, but at least one record of each partition, lie before them. The
    bytes are divided as by `share`. A partition without a size has no limit of its own.
    """
    waiting = {one: ends[one] - at for one, at in sorted(positions.items()) if ends.get(one, at) > at and one in sizes}
    shares = share({one: -int(-records * sizes[one] // 1) for one, records in waiting.items()}, limit)
    records = {one: min(most, max(1, int(shares.get(one, 0) / sizes[one]))) for one, most in waiting.items()}
    return {one: positions[one] + records[one] if one in records else end for one, end in ends.items()}


class ByteLimit:
    """`maxBytesPerBatch` of a query, on the driver. It connects at the first measurement."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._cluster: ClusterClient | None = None
        self._sizes: dict[TopicPartition, float] = {}

    def cap(self, positions: Offsets, ends: Offsets, measure: Measure | None = None) -> tuple[Offsets, bool]:
        """Return ends within the limit, and true if any is lower than in `ends`. Raises the client's errors."""
        limit = self._options.max_bytes_per_batch
        if limit is None:
            return ends, False
        for one, at in positions.items():
            if ends.get(one, at) > at:
                size = (measure or self._measure)(one, at, min(ends[one], at + SAMPLE_RECORDS))
                if size is not None:
                    self._sizes[one] = max(size, 1.0)
        capped = within_bytes(positions, ends, self._sizes, limit)
        return capped, capped != dict(ends)

    def close(self) -> None:
        """Disconnect."""
        cluster, self._cluster = self._cluster, None
        if cluster is not None:
            cluster.close()

    def _measure(self, one: TopicPartition, start: int, end: int) -> float | None:
        from muster import RangeReader  # by queries with this limit alone, since it imports what decodes records

        reader = RangeReader(
            self._options.bootstrap,
            *one,
            start,
            end,
            timeout_s=_ANSWER_S,
            fetch_bytes=_SAMPLE_BYTES,
            isolation_level=self._options.isolation_level,
            cluster=self._connected(),
        )
        with reader:
            try:
                next(reader.batches(), None)
            except OffsetOutOfRange:  # left to the task, which knows whether data may be lost
                return None
            return reader.record_bytes

    def _connected(self) -> ClusterClient:
        if self._cluster is None:
            self._cluster = self._options.connect()
        return self._cluster
