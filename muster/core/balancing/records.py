"""Decode a fetch into the application's batch, outside the core, since deserializers are the application's code."""

from typing import NamedTuple

from membership.topic_partition import TopicPartition
from muster.core.balancing.events import Fetched
from muster.core.balancing.keys import context
from muster.core.balancing.results import Batch
from muster.core.fetching.records import ConsumerRecord, FetchedRecords
from muster.core.fetching.settings import FetchSettings
from muster.core.positions import Position
from muster.errors import MusterError
from protocol.messages.data import FetchPartitionReply

FILTER_HEADER = "filter"
_ALL = 1 << 62


class ReadBatch(NamedTuple):
    """The records of a fetch for the application; `error` is the error of the record after them, if that cannot be
    read.
    """

    records: tuple[ConsumerRecord, ...]
    next_offset: int
    error: MusterError | None = None

    def batch(self, fetched: Fetched) -> Batch:
        what = context(fetched.key, fetched.token)
        return Batch(fetched.key, fetched.topic, self.records, self.next_offset, fetched.max, what)


def read(fetched: Fetched, settings: FetchSettings | None = None) -> ReadBatch:
    """Decode a fetch. Raises nothing: an exception of a deserializer becomes the `error`, like damaged bytes, after the
    records before it."""
    one = TopicPartition(fetched.topic, fetched.partition)
    answer = FetchPartitionReply(fetched.partition, high_watermark=fetched.max, records=fetched.records)
    records = FetchedRecords(one, Position(), max(fetched.position, 0), answer, settings or FetchSettings())
    wanted = records.drain(_ALL)
    if fetched.filters:
        wanted = [record for record in wanted if _matches(record, fetched.filters)]
    return ReadBatch(tuple(wanted), records.offset, records.error)


def _matches(record: ConsumerRecord, filters: tuple[str, ...]) -> bool:
    """Return true if one of the record's `filter` headers, in UTF-8, is among the filters."""
    return any(
        name == FILTER_HEADER and value is not None and value.decode("utf-8", "replace") in filters
        for name, value in record.headers
    )
