"""Admission: checks made before any group is read, in the order clients can observe (docs/spec/group-protocol.md#0.3,
the newer coordinator's): group id, session timeout, then the placement and the load state of the group's shard."""

from collections.abc import Callable
from typing import Any, NamedTuple

from coordinator.groups.classic.state import Group
from coordinator.handlers.core import Core
from coordinator.runtime.shard import Shard, ShardState
from protocol.errors import ErrorCode
from protocol.messages import LONGEST_GROUP_ID, Message

_SHARD_REFUSALS = {
    ShardState.LOADING: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ShardState.FAILED: ErrorCode.NOT_COORDINATOR,
    ShardState.UNLOADED: ErrorCode.NOT_COORDINATOR,
    ShardState.ACTIVE: ErrorCode.NONE,
}


class Found(NamedTuple):
    """The shard and the group of an admitted request; `group` is None if it does not exist."""

    shard: Shard
    group: Group | None


Admission = Callable[[Core, Any], Found | Message]
"""Checks of a request that names one group: what it found, or the reply that refuses it."""


def to_group(reply: Callable[..., Message], *, may_be_empty: bool = False, writes: bool = False) -> Admission:
    """Admit a request to its group; `writes`: only while the log takes records. `reply` is the type of its replies."""

    def admission(core: Core, message: Any) -> Found | Message:
        refused = admit(core, message.group_id, may_be_empty=may_be_empty) or (writes and admit_write(core))
        return reply(error_code=refused) if refused else Found(*core.find(message.group_id))

    return admission


def admit(core: Core, group_id: str, *, may_be_empty: bool = False) -> ErrorCode:
    """Check the group id and that this node serves the group."""
    if (not group_id and not may_be_empty) or len(group_id) > LONGEST_GROUP_ID:
        return ErrorCode.INVALID_GROUP_ID
    return admit_to_group(core, core.find(group_id)[0], group_id)


def admit_to_group(core: Core, shard: Shard, group_id: str) -> ErrorCode:
    """Check that the shard is served here now, and that the group is not being deleted: deletion ends, as
    loading does."""
    return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if group_id in shard.deleting else admit_to_shard(core, shard)


def admit_to_shard(core: Core, shard: Shard) -> ErrorCode:
    """Check that the shard is served here now."""
    if not core.placement.is_mine(shard.index):
        return ErrorCode.NOT_COORDINATOR
    return _SHARD_REFUSALS[shard.state]


def admit_bytes(core: Core, held: int, added: int) -> ErrorCode:
    """Check the limits of metadata, of a group that holds `held` bytes and of the node, for `added` bytes more."""
    if held + added > core.config.group_max_metadata_bytes:
        return ErrorCode.MESSAGE_TOO_LARGE
    if (
        added > 0
        and sum([shard.counts.metadata_bytes for shard in core.shards]) + added > core.config.max_metadata_bytes
    ):
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    return ErrorCode.NONE


def admit_operation(core: Core) -> ErrorCode:
    """Check the limit of delayed operations for one more."""
    is_full = len(core.purgatory) >= core.config.max_watched_operations
    return ErrorCode.COORDINATOR_NOT_AVAILABLE if is_full else ErrorCode.NONE


def admit_write(core: Core) -> ErrorCode:
    """Check the limits of held replies and unflushed bytes for one more write."""
    if len(core.outbox.held) >= core.config.max_held_replies:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if core.store.position - core.store.flushed >= core.config.max_unflushed_bytes:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    return ErrorCode.NONE
