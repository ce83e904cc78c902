"""Subscriptions and assignments of described members; none if they cannot be decoded, since other protocol types have
formats of their own."""

from collections.abc import Collection, Iterable
from functools import lru_cache
from itertools import islice

from protocol import streams_protocol
from protocol.consumer_protocol import PROTOCOL_TYPE, decode_assignment, decode_subscription
from protocol.errors import ProtocolViolation
from protocol.messages.balanced import BALANCED_TYPES
from protocol.messages.groups import DescribedGroup, DescribedMember

Key = tuple[str, int]
"""Topic and partition."""
_MOST_REMEMBERED, _MOST_REMEMBERED_BYTES = 512, 1_024
"""Assignments whose partitions are remembered, and the size of the largest: a page reads each several times."""


def assigned_partitions(group: DescribedGroup, member: DescribedMember) -> tuple[Key, ...]:
    """Return the partitions assigned to a member, in order."""
    return partitions_of(group, member.member_assignment)


def owners_of(group: DescribedGroup) -> dict[Key, DescribedMember]:
    """Return the member that reads each partition. A partition that a member has yet to revoke still
    counts as that member's."""
    revoking = {key: member for member in group.members for key in partitions_of(group, member.pending_revocation)}
    return revoking | {key: member for member in group.members for key in assigned_partitions(group, member)}


def partitions_of(group: DescribedGroup, assignment: bytes) -> tuple[Key, ...]:
    """Return the partitions of an assignment of protocol type `consumer` or `streams`, or of those that a member of a
    client-balanced group owns, in order; none if it has another type or cannot be decoded."""
    return (_remembered if len(assignment) <= _MOST_REMEMBERED_BYTES else _decoded)(group.protocol_type, assignment)


def _decoded(protocol_type: str, assignment: bytes) -> tuple[Key, ...]:
    topics: Iterable[tuple[str, Iterable[int]]] = ()
    try:
        if protocol_type in (PROTOCOL_TYPE, *BALANCED_TYPES):
            topics = decode_assignment(assignment).partitions
        elif protocol_type == streams_protocol.PROTOCOL_TYPE:
            topics = streams_protocol.decode_streams_assignment(assignment).items()
    except ProtocolViolation:
        return ()
    return tuple(sorted([(topic, part) for topic, parts in topics for part in parts]))


_remembered = lru_cache(_MOST_REMEMBERED)(_decoded)


def ranges(partitions: Iterable[Key], most: int | None = None) -> str:
    """Format partitions as `flights 0-3 7, other 0`; the first `most` of them, with `…` if there are more."""
    by_topic: dict[str, list[list[int]]] = {}
    rest = iter(partitions)
    for topic, partition in islice(rest, most):
        runs = by_topic.setdefault(topic, [])
        if runs and runs[-1][1] == partition - 1:
            runs[-1][1] = partition
        else:
            runs.append([partition, partition])
    shown = ", ".join(
        f"{topic} " + " ".join(f"{low}-{high}" if low < high else f"{low}" for low, high in runs)
        for topic, runs in by_topic.items()
    )
    return f"{shown} …" if next(rest, None) is not None else shown


def subscribed_topics(group: DescribedGroup, member: DescribedMember) -> Collection[str]:
    """Return the topics of a member's subscription; none if its metadata is hidden or cannot be decoded."""
    try:
        if group.protocol_type == PROTOCOL_TYPE and member.member_metadata:
            return decode_subscription(member.member_metadata).topics
        if group.protocol_type == streams_protocol.PROTOCOL_TYPE and member.member_metadata:
            return streams_protocol.decode_streams_subscription(member.member_metadata).topics
    except ProtocolViolation:
        pass
    return ()
