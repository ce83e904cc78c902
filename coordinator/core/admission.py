"""Admission: checks made before any group is read, in the order clients can observe (docs/spec/group-protocol.md#0.3,
the newer coordinator's): group id, session timeout, then the placement and the load state of the group's shard."""

from collections.abc import Callable
from operator import attrgetter
from typing import Any, Final, NamedTuple

from coordinator.core.core import Core
from coordinator.runtime.group import Group
from coordinator.runtime.shard import Shard, ShardState
from protocol.errors import ErrorCode
from protocol.messages import LONGEST_GROUP_ID, Message

_SHARD_REFUSALS = {
    ShardState.LOADING: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ShardState.FAILED: ErrorCode.NOT_COORDINATOR,
    ShardState.UNLOADED: ErrorCode.NOT_COORDINATOR,
    ShardState.ACTIVE: ErrorCode.NONE,
}

_NONE: Final = ErrorCode.NONE  # looked up once: an attribute of an enumeration costs 50 ns
_ACTIVE: Final = ShardState.ACTIVE
_METADATA_BYTES = attrgetter("counts.metadata_bytes")


class Found(NamedTuple):
    """The shard and the group of an admitted request; `group` is None if it does not exist."""

    shard: Shard
    group: Group | None

    def group_or_new(self, group_id: str) -> Group:
        """Return the group, or a new one for its guards to refuse: it is added only when a record of it is applied."""
        return self.group or self.shard.new_group(group_id)


Admission = Callable[[Core, Any], Found | Message]
"""Checks of a request that names one group: what it found, or the reply that refuses it."""


def to_group(
    reply: Callable[..., Message], check: Callable[[Core, str], ErrorCode] | None = None, *, writes: bool = False
) -> Admission:
    """Admit a request to its group by `check` (default: `admit`); `writes`: only while the log takes records. `reply`
    is the type of its replies."""
    checked = check or admit

    def admission(core: Core, message: Any) -> Found | Message:
        refused = checked(core, message.group_id) or (writes and admit_write(core))
        return reply(error_code=refused) if refused else Found(*core.find(message.group_id))

    return admission


def admit_any_id(core: Core, group_id: str) -> ErrorCode:
    """Check as `admit` does; the id may be empty."""
    return admit(core, group_id, may_be_empty=True)


def admit(core: Core, group_id: str, *, may_be_empty: bool = False) -> ErrorCode:
    """Check the group id and that this node serves the group."""
    if (not group_id and not may_be_empty) or len(group_id) > LONGEST_GROUP_ID:
        return ErrorCode.INVALID_GROUP_ID
    return admit_to_group(core.find(group_id)[0], group_id)


def admit_to_group(shard: Shard, group_id: str) -> ErrorCode:
    """Check that the shard is served here now, and that the group is not being deleted: deletion ends, as
    loading does."""
    if group_id in shard.deleting:
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    return _NONE if shard.state is _ACTIVE else _SHARD_REFUSALS[shard.state]


def admit_to_shard(shard: Shard) -> ErrorCode:
    """Check that the shard is served here now."""
    return _SHARD_REFUSALS[shard.state]


def admit_bytes(core: Core, held: int, added: int) -> ErrorCode:
    """Check the limits of metadata, of a group that holds `held` bytes and of the node, for `added` bytes more. A
    request that adds nothing is admitted, even if a limit is passed."""
    if added <= 0:
        return ErrorCode.NONE
    if held + added > core.config.group_max_metadata_bytes:
        return ErrorCode.MESSAGE_TOO_LARGE
    if sum(map(_METADATA_BYTES, core.shards)) + added > core.config.max_metadata_bytes:
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
    return _NONE
