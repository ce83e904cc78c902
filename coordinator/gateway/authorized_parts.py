"""The permissions that requests need, and the division of requests and replies by them. Denials stand where Apache
Kafka (KafkaApis) puts them."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, NamedTuple

from msgspec.structs import replace

from coordinator.gateway.permissions import CLUSTER, GROUP, GROUP_OPERATIONS, TOPIC, CodeOf, Permission
from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.messages.acls import AclOperation
from protocol.messages.configs import AlterConfigs, DescribeConfigs, IncrementalAlterConfigs
from protocol.messages.groups import (
    DeleteGroups,
    DescribeGroups,
    DescribeGroupsReply,
    Heartbeat,
    JoinGroup,
    LeaveGroup,
    ListGroups,
    ListGroupsReply,
    SyncGroup,
)
from protocol.messages.node import ErrorReply, FindCoordinator
from protocol.messages.offsets import (
    OffsetCommit,
    OffsetDelete,
    OffsetDeletePartitionReply,
    OffsetDeleteReply,
    OffsetDeleteTopicReply,
    OffsetFetch,
    OffsetFetchGroup,
    OffsetFetchGroupReply,
    OffsetFetchReply,
    OffsetFetchTopicReply,
)
from protocol.refusals import REFUSE, on_each_partition

_READ, _DELETE, _DESCRIBE = AclOperation.READ, AclOperation.DELETE, AclOperation.DESCRIBE
_LIST_ALL: Final = Permission(CLUSTER, "", _DESCRIBE)

_WHOLE_REQUESTS: Final[dict[type[Message], AclOperation]] = {
    JoinGroup: _READ,
    SyncGroup: _READ,
    Heartbeat: _READ,
    LeaveGroup: _READ,
    OffsetCommit: _READ,
    OffsetDelete: _DELETE,
}
"""Operation on the group that the whole request needs."""


class _PartFields(NamedTuple):
    """Parts of a request that are authorized one by one: the fields of request and reply, and a part's permission."""

    request_field: str
    reply_field: str
    permission: Callable[[Any], Permission]


def _on_group(operation: AclOperation, attribute: str = "") -> Callable[[Any], Permission]:
    if not attribute:
        return lambda name: Permission(GROUP, name, operation)
    return lambda part: Permission(GROUP, getattr(part, attribute), operation)


def _on_topic(operation: AclOperation) -> Callable[[Any], Permission]:
    return lambda topic: Permission(TOPIC, topic.name or topic.topic_id, operation)


_read_topic, _describe_topic = _on_topic(_READ), _on_topic(_DESCRIBE)
_DIVISIBLE: Final[dict[type[Message], _PartFields]] = {
    FindCoordinator: _PartFields("coordinator_keys", "coordinators", _on_group(_DESCRIBE)),
    DescribeGroups: _PartFields("groups", "groups", _on_group(_DESCRIBE)),
    DeleteGroups: _PartFields("groups_names", "results", _on_group(_DELETE)),
    OffsetFetch: _PartFields("groups", "groups", _on_group(_DESCRIBE, "group_id")),
    OffsetCommit: _PartFields("topics", "topics", _read_topic),
    OffsetDelete: _PartFields("topics", "topics", lambda topic: Permission(TOPIC, topic.name, _READ)),
    DescribeConfigs: _PartFields("resources", "results", _on_group(AclOperation.DESCRIBE_CONFIGS, "resource_name")),
    AlterConfigs: _PartFields("resources", "responses", _on_group(AclOperation.ALTER_CONFIGS, "resource_name")),
    IncrementalAlterConfigs: _PartFields(
        "resources", "responses", _on_group(AclOperation.ALTER_CONFIGS, "resource_name")
    ),
}

GUARDED: Final[frozenset[type[Message]]] = frozenset({*_WHOLE_REQUESTS, *_DIVISIBLE, ListGroups})
"""Requests that need permissions."""


def permissions_for(message: Message) -> Iterator[Permission]:
    """Yield the permissions that decide which part of the request is served."""
    kind = type(message)
    if (operation := _WHOLE_REQUESTS.get(kind)) is not None:
        yield Permission(GROUP, message.group_id, operation)  # type: ignore[attr-defined]
    if (parts := _DIVISIBLE.get(kind)) is not None:
        yield from map(parts.permission, getattr(message, parts.request_field))
    if isinstance(message, ListGroups):
        yield _LIST_ALL
    elif isinstance(message, OffsetFetch):
        yield from (_describe_topic(topic) for group in message.groups for topic in group.topics or ())
    elif isinstance(message, DescribeGroups) and message.include_authorized_operations:
        yield from (
            Permission(GROUP, group_id, operation) for group_id in message.groups for operation in GROUP_OPERATIONS
        )


def permissions_for_reply(message: Message, reply: Message, code_of: CodeOf) -> Iterator[Permission]:
    """Yield the permissions that decide which part of the reply the client gets."""
    if isinstance(reply, ListGroupsReply) and code_of(_LIST_ALL):
        yield from (Permission(GROUP, group.group_id, _DESCRIBE) for group in reply.groups)
    elif isinstance(reply, OffsetFetchReply) and isinstance(message, OffsetFetch):
        unrestricted = _fetches_all_topics(message)
        fetched = (topic for group in reply.groups if group.group_id in unrestricted for topic in group.topics)
        yield from map(_describe_topic, fetched)


class Division(NamedTuple):
    """The permitted part of a request and the reply to the denied part; each None if it is empty."""

    permitted: Message | None
    denied: Message | None


def divide(message: Message, code_of: CodeOf) -> Division:
    """Divide a request into its permitted and its denied part. All its permissions must be known."""
    kind = type(message)
    if (operation := _WHOLE_REQUESTS.get(kind)) is not None:
        code = code_of(Permission(GROUP, message.group_id, operation))  # type: ignore[attr-defined]
        if code:
            return Division(None, ErrorReply(code))
    parts = _DIVISIBLE.get(kind)
    if parts is None:
        return Division(message, None)
    permitted: list[Any] = []
    denials: list[Any] = []
    for part in getattr(message, parts.request_field):
        if code := code_of(parts.permission(part)):
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
    return Division(replace(message, **{parts.request_field: tuple(permitted)}) if permitted else None, reply)


def _deny(message: Message, parts: _PartFields, part: Any, code: ErrorCode) -> tuple[Any, ...]:
    if isinstance(message, OffsetDelete):
        partitions = tuple(OffsetDeletePartitionReply(index, code) for index in part.partition_indexes)
        return (OffsetDeleteTopicReply(part.name, partitions),)
    reply = REFUSE[type(message)](replace(message, **{parts.request_field: (part,)}), code, None)
    return tuple(getattr(reply, parts.reply_field))


def _denial_reply(message: Message, parts: _PartFields, denials: tuple[Any, ...]) -> Message:
    if isinstance(message, OffsetDelete):
        return OffsetDeleteReply(ErrorCode.NONE, denials)
    nothing = REFUSE[type(message)](replace(message, **{parts.request_field: ()}), ErrorCode.NONE, None)
    return replace(nothing, **{parts.reply_field: denials})


def _divide_topics(group: OffsetFetchGroup, code_of: CodeOf) -> tuple[OffsetFetchGroup, OffsetFetchGroupReply | None]:
    if group.topics is None:
        return group, None
    denied: list[OffsetFetchTopicReply] = []
    permitted = []
    for topic in group.topics:
        code = code_of(_describe_topic(topic))
        if code:
            denied += on_each_partition(replace(group, topics=(topic,)), code).topics
        else:
            permitted.append(topic)
    if not denied:
        return group, None
    return replace(group, topics=tuple(permitted)), OffsetFetchGroupReply(group.group_id, tuple(denied))


def merge_reply(message: Message, reply: Message, denied: Message | None, code_of: CodeOf) -> Message:
    """Return the permitted part of the reply together with the denials."""
    if isinstance(reply, ErrorReply):
        return reply
    if isinstance(reply, ListGroupsReply):
        return _filter_groups(reply, code_of)
    if isinstance(reply, OffsetFetchReply) and isinstance(message, OffsetFetch):
        return _merge_offsets(message, reply, denied, code_of)
    if isinstance(reply, DescribeGroupsReply) and isinstance(message, DescribeGroups):
        reply = _with_operations(message, reply, code_of)
    if denied is None:
        return reply
    field = _DIVISIBLE[type(message)].reply_field
    return replace(reply, **{field: (*getattr(reply, field), *getattr(denied, field))})


def _filter_groups(reply: ListGroupsReply, code_of: CodeOf) -> ListGroupsReply:
    if not code_of(_LIST_ALL):
        return reply
    described = (group for group in reply.groups if not code_of(Permission(GROUP, group.group_id, _DESCRIBE)))
    return replace(reply, groups=tuple(described))


def _with_operations(message: DescribeGroups, reply: DescribeGroupsReply, code_of: CodeOf) -> DescribeGroupsReply:
    """Set the authorized operations to those of the client's principal."""
    if not message.include_authorized_operations:
        return reply
    groups = tuple(
        replace(
            group,
            authorized_operations=sum(
                1 << operation
                for operation in GROUP_OPERATIONS
                if code_of(Permission(GROUP, group.group_id, operation)) is ErrorCode.NONE
            ),
        )
        for group in reply.groups
        if not group.error_code
    )
    failed = tuple(group for group in reply.groups if group.error_code)
    return replace(reply, groups=groups + failed)


def _fetches_all_topics(message: OffsetFetch) -> set[str]:
    """Return the groups of which all topics are fetched: topics that may not be described are then left out, not
    denied."""
    return {group.group_id for group in message.groups if group.topics is None}


def _merge_offsets(
    message: OffsetFetch, reply: OffsetFetchReply, denied: Message | None, code_of: CodeOf
) -> OffsetFetchReply:
    denied_groups = {group.group_id: group for group in denied.groups} if isinstance(denied, OffsetFetchReply) else {}
    unrestricted = _fetches_all_topics(message)
    groups = [
        OffsetFetchGroupReply(
            group.group_id,
            (*_describable(group, unrestricted, code_of), *_denied_topics(denied_groups.pop(group.group_id, None))),
            group.error_code,
        )
        for group in reply.groups
    ]
    return replace(reply, groups=(*groups, *denied_groups.values()))


def _describable(
    group: OffsetFetchGroupReply, unrestricted: set[str], code_of: CodeOf
) -> Iterable[OffsetFetchTopicReply]:
    if group.group_id not in unrestricted:
        return group.topics
    return (topic for topic in group.topics if not code_of(_describe_topic(topic)))


def _denied_topics(denied: OffsetFetchGroupReply | None) -> Iterable[OffsetFetchTopicReply]:
    return () if denied is None else denied.topics
