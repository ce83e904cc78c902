"""Heartbeats: signs of life, what members say that they own, and what they are told in return
(docs/spec/client-balanced-groups.md#11, #13). A report is information and changes nothing: `owners` is the truth, and
whoever claims more is told so."""

from collections.abc import Iterable
from itertools import islice

from coordinator.groups.client_balanced.events import Beat
from coordinator.groups.client_balanced.grants import end, heard, why_not_owner
from coordinator.groups.client_balanced.state import BalancedGroup, Member
from coordinator.groups.outcome import Outcome
from protocol.errors import ErrorCode
from protocol.messages.balanced import LostKey, MemberHeartbeat, MemberHeartbeatReply, OwnedKey

_MOST_SHOWN, _LONGEST_SHOWN = 100, 100
"""Claims that are not so, and characters of one."""


def is_plain(group: BalancedGroup, request: MemberHeartbeat) -> bool:
    """A sign of life and nothing more, to be answered in kind."""
    member = group.members.get(request.consumer_id)
    return (
        request.owned is None
        and not request.released
        and request.meta_version == group.on_record.meta_version
        and (member is None or not (member.lost or _wish(group, member, request)))
    )


def spoke(group: BalancedGroup, request: MemberHeartbeat, connection: int) -> None:
    """Where the member can be told something from now on."""
    member = group.members.get(request.consumer_id)
    if member is not None and member.epoch == request.member_epoch:
        member.connection = connection


def stay(group: BalancedGroup, request: MemberHeartbeat, now_ms: int) -> ErrorCode:
    """It lives."""
    heard(group.members[request.consumer_id], now_ms)
    return ErrorCode.NONE


def beat(group: BalancedGroup, event: Beat, out: Outcome) -> None:
    """With a report, with something given up, or behind in what it knows."""
    request, member = event.request, group.members[event.consumer_id]
    heard(member, out.moment.monotonic_ms)
    released: dict[str, None] = {}
    for one in {one.key: one for one in request.released}.values():
        key = group.place_of(one.key)
        entry = None if key is None else group.grant(key, member.consumer_id, one.reg_epoch)
        if entry is not None:
            released[one.key] = None
            end(group, entry, one, event.places, out)
    wrong = mismatches(group, member.consumer_id, request.owned or ())
    if request.owned is not None:
        member.reported, member.owned_version = _kept(request.owned, wrong), request.owned_version
        member.lost.clear()
    lost = dict(member.lost)
    for claim in wrong:
        key = group.place_of(claim.key)
        is_key = key is not None and claim.key in group.meta
        lost[claim.key] = why_not_owner(group, key, member.consumer_id) if is_key and key else ErrorCode.NOT_FOUND
    version = group.on_record.meta_version
    reply = MemberHeartbeatReply(
        lost=tuple([LostKey(key, error) for key, error in lost.items() if key not in released]),
        meta_version=version,
        meta=None if request.meta_version == version else tuple(group.meta.values()),
        from_max_id=_wish(group, member, request),
    )
    out.reply(event.ref, reply)


def _kept(owned: Iterable[OwnedKey], wrong: Iterable[OwnedKey]) -> tuple[OwnedKey, ...]:
    """Of a report what is so, each once, and some of what is not: whoever says much gets no memory for it."""
    untrue = {claim.key: claim for claim in wrong}
    shown = dict.fromkeys(islice((key for key in untrue if len(key) <= _LONGEST_SHOWN), _MOST_SHOWN))
    return tuple({claim.key: claim for claim in owned if claim.key not in untrue or claim.key in shown}.values())


def mismatches(group: BalancedGroup, consumer_id: str, claimed: Iterable[OwnedKey]) -> list[OwnedKey]:
    """What it says it owns and does not."""
    wrong = []
    for claim in claimed:
        key = group.place_of(claim.key)
        if key is None or group.grant(key, consumer_id, claim.reg_epoch) is None:
            wrong.append(claim)
    return wrong


def _wish(group: BalancedGroup, member: Member, request: MemberHeartbeat) -> int:
    """The operator's, if it was made after the member came and is not carried out; else 0."""
    wanted = group.on_record.from_max_id
    return wanted if wanted > max(member.mark, request.ops_ack) else 0
