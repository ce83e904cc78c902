"""Answer ListGroups."""

from coordinator.clock import Moment
from coordinator.handlers.admission import admit_to_shard
from coordinator.handlers.core import Core
from coordinator.handlers.views import list_group
from protocol.errors import ErrorCode
from protocol.messages.groups import ListGroups, ListGroupsReply
from protocol.session import RequestRef


def list_groups(core: Core, ref: RequestRef, message: ListGroups, moment: Moment) -> None:
    """All groups of this node that pass the filters (2.9)."""
    refusals = [refused for shard in core.shards if (refused := admit_to_shard(core, shard))]
    if ErrorCode.COORDINATOR_LOAD_IN_PROGRESS in refusals:
        core.outbox.send(ref, ListGroupsReply(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
        return
    states = {state.strip().lower() for state in message.states_filter}
    types = {kind.lower() for kind in message.types_filter}
    listed = (
        list_group(group, shard.balanced.get(group.group_id))
        for shard in core.shards
        for group in shard.groups.values()
    )
    groups = tuple(
        line
        for line in listed
        if (not states or line.group_state.lower() in states) and (not types or line.group_type in types)
    )
    core.outbox.hold(core.store.position, ref, ListGroupsReply(groups=groups))
