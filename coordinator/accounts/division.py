"""Division of requests and replies by the permissions of `coordinator.accounts.requests`. A `CodeOf` decides each
permission, by local bindings or a broker's answers."""

from collections.abc import Iterator
from typing import Any, Final, NamedTuple, cast

from msgspec.structs import replace

from coordinator.accounts.permission import (
    CLUSTER,
    CLUSTER_OPERATIONS,
    GROUP,
    GROUP_OPERATIONS,
    LIST_ALL,
    TOPIC,
    TOPIC_OPERATIONS,
    CodeOf,
    Permission,
    describe_topic,
)
from coordinator.accounts.replies import fetches_all_topics, topics_of, with_denials
from coordinator.accounts.requests import ACCESS, PartFields
from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.messages.acls import AclOperation
from protocol.messages.consumer_groups import ConsumerGroupDescribe, ConsumerGroupDescribeReply
from protocol.messages.data import Fetch, FetchReply
from protocol.messages.groups import (
    DescribeGroups,
    ListAudit,
    ListAuditReply,
    ListGroups,
    ListGroupsReply,
    ListRefusals,
    ListRefusalsReply,
)
from protocol.messages.node import DescribeCluster, DescribeClusterReply, ErrorReply
from protocol.messages.offsets import (
    ListEndSamplesReply,
    ListGroupOffsetsReply,
    OffsetDelete,
    OffsetDeleteReply,
    OffsetFetch,
    OffsetFetchGroup,
    OffsetFetchGroupReply,
    OffsetFetchReply,
    OffsetFetchTopicReply,
)
from protocol.messages.topics import Metadata, MetadataReply
from protocol.refusals import REFUSE, on_each_partition

_ListReply = ListGroupsReply | ListAuditReply | ListRefusalsReply
"""Lists in which each line is about one group."""
_DESCRIBE: Final = AclOperation.DESCRIBE
_EACH_OF_CLUSTER: Final = tuple(Permission(CLUSTER, "", operation) for operation in CLUSTER_OPERATIONS)


def permissions_for(message: Message) -> Iterator[Permission]:
    """Yield the permissions that decide which part of the request is served, for callers that must query them first."""
    access = ACCESS[type(message)]
    if access.whole is not None:
        yield from access.whole(message)
    if access.parts is not None:
        for part in getattr(message, access.parts.request_field) or ():
            yield access.parts.permission(message, part)
    if isinstance(message, ListGroups | ListAudit | ListRefusals):
        yield LIST_ALL
    elif isinstance(message, OffsetFetch):
        yield from (describe_topic(topic) for group in message.groups for topic in group.topics or ())
    elif isinstance(message, DescribeGroups | ConsumerGroupDescribe) and message.include_authorized_operations:
        group_ids = message.groups if isinstance(message, DescribeGroups) else message.group_ids
        yield from (Permission(GROUP, group_id, operation) for group_id in group_ids for operation in GROUP_OPERATIONS)


def permissions_for_reply(message: Message, reply: Message, code_of: CodeOf) -> Iterator[Permission]:
    """Yield the permissions that decide which part of the reply the client gets."""
    if isinstance(reply, _ListReply):
        if code_of(LIST_ALL):
            yield from (Permission(GROUP, line.group_id, _DESCRIBE) for line in _lines_of(reply))
    elif isinstance(reply, ListEndSamplesReply):
        for sample in reply.samples:
            yield Permission(GROUP, sample.group_id, _DESCRIBE)
            yield Permission(TOPIC, sample.topic, _DESCRIBE)
    elif isinstance(reply, ListGroupOffsetsReply):
        for group in reply.groups:
            yield Permission(GROUP, group.group_id, _DESCRIBE)
            yield from (Permission(TOPIC, topic, _DESCRIBE) for topic in (*group.topics, *group.in_order))
    elif isinstance(reply, OffsetFetchReply) and isinstance(message, OffsetFetch):
        unrestricted = fetches_all_topics(message)
        fetched = (topic for group in reply.groups if group.group_id in unrestricted for topic in group.topics)
        yield from map(describe_topic, fetched)
    elif isinstance(reply, MetadataReply):
        yield from _permissions_for_metadata(cast(Metadata, message), reply)
    elif isinstance(reply, DescribeClusterReply):
        if cast(DescribeCluster, message).include_cluster_authorized_operations:
            yield from _EACH_OF_CLUSTER
    elif isinstance(reply, ConsumerGroupDescribeReply):
        yield from (Permission(TOPIC, topic, _DESCRIBE) for group in reply.groups for topic in topics_of(group))


def _lines_of(reply: _ListReply) -> tuple[Any, ...]:
    match reply:
        case ListGroupsReply():
            return reply.groups
        case ListAuditReply():
            return reply.notes
        case ListRefusalsReply():
            return reply.refusals


def _permissions_for_metadata(message: Metadata, reply: MetadataReply) -> Iterator[Permission]:
    operations = TOPIC_OPERATIONS if message.include_topic_authorized_operations else (_DESCRIBE,)
    if message.topics is None or message.include_topic_authorized_operations:
        for topic in reply.topics:
            yield from (Permission(TOPIC, topic.name or topic.topic_id, operation) for operation in operations)
    if message.include_cluster_authorized_operations:
        yield from _EACH_OF_CLUSTER


# ---------------------------------------------------------------------------------------------------------- dividing


class Division(NamedTuple):
    """The permitted part of a request and the reply to the denied part; each None if it is empty."""

    permitted: Message | None
    denied: Message | None


def divide(message: Message, code_of: CodeOf) -> Division:
    """Divide a request into its permitted and its denied part."""
    access = ACCESS[type(message)]
    if access.whole is not None:
        for permission in access.whole(message):
            if code := code_of(permission):
                return Division(None, ErrorReply(code))
    parts = access.parts
    if parts is None or getattr(message, parts.request_field) is None:
        return Division(message, None)
    permitted: list[Any] = []
    denials: list[Any] = []
    for part in getattr(message, parts.request_field):
        code = code_of(parts.permission(message, part))
        if not code and parts.creation is not None:
            code = parts.creation(message, part, code_of)
        if code:
            denials += _deny(message, parts, part, code)
        elif isinstance(part, OffsetFetchGroup):
            remaining, denied_topics = _divide_topics(part, code_of)
            permitted.append(remaining)
            denials += [] if denied_topics is None else [denied_topics]
        else:
            permitted.append(part)
    if not denials:
        return Division(message, None)
    reply = _denial_reply(message, parts, tuple(denials))
    if permitted or isinstance(message, Metadata):  # every client may learn the brokers
        return Division(replace(message, **{parts.request_field: tuple(permitted)}), reply)
    return Division(None, reply)


def _deny(message: Message, parts: PartFields, part: Any, code: ErrorCode) -> tuple[Any, ...]:
    if parts.deny is not None:
        return parts.deny(part, code)
    reply = REFUSE[type(message)](replace(message, **{parts.request_field: (part,)}), code, None)
    return tuple(getattr(reply, parts.reply_field))


def _denial_reply(message: Message, parts: PartFields, denials: tuple[Any, ...]) -> Message:
    if isinstance(message, OffsetDelete):
        return OffsetDeleteReply(ErrorCode.NONE, denials)
    if isinstance(message, Fetch):
        return FetchReply(ErrorCode.NONE, denials)
    nothing = REFUSE[type(message)](replace(message, **{parts.request_field: ()}), ErrorCode.NONE, None)
    return replace(nothing, **{parts.reply_field: denials})


def _divide_topics(group: OffsetFetchGroup, code_of: CodeOf) -> tuple[OffsetFetchGroup, OffsetFetchGroupReply | None]:
    if group.topics is None:
        return group, None
    denied: list[OffsetFetchTopicReply] = []
    permitted = []
    for topic in group.topics:
        code = code_of(describe_topic(topic))
        if code:
            denied += on_each_partition(replace(group, topics=(topic,)), code).topics
        else:
            permitted.append(topic)
    if not denied:
        return group, None
    return replace(group, topics=tuple(permitted)), OffsetFetchGroupReply(group.group_id, tuple(denied))


def merge_reply(message: Message, reply: Message, denied: Message | None, code_of: CodeOf) -> Message:
    """Return the permitted part of the reply together with the denials. `message` is the whole request."""
    access = ACCESS[type(message)]
    if isinstance(reply, ErrorReply):
        return reply
    if access.finish is not None:
        return access.finish(message, reply, denied, code_of)
    if denied is None or access.parts is None:
        return reply
    merged: Message = with_denials(reply, access.parts.reply_field, denied)
    return merged
