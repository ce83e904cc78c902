"""The kinds of groups a shard has, each with its table: the only place that tells them apart."""

from collections.abc import Callable
from typing import Any, NamedTuple

from coordinator.groups.classic import events as classic
from coordinator.groups.classic import table as classic_table
from coordinator.groups.classic.state import Group
from coordinator.groups.client_balanced import events as balanced
from coordinator.groups.client_balanced import table as balanced_table
from coordinator.groups.client_balanced.state import BalancedGroup
from coordinator.groups.outcome import Outcome
from protocol.errors import ErrorCode

AnyGroup = Group | BalancedGroup
AnyEvent = classic.GroupEvent | balanced.BalancedEvent


class _Kind(NamedTuple):
    handle: Callable[[Any, Any, Outcome], None]
    append_failed: Callable[[Any, ErrorCode], AnyEvent]


_KINDS: dict[type, _Kind] = {
    Group: _Kind(classic_table.handle, classic.AppendFailed),
    BalancedGroup: _Kind(balanced_table.handle, balanced.BalancedAppendFailed),
}


def handle(group: AnyGroup, event: AnyEvent, out: Outcome) -> None:
    """Run the event through the table of the group's kind; the result is in the outcome."""
    _KINDS[type(group)].handle(group, event, out)


def append_failed(group: AnyGroup, event: AnyEvent, error_code: ErrorCode) -> AnyEvent:
    """Return the event for a group whose records could not be appended."""
    failed = isinstance(event, classic.AppendFailed | balanced.BalancedAppendFailed)
    assert not failed, "what undoes a failed append appends nothing"
    return _KINDS[type(group)].append_failed(event, error_code)
