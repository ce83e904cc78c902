"""Facts about members of a server-driven group, for operators: epochs, targets, and who has partitions to give up since
when."""

from typing import Any, NamedTuple

from msgspec.structs import replace

from coordinator.clock import Moment
from coordinator.core.core import Core
from coordinator.facts.connection_facts import with_client, with_connection
from coordinator.facts.member_facts import hold_facts
from coordinator.facts.views import encode_partitions
from coordinator.groups.consumer.delayed import DelayedRevocation, session_timeout_ms
from coordinator.groups.consumer.state import Assigned, ConsumerGroup, ConsumerGroupState, ConsumerMember
from coordinator.keys import RevocationKey
from coordinator.records.consumer_records import ConsumerMemberRecord
from protocol.messages.consumer_groups import CLASSIC_MEMBER, CONSUMER_MEMBER, GROUP_PROTOCOLS
from protocol.messages.groups import DescribedGroup, DescribedMember

_REVOKE, _ASSIGN = "revoke", "assign"


class _Revoking(NamedTuple):
    """A member that holds partitions which its target does not have. `left_ms`: time until it is fenced."""

    member_id: str
    partitions: Assigned
    for_ms: int
    left_ms: int
    is_told: bool


def with_consumer_facts(core: Core, group: ConsumerGroup, described: DescribedGroup, moment: Moment) -> DescribedGroup:
    """Return the description with the facts of the members, and of the revocation that is waited for."""
    revoking = {}
    for member in group.members.values():
        if (one := _revoking(core, group, member, moment)) is not None:
            revoking[member.member_id] = one
    members = tuple(
        [_with_facts(core, group, one, revoking.get(one.member_id), moment.monotonic_ms) for one in described.members]
    )
    came = 0 if group.hold is None else len(group.hold.came & group.members.keys())
    held = hold_facts(group.hold, came, moment.monotonic_ms)
    phase = _revocation(list(revoking.values())) if revoking else _assignment(group, moment)
    return replace(described, members=members, target_epoch=group.target_epoch, **phase, **held)


def _revoking(core: Core, group: ConsumerGroup, member: ConsumerMember, moment: Moment) -> _Revoking | None:
    """Return what the member has to give up. A member is told by its next heartbeat, and then has its rebalance
    timeout: a classic one to join again, from when it was told so first."""
    watched = core.purgatory.get(RevocationKey(group.group_id, member.member_id))
    now_ms, current = moment.monotonic_ms, member.current
    if isinstance(watched, DelayedRevocation):
        left_ms = max(0, watched.deadline_ms - now_ms)
        return _Revoking(member.member_id, current.pending, now_ms - watched.began_ms, left_ms, True)
    if current.epoch == group.target_epoch:
        return None
    target = group.targets.get(member.member_id, {})
    excess = {
        topic_id: {number: epoch for number, epoch in epochs.items() if number not in target.get(topic_id, ())}
        for topic_id, epochs in current.assigned.items()
    }
    partitions = {topic_id: epochs for topic_id, epochs in excess.items() if epochs}
    if not partitions:
        return None
    if member.rejoin_until_ms >= 0:
        left_ms = member.rejoin_until_ms - now_ms
        told_ms = max(member.subscription.rebalance_timeout_ms, 0) - left_ms
        return _Revoking(member.member_id, partitions, max(0, told_ms), max(0, left_ms), True)
    left_ms = max(0, member.deadline_ms - now_ms)
    return _Revoking(member.member_id, partitions, _target_age_ms(group, moment), left_ms, False)


def _target_age_ms(group: ConsumerGroup, moment: Moment) -> int:
    """Return the time since the target was computed; 0 if its record does not tell."""
    return max(0, moment.wall_ms - group.target_timestamp_ms) if group.target_timestamp_ms else 0


def _with_facts(
    core: Core, group: ConsumerGroup, described: DescribedMember, revoking: _Revoking | None, now_ms: int
) -> DescribedMember:
    member = group.members[described.member_id]
    line, timeout_ms = member.subscription, session_timeout_ms(group, member)
    known = replace(
        described,
        session_timeout_ms=timeout_ms,
        rebalance_timeout_ms=line.rebalance_timeout_ms,
        session_left_ms=max(0, member.deadline_ms - now_ms),
        heard_ago_ms=-1 if member.connection < 0 else max(0, now_ms - member.deadline_ms + timeout_ms),
        topics=group.subscribed_by(member),
        protocols=_protocols(line),
        committed_ago_ms=now_ms - member.committed_ms if member.committed_ms >= 0 else -1,
        member_epoch=member.current.epoch,
        target_assignment=encode_partitions(group, group.targets.get(member.member_id, {})),
        group_protocol=GROUP_PROTOCOLS[CLASSIC_MEMBER if member.is_classic else CONSUMER_MEMBER],
    )
    if revoking is not None:
        pending = encode_partitions(group, revoking.partitions)
        known = replace(known, pending_revocation=pending, revoking_ms=revoking.for_ms)
    if member.connection in core.connections:
        known = with_client(known, core.client(member.connection))
    return with_connection(core, member.connection, known, now_ms)


def _protocols(line: ConsumerMemberRecord) -> tuple[str, ...]:
    """Return the assignor that the member asks the coordinator for, or those that a classic one brings."""
    if line.classic is not None:
        return tuple([name for name, _ in line.classic.protocols])
    return (line.server_assignor,) if line.server_assignor else ()


def _revocation(revoking: list[_Revoking]) -> dict[str, Any]:
    """Return the fields of the phase. The member that holds others up the longest comes first."""
    revoking.sort(key=lambda one: -one.for_ms)
    last = max(revoking, key=lambda one: one.left_ms)
    return {
        "phase": _REVOKE,
        "phase_ms": revoking[0].for_ms,
        "phase_left_ms": last.left_ms,
        "waiting_for": tuple([one.member_id for one in revoking]),
        "limited_by": last.member_id if last.is_told else "",
    }


def _assignment(group: ConsumerGroup, moment: Moment) -> dict[str, Any]:
    """Return the fields of the phase while nobody has to revoke anything: the next heartbeat computes the target, or
    members have yet to take up theirs, with their next heartbeats or as classic ones by joining again, before they are
    fenced. A static member that left temporarily does so when it is back. The member that is fenced first comes
    first."""
    if group.state is ConsumerGroupState.ASSIGNING:
        late = [one for one in group.members.values() if not one.is_away]
        since_ms = group.state_since_ms
    elif group.state is ConsumerGroupState.RECONCILING:
        late = [one for one in group.members.values() if not group.is_reconciled(one)]
        since_ms = max(group.state_since_ms, group.target_timestamp_ms)
    else:
        return {}
    if not late:
        return {}
    late.sort(key=_fenced_at_ms)
    last = late[-1]
    return {
        "phase": _ASSIGN,
        "phase_ms": max(0, moment.wall_ms - since_ms) if since_ms > 0 else 0,
        "phase_left_ms": max(0, _fenced_at_ms(last) - moment.monotonic_ms),
        "waiting_for": tuple([one.member_id for one in late]),
        "limited_by": last.member_id if last.rejoin_until_ms >= 0 else "",
    }


def _fenced_at_ms(member: ConsumerMember) -> int:
    """Return the time by which the member must join again, if it was told to, or be heard."""
    return member.rejoin_until_ms if member.rejoin_until_ms >= 0 else member.deadline_ms
