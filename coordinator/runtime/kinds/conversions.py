"""Groups that change their kind (docs/spec/consumer-group-protocol.md#13): with members, by what a member of the other
protocol asks for; without any, whenever a client of the other kind comes.

The records that end one kind and begin the other are one batch with those of the request, which is decided on the group
as they make it. A request that is refused converts nothing.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from coordinator.clock import Moment
from coordinator.groups.classic.state import ClassicGroup, Member
from coordinator.groups.consumer.applying import apply
from coordinator.groups.consumer.events import ClassicMembersTaken, ConsumerJoin
from coordinator.groups.consumer.record_builders import assignment_record, group_tombstones, target_record
from coordinator.groups.consumer.state import NONE_ASSIGNED, ConsumerGroup, ConsumerGroupSettings, Current, Target
from coordinator.groups.consumer.subscriptions import hash_of, subscriptions_of
from coordinator.groups.conversions import Superseded
from coordinator.groups.table import Refusal
from coordinator.records.consumer_records import (
    ClassicMetadata,
    ConsumerGroupRecord,
    ConsumerMemberRecord,
    ConsumerRecord,
    ReconciliationState,
    TargetRecord,
)
from coordinator.records.records import HOLDS_MORE_MS, GroupMetadata, GroupTombstone, ShardRecord
from coordinator.runtime.group import Group, GroupKind
from protocol.consumer_protocol import (
    PROTOCOL_TYPE,
    Assignment,
    Subscription,
    decode_assignment,
    decode_subscription,
)
from protocol.errors import ErrorCode, ProtocolViolation

if TYPE_CHECKING:
    from coordinator.runtime.shard import Shard


class _Read(NamedTuple):
    """A classic member with what its bytes say."""

    member: Member
    subscription: Subscription
    assignment: Assignment

    @property
    def places(self) -> Iterator[tuple[str, int]]:
        """Partitions that it is assigned."""
        return ((name, number) for name, numbers in self.assignment.partitions for number in numbers)


def to_consumer(shard: "Shard", group: Group, event: ConsumerJoin, moment: Moment) -> Refusal | None:
    """Make the group a consumer group that the member joins; return the refusal if it stays what it is."""
    if group.kind is GroupKind.CLIENT_BALANCED:
        return _refuse(group, "has client-balanced members")
    read: list[_Read] = []
    if not group.is_empty:
        found = _read_members(group, shard.new_consumer(group.group_id).settings)
        if isinstance(found, Refusal):
            return found
        read = found
    preceding: list[ShardRecord] = []
    if group.classic.stored is not None or not group.is_empty:  # a first rebalance may be on no record yet
        preceding.append(GroupTombstone(group.group_id))
    successor = shard.new_group(group.group_id)
    successor.consumer = planned = shard.new_consumer(group.group_id)
    if read:
        preceding += _plan(planned, group.classic.generation_id, read)
    if not preceding:
        shard.process(group, event, moment)  # it has nothing but offsets
        return None
    shard.process(successor, event, moment, preceding)
    if shard.groups.get(group.group_id) is successor:
        shard.process(group, Superseded(group.group_id), moment)
        if read:
            shard.process(successor, _taken(group, event, read), moment)
    return None


def _taken(group: Group, event: ConsumerJoin, read: list[_Read]) -> ClassicMembersTaken:
    classic = group.classic
    members = tuple([_known(one.member) for one in read])
    count = f"{len(read)} classic {'member' if len(read) == 1 else 'members'}"
    detail = f"{event.member_id} joined {count} of generation {classic.generation_id}, who must join again"
    return ClassicMembersTaken(group.group_id, event.member_id, members, detail)


def _known(member: Member) -> tuple[str, int, str | None]:
    return member.member_id, member.connection, None if member.client is None else member.client.principal


def _refuse(group: Group, why: str) -> Refusal:
    return Refusal(ErrorCode.GROUP_ID_NOT_FOUND, f"group {group.group_id} {why}")


def _read_members(group: Group, settings: ConsumerGroupSettings) -> list[_Read] | Refusal:
    """Read what the members of a classic group have, or say why it stays a classic one
    (docs/spec/consumer-group-protocol.md#13.2)."""
    classic = group.classic
    if not settings.migration_policy.allows_upgrade:
        return _refuse(group, f"has classic members, and the migration policy is {settings.migration_policy}")
    if classic.protocol_type != PROTOCOL_TYPE:
        return _refuse(group, f"has members of protocol type {classic.protocol_type}")
    if len(classic.members) > settings.max_size:
        return _refuse(group, f"has {len(classic.members)} members, {settings.max_size} are allowed")
    if classic.metadata_bytes > settings.max_batch_bytes:  # it is not even read
        return _refuse(group, f"has members with {classic.metadata_bytes} bytes of subscriptions, too many for a batch")
    if classic.stored is not None and classic.stored.state_timestamp_ms == HOLDS_MORE_MS:
        text = f"group {group.group_id} has become classic, and its members have not joined again yet"
        return Refusal(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, text)
    if classic.owners is not None and classic.owners.members:
        return _refuse(group, "has members that own partitions by grants")
    read, holders = [], dict[tuple[str, int], str]()
    for member in classic.members.values():
        try:
            one = _read(classic, member)
        except ProtocolViolation as error:
            return _refuse(group, f"has classic members, and what {member.member_id} says cannot be read: {error}")
        if one.assignment.user_data:  # librdkafka's assignors send an empty one
            return _refuse(group, "has classic members with an assignor that sends data of its own")
        for place in one.places:
            if (other := holders.setdefault(place, member.member_id)) != member.member_id:
                text = f"gives {place[0]}-{place[1]} to both {other} and {member.member_id}"
                return _refuse(group, f"has classic members with an assignor that {text}")
        read.append(one)
    return read


def _read(group: ClassicGroup, member: Member) -> _Read:
    metadata = member.metadata_for(group.protocol_name) or member.protocols[0].metadata
    return _Read(member, decode_subscription(metadata), decode_assignment(member.assignment))


def _plan(group: ConsumerGroup, generation_id: int, read: list[_Read]) -> list[ConsumerRecord]:
    """Build the records of the group with these members, and apply them to it: every member holds its assignment."""
    members: list[ConsumerRecord] = [_member_record(group.group_id, one) for one in read]
    for record in members:
        apply(group, record)
    holdings = [(one.member.member_id, _held(group, one.assignment)) for one in read]
    rest: list[ConsumerRecord] = [
        ConsumerGroupRecord(group.group_id, generation_id, hash_of(group, subscriptions_of(group)))
    ]
    rest += [target_record(group.group_id, member_id, held) for member_id, held in holdings]
    rest.append(TargetRecord(group.group_id, generation_id))
    for member_id, held in holdings:
        assigned = {topic_id: dict.fromkeys(sorted(numbers), generation_id) for topic_id, numbers in held.items()}
        current = Current(generation_id, generation_id, ReconciliationState.STABLE, assigned, NONE_ASSIGNED)
        rest.append(assignment_record(group.group_id, member_id, current))
    for record in rest:
        apply(group, record)
    group.topics_version = group.topics.version
    return members + rest


def _member_record(group_id: str, one: _Read) -> ConsumerMemberRecord:
    member = one.member
    return ConsumerMemberRecord(
        group_id,
        member.member_id,
        instance_id=member.group_instance_id,
        rack_id=one.subscription.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=tuple(sorted(set(one.subscription.topics))),
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        classic=ClassicMetadata(
            member.session_timeout_ms, tuple([(offer.name, offer.metadata) for offer in member.protocols])
        ),
    )


def _held(group: ConsumerGroup, assignment: Assignment) -> Target:
    """Return the partitions that exist of those assigned: leaders may say any number."""
    held: dict[bytes, frozenset[int]] = {}
    for name, numbers in assignment.partitions:
        topic = group.topics.find(name)
        if topic is not None:
            existing = [number for number in numbers if 0 <= number < topic.partitions]
            held[topic.topic_id] = held.get(topic.topic_id, frozenset()).union(existing)
    return held


def to_classic(shard: "Shard", group: Group, moment: Moment) -> ErrorCode | None:
    """Make a group without members a classic one; its offsets stay. Return the error if the log refuses it."""
    assert group.consumer is not None and not group.consumer.members
    records: list[ShardRecord] = [*group_tombstones(group.consumer, ())]
    records.append(GroupMetadata(group.group_id, "", 0, None, None, moment.wall_ms))
    return shard.record(records, None, moment)
