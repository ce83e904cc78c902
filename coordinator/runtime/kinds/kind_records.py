"""Records of server-driven consumer groups in a shard: how they become the state of a group, and how a group that is
deleted ends on record (docs/spec/consumer-group-protocol.md#14)."""

from typing import TYPE_CHECKING

from msgspec.structs import replace

from coordinator.groups.classic.offsets import is_too_long
from coordinator.groups.consumer import applying
from coordinator.groups.consumer.offsets import Part, refuse_commit, refuse_transactional_commit
from coordinator.groups.consumer.record_builders import group_tombstones
from coordinator.records.consumer_records import ConsumerKey, ConsumerRecord, ConsumerTombstone
from coordinator.records.records import BalancedTombstone, CommittedOffset, GroupTombstone, ShardRecord
from coordinator.runtime.group import Group, GroupKind
from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.messages.offsets import OffsetCommit, OffsetCommitReply, TxnOffsetCommit, TxnOffsetCommitReply

if TYPE_CHECKING:
    from coordinator.runtime.shard import Shard

_NO_EPOCH = -1


def apply_consumer(shard: "Shard", record: ConsumerRecord, group: Group | None) -> None:
    """Apply the record. A tombstone of an absent group changes nothing; any other makes the group if it is absent, and
    one that only has offsets becomes a consumer group."""
    known = shard.groups.get(record.group_id)
    if isinstance(record, ConsumerTombstone):
        if known is None or known.consumer is None:
            return
        if record.key is ConsumerKey.GROUP:
            shard.remove(record.group_id)
            return
    present = known or shard.adopt(group or shard.new_group(record.group_id))
    present.consumer = present.as_consumer()
    if present.kind is not GroupKind.CONSUMER:
        present.become(GroupKind.CONSUMER)
    applying.apply(present.consumer, record)


def end_on_record(group: Group, records: list[ShardRecord]) -> None:
    """Complete the records that delete a group by those of its other kinds. A consumer group has none of a classic
    one."""
    if type(records[-1]) is not GroupTombstone:
        return
    if group.balanced is not None:
        records.append(BalancedTombstone(group.group_id))
    if group.consumer is not None:
        tombstones = group_tombstones(group.consumer, ())
        records[:] = [record for record in records if type(record) is not GroupTombstone] + list(tombstones)


def refuse_member(group: Group, message: OffsetCommit | TxnOffsetCommit) -> ErrorCode:
    """Check the sender of a commit to a group that is not classic: only the owner of a partition commits for a
    client-balanced group."""
    if group.consumer is None or group.kind is not GroupKind.CONSUMER:
        return ErrorCode.UNKNOWN_MEMBER_ID
    limit = group.classic.settings.offset_metadata_max_bytes

    def is_storable(part: Part) -> bool:
        return not is_too_long(part.committed_metadata or "", limit)

    if isinstance(message, OffsetCommit):
        return refuse_commit(group.consumer, message, is_storable)
    return refuse_transactional_commit(group.consumer, message, is_storable)


def refuse_backward(group: Group, records: list[CommittedOffset], reply: Message | ErrorCode) -> Message | ErrorCode:
    """Take the records that go back out of a commit, and refuse their partitions in its reply."""
    if not isinstance(reply, OffsetCommitReply | TxnOffsetCommitReply):
        return reply
    back = group.shard.offsets.going_back(records)
    if not back:
        return reply
    records[:] = [record for record in records if (record.topic, record.partition) not in back]
    topics = [
        replace(
            topic,
            partitions=tuple(
                replace(part, error_code=ErrorCode.POLICY_VIOLATION)
                if (topic.name, part.partition_index) in back
                else part
                for part in topic.partitions
            ),
        )
        for topic in reply.topics
    ]
    return replace(reply, topics=tuple(topics))


def as_simple(message: OffsetCommit | TxnOffsetCommit) -> OffsetCommit | TxnOffsetCommit:
    """Return the commit as one of a client without a generation: its sender was checked."""
    return replace(message, generation_id=_NO_EPOCH, member_id="", group_instance_id=None)
