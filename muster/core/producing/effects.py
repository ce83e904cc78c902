"""Outcomes of records."""

from membership.events import MemberEffect
from membership.topic_partition import TopicPartition
from muster.errors import MusterError


class Delivered(MemberEffect, frozen=True):
    """The records of `handles` are stored at consecutive offsets from `base_offset`; -1: unknown. Their timestamp is
    `append_time_ms` or, if that is -1, the one with which they were sent."""

    topic_partition: TopicPartition
    handles: tuple[object, ...]
    base_offset: int
    append_time_ms: int = -1


class Undelivered(MemberEffect, frozen=True):
    """The records of `handles` were given up. `error` says whether they may be stored nevertheless."""

    topic_partition: TopicPartition
    handles: tuple[object, ...]
    error: MusterError
