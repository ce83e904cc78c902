"""Outcomes of records."""

from membership.events import MemberEffect
from membership.topic_partition import TopicPartition
from muster.errors import MusterError


class Delivered(MemberEffect, frozen=True):
    """The records of `handles` are stored, one after the other from `base_offset` on; -1: nobody knows where. Their
    time is `append_time_ms`, unless that is -1: then it is the one they were sent with."""

    topic_partition: TopicPartition
    handles: tuple[object, ...]
    base_offset: int
    append_time_ms: int = -1


class Undelivered(MemberEffect, frozen=True):
    """The records of `handles` were given up. Whether they may be stored nevertheless, `error` says."""

    topic_partition: TopicPartition
    handles: tuple[object, ...]
    error: MusterError
