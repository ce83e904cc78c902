"""Committed offsets as plain numbers, a piece at a time, for requests that read all of them."""

from collections.abc import Iterator, Mapping

from coordinator.runtime.offset_and_metadata import OffsetAndMetadata
from coordinator.topics.topics import Topics


def offsets_in_pieces(
    topics: Topics, topic: str, partitions: Mapping[int, OffsetAndMetadata], most: int
) -> Iterator[dict[int, int]]:
    """Yield the committed offsets of the topic that has the name now, up to `most` partitions at a time."""
    every = list(partitions.items())  # they may change between two pieces
    for start in range(0, len(every), most):
        some = every[start : start + most]
        ids = {kept.topic_id for _index, kept in some}
        own = {one for one in ids if one is None or topics.may_own(topic, one)}
        yield {index: kept.offset for index, kept in some if kept.topic_id in own}
