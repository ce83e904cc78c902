"""Steps that the handlers of client-balanced groups share: admit the request, find the group, refresh its list of
partitions."""

from collections.abc import Callable
from typing import TypeVar

from coordinator.clock import Moment
from coordinator.core.admission import Found, admit
from coordinator.core.core import Core
from coordinator.groups.client_balanced.events import BalancedEvent, BalanceDue, MetaMade, OffsetsByKey
from coordinator.groups.client_balanced.meta import is_current
from coordinator.groups.client_balanced.state import BalancedGroup
from coordinator.handlers.client_balanced_topics import as_of, partition_states, places, shape_of
from coordinator.runtime.group import Group, GroupKind
from coordinator.runtime.shard import ShardState
from protocol.errors import ErrorCode
from protocol.messages.balanced import ConfirmConsumed, LeaveMember, UnregisterPartitions
from protocol.session import RequestRef

TASK = "balanced"


BAD = ErrorCode.BAD_REQUEST


M = TypeVar("M", LeaveMember, UnregisterPartitions, ConfirmConsumed)


def admit_client_balanced(core: Core, group_id: str) -> ErrorCode:
    """Check that this node serves the group."""
    return admit(core, group_id) if group_id else BAD


def refreshed(core: Core, group: Group, moment: Moment) -> BalancedGroup:
    """Return the group as a client-balanced one, with its configured partitions refreshed."""
    balanced = group.as_balanced()
    if balanced.members and balanced.meta_as_of != as_of(core):
        refresh(core, group, balanced, moment)
    return balanced


def refresh(core: Core, group: Group, balanced: BalancedGroup, moment: Moment) -> None:
    """Refresh the group's configured partitions from the topics."""
    topics = balanced.on_record.topics
    shape, now = shape_of(core, group.group_id, topics), as_of(core)
    if not is_current(balanced, now, shape):
        made = MetaMade(group.group_id, partition_states(core, group.group_id, topics), now, shape)
        group.shard.process(group, made, moment)


def topics_changed(core: Core, moment: Moment) -> None:
    """Refresh every group that has not seen the present topics, so that members are notified of changes at once."""
    for shard in core.shards:
        groups = shard.of_kind[GroupKind.CLIENT_BALANCED] if shard.state is ShardState.ACTIVE else {}
        for group in list(groups.values()):
            refreshed(core, group, moment)


def balance_groups(core: Core, moment: Moment) -> int:
    """Run a slice of the balancing pass over server-balanced groups. Return the milliseconds to the next."""
    for group in core.balancing.next_groups(core.shards, moment):
        refreshed(core, group, moment)
        group.shard.process(group, BalanceDue(group.group_id), moment)
    return core.balancing.delay_ms(core.config.server_balance_interval_ms, moment)


def hand_over(
    core: Core,
    ref: RequestRef,
    message: M,
    found: Found,
    keys: list[str],
    happens: Callable[[RequestRef, M, OffsetsByKey], BalancedEvent],
    moment: Moment,
) -> None:
    """Hand the request to its group, with the state of the partitions that it names."""
    group = found.group_or_new(message.group_id)
    refreshed(core, group, moment)
    known = places(core, found.shard, message.group_id, keys)
    found.shard.process(group, happens(ref, message, known), moment)
