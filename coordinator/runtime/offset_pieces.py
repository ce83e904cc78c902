"""Committed offsets as plain numbers, a piece at a time, for requests that read all of them."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import lru_cache
from operator import attrgetter, itemgetter
from typing import Any

from coordinator.runtime.offset_and_metadata import OffsetAndMetadata
from coordinator.topics.topics import Topics

_offset, _topic_id = attrgetter("offset"), attrgetter("topic_id")


def offsets_in_pieces(
    topics: Topics, topic: str, partitions: Mapping[int, OffsetAndMetadata], most: int
) -> Iterator[dict[int, int]]:
    """Yield the committed offsets of the topic that has the name now, up to `most` partitions at a time."""
    if len(partitions) <= most:
        if partitions:
            yield _owned(topics, topic, partitions, partitions.values())
        return
    indexes, every = list(partitions), list(partitions.values())  # they may change between two pieces
    for start in range(0, len(every), most):
        yield _owned(topics, topic, indexes[start : start + most], every[start : start + most])


def offsets_in_order(
    topics: Topics, topic: str, partitions: Mapping[int, OffsetAndMetadata], most: int
) -> tuple[int, ...] | None:
    """Return the committed offsets of partitions 0, 1, 2 and so on, if these have one and no others, `most` of them,
    and all are of the topic that has the name now; else None."""
    if not 2 <= len(partitions) <= most:
        return None
    try:
        kept: tuple[OffsetAndMetadata, ...] = _in_order(len(partitions))(partitions)
    except KeyError:
        return None
    return None if _others(topics, topic, kept) else tuple(map(_offset, kept))


@lru_cache(64)
def _in_order(count: int) -> "itemgetter[Any]":
    return itemgetter(*range(count))


def _others(topics: Topics, topic: str, kept: Iterable[OffsetAndMetadata]) -> set[bytes]:
    """Return the ids of earlier topics of the name that offsets have."""
    return {one for one in set(map(_topic_id, kept)) if not (one is None or topics.may_own(topic, one))}


def _owned(topics: Topics, topic: str, indexes: Collection[int], kept: Collection[OffsetAndMetadata]) -> dict[int, int]:
    """Return the offsets by partition without those of an earlier topic of the name."""
    if others := _others(topics, topic, kept):
        return {index: one.offset for index, one in zip(indexes, kept, strict=True) if one.topic_id not in others}
    return dict(zip(indexes, map(_offset, kept), strict=True))
