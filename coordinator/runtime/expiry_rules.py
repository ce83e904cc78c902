"""Expiry of a group and its offsets (docs/spec/group-protocol.md#4.4). Pure functions of the group and its offsets,
without a clock.

    group                                             counted from                partitions
    with a protocol type, Empty                       when it became Empty        all
      (whose record has no time of that)              each offset's commit        all
    of type `consumer`, Stable, subscription known    each offset's commit        of topics that no member subscribes to
    without a protocol type, Empty ("simple")         each offset's commit        all
      (that was client-balanced)                      when its last member left   all
    client-balanced, with members                     each offset's commit        of topics that it does not read
    server-driven, with members or without            each offset's commit        of topics that no member subscribes to
    pinned (`group.offsets.pinned`)                   never                       none
    any other                                         never                       none

A commit with its own retention time expires at the end of that instead, if the table lets it expire at all. Offsets
pending in a transaction are kept until its marker arrives. All times are wall times from the log: every node that loads
the log gets the same result, and a clock that is set back only delays expiry.
"""

import enum
from collections.abc import Container, Generator, Sequence
from collections.abc import Set as AbstractSet
from operator import attrgetter
from typing import NamedTuple

from coordinator.groups.classic.group_states import GroupState
from coordinator.groups.classic.subscriptions import Subscriptions
from coordinator.records.records import CommittedOffset
from coordinator.runtime.group import Group, GroupKind
from coordinator.runtime.offset_and_metadata import OffsetAndMetadata
from coordinator.runtime.offset_table import OffsetTable, TopicPartitionKey
from protocol.consumer_protocol import PROTOCOL_TYPE

_NO_RETENTION = -1
_NEVER_MS = 2**63 - 1
_OFFSETS_A_PIECE = 1_000
_TIMES = attrgetter("expire_timestamp_ms", "commit_timestamp_ms")


class KeepReason(enum.StrEnum):
    """Reason why an offset or a group never expires in its present state."""

    REBALANCING = "the group is rebalancing"
    SUBSCRIBED = "a member subscribes to the topic"
    UNREADABLE = "a member's subscription cannot be read, so it counts as all topics"
    NO_CONSUMERS = "the group has members, and its protocol type does not tell what they read"
    PENDING = "a transaction has an offset pending for the partition"
    HAS_MEMBERS = "the group has members"
    PINNED = "the group is pinned (group.offsets.pinned)"
    GROUP_PENDING = "a transaction has offsets pending for the group"


class Rule(NamedTuple):
    """Rule by which offsets of a group expire. All count from `since_ms`, or each from its commit if that is None."""

    since_ms: int | None
    subscribed: AbstractSet[str] = frozenset()


def is_by_subscription(group: Group) -> bool:
    """Return true if the group's row of the table depends on its members' subscriptions."""
    classic = group.classic
    is_classic = group.kind is GroupKind.CLASSIC
    return is_classic and classic.state is GroupState.STABLE and classic.protocol_type == PROTOCOL_TYPE


def rule_of(group: Group, subscriptions: Subscriptions | None = None) -> Rule | KeepReason:
    """Return the row of the table that applies to the group now. `subscriptions`: the subscriptions parsed so far."""
    classic, balanced = group.classic, group.balanced
    if classic.settings.is_pinned:
        return KeepReason.PINNED
    if balanced is not None and group.kind is GroupKind.CLIENT_BALANCED:
        return Rule(None, frozenset(balanced.on_record.topics))
    if (consumer := group.serving_consumer) is not None:
        return Rule(None, consumer.subscribed)
    if classic.state is GroupState.EMPTY:
        if balanced is not None:
            return Rule(max(classic.state_since_ms, balanced.on_record.state_timestamp_ms))
        is_known = classic.protocol_type is not None and classic.state_since_ms >= 0
        return Rule(classic.state_since_ms if is_known else None)
    if classic.state is not GroupState.STABLE:
        return KeepReason.REBALANCING
    if classic.protocol_type != PROTOCOL_TYPE:
        return KeepReason.NO_CONSUMERS
    subscribed = (Subscriptions(classic) if subscriptions is None else subscriptions).topics()
    return KeepReason.UNREADABLE if subscribed is None else Rule(None, subscribed)


def expires_ms(
    rule: Rule | KeepReason,
    key: TopicPartitionKey,
    committed: OffsetAndMetadata,
    pending: Container[TopicPartitionKey],
    retention_ms: int,
) -> int | KeepReason:
    """Return the wall time from which on the offset may be deleted, or the reason why it never is."""
    if isinstance(rule, KeepReason):
        return rule
    if key[0] in rule.subscribed:
        return KeepReason.SUBSCRIBED
    if key in pending:
        return KeepReason.PENDING
    if committed.expire_timestamp_ms != _NO_RETENTION:
        return committed.expire_timestamp_ms
    since_ms = committed.commit_timestamp_ms if rule.since_ms is None else rule.since_ms
    return since_ms + retention_ms


def earliest_expiry_ms(group: Group, commits: Sequence[CommittedOffset], retention_ms: int) -> int:
    """Return a lower bound of the expiry times of these commits while the group's row of the table stays the same.
    Subscriptions and transactions are ignored, since they only keep offsets longer."""
    since_ms = None
    if group.classic.state is GroupState.EMPTY:
        rule = rule_of(group)
        since_ms = rule.since_ms if isinstance(rule, Rule) else None
    earliest_ms = _NEVER_MS
    for expire_ms, commit_ms in set(map(_TIMES, commits)):  # commits of one request mostly have the same times
        counted_from_ms = commit_ms if since_ms is None else since_ms
        earliest_ms = min(earliest_ms, counted_from_ms + retention_ms if expire_ms == _NO_RETENTION else expire_ms)
    return earliest_ms


def group_expires_ms(group: Group, offsets: OffsetTable, retention_ms: int) -> Generator[int, None, int | KeepReason]:
    """Return the wall time from which on the group itself may be deleted: with its last offset, or at once if it has
    none. Yields the number of offsets checked."""
    if not group.is_empty:
        return KeepReason.HAS_MEMBERS
    if offsets.pending.of(group.group_id):
        return KeepReason.GROUP_PENDING
    rule, last_ms = rule_of(group), 0
    if rule is KeepReason.PINNED:
        return rule
    for topic in list(offsets.topics(group.group_id)):
        committed = list(offsets.topics(group.group_id).get(topic, {}).items())
        for start in range(0, len(committed), _OFFSETS_A_PIECE):
            some = committed[start : start + _OFFSETS_A_PIECE]
            for partition, offset in some:
                at_ms = expires_ms(rule, (topic, partition), offset, (), retention_ms)
                assert isinstance(at_ms, int), "of an Empty group without transactions everything expires"
                last_ms = max(last_ms, at_ms)
            yield len(some)
    return last_ms
