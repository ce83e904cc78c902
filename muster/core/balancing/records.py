"""Decode a fetch into the batch that the application gets, outside of the core: deserializers are its code."""

from typing import NamedTuple

from membership.topic_partition import TopicPartition
from muster.core.balancing.events import Fetched
from muster.core.balancing.keys import context
from muster.core.balancing.results import Batch
from muster.core.fetching import ConsumerRecord, FetchSettings
from muster.core.fetching.records import FetchedRecords
from muster.core.positions import Position
from muster.errors import MusterError
from protocol.messages.data import FetchPartitionReply

FILTER_HEADER = "filter"
_ALL = 1 << 62


class ReadBatch(NamedTuple):
    """The records of a fetch that are for the application; `error` is why there is no more, if something cannot be
    read.
    """

    records: tuple[ConsumerRecord, ...]
    next_offset: int
    error: MusterError | None = None

    def batch(self, fetched: Fetched) -> Batch:
        what = context(fetched.key, fetched.token)
        return Batch(fetched.key, fetched.topic, self.records, self.next_offset, fetched.max, what)


def read(fetched: Fetched, settings: FetchSettings | None = None) -> ReadBatch:
    """Raises nothing: what a deserializer raises is an `error` like damaged bytes. Records before it come first."""
    one = TopicPartition(fetched.topic, fetched.partition)
    answer = FetchPartitionReply(fetched.partition, high_watermark=fetched.max, records=fetched.records)
    records = FetchedRecords(one, Position(), max(fetched.position, 0), answer, settings or FetchSettings())
    wanted = records.drain(_ALL)
    if fetched.filters:
        wanted = [record for record in wanted if _matches(record, fetched.filters)]
    return ReadBatch(tuple(wanted), records.offset, records.error)


def _matches(record: ConsumerRecord, filters: tuple[str, ...]) -> bool:
    """Tell whether a header `filter` of the record is one of them, in UTF-8. A record may have several."""
    return any(
        name == FILTER_HEADER and value is not None and value.decode("utf-8", "replace") in filters
        for name, value in record.headers
    )
