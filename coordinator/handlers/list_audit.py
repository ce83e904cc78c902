"""Answer ListAudit: acts on groups, from the journal, in slices."""

from coordinator.clock import Moment
from coordinator.core.core import Core
from coordinator.runtime.slices import Served, Work
from protocol.messages.groups import AuditedNote, ListAudit, ListAuditReply
from protocol.session import RequestRef

_GROUPS_A_PIECE, _PIECE_US = 200, 100
MOST_A_PAGE = 1_000


def list_audit(core: Core, ref: RequestRef, message: ListAudit, moment: Moment) -> None:
    """List the acts noted since a wall time, by time. Acts on groups are told by the node that has the group, though
    others may know of them; those on a node by itself."""
    core.slices.begin(core.outbox, ref, _listing(core, message), moment)


def _listing(core: Core, message: ListAudit) -> Work:
    yield 0
    found: list[AuditedNote] = []
    groups = 0
    for one in core.journal.acts(message.since_ms):
        if one is not None:
            if not one.group_id or core.placement.is_mine(core.placement.shard_of(one.group_id)):
                found.append(one)
            continue
        groups += 1
        if groups % _GROUPS_A_PIECE == 0:
            yield _PIECE_US
    found.sort(key=lambda one: (one.note.wall_ms, one.group_id, one.note.number))
    limit = min(max(message.limit, 0), MOST_A_PAGE)
    return Served(ListAuditReply(notes=tuple(found[:limit]), has_more=len(found) > limit))
