"""Groups that change their kind (docs/spec/consumer-group-protocol.md#13): with members, when a member of the other
protocol joins; without members, at any request of a client of the other kind.

The records that end one kind and begin the other form one batch with those of the request, which is decided on the
converted group. A request that is refused converts nothing.

Members of a large classic group are read, and their records encoded, in slices; the group is converted in one step.
"""

from collections.abc import Generator, Iterable, Iterator, Mapping
from typing import NamedTuple

from coordinator.clock import Moment
from coordinator.groups.classic.group_states import GroupState
from coordinator.groups.classic.state import ClassicGroup, Member
from coordinator.groups.consumer.applying import apply
from coordinator.groups.consumer.events import ClassicMembersTaken, ConsumerJoin
from coordinator.groups.consumer.record_builders import assignment_record, group_tombstones, target_record
from coordinator.groups.consumer.state import NONE_ASSIGNED, ConsumerGroup, ConsumerGroupSettings, Current, Target
from coordinator.groups.consumer.subscriptions import existing_topics, hash_of, subscriptions_of
from coordinator.groups.conversions import Superseded
from coordinator.groups.outcome import Answer
from coordinator.groups.table import Refusal
from coordinator.records.codec import encode
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
from coordinator.runtime.kinds.classic_reading import A_PIECE, ClassicRead, held_by_members, read_members, refuse
from coordinator.runtime.offset_table import TopicPartitionKey
from coordinator.runtime.partition_writer import Preceding
from coordinator.runtime.shard import Shard, ShardState
from coordinator.runtime.slices import Work
from protocol.consumer_protocol import PROTOCOL_TYPE
from protocol.errors import ErrorCode

AT_ONCE = 100
"""Largest number of members of a group that is converted within the request's step."""
_RECORD_US, _JOIN_US = 30, 500
"""Costs, close to the worst case, of one of a member's three records, and of a join that has waited."""


class _Plan(NamedTuple):
    """A classic group as a consumer group, with the records of the conversion, built from the members as they were
    read."""

    group: ConsumerGroup
    preceding: Preceding
    read: list[ClassicRead]
    protocol: str | None
    generation_id: int

    def is_of(self, group: Group) -> bool:
        """Return true if the group is still as it was read."""
        classic = group.classic
        return (
            (classic.protocol_name, classic.generation_id) == (self.protocol, self.generation_id)
            and len(classic.members) == len(self.read)
            and all(one.is_of(classic) for one in self.read)
        )


Planning = Generator[int, Moment, _Plan | Refusal]


def to_consumer(shard: Shard, group: Group, event: ConsumerJoin, moment: Moment) -> Refusal | None:
    """Make the group a consumer group that the member joins; return the refusal if it stays what it is. If the group is
    large the event is answered later."""
    if (waiting := shard.converting.get(group.group_id)) is not None:
        waiting.append(event)
        return None
    if group.kind is not GroupKind.CLASSIC or len(group.classic.members) <= AT_ONCE:
        return _convert_at_once(shard, group, event, moment)
    if refused := _refuse_whole(group, shard.new_consumer(group.group_id).settings):
        return refused
    shard.converting[group.group_id] = [event]
    shard.begin_work(_convert_in_slices(shard, group))
    return None


def _convert_at_once(shard: Shard, group: Group, event: ConsumerJoin, moment: Moment) -> Refusal | None:
    if group.kind is GroupKind.CLIENT_BALANCED and not group.is_empty:
        return refuse(group, "has client-balanced members")
    if group.is_empty:
        _convert_empty(shard, group, event, moment)
        return None
    if refused := _refuse_whole(group, shard.new_consumer(group.group_id).settings):
        return refused  # before the members are read
    return _convert(shard, group, _run(_plan(shard, group)), event, moment)


def _run(planning: Planning) -> _Plan | Refusal:
    while True:
        try:
            next(planning)
        except StopIteration as done:
            planned: _Plan | Refusal = done.value
            return planned


def _convert_in_slices(shard: Shard, group: Group) -> Work:
    """Plan in slices, then convert in one step. A group that has changed meanwhile is planned again, in that step.
    Joins that arrived meanwhile follow."""
    yield 0
    planned = yield from _plan(shard, group)
    moment = yield 0
    for event in shard.converting.pop(group.group_id):
        refused = _join(shard, group, planned, event, moment)
        if refused is not None:
            shard.outbox.deliver(group.group_id, [Answer(event.ref, event.refused(*refused), at_once=True)])
        moment = yield _JOIN_US
    return None


def _join(shard: Shard, group: Group, planned: _Plan | Refusal, event: ConsumerJoin, moment: Moment) -> Refusal | None:
    """Run the event on the group as it is now."""
    present = shard.groups.get(group.group_id)
    if present is None or group.group_id in shard.deleting or shard.state is not ShardState.ACTIVE:
        return Refusal(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"group {group.group_id} was deleted, or moved, meanwhile")
    if present.serving_consumer is not None:
        shard.process(present, event, moment)
        return None
    if present is not group or group.kind is not GroupKind.CLASSIC:
        return _convert_at_once(shard, present, event, moment)
    if isinstance(planned, _Plan) and not planned.is_of(group):
        return _convert_at_once(shard, group, event, moment)
    return _convert(shard, group, planned, event, moment)


def _convert_empty(shard: Shard, group: Group, event: ConsumerJoin, moment: Moment) -> None:
    if group.classic.stored is None:
        shard.process(group, event, moment)  # the group has only offsets
        return
    gone = GroupTombstone(group.group_id)
    _replace(shard, group, shard.new_consumer(group.group_id), event, moment, Preceding([encode(gone)], [gone]))


def _convert(
    shard: Shard, group: Group, planned: _Plan | Refusal, event: ConsumerJoin, moment: Moment
) -> Refusal | None:
    if refused := _refuse_whole(group, shard.new_consumer(group.group_id).settings):
        return refused
    if isinstance(planned, Refusal):
        return planned
    planned.group.must_rebalance = _is_unfinished(planned.group, group.classic)
    taken = _taken(group, event, planned.read)
    successor = _replace(shard, group, planned.group, event, moment, planned.preceding)
    if successor is not None:
        shard.process(successor, taken, moment)
    return None


def _replace(
    shard: Shard, group: Group, planned: ConsumerGroup, event: ConsumerJoin, moment: Moment, preceding: Preceding
) -> Group | None:
    """Put the consumer group in the place of the group; return it, or None if the event is refused."""
    successor = shard.new_group(group.group_id)
    successor.consumer = planned
    shard.process(successor, event, moment, preceding)
    if shard.groups.get(group.group_id) is not successor:
        return None
    shard.process(group, Superseded(group.group_id), moment)
    return successor


def _taken(group: Group, event: ConsumerJoin, read: list[ClassicRead]) -> ClassicMembersTaken:
    classic = group.classic
    members = tuple([_known(one.member) for one in read])
    count = f"{len(read)} classic {'member' if len(read) == 1 else 'members'}"
    detail = f"{event.member_id} joined {count} of generation {classic.generation_id}, who must join again"
    return ClassicMembersTaken(group.group_id, event.member_id, members, detail)


def _is_unfinished(group: ConsumerGroup, classic: ClassicGroup) -> bool:
    """Return true if a rebalance is in progress, or the last one left a partition without an owner, as the first of
    two cooperative ones does."""
    topics = existing_topics(group, subscriptions_of(group)).values()
    is_left = any(len(group.holders.get(topic.topic_id, ())) < topic.partitions for topic in topics)
    return classic.state is not GroupState.STABLE or is_left


def _known(member: Member) -> tuple[str, int, str | None]:
    return member.member_id, member.connection, None if member.client is None else member.client.principal


def _refuse_whole(group: Group, settings: ConsumerGroupSettings) -> Refusal | None:
    """Return the reason why the classic group stays one, if it does not depend on the content of its members'
    metadata (docs/spec/consumer-group-protocol.md#13.2)."""
    classic = group.classic
    if not settings.migration_policy.allows_upgrade:
        return refuse(group, f"has classic members, and the migration policy is {settings.migration_policy}")
    if classic.protocol_type != PROTOCOL_TYPE:
        return refuse(group, f"has members of protocol type {classic.protocol_type}")
    if len(classic.members) > settings.max_size:
        return refuse(group, f"has {len(classic.members)} members, {settings.max_size} allowed")
    if classic.metadata_bytes > settings.max_batch_bytes:  # before the members are read
        return refuse(group, f"has members with {classic.metadata_bytes} bytes of subscriptions, too many for a batch")
    if classic.stored is not None and classic.stored.state_timestamp_ms == HOLDS_MORE_MS:
        text = f"group {group.group_id} has become classic, and its members have not joined again yet"
        return Refusal(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, text)
    if classic.owners is not None and classic.owners.members:
        return refuse(group, "has members that own partitions by grants")
    return None


def _plan(shard: Shard, group: Group) -> Planning:
    """Read the members' partitions, or return the reason why the group stays a classic one; encode the records of the
    group with these members, and apply them to it: every member holds the partitions that it may be reading."""
    classic, planned = group.classic, shard.new_consumer(group.group_id)
    planned.topics_version = planned.topics.version
    protocol, generation_id = classic.protocol_name, classic.generation_id
    read = yield from read_members(group)
    if isinstance(read, Refusal):
        return read
    held = yield from held_by_members(read)
    gone = GroupTombstone(group.group_id)
    encoded = [encode(gone)]
    last: ConsumerRecord | None = None
    for last in _records(planned, generation_id, read, held):
        apply(planned, last)
        encoded.append(encode(last))
        if not len(encoded) % A_PIECE:
            yield _RECORD_US * A_PIECE
    assert last is not None
    return _Plan(planned, Preceding(encoded, [gone, last]), read, protocol, generation_id)


def _records(
    group: ConsumerGroup,
    generation_id: int,
    read: list[ClassicRead],
    held_by: Mapping[str, Iterable[TopicPartitionKey]],
) -> Iterator[ConsumerRecord]:
    """Build the records; each is applied to the group before the next one is asked for."""
    for one in read:
        yield _member_record(group.group_id, one)
    yield ConsumerGroupRecord(group.group_id, generation_id, hash_of(group, subscriptions_of(group)))
    holdings = []
    for one in read:
        held = _existing(group, held_by[one.member.member_id])
        holdings.append((one.member.member_id, held))
        yield target_record(group.group_id, one.member.member_id, held)
    yield TargetRecord(group.group_id, generation_id)
    for member_id, held in holdings:
        assigned = {topic_id: dict.fromkeys(sorted(numbers), generation_id) for topic_id, numbers in held.items()}
        current = Current(generation_id, generation_id, ReconciliationState.STABLE, assigned, NONE_ASSIGNED)
        yield assignment_record(group.group_id, member_id, current)


def _member_record(group_id: str, one: ClassicRead) -> ConsumerMemberRecord:
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


def _existing(group: ConsumerGroup, keys: Iterable[TopicPartitionKey]) -> Target:
    """Return the partitions that exist: a leader may have assigned any number."""
    existing: dict[bytes, set[int]] = {}
    for name, number in keys:
        topic = group.topics.find(name)
        if topic is not None and 0 <= number < topic.partitions:
            existing.setdefault(topic.topic_id, set()).add(number)
    return {topic_id: frozenset(numbers) for topic_id, numbers in existing.items()}


def to_classic(shard: Shard, group: Group, moment: Moment) -> ErrorCode | None:
    """Convert a group without members to a classic one; its offsets stay. Return the error if the append fails."""
    assert group.consumer is not None and not group.consumer.members
    records: list[ShardRecord] = [*group_tombstones(group.consumer, ())]
    records.append(GroupMetadata(group.group_id, "", 0, None, None, moment.wall_ms))
    return shard.record(records, None, moment)
