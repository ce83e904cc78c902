"""Who answers ListGroups: by id, all groups or a page of them, in slices (docs/spec/group-protocol.md#2.9)."""

from itertools import islice

from coordinator.clock import Moment
from coordinator.handlers.admission import admit_to_shard
from coordinator.handlers.core import Core
from coordinator.handlers.views import list_group
from coordinator.runtime.slices import Served, Work
from protocol.errors import ErrorCode
from protocol.messages.groups import ListedGroup, ListGroups, ListGroupsReply
from protocol.session import RequestRef

_GROUPS_A_PIECE = 500
_WORK_A_GROUP = 1
"""In microseconds: looked at, filtered and shown."""
_ALL = 2**63


def list_groups(core: Core, ref: RequestRef, message: ListGroups, moment: Moment) -> None:
    """Answer with the groups of this node that pass the filters, each as it is when its slice is made."""
    core.slices.begin(core.outbox, ref, _listing(core, message), moment)


def _listing(core: Core, message: ListGroups) -> Work:
    yield 0
    states = {state.strip().lower() for state in message.states_filter}
    types = {kind.lower() for kind in message.types_filter}
    limit = message.limit if message.limit >= 0 else _ALL
    found: list[ListedGroup] = []
    after = message.after
    while True:
        if _is_loading(core):
            return Served(ListGroupsReply(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS), 0)
        wanted = min(_GROUPS_A_PIECE, limit - len(found))
        ids = list(islice(core.directory.irange(after, inclusive=(False, True)), wanted))
        found += [
            line
            for line in [_line(core, group_id) for group_id in ids]
            if (not states or line.group_state.lower() in states) and (not types or line.group_type in types)
        ]
        if len(ids) < wanted or len(found) == limit:
            return Served(ListGroupsReply(groups=tuple(found)), core.store.position)
        after = ids[-1]
        yield len(ids) * _WORK_A_GROUP


def _is_loading(core: Core) -> bool:
    return any(admit_to_shard(core, shard) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS for shard in core.shards)


def _line(core: Core, group_id: str) -> ListedGroup:
    shard, group = core.directory[group_id]
    return list_group(group, shard.balanced.get(group_id))
