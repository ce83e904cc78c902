"""Answer ListSuspects: groups that the doctor should check, found in memory, in slices."""

from itertools import islice
from operator import attrgetter

from coordinator.clock import Moment
from coordinator.core.core import Core
from coordinator.groups.classic.state import ClassicGroup
from coordinator.groups.client_balanced.state import BalancedGroup
from coordinator.groups.consumer.delayed import session_timeout_ms
from coordinator.groups.consumer.state import ConsumerGroup
from coordinator.runtime.group import Group
from coordinator.runtime.slices import Served, Work
from protocol.messages.groups import ListSuspects, ListSuspectsReply
from protocol.session import RequestRef

_GROUPS_A_PIECE = 25
_WORK_A_GROUP, _WORK_A_MEMBER = 16, 4
"""In microseconds, six times what they take, so that a piece of groups with ten members fills a slice: this is asked
for each second while somebody looks, and heartbeats wait behind a slice."""
_connection, _heard_ms, _session_timeout_ms = map(attrgetter, ("connection", "heard_ms", "session_timeout_ms"))


def list_suspects(core: Core, ref: RequestRef, message: ListSuspects, moment: Moment) -> None:
    """List the groups to look at. Slices are made one after the other, so a change meanwhile may be missed here; it is
    then one since the time in the reply."""
    core.slices.begin(core.outbox, ref, _listing(core, message, moment), moment)


def _listing(core: Core, message: ListSuspects, began: Moment) -> Work:
    moment = yield 0
    found: list[str] = []
    after: str | None = None
    while True:
        ids = list(islice(core.directory.irange(after, inclusive=(False, True)), _GROUPS_A_PIECE))
        groups = [core.directory[group_id] for group_id in ids]
        found += [group.group_id for group in groups if _is_suspect(core, group, message.since_ms, moment)]
        if len(ids) < _GROUPS_A_PIECE:
            expired = core.journal.expired(message.since_ms)
            return Served(ListSuspectsReply(groups=tuple(found), wall_ms=began.wall_ms, expired=expired))
        after = ids[-1]
        members = sum(group.member_count for group in groups)
        moment = yield len(ids) * _WORK_A_GROUP + members * _WORK_A_MEMBER


def _is_suspect(core: Core, group: Group, since_ms: int, moment: Moment) -> bool:
    if group.classic.state_since_ms >= since_ms or core.journal.newest_ms(group.group_id) >= since_ms:
        return True
    now_ms = moment.monotonic_ms
    if (consumer := group.serving_consumer) is not None:
        return _is_unsettled(core, consumer, now_ms)
    if group.balanced is not None and group.balanced.members:
        return _has_silent(core, group.balanced, now_ms)
    return _is_held_up(core, group.classic, now_ms)


def _is_held_up(core: Core, group: ClassicGroup, now_ms: int) -> bool:
    """Return true in a phase, or if a member was not heard for half its session, or its connection is closed."""
    if group.phase is not None:
        return True
    return not _are_here(core, group, now_ms) and any(
        2 * member.heard_ago_ms(now_ms) > member.session_timeout_ms
        or _is_cut_off(core, member.connection, max(member.heard_ms, member.committed_ms))
        for member in group.members.values()
    )


def _are_here(core: Core, group: ClassicGroup, now_ms: int) -> bool:
    """Return true if all members are connected and none can be silent: the usual case, seen in C alone."""
    members = group.members.values()
    if not members:
        return True
    if not all(map(core.connections.__contains__, map(_connection, members))):
        return False
    heard_ms: int = min(map(_heard_ms, members))
    timeout_ms: int = min(map(_session_timeout_ms, members))
    return heard_ms >= 0 and 2 * (now_ms - heard_ms) <= timeout_ms


def _is_unsettled(core: Core, group: ConsumerGroup, now_ms: int) -> bool:
    for member in group.members.values():
        timeout_ms = session_timeout_ms(group, member)
        if (
            member.current.epoch != group.target_epoch
            or 2 * (member.deadline_ms - now_ms) < timeout_ms
            or _is_cut_off(core, member.connection, member.deadline_ms - timeout_ms)
        ):
            return True
    return False


def _has_silent(core: Core, group: BalancedGroup, now_ms: int) -> bool:
    return any(
        2 * (member.deadline_ms - now_ms) < member.session_timeout_ms
        or _is_cut_off(core, member.connection, member.heard_ms)
        for member in group.members.values()
    )


def _is_cut_off(core: Core, connection: int, heard_ms: int) -> bool:
    if connection < 0 or connection in core.connections:
        return False
    closed_ms = core.closed.closed_ms(connection)
    return closed_ms is not None and heard_ms <= closed_ms
