"""Steps that the handlers of client-balanced groups share: admit the request, find the group, refresh its list of
partitions."""

from collections.abc import Callable
from typing import Any, TypeVar

from coordinator.clock import Moment
from coordinator.groups.client_balanced.events import BalancedEvent, MetaMade, OffsetsByKey
from coordinator.groups.client_balanced.meta import is_current
from coordinator.groups.client_balanced.state import BalancedGroup
from coordinator.handlers.admission import Admission, Found, admit, admit_write
from coordinator.handlers.client_balanced_topics import as_of, partition_states, places, shape_of
from coordinator.handlers.core import Core
from coordinator.runtime.shard import Shard
from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.messages.balanced import ConfirmConsumed, LeaveMember, UnregisterPartitions
from protocol.session import RequestRef

TASK = "balanced"


BAD = ErrorCode.BAD_REQUEST


M = TypeVar("M", LeaveMember, UnregisterPartitions, ConfirmConsumed)


def admit_client_balanced(core: Core, group_id: str) -> ErrorCode:
    """Check that this node serves the group."""
    return admit(core, group_id) if group_id else BAD


def to_balanced_group(reply: Callable[..., Message], *, writes: bool = False) -> Admission:
    """Admit a request to its client-balanced group; `writes`: only while the log takes records."""

    def admission(core: Core, message: Any) -> Found | Message:
        refused = admit_client_balanced(core, message.group_id) or (writes and admit_write(core))
        return reply(error_code=refused) if refused else Found(*core.find(message.group_id))

    return admission


def find(core: Core, group_id: str, moment: Moment) -> tuple[Shard, BalancedGroup]:
    """Return the group, with its configured partitions refreshed."""
    shard = core.find(group_id)[0]
    group = shard.balanced_group(group_id)
    if group.members and group.meta_as_of != as_of(core):
        refresh(core, shard, group, moment)
    return shard, group


def refresh(core: Core, shard: Shard, group: BalancedGroup, moment: Moment) -> None:
    """Refresh the group's configured partitions from the topics."""
    topics = group.on_record.topics
    shape, now = shape_of(core, group.group_id, topics), as_of(core)
    if not is_current(group, now, shape):
        shard.process(
            group, MetaMade(group.group_id, partition_states(core, group.group_id, topics), now, shape), moment
        )


def topics_changed(core: Core, moment: Moment) -> None:
    """Refresh every group that has not seen the present topics, so that members are notified of changes at once."""
    now = as_of(core)
    for shard in core.shards:
        for group in list(shard.balanced.values()):
            if group.members and group.meta_as_of != now:
                refresh(core, shard, group, moment)


def hand_over(
    core: Core,
    ref: RequestRef,
    message: M,
    keys: list[str],
    happens: Callable[[RequestRef, M, OffsetsByKey], BalancedEvent],
    moment: Moment,
) -> None:
    """Hand the request to its group, with the state of the partitions that it names."""
    shard, group = find(core, message.group_id, moment)
    shard.process(group, happens(ref, message, places(core, shard, message.group_id, keys)), moment)
