"""Replies of old versions of Kafka's protocol, completed with the fields of the newest, so that callers need not know
versions.
"""

from msgspec.structs import replace

from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.messages.groups import LeaveGroup, LeaveGroupReply, LeftMember
from protocol.messages.node import FindCoordinator, FindCoordinatorReply
from protocol.messages.offsets import OffsetFetch, OffsetFetchReply
from protocol.messages.topics import MetadataReply

_OF_A_MEMBER = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID})
_UNKNOWN_EPOCH = -1


def in_full(message: Message, version: int, reply: Message) -> Message:
    """Return the reply to `message`, which was sent in `version`, in the form of the newest version."""
    if isinstance(reply, OffsetFetchReply) and isinstance(message, OffsetFetch):
        return _of_the_only_group(message, reply) if version < 8 else reply
    if isinstance(reply, FindCoordinatorReply) and isinstance(message, FindCoordinator):
        return _of_the_only_key(message, reply) if version < 4 else reply
    if isinstance(reply, LeaveGroupReply) and isinstance(message, LeaveGroup):
        return _of_the_only_member(message, reply) if version < 3 else reply
    if isinstance(reply, MetadataReply):
        return _without_epochs(reply) if version < 9 else reply
    return reply


def _of_the_only_group(message: OffsetFetch, reply: OffsetFetchReply) -> OffsetFetchReply:
    group_id = message.groups[0].group_id
    return replace(reply, groups=tuple(replace(group, group_id=group_id) for group in reply.groups))


def _of_the_only_key(message: FindCoordinator, reply: FindCoordinatorReply) -> FindCoordinatorReply:
    """Convert the single form, whose message is NONE on success."""
    found = (
        replace(one, key=message.coordinator_keys[0], error_message=one.error_message if one.error_code else None)
        for one in reply.coordinators
    )
    return replace(reply, coordinators=tuple(found))


def _of_the_only_member(message: LeaveGroup, reply: LeaveGroupReply) -> LeaveGroupReply:
    code = reply.error_code
    if code != ErrorCode.NONE and code not in _OF_A_MEMBER:
        return reply
    return replace(reply, error_code=ErrorCode.NONE, members=(LeftMember(message.members[0].member_id, None, code),))


def _without_epochs(reply: MetadataReply) -> MetadataReply:
    """Remove leader epochs: before version 7 there are none, and up to version 8 they may be outdated (KAFKA-9212)."""
    topics = (
        replace(topic, partitions=tuple(replace(part, leader_epoch=_UNKNOWN_EPOCH) for part in topic.partitions))
        for topic in reply.topics
    )
    return replace(reply, topics=tuple(topics))
