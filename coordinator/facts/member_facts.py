"""Facts about a group's members for operators: who is waited for, who was heard when, on which connection."""

from typing import Any

from msgspec.structs import replace

from coordinator.clock import Moment
from coordinator.core.core import Core
from coordinator.facts.connection_facts import with_client, with_connection
from coordinator.groups.classic.delayed import InitialDelayedJoin
from coordinator.groups.classic.group_states import GroupState
from coordinator.groups.classic.state import ClassicGroup, Member
from coordinator.groups.client_balanced.state import BalancedGroup
from coordinator.groups.hold import Hold
from coordinator.runtime.group import Group, GroupKind
from protocol import streams_protocol
from protocol.consumer_protocol import (
    PROTOCOL_TYPE,
    Assignment,
    TopicPartitions,
    decode_subscription,
    encode_assignment,
)
from protocol.errors import ProtocolViolation
from protocol.messages.consumer_groups import CLASSIC_MEMBER, GROUP_PROTOCOLS
from protocol.messages.groups import DescribedGroup, DescribedMember

_DELAY, _HOLD, _JOIN, _SYNC = "delay", "hold", "join", "sync"


def with_facts(core: Core, group: Group, described: DescribedGroup, moment: Moment) -> DescribedGroup:
    """Return the description with the facts of the members and the phase of a group that is not server-driven."""
    if group.balanced is not None and group.kind is GroupKind.CLIENT_BALANCED:
        return _with_balanced_facts(core, group.balanced, described, moment)
    members = tuple(_with_facts(core, group.classic, one, moment) for one in described.members)
    classic = group.classic
    held = hold_facts(classic.hold, classic.awaiting_join, moment.monotonic_ms)
    return replace(described, members=members, **_phase(core, classic, moment), **held)


def hold_facts(hold: Hold | None, joined: int, now_ms: int) -> dict[str, Any]:
    """Return the fields of the hold on a group, for which so many members have come."""
    if hold is None or not (left_ms := hold.left_ms(now_ms)):
        return {}
    return {"hold_left_ms": left_ms, "hold_until_members": hold.until_members, "hold_joined": joined}


def _with_balanced_facts(core: Core, group: BalancedGroup, described: DescribedGroup, moment: Moment) -> DescribedGroup:
    now_ms, members = moment.monotonic_ms, []
    forbidden = core.group_configs.forbidden(group.group_id).topics
    topics = tuple([topic for topic in group.on_record.topics if topic not in forbidden])
    for one in described.members:
        member = group.members[one.member_id]
        known = replace(
            one,
            session_timeout_ms=member.session_timeout_ms,
            session_left_ms=max(0, member.deadline_ms - now_ms),
            heard_ago_ms=now_ms - member.heard_ms if member.heard_ms else -1,
            topics=topics,
            member_assignment=_owned_by(group, member.consumer_id),
        )
        members.append(with_connection(core, member.connection, known, now_ms))
    return replace(described, members=tuple(members))


def _owned_by(group: BalancedGroup, consumer_id: str) -> bytes:
    """Encode the partitions that the member has registered as an assignment."""
    by_topic: dict[str, list[int]] = {}
    for entry in group.owners.of(consumer_id):
        by_topic.setdefault(entry.topic, []).append(entry.partition)
    topics = [TopicPartitions(topic, tuple(sorted(numbers))) for topic, numbers in by_topic.items()]
    return encode_assignment(Assignment(tuple(topics)))


def _with_facts(core: Core, group: ClassicGroup, described: DescribedMember, moment: Moment) -> DescribedMember:
    member, now_ms = group.members[described.member_id], moment.monotonic_ms
    waiting = _JOIN if member.join_ref is not None else _SYNC if member.sync_ref is not None else ""
    known = replace(
        described,
        session_timeout_ms=member.session_timeout_ms,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        # A parked member has no session until it is answered, unless it has just joined.
        session_left_ms=-1 if member.session is None else max(0, member.deadline_ms - now_ms),
        heard_ago_ms=member.heard_ago_ms(now_ms),
        waiting=waiting,
        waiting_ms=now_ms - member.parked_ms if waiting and member.parked_ms >= 0 else -1,
        topics=_topics(group, member),
        protocols=tuple(offer.name for offer in member.protocols),
        group_protocol=GROUP_PROTOCOLS[CLASSIC_MEMBER],
        committed_ago_ms=now_ms - member.committed_ms if member.committed_ms >= 0 else -1,
    )
    if (client := member.client) is not None:
        known = with_client(known, client)
    return with_connection(core, member.connection, known, now_ms)


def _topics(group: ClassicGroup, member: Member) -> tuple[str, ...]:
    """Return the topics of the member's first offer; none if it cannot be decoded."""
    metadata = member.metadata_for(group.protocol_name) or (member.protocols[0].metadata if member.protocols else b"")
    try:
        if group.protocol_type == PROTOCOL_TYPE and metadata:
            return tuple(decode_subscription(metadata).topics)
        if group.protocol_type == streams_protocol.PROTOCOL_TYPE and metadata:
            return tuple(streams_protocol.decode_streams_subscription(metadata).topics)
    except ProtocolViolation:
        pass
    return ()


def _phase(core: Core, group: ClassicGroup, moment: Moment) -> dict[str, object]:
    """Return the fields of the group's phase."""
    watched = group.phase
    if watched is None:
        return {}
    now_ms = moment.monotonic_ms
    left_ms = max(0, watched.deadline_ms - now_ms)
    if isinstance(watched, InitialDelayedJoin):
        phase = _DELAY
        left_ms += watched.remaining_ms if group.member_added else 0
        waiting_for: tuple[str, ...] = ()
    elif group.is_held_back:
        phase, waiting_for = _HOLD, ()
    elif group.state is GroupState.PREPARING:
        phase = _JOIN
        absent = [member.member_id for member in group.members.values() if member.join_ref is None]
        waiting_for = (*absent, *group.pending)
    else:
        phase = _SYNC
        waiting_for = _late_in_sync(group)
    if phase == _SYNC:
        lasted_ms = max(0, moment.wall_ms - group.state_since_ms)
    else:
        lasted_ms = now_ms - group.rebalance_began_ms
    limited_by = max(group.members.values(), key=lambda one: one.rebalance_timeout_ms, default=None)
    return {
        "phase": phase,
        "phase_ms": lasted_ms,
        "phase_left_ms": left_ms,
        "waiting_for": waiting_for,
        "limited_by": "" if limited_by is None or phase in (_DELAY, _HOLD) else limited_by.member_id,
    }


def _late_in_sync(group: ClassicGroup) -> tuple[str, ...]:
    """Return the members that have not synced. The leader comes first: until it syncs, nobody gets an assignment."""
    late = group.pending_sync
    leader = [group.leader] if group.leader is not None and group.leader in late else []
    return (*leader, *(member_id for member_id in late if member_id != group.leader))
