"""The kinds of groups, each with its state table and the events that every kind has.

A new kind is a row here, its state in `Group`, and the branches of `Shard.apply` for its records.
"""

from collections.abc import Callable
from operator import attrgetter
from typing import Any, NamedTuple

from coordinator.groups.classic import events as classic
from coordinator.groups.classic import table as classic_table
from coordinator.groups.client_balanced import events as balanced
from coordinator.groups.client_balanced import table as balanced_table
from coordinator.groups.consumer import events as consumer
from coordinator.groups.consumer import table as consumer_table
from coordinator.groups.outcome import Outcome
from coordinator.groups.table import Path, StateTable
from coordinator.runtime.group import Group, GroupKind
from protocol.errors import ErrorCode

AnyEvent = classic.GroupEvent | balanced.BalancedEvent | consumer.ConsumerEvent


class _TableOfKind(NamedTuple):
    table: StateTable[Any]
    state_of: Callable[[Group], Any]
    """State of the group for the table; an Empty one if the group has none."""
    loaded: Callable[[str], AnyEvent]
    unloaded: Callable[[str], AnyEvent]
    append_failed: Callable[[Any, ErrorCode], AnyEvent]


_KINDS = {
    GroupKind.CLASSIC: _TableOfKind(
        classic_table.TABLE,
        attrgetter("classic"),
        classic.Loaded,
        classic.Unloaded,
        classic.AppendFailed,
    ),
    GroupKind.CLIENT_BALANCED: _TableOfKind(
        balanced_table.TABLE,
        lambda group: group.as_balanced(),
        balanced.BalancedLoaded,
        balanced.BalancedUnloaded,
        balanced.BalancedAppendFailed,
    ),
    GroupKind.CONSUMER: _TableOfKind(
        consumer_table.TABLE,
        lambda group: group.as_consumer(),
        consumer.ConsumerLoaded,
        consumer.ConsumerUnloaded,
        consumer.ConsumerAppendFailed,
    ),
}
_BY_EVENT: dict[type, _TableOfKind] = {row.event: kind for kind in _KINDS.values() for row in kind.table.on(Path.FULL)}
_UNDOING = tuple(kind.append_failed for kind in _KINDS.values())


def handle(group: Group, event: AnyEvent, out: Outcome) -> None:
    """Run the event through the table of its kind; the result is in the outcome."""
    kind = _BY_EVENT[type(event)]
    kind.table.handle(kind.state_of(group), event, out)


def append_failed(event: AnyEvent, error_code: ErrorCode) -> AnyEvent:
    """Return the event for a group whose records could not be appended."""
    assert type(event) not in _UNDOING, "what undoes a failed append appends nothing"
    return _BY_EVENT[type(event)].append_failed(event, error_code)


def loaded(group: Group) -> list[AnyEvent]:
    """Return the events that start the group after a load, for each kind on record."""
    return [_KINDS[kind].loaded(group.group_id) for kind in group.recorded_kinds]


def unloaded(group: Group) -> list[AnyEvent]:
    """Return the events that end the group's service, for each kind on record."""
    return [_KINDS[kind].unloaded(group.group_id) for kind in group.recorded_kinds]
