"""Checks of a commit that depend on the kind of its group, or on what is stored."""

from msgspec.structs import replace

from coordinator.clock import Moment
from coordinator.groups.classic.offsets import is_too_long
from coordinator.groups.consumer.offsets import Part, note_commit, refuse_commit, refuse_transactional_commit
from coordinator.records.records import CommittedOffset
from coordinator.runtime.group import Group, GroupKind
from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.messages.offsets import OffsetCommit, OffsetCommitReply, TxnOffsetCommit, TxnOffsetCommitReply

_NO_EPOCH = -1


def checked(
    group: Group, message: OffsetCommit | TxnOffsetCommit, moment: Moment
) -> OffsetCommit | TxnOffsetCommit | ErrorCode:
    """Return the commit to a group that is not classic in the form to store, or its error."""
    if refused := _refuse_member(group, message):
        return refused
    if group.consumer is not None:
        note_commit(group.consumer, message.member_id, moment.monotonic_ms)
    return as_simple(message)


def _refuse_member(group: Group, message: OffsetCommit | TxnOffsetCommit) -> ErrorCode:
    """Check the sender: only the owner of a partition commits for a client-balanced group."""
    if group.consumer is None or group.kind is not GroupKind.CONSUMER:
        return ErrorCode.UNKNOWN_MEMBER_ID
    limit = group.classic.settings.offset_metadata_max_bytes

    def is_storable(part: Part) -> bool:
        return not is_too_long(part.committed_metadata or "", limit)

    if isinstance(message, OffsetCommit):
        return refuse_commit(group.consumer, message, is_storable)
    return refuse_transactional_commit(group.consumer, message, is_storable)


def refuse_backward(group: Group, records: list[CommittedOffset], reply: Message | ErrorCode) -> Message | ErrorCode:
    """Remove the records that set an offset back from a commit, and refuse their partitions in its reply."""
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
    """Return the commit as one of a client without a generation, after its sender was checked."""
    return replace(message, generation_id=_NO_EPOCH, member_id="", group_instance_id=None)
