"""What of a group expires, and when (docs/spec/group-protocol.md#4.4). Pure: it is handed the group, its offsets and no
clock.

    group                                             counted from                partitions
    with a protocol type, Empty                       when it became Empty        all
      (of a record that does not tell)                each offset's commit        all
    of type `consumer`, Stable, subscription known    each offset's commit        of topics that no member subscribes to
    without a protocol type, Empty ("simple")         each offset's commit        all
      (that was client-balanced)                      when its last member went   all
    with members that balance it themselves           each offset's commit        of topics that it does not read
    any other                                         never                       none

A commit that named a retention of its own goes when that is over instead, where the table lets it go at all. What a
transaction has pending is kept until its marker comes. All of it is wall time, as written down in the log: so every
node that loads the log comes to the same result, and a clock that goes back only keeps things longer.
"""

import enum
from collections.abc import Container
from typing import NamedTuple

from coordinator.groups.classic.offsets import subscribed_topics
from coordinator.groups.classic.state import Group, GroupState
from coordinator.groups.client_balanced.state import BalancedGroup
from coordinator.runtime.offset_table import OffsetAndMetadata, OffsetTable, Place
from protocol.consumer_protocol import PROTOCOL_TYPE

_NO_RETENTION = -1


class Kept(enum.StrEnum):
    """Why something never expires, as things stand."""

    REBALANCING = "the group is rebalancing"
    SUBSCRIBED = "a member subscribes to the topic"
    UNREADABLE = "a member's subscription cannot be read, so it counts as all topics"
    NO_CONSUMERS = "the group has members, and its protocol type does not tell what they read"
    PENDING = "a transaction has an offset pending for the partition"
    HAS_MEMBERS = "the group has members"
    GROUP_PENDING = "a transaction has offsets pending for the group"


class Rule(NamedTuple):
    """How offsets of a group expire. `since_ms`: all are counted from then, or each from its commit if None."""

    since_ms: int | None
    subscribed: frozenset[str] = frozenset()


def rule_of(group: Group, balanced: BalancedGroup | None = None) -> Rule | Kept:
    """The line of the table that the group is in now. `balanced`: the group's members that balance it themselves, or
    did."""
    if balanced is not None and balanced.members:
        return Rule(None, frozenset(balanced.on_record.topics))
    if group.state is GroupState.EMPTY:
        if balanced is not None:
            return Rule(max(group.state_since_ms, balanced.on_record.state_timestamp_ms))
        is_known = group.protocol_type is not None and group.state_since_ms >= 0
        return Rule(group.state_since_ms if is_known else None)
    if group.state is not GroupState.STABLE:
        return Kept.REBALANCING
    if group.protocol_type != PROTOCOL_TYPE:
        return Kept.NO_CONSUMERS
    subscribed = subscribed_topics(group)
    return Kept.UNREADABLE if subscribed is None else Rule(None, subscribed)


def expires_ms(
    rule: Rule | Kept, place: Place, committed: OffsetAndMetadata, pending: Container[Place], retention_ms: int
) -> int | Kept:
    """The wall time from which on the offset may go, or why it never does."""
    if isinstance(rule, Kept):
        return rule
    if place[0] in rule.subscribed:
        return Kept.SUBSCRIBED
    if place in pending:
        return Kept.PENDING
    if committed.expire_timestamp_ms != _NO_RETENTION:
        return committed.expire_timestamp_ms
    since_ms = committed.commit_timestamp_ms if rule.since_ms is None else rule.since_ms
    return since_ms + retention_ms


def group_expires_ms(
    group: Group, offsets: OffsetTable, retention_ms: int, balanced: BalancedGroup | None = None
) -> int | Kept:
    """The wall time from which on the group itself may go: with the last of its offsets, and at once without any."""
    if group.state is not GroupState.EMPTY or (balanced is not None and balanced.members):
        return Kept.HAS_MEMBERS
    if offsets.pending.of(group.group_id):
        return Kept.GROUP_PENDING
    rule, last_ms = rule_of(group, balanced), 0
    for topic, partitions in offsets.topics(group.group_id).items():
        for partition, committed in partitions.items():
            at_ms = expires_ms(rule, (topic, partition), committed, (), retention_ms)
            assert isinstance(at_ms, int), "of an Empty group without transactions everything expires"
            last_ms = max(last_ms, at_ms)
    return last_ms
