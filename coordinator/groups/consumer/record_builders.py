"""Records that an action writes, built from the state that they produce."""

from collections.abc import Iterable, Iterator

from coordinator.groups.consumer.state import Assigned, ConsumerGroup, Current, Target
from coordinator.records.consumer_records import (
    AssignedTopic,
    AssignmentRecord,
    ConsumerGroupRecord,
    ConsumerKey,
    ConsumerRecord,
    ConsumerTombstone,
    ConsumerTopicsRecord,
    MemberTargetRecord,
    TargetRecord,
)


def assignment_record(group_id: str, member_id: str, current: Current) -> AssignmentRecord:
    """Build the record of a current assignment."""
    return AssignmentRecord(
        group_id,
        member_id,
        current.epoch,
        current.previous_epoch,
        current.state,
        _partitions(current.assigned),
        _partitions(current.pending),
    )


def _partitions(assigned: Assigned) -> tuple[AssignedTopic, ...]:
    return tuple(
        [AssignedTopic(topic_id, tuple(epochs), tuple(epochs.values())) for topic_id, epochs in assigned.items()]
    )


def target_record(group_id: str, member_id: str, target: Target) -> MemberTargetRecord:
    """Build the record of a member's target assignment."""
    topics = [(topic_id, tuple(sorted(numbers))) for topic_id, numbers in target.items()]
    return MemberTargetRecord(group_id, member_id, tuple(topics))


def member_tombstones(group_id: str, member_id: str) -> list[ConsumerTombstone]:
    """Build the tombstones of a member's records, in the order in which they are applied."""
    kinds = (ConsumerKey.ASSIGNMENT, ConsumerKey.MEMBER_TARGET, ConsumerKey.MEMBER)
    return [ConsumerTombstone(group_id, kind, member_id) for kind in kinds]


def group_tombstones(group: ConsumerGroup, member_ids: Iterable[str]) -> list[ConsumerTombstone]:
    """Build the tombstones of all records of a group that has these members, in the order in which they are applied."""
    group_id, ids = group.group_id, list(member_ids)
    found = [ConsumerTombstone(group_id, ConsumerKey.ASSIGNMENT, member_id) for member_id in ids]
    found += [ConsumerTombstone(group_id, ConsumerKey.MEMBER_TARGET, member_id) for member_id in ids]
    found.append(ConsumerTombstone(group_id, ConsumerKey.TARGET))
    found += [ConsumerTombstone(group_id, ConsumerKey.MEMBER, member_id) for member_id in ids]
    found += [ConsumerTombstone(group_id, ConsumerKey.REGEX, regex) for regex in group.resolved]
    if group.has_partition_metadata:
        found.append(ConsumerTombstone(group_id, ConsumerKey.TOPICS))
    found.append(ConsumerTombstone(group_id, ConsumerKey.GROUP))
    return found


def epoch_records(group: ConsumerGroup, digest: int) -> list[ConsumerRecord]:
    """Build the records of the next group epoch."""
    records: list[ConsumerRecord] = [ConsumerGroupRecord(group.group_id, group.epoch + 1, digest)]
    if group.has_partition_metadata:
        records.append(ConsumerTombstone(group.group_id, ConsumerKey.TOPICS))
    return records


def records_of(group: ConsumerGroup) -> Iterator[ConsumerRecord]:
    """Build the records of all hard state, in an order in which they are applied."""
    group_id = group.group_id
    for member in group.members.values():
        yield member.subscription
    if group.has_partition_metadata:
        yield ConsumerTopicsRecord(group_id)
    yield ConsumerGroupRecord(group_id, group.epoch, group.metadata_hash)
    for resolved in group.resolved.values():
        yield resolved.record
    for member_id, target in group.targets.items():
        yield target_record(group_id, member_id, target)
    yield TargetRecord(group_id, group.target_epoch, group.target_timestamp_ms)
    for member in group.members.values():
        yield assignment_record(group_id, member.member_id, member.current)
