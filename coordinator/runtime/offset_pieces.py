"""Committed offsets as plain numbers, a piece at a time, for requests that read all of them."""

from collections.abc import Iterator, Mapping
from operator import attrgetter

from coordinator.runtime.offset_and_metadata import OffsetAndMetadata
from coordinator.topics.topics import Topics

_offset, _topic_id = attrgetter("offset"), attrgetter("topic_id")


def offsets_in_pieces(
    topics: Topics, topic: str, partitions: Mapping[int, OffsetAndMetadata], most: int
) -> Iterator[dict[int, int]]:
    """Yield the committed offsets of the topic that has the name now, up to `most` partitions at a time."""
    indexes, every = list(partitions), list(partitions.values())  # they may change between two pieces
    for start in range(0, len(every), most):
        some, kept = indexes[start : start + most], every[start : start + most]
        others = {one for one in set(map(_topic_id, kept)) if not (one is None or topics.may_own(topic, one))}
        offsets = dict(zip(some, map(_offset, kept), strict=True))
        if others:
            offsets = {
                index: offsets[index] for index, one in zip(some, kept, strict=True) if one.topic_id not in others
            }
        yield offsets
