"""Requests about groups by what they need permission for: the permitted part is served, the rest is refused in the
places where Apache Kafka refuses it (KafkaApis)."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, NamedTuple

from msgspec.structs import replace

from coordinator.gateway.permissions import CLUSTER, GROUP, GROUP_OPERATIONS, TOPIC, CodeOf, Need
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
_MAY_LIST: Final = Need(CLUSTER, "", _DESCRIBE)

_WHOLE: Final[dict[type[Message], AclOperation]] = {
    JoinGroup: _READ,
    SyncGroup: _READ,
    Heartbeat: _READ,
    LeaveGroup: _READ,
    OffsetCommit: _READ,
    OffsetDelete: _DELETE,
}
"""Operation on the group without which the whole request is refused."""


class _Parts(NamedTuple):
    """Parts of a request that are permitted one by one: its field, the reply's field, and what a part needs."""

    field: str
    replies: str
    need: Callable[[Any], Need]


def _on_group(operation: AclOperation, attribute: str = "") -> Callable[[Any], Need]:
    if not attribute:
        return lambda name: Need(GROUP, name, operation)
    return lambda part: Need(GROUP, getattr(part, attribute), operation)


def _on_topic(operation: AclOperation) -> Callable[[Any], Need]:
    return lambda topic: Need(TOPIC, topic.name or topic.topic_id, operation)


_read_topic, _describe_topic = _on_topic(_READ), _on_topic(_DESCRIBE)
_PARTS: Final[dict[type[Message], _Parts]] = {
    FindCoordinator: _Parts("coordinator_keys", "coordinators", _on_group(_DESCRIBE)),
    DescribeGroups: _Parts("groups", "groups", _on_group(_DESCRIBE)),
    DeleteGroups: _Parts("groups_names", "results", _on_group(_DELETE)),
    OffsetFetch: _Parts("groups", "groups", _on_group(_DESCRIBE, "group_id")),
    OffsetCommit: _Parts("topics", "topics", _read_topic),
    OffsetDelete: _Parts("topics", "topics", lambda topic: Need(TOPIC, topic.name, _READ)),
    DescribeConfigs: _Parts("resources", "results", _on_group(AclOperation.DESCRIBE_CONFIGS, "resource_name")),
    AlterConfigs: _Parts("resources", "responses", _on_group(AclOperation.ALTER_CONFIGS, "resource_name")),
    IncrementalAlterConfigs: _Parts("resources", "responses", _on_group(AclOperation.ALTER_CONFIGS, "resource_name")),
}

GUARDED: Final[frozenset[type[Message]]] = frozenset({*_WHOLE, *_PARTS, ListGroups})
"""Requests that need permission."""


def needs_of(message: Message) -> Iterator[Need]:
    """Permissions that decide which part of the request is served."""
    kind = type(message)
    if (operation := _WHOLE.get(kind)) is not None:
        yield Need(GROUP, message.group_id, operation)  # type: ignore[attr-defined]
    if (parts := _PARTS.get(kind)) is not None:
        yield from map(parts.need, getattr(message, parts.field))
    if isinstance(message, ListGroups):
        yield _MAY_LIST
    elif isinstance(message, OffsetFetch):
        yield from (_describe_topic(topic) for group in message.groups for topic in group.topics or ())
    elif isinstance(message, DescribeGroups) and message.include_authorized_operations:
        yield from (Need(GROUP, group_id, one) for group_id in message.groups for one in GROUP_OPERATIONS)


def needs_of_reply(message: Message, reply: Message, code_of: CodeOf) -> Iterator[Need]:
    """Permissions that decide how much of the reply is told."""
    if isinstance(reply, ListGroupsReply) and code_of(_MAY_LIST):
        yield from (Need(GROUP, group.group_id, _DESCRIBE) for group in reply.groups)
    elif isinstance(reply, OffsetFetchReply) and isinstance(message, OffsetFetch):
        wants_all = _wants_all(message)
        told = (topic for group in reply.groups if group.group_id in wants_all for topic in group.topics)
        yield from map(_describe_topic, told)


class Division(NamedTuple):
    """The permitted part of a request, None if nothing of it is; and the reply to the rest, None if there is none."""

    permitted: Message | None
    refused: Message | None


def divide(message: Message, code_of: CodeOf) -> Division:
    """Tell the permitted part of a request from the rest. Every answer to its needs must be known."""
    kind = type(message)
    if (operation := _WHOLE.get(kind)) is not None:
        code = code_of(Need(GROUP, message.group_id, operation))  # type: ignore[attr-defined]
        if code:
            return Division(None, ErrorReply(code))
    parts = _PARTS.get(kind)
    if parts is None:
        return Division(message, None)
    permitted, refused = [], []
    for part in getattr(message, parts.field):
        code = code_of(parts.need(part))
        if code:
            refused.append((part, code))
        else:
            permitted.append(part)
    told = tuple(one for part, code in refused for one in _refuse(message, parts, part, code))
    if isinstance(message, OffsetFetch):
        asked, some = (
            zip(*[_divide_topics(group, code_of) for group in permitted], strict=True) if permitted else ((), ())
        )
        told = (*told, *filter(None, some))
        permitted = list(asked)
    if not told:
        return Division(message, None)
    reply = _reply(message, parts, told)
    return Division(replace(message, **{parts.field: tuple(permitted)}) if permitted else None, reply)


def _refuse(message: Message, parts: _Parts, part: Any, code: ErrorCode) -> tuple[Any, ...]:
    if isinstance(message, OffsetDelete):
        partitions = tuple(OffsetDeletePartitionReply(index, code) for index in part.partition_indexes)
        return (OffsetDeleteTopicReply(part.name, partitions),)
    reply = REFUSE[type(message)](replace(message, **{parts.field: (part,)}), code, None)
    return tuple(getattr(reply, parts.replies))


def _reply(message: Message, parts: _Parts, told: tuple[Any, ...]) -> Message:
    if isinstance(message, OffsetDelete):
        return OffsetDeleteReply(ErrorCode.NONE, told)
    nothing = REFUSE[type(message)](replace(message, **{parts.field: ()}), ErrorCode.NONE, None)
    return replace(nothing, **{parts.replies: told})


def _divide_topics(group: OffsetFetchGroup, code_of: CodeOf) -> tuple[OffsetFetchGroup, OffsetFetchGroupReply | None]:
    if group.topics is None:
        return group, None
    refused: list[OffsetFetchTopicReply] = []
    permitted = []
    for topic in group.topics:
        code = code_of(_describe_topic(topic))
        if code:
            refused += on_each_partition(replace(group, topics=(topic,)), code).topics
        else:
            permitted.append(topic)
    if not refused:
        return group, None
    return replace(group, topics=tuple(permitted)), OffsetFetchGroupReply(group.group_id, tuple(refused))


def join(message: Message, reply: Message, refused: Message | None, code_of: CodeOf) -> Message:
    """The reply to the permitted part, cut to what may be told, together with the refusals of the rest."""
    if isinstance(reply, ErrorReply):
        return reply
    if isinstance(reply, ListGroupsReply):
        return _listed(reply, code_of)
    if isinstance(reply, OffsetFetchReply) and isinstance(message, OffsetFetch):
        return _fetched(message, reply, refused, code_of)
    if isinstance(reply, DescribeGroupsReply) and isinstance(message, DescribeGroups):
        reply = _described(message, reply, code_of)
    if refused is None:
        return reply
    field = _PARTS[type(message)].replies
    return replace(reply, **{field: (*getattr(reply, field), *getattr(refused, field))})


def _listed(reply: ListGroupsReply, code_of: CodeOf) -> ListGroupsReply:
    if not code_of(_MAY_LIST):
        return reply
    told = tuple(group for group in reply.groups if not code_of(Need(GROUP, group.group_id, _DESCRIBE)))
    return replace(reply, groups=told)


def _described(message: DescribeGroups, reply: DescribeGroupsReply, code_of: CodeOf) -> DescribeGroupsReply:
    """The operations that are told are the principal's."""
    if not message.include_authorized_operations:
        return reply
    groups = tuple(
        replace(
            group,
            authorized_operations=sum(
                1 << one for one in GROUP_OPERATIONS if code_of(Need(GROUP, group.group_id, one)) is ErrorCode.NONE
            ),
        )
        for group in reply.groups
        if not group.error_code
    )
    failed = tuple(group for group in reply.groups if group.error_code)
    return replace(reply, groups=groups + failed)


def _wants_all(message: OffsetFetch) -> set[str]:
    """Groups of which all topics are asked for: those that may not be described are left out."""
    return {group.group_id for group in message.groups if group.topics is None}


def _fetched(
    message: OffsetFetch, reply: OffsetFetchReply, refused: Message | None, code_of: CodeOf
) -> OffsetFetchReply:
    rest = {one.group_id: one for one in refused.groups} if isinstance(refused, OffsetFetchReply) else {}
    wants_all = _wants_all(message)
    groups = [
        OffsetFetchGroupReply(
            group.group_id,
            (*_describable(group, wants_all, code_of), *_topics_of(rest.pop(group.group_id, None))),
            group.error_code,
        )
        for group in reply.groups
    ]
    return replace(reply, groups=(*groups, *rest.values()))


def _describable(group: OffsetFetchGroupReply, wants_all: set[str], code_of: CodeOf) -> Iterable[OffsetFetchTopicReply]:
    if group.group_id not in wants_all:
        return group.topics
    return (topic for topic in group.topics if not code_of(_describe_topic(topic)))


def _topics_of(refused: OffsetFetchGroupReply | None) -> Iterable[OffsetFetchTopicReply]:
    return () if refused is None else refused.topics
