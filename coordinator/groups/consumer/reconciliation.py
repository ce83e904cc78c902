"""Reconciliation of one member with its target assignment (docs/spec/consumer-group-protocol.md#4.1). Pure: from the
current assignment of the member to its next one."""

from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from coordinator.groups.consumer.state import NONE_ASSIGNED, Assigned, Current, Target
from coordinator.records.consumer_records import ReconciliationState

Owned = Mapping[bytes, AbstractSet[int]]
"""Partitions that a member reports as held, by topic id."""


class Goal(NamedTuple):
    """Aim of a member: the target assignment of `epoch`. `is_wanted`: the topic exists, and the member
    subscribes to it now. `is_free`: no other member holds the partition."""

    epoch: int
    target: Target
    is_wanted: Callable[[bytes], bool]
    is_free: Callable[[bytes, int], bool]


def reconcile(current: Current, goal: Goal, owned: Owned | None, *, is_forced: bool) -> Current:
    """Return the next current assignment of a member. `owned`: the partitions that it reports, None if the request has
    none. `is_forced`: its subscription has changed."""
    if current.state == ReconciliationState.STABLE:
        if current.epoch != goal.epoch:
            return _advance(current, goal, owned)
        return _trim(current, goal, owned) if is_forced else current
    if current.state == ReconciliationState.UNREVOKED_PARTITIONS and not _has_revoked(current, owned):
        return _trim(current, goal, owned) if is_forced else current
    return _advance(current, goal, owned)


def _has_revoked(current: Current, owned: Owned | None) -> bool:
    return owned is not None and not _overlaps(current.pending, owned)


def _overlaps(assigned: Assigned, owned: Owned) -> bool:
    return any(not owned[topic_id].isdisjoint(assigned[topic_id]) for topic_id in owned.keys() & assigned.keys())


def _advance(current: Current, goal: Goal, owned: Owned | None) -> Current:
    """Take the next step towards the target: revoke first, then take what is free."""
    kept: dict[bytes, Mapping[int, int]] = {}
    revoked: dict[bytes, Mapping[int, int]] = {}
    for topic_id, epochs in current.assigned.items():
        target = goal.target.get(topic_id, frozenset()) if goal.is_wanted(topic_id) else frozenset()
        keep = {number: epoch for number, epoch in epochs.items() if number in target}
        if keep:
            kept[topic_id] = keep
        if len(keep) < len(epochs):
            revoked[topic_id] = {number: epoch for number, epoch in epochs.items() if number not in target}
    if revoked and (owned is None or _overlaps(revoked, owned)):
        return Current(current.epoch, current.epoch, ReconciliationState.UNREVOKED_PARTITIONS, kept, revoked)
    given, is_waiting = _take_free(kept, goal)
    state = ReconciliationState.UNRELEASED_PARTITIONS if is_waiting else ReconciliationState.STABLE
    return Current(goal.epoch, current.epoch, state, given, NONE_ASSIGNED)


def _take_free(kept: Mapping[bytes, Mapping[int, int]], goal: Goal) -> tuple[Assigned, bool]:
    """Return the member's partitions including all free ones of its target, and true if others are not free yet."""
    held, is_waiting = dict(kept), False
    for topic_id, numbers in goal.target.items():
        have = kept.get(topic_id, {})
        wanted = numbers - have.keys()
        if not wanted or not goal.is_wanted(topic_id):
            continue
        given = [number for number in sorted(wanted) if goal.is_free(topic_id, number)]
        is_waiting = is_waiting or len(given) < len(wanted)
        if given:
            held[topic_id] = {**have, **dict.fromkeys(given, goal.epoch)}
    return held, is_waiting


def _trim(current: Current, goal: Goal, owned: Owned | None) -> Current:
    """Revoke the topics that the member no longer subscribes to, even if they are in the target."""
    dropped = {topic_id: epochs for topic_id, epochs in current.assigned.items() if not goal.is_wanted(topic_id)}
    if not dropped:
        return current
    kept = {topic_id: epochs for topic_id, epochs in current.assigned.items() if topic_id not in dropped}
    pending = dict(current.pending)
    for topic_id, epochs in dropped.items():
        pending[topic_id] = {**pending.get(topic_id, {}), **epochs}
    if owned is not None and not _overlaps(pending, owned):
        return current._replace(previous_epoch=current.epoch, assigned=kept)
    return Current(current.epoch, current.epoch, ReconciliationState.UNREVOKED_PARTITIONS, kept, pending)
