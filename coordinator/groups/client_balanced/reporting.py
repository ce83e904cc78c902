"""Heartbeats: extended leases, the ownership that members report, and the replies
(docs/spec/client-balanced-groups.md#11, #13). A report changes no owner: a member that claims more than `owners` has
for it gets an error for the difference."""

from collections.abc import Iterable
from itertools import islice

from coordinator.groups.client_balanced.balancing import offered_id
from coordinator.groups.client_balanced.events import Beat
from coordinator.groups.client_balanced.grants import end, extend_lease, offer_soon, ownership_error
from coordinator.groups.client_balanced.state import BalancedGroup, BalancedGroupMember
from coordinator.groups.outcome import Outcome
from protocol.errors import ErrorCode
from protocol.messages.balanced import NO_ASSIGNMENT, LostKey, MemberHeartbeat, MemberHeartbeatReply, OwnedKey

_MOST_SHOWN, _LONGEST_SHOWN = 100, 100
"""Largest number of wrong claims that are kept of a report, and largest length of each."""


def is_plain(group: BalancedGroup, request: MemberHeartbeat) -> bool:
    """Return true for a heartbeat without a report or a release, of a member that needs to be told nothing: the
    read-only path answers it."""
    member = group.members.get(request.consumer_id)
    return (
        request.owned is None
        and not request.released
        and request.meta_version == group.on_record.meta_version
        and (member is None or request.assignment_id == offered_id(group, member))
        and (member is None or not (member.lost or _requested_seek(group, member, request)))
    )


def keep_connection(group: BalancedGroup, request: MemberHeartbeat, connection: int) -> None:
    """Keep the connection on which the member can be notified."""
    member = group.members.get(request.consumer_id)
    if member is not None and member.epoch == request.member_epoch:
        member.connection = connection


def stay_alive(group: BalancedGroup, request: MemberHeartbeat, now_ms: int) -> ErrorCode:
    """Move the member's deadline."""
    extend_lease(group.members[request.consumer_id], now_ms)
    return ErrorCode.NONE


def beat(group: BalancedGroup, event: Beat, out: Outcome) -> None:
    """Handle a heartbeat with a report or a release, or of a member that must be told something."""
    request, member = event.request, group.members[event.consumer_id]
    extend_lease(member, out.moment.monotonic_ms)
    released: dict[str, None] = {}
    for one in {one.key: one for one in request.released}.values():
        key = group.place_of(one.key)
        entry = None if key is None else group.grant(key, member.consumer_id, one.reg_epoch)
        if entry is not None:
            released[one.key] = None
            end(group, entry, one, event.places, out)
    if released:
        offer_soon(group, out)
    wrong = mismatches(group, member.consumer_id, request.owned or ())
    if request.owned is not None:
        member.reported, member.owned_version = _kept(request.owned, wrong), request.owned_version
        member.lost.clear()
    lost = dict(member.lost)
    for claim in wrong:
        key = group.place_of(claim.key)
        is_key = key is not None and claim.key in group.meta
        lost[claim.key] = ownership_error(group, key, member.consumer_id) if is_key and key else ErrorCode.NOT_FOUND
    version, assignment_id = group.on_record.meta_version, offered_id(group, member)
    is_assigned = assignment_id in (request.assignment_id, NO_ASSIGNMENT)
    reply = MemberHeartbeatReply(
        lost=tuple([LostKey(key, error) for key, error in lost.items() if key not in released]),
        meta_version=version,
        meta=None if request.meta_version == version else tuple(group.meta.values()),
        from_max_id=_requested_seek(group, member, request),
        assignment_id=assignment_id,
        assignment=None if is_assigned else tuple(member.offered),
    )
    out.reply(event.ref, reply)


def _kept(owned: Iterable[OwnedKey], wrong: Iterable[OwnedKey]) -> tuple[OwnedKey, ...]:
    """Return the correct claims of a report, each once, and a bounded number of the wrong ones."""
    untrue = {claim.key: claim for claim in wrong}
    shown = dict.fromkeys(islice((key for key in untrue if len(key) <= _LONGEST_SHOWN), _MOST_SHOWN))
    return tuple({claim.key: claim for claim in owned if claim.key not in untrue or claim.key in shown}.values())


def mismatches(group: BalancedGroup, consumer_id: str, claimed: Iterable[OwnedKey]) -> list[OwnedKey]:
    """Return the claims of the report that are not grants of the member."""
    wrong = []
    for claim in claimed:
        key = group.place_of(claim.key)
        if key is None or group.grant(key, consumer_id, claim.reg_epoch) is None:
            wrong.append(claim)
    return wrong


def _requested_seek(group: BalancedGroup, member: BalancedGroupMember, request: MemberHeartbeat) -> int:
    """Return the operator's mark, if it was set after the member's start and not carried out yet; else 0."""
    wanted = group.on_record.from_max_id
    return wanted if wanted > max(member.mark, request.ops_ack) else 0
