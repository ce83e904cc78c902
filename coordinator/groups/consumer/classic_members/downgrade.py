"""Conversion of a consumer group to a classic group after its last member with the consumer protocol leaves
(docs/spec/consumer-group-protocol.md#13.3). Members and offsets stay; no epoch goes back."""

from collections.abc import Mapping, Sequence

from coordinator.groups.consumer.classic_members.protocols import encoded, metadata_for
from coordinator.groups.consumer.delayed import cancel_timers
from coordinator.groups.consumer.events import ClassicJoin
from coordinator.groups.consumer.members import write_replacement
from coordinator.groups.consumer.record_builders import group_tombstones
from coordinator.groups.consumer.state import ConsumerGroup, ConsumerMember, Current, Target
from coordinator.groups.consumer.subscriptions import Change, hash_of, subscriptions_of
from coordinator.groups.conversions import ClassicAgain, ClassicAgainMember, ParkedJoin
from coordinator.groups.election import elect
from coordinator.groups.outcome import Outcome
from coordinator.records.consumer_records import ConsumerMemberRecord
from coordinator.records.records import HOLDS_MORE_MS, REBALANCE_AFTER_LOAD_MS, GroupMetadata, MemberRecord
from protocol.consumer_protocol import PROTOCOL_TYPE
from protocol.messages.groups import JoinGroupReply

_TOMBSTONES_A_MEMBER, _KEY_BYTES, _TOPIC_BYTES, _PARTITION_BYTES = 3, 30, 100, 4
"""Numbers and sizes, close to the worst case, in the batch of a downgrade."""


def may_downgrade(group: ConsumerGroup, leaving: Sequence[ConsumerMember], *, is_replaced: bool = False) -> bool:
    """Return true if only classic members remain once these have left, and they may form a classic group.
    `is_replaced`: a classic member replaces the one that leaves."""
    of_group = sum([not one.is_classic for one in leaving])
    remaining = len(group.members) - len(leaving) + is_replaced
    return (
        group.settings.migration_policy.allows_downgrade
        and of_group > 0
        and of_group == len(group.members) - group.classic_members
        and 0 < remaining <= group.settings.classic_max_size
        and _estimated_bytes(group) <= group.settings.max_batch_bytes
    )


def _estimated_bytes(group: ConsumerGroup) -> int:
    """Estimate the batch that converts the group to a classic one. If it is too large the group is not converted, so
    that the member that leaves can be removed."""
    texts = [
        _TOMBSTONES_A_MEMBER * (len(group.group_id) + len(member_id) + _KEY_BYTES)
        + len(one.subscription.client_id)
        + len(one.subscription.client_host)
        for member_id, one in group.members.items()
    ]
    assigned = [
        _TOPIC_BYTES + _PARTITION_BYTES * len(numbers)
        for target in group.targets.values()
        for numbers in target.values()
    ]
    return group.metadata_bytes + sum(texts) + sum(assigned)


def downgrade(group: ConsumerGroup, leaving: Sequence[ConsumerMember], cause: str, detail: str, out: Outcome) -> None:
    """Write the group as a classic one without these members; the others are asked to join again."""
    gone = {one.member_id for one in leaving}
    staying = [one for member_id, one in group.members.items() if member_id not in gone]
    lines = [one.subscription for one in staying]
    currents = {one.member_id: one.current for one in staying}
    targets = {one.member_id: group.targets.get(one.member_id, {}) for one in staying}
    _write(group, lines, targets, _since_ms(group, currents, targets), out)
    out.follow_ups.append(
        ClassicAgain(group.group_id, _members(group, lines), leaving[0].member_id, f"{cause}: {detail}")
    )


def _since_ms(group: ConsumerGroup, currents: Mapping[str, Current], targets: Mapping[str, Target]) -> int:
    """Return the record's state time, which encodes whether a member holds a partition that the record does not assign
    to it: another member's, that of a member that has left, or one whose topic has no name here."""
    holds_more = any(
        number not in targets[member_id].get(topic_id, ()) or group.topics.name_of(topic_id) is None
        for member_id, current in currents.items()
        for topic_id, number, _epoch in current.held
    )
    return HOLDS_MORE_MS if holds_more else REBALANCE_AFTER_LOAD_MS


def downgrade_by_replacement(group: ConsumerGroup, change: Change, event: ClassicJoin, out: Outcome) -> None:
    """Write the group as a classic one in which a classic member replaces the last other one. If every member holds its
    target, and the subscription is unchanged, nothing else changes; else all members are asked to join again, and the
    JoinGroup is parked until they have."""
    replaced = change.replaced
    assert replaced is not None
    others = [one for one in group.members.values() if one is not replaced]
    is_settled = (
        not change.names_changed
        and not change.regex_changed
        and group.epoch == group.target_epoch
        and group.metadata_hash == hash_of(group, subscriptions_of(group))
        and all(group.is_reconciled(one) for one in others)
    )
    write_replacement(group, change, out)
    lines = [change.line if one is replaced else one.subscription for one in group.members.values()]
    currents = {**{one.member_id: one.current for one in others}, change.member_id: change.current}
    targets = {one.member_id: group.targets.get(one.member_id, {}) for one in others}
    targets[change.member_id] = change.target or {}
    since_ms = out.moment.wall_ms if is_settled else _since_ms(group, currents, targets)
    protocol = _write(group, lines, targets, since_ms, out)
    joining = (
        None
        if is_settled
        else ParkedJoin(event.ref, event.request, event.client_id, event.client_host, event.sender.principal)
    )
    detail = f"static member replaced: {change.member_id} speaks the classic protocol"
    out.follow_ups.append(
        ClassicAgain(
            group.group_id,
            _members(group, lines, (change.member_id, event.ref.connection, event.sender.principal)),
            change.member_id,
            detail,
            is_settled,
            joining,
        )
    )
    if is_settled:
        reply = JoinGroupReply(
            generation_id=group.epoch,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=protocol,
            member_id=change.member_id,
        )
        out.reply(event.ref, reply)


def _write(
    group: ConsumerGroup,
    lines: Sequence[ConsumerMemberRecord],
    targets: Mapping[str, Target],
    since_ms: int,
    out: Outcome,
) -> str:
    """Write the tombstones of the group, then the classic group with these members and their targets as assignments;
    return its protocol. `since_ms`: when it became Stable."""
    known = [*group.members, *[line.member_id for line in lines if line.member_id not in group.members]]
    out.records += group_tombstones(group, known)
    for member_id in group.members:
        cancel_timers(group, member_id, out)
    offers = [[name for name, _ in line.classic.protocols] for line in lines if line.classic is not None]
    protocol = elect(offers, offers[0]) or offers[0][0]
    members = []
    for line in lines:
        assert line.classic is not None
        subscription = metadata_for(line, protocol)
        assignment = encoded(targets.get(line.member_id, {}), group.topics, like=subscription)
        members.append(
            MemberRecord(
                line.member_id,
                line.instance_id,
                line.client_id,
                line.client_host,
                line.rebalance_timeout_ms,
                line.classic.session_timeout_ms,
                subscription,
                assignment,
            )
        )
    leader = members[0].member_id
    record = GroupMetadata(group.group_id, PROTOCOL_TYPE, group.epoch, protocol, leader, since_ms, tuple(members))
    out.records.append(record)
    return protocol


def _members(
    group: ConsumerGroup, lines: Sequence[ConsumerMemberRecord], newcomer: tuple[str, int, str] | None = None
) -> tuple[ClassicAgainMember, ...]:
    known: dict[str, tuple[int, str | None]] = {
        one.member_id: (one.connection, one.principal) for one in group.members.values()
    }
    if newcomer is not None:
        known[newcomer[0]] = newcomer[1:]
    return tuple(
        [
            ClassicAgainMember(line.member_id, *known[line.member_id], line.classic.protocols)
            for line in lines
            if line.classic is not None
        ]
    )
