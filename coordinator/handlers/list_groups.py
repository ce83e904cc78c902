"""Answer ListGroups: by id, all groups or a page of them, in slices (docs/spec/group-protocol.md#2.9)."""

from collections.abc import Generator
from itertools import islice

from coordinator.accounts.permission import CLUSTER, GROUP
from coordinator.clock import Moment
from coordinator.core.admission import admit_to_shard
from coordinator.core.core import Core
from coordinator.facts.views import list_group
from coordinator.runtime.outbox import Awaited
from coordinator.runtime.shard import ShardState
from coordinator.runtime.slices import Served, Work
from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.messages.acls import AclOperation
from protocol.messages.groups import ListedGroup, ListGroups, ListGroupsReply
from protocol.session import RequestRef

_GROUPS_A_PIECE = 125
_WORK_A_GROUP = 8
"""In microseconds, thrice what a group takes to be looked at, filtered and shown: heartbeats wait behind a slice."""
_ENCODED_AT_ONCE = 500
_WORK_A_PAUSE = 500
_ALL = 2**63


def list_groups(core: Core, ref: RequestRef, message: ListGroups, moment: Moment) -> None:
    """Answer with the groups of this node that pass the filters, each as it is when its slice is made."""
    core.slices.begin(core.outbox, ref, _listing(core, ref, message), moment)


def _listing(core: Core, ref: RequestRef, message: ListGroups) -> Work:
    yield 0
    states = {state.strip().lower() for state in message.states_filter}
    types = {kind.lower() for kind in message.types_filter}
    limit = message.limit if message.limit >= 0 else _ALL
    access = core.access_of(ref)
    sees_all = access.permits(CLUSTER, "", AclOperation.DESCRIBE)
    found: list[ListedGroup] = []
    after = message.after
    while True:
        if _is_loading(core):
            return Served(ListGroupsReply(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
        wanted = min(_GROUPS_A_PIECE, limit - len(found))
        ids = list(islice(core.directory.irange(after, inclusive=(False, True)), wanted))
        found += [
            line
            for line in [
                _line(core, group_id)
                for group_id in ids
                if sees_all or access.permits(GROUP, group_id, AclOperation.DESCRIBE)
            ]
            if (not states or line.group_state.lower() in states) and (not types or line.group_type in types)
        ]
        if len(ids) < wanted or len(found) == limit:
            awaited = _all_groups(core)
            reply = yield from _encoding(core, ref, ListGroupsReply(groups=tuple(found)))
            return Served(reply, awaited)
        after = ids[-1]
        yield len(ids) * _WORK_A_GROUP


def _encoding(core: Core, ref: RequestRef, reply: ListGroupsReply) -> Generator[int, Moment, Message]:
    """The reply of a large node as bytes. What a front of brokers tells is chosen from it later (`upstream`)."""
    connection = core.connections.get(ref.connection)
    if connection is None or connection.broker is not None or len(reply.groups) <= _ENCODED_AT_ONCE:
        return reply
    encoding = connection.session.encoding(reply)
    while True:
        try:
            next(encoding)
        except StopIteration as done:
            encoded: Message = done.value
            return encoded
        yield _WORK_A_PAUSE


def _all_groups(core: Core) -> Awaited:
    """Return what a reply about all groups that are served here waits for."""
    awaited = Awaited()
    for outbox in {shard.outbox for shard in core.shards if shard.state is ShardState.ACTIVE}:
        awaited.add(outbox, outbox.newest_position())
    return awaited


def _is_loading(core: Core) -> bool:
    return any(admit_to_shard(shard) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS for shard in core.shards)


def _line(core: Core, group_id: str) -> ListedGroup:
    return list_group(core.directory[group_id])
