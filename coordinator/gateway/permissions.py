"""Permissions of a connection's principal, asked of its broker by requests that have no effect beyond their
authorization.

DescribeGroups with authorized operations (KIP-430) would return all operations at once, but only the group's own
coordinator fills them in, and no broker does before the cluster has an offsets topic (seen on Apache Kafka 4.3.1). But
every broker authorizes a request before it looks for the coordinator, so the error code shows the decision. Topics need
no coordinator: Metadata returns their operations.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, NamedTuple

from coordinator.accounts.permission import AUTO_CREATED, CLUSTER, GROUP, TOPIC, TRANSACTIONAL_ID, Permission
from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.messages.acls import AclOperation
from protocol.messages.configs import (
    AlterConfigsResource,
    DescribeConfigs,
    DescribeConfigsReply,
    DescribeConfigsResource,
    IncrementalAlterConfigs,
    IncrementalAlterConfigsReply,
    ResourceType,
)
from protocol.messages.groups import DescribeGroups, DescribeGroupsReply, Heartbeat, HeartbeatReply
from protocol.messages.offsets import OffsetDelete, OffsetDeleteReply
from protocol.messages.topics import Metadata, MetadataReply, MetadataTopic, MetadataTopicReply
from protocol.messages.transactions import AddOffsetsToTxn, AddOffsetsToTxnReply

NAMES_PER_QUERY: Final = 200
VALID_MS: Final = 60_000
"""Validity of an answer, counted from its query."""

_MAX_CACHED: Final = 10_000
_MAX_TEXT: Final = 1 << 20
"""Characters, or bytes, of the names in the answers that are cached."""
_PROBE_MEMBER_ID: Final = "muster"
"""A member id that no group of the cluster has: Kafka's end with a UUID."""

Decision = ErrorCode | None
"""NONE: permitted. Another code: the denial. None: unknown."""

Decisions = dict[Permission, Decision]


class PermissionQuery(NamedTuple):
    """A request for the broker, in versions `oldest` to `newest`, and the permissions that its reply decides; none: it
    lists the topics that the principal may describe."""

    message: Message
    oldest: int
    newest: int
    permissions: tuple[Permission, ...]
    read: Callable[[tuple[Permission, ...], Any], Decisions]


class PermissionCache:
    """Decisions by permission, each with the time of its query."""

    def __init__(self) -> None:
        self._known: dict[Permission, tuple[ErrorCode, int]] = {}
        self._text = 0
        self.seen_topics: frozenset[str] | None = None
        """All topics that the principal may describe, while a request that needs them is served."""

    def unknown(self, permissions: Iterable[Permission], now_ms: int) -> list[Permission]:
        """Return the permissions that must be queried, each once."""
        known = self._known
        return [
            permission
            for permission in dict.fromkeys(permissions)
            if (answer := known.get(permission)) is None or now_ms - answer[1] >= VALID_MS
        ]

    def knows(self, permissions: Iterable[Permission]) -> bool:
        """Return whether each permission was ever decided, however long ago."""
        return all(permission in self._known for permission in permissions)

    def code(self, permission: Permission) -> ErrorCode:
        """Return the last decision, however old: NONE or a denial. Unknown permissions are denied."""
        if permission.kind == AUTO_CREATED:
            return ErrorCode.NONE  # a node in front of a cluster never creates topics automatically
        known = self._known.get(permission)
        return permission.denial if known is None else known[0]

    def learn(self, decisions: Decisions, asked_ms: int) -> None:
        """Store decisions; None leaves the former one. UNKNOWN_TOPIC_ID expires at once: the next request asks
        again."""
        for permission, code in decisions.items():
            if code is not None:
                since_ms = asked_ms - VALID_MS if code is ErrorCode.UNKNOWN_TOPIC_ID else asked_ms
                if permission not in self._known:
                    self._text += len(permission.name)
                self._known[permission] = code, since_ms

    def learn_topics(self, reply: MetadataReply) -> None:
        """Store the topics that the principal may describe."""
        self.seen_topics = frozenset(topic.name for topic in reply.topics if topic.name and not topic.error_code)

    def trim(self) -> None:
        """Clear a cache that grew too large: clients choose the names of groups and topics."""
        if len(self._known) > _MAX_CACHED or self._text > _MAX_TEXT:
            self._known.clear()
            self._text = 0


def topics_query() -> PermissionQuery:
    """Return the query for all topics that the principal may describe: others are not in the list."""
    return PermissionQuery(Metadata(None), 1, 12, (), lambda _permissions, _reply: {})


def denied(query: PermissionQuery) -> Decisions:
    """Deny everything: the broker speaks no version of the query."""
    return {permission: permission.denial for permission in query.permissions}


def permission_queries(permissions: Iterable[Permission]) -> Iterator[PermissionQuery]:
    """Yield the fewest queries that decide all these permissions."""
    by_kind: dict[tuple[str, AclOperation, type], list[Permission]] = {}
    for permission in permissions:
        operation = AclOperation.READ if permission.kind == TOPIC else permission.operation
        by_kind.setdefault((permission.kind, operation, type(permission.name)), []).append(permission)
    for (kind, operation, name_type), batch in by_kind.items():
        size = 1 if (kind, operation) in _ONE_NAME_PER_QUERY else NAMES_PER_QUERY
        for start in range(0, len(batch), size):
            yield _query(kind, operation, name_type, tuple(batch[start : start + size]))


def _query(kind: str, operation: AclOperation, name_type: type, permissions: tuple[Permission, ...]) -> PermissionQuery:
    names = tuple(permission.name for permission in permissions)
    if kind == CLUSTER:
        metadata = Metadata((), allow_auto_topic_creation=False, include_cluster_authorized_operations=True)
        return PermissionQuery(metadata, 8, 10, permissions, _read_cluster)
    if kind == TOPIC:
        unique = dict.fromkeys(names)
        topics = tuple(MetadataTopic(name) if isinstance(name, str) else MetadataTopic(None, name) for name in unique)
        metadata = Metadata(topics, allow_auto_topic_creation=False, include_topic_authorized_operations=True)
        return PermissionQuery(metadata, 12 if name_type is bytes else 8, 12, permissions, _read_topics)
    if kind == TRANSACTIONAL_ID:
        # No transaction has this producer id, and brokers authorize before they look for it.
        return PermissionQuery(AddOffsetsToTxn(str(names[0]), -1, -1, ""), 0, 4, permissions, _read_transactional_id)
    message, newest, read = _GROUP_QUERIES[operation](tuple(map(str, names)))
    return PermissionQuery(message, 0, newest, permissions, read)


_Read = Callable[[tuple[Permission, ...], Any], Decisions]
_GROUP_QUERIES: Final[dict[AclOperation, Callable[[tuple[str, ...]], tuple[Message, int, _Read]]]] = {
    AclOperation.READ: lambda names: (Heartbeat(names[0], 0, _PROBE_MEMBER_ID), 4, _read_code),
    AclOperation.DESCRIBE: lambda names: (DescribeGroups(names), 5, _read_groups),
    AclOperation.DELETE: lambda names: (OffsetDelete(names[0], ()), 0, _read_code),
    AclOperation.DESCRIBE_CONFIGS: lambda names: (
        DescribeConfigs(tuple(DescribeConfigsResource(ResourceType.GROUP, name, ()) for name in names)),
        4,
        _read_configs,
    ),
    AclOperation.ALTER_CONFIGS: lambda names: (
        IncrementalAlterConfigs(
            tuple(AlterConfigsResource(ResourceType.GROUP, name, ()) for name in names), validate_only=True
        ),
        1,
        _read_configs,
    ),
}
_ONE_NAME_PER_QUERY: Final = {
    (GROUP, AclOperation.READ),
    (GROUP, AclOperation.DELETE),
    (TRANSACTIONAL_ID, AclOperation.WRITE),
}
_AUTHORIZED: Final = {
    ErrorCode.NONE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.INVALID_GROUP_ID,
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.NON_EMPTY_GROUP,
    ErrorCode.GROUP_ID_NOT_FOUND,
}
"""Errors that a broker returns only after it has authorized the request."""
_AUTHORIZED_TRANSACTION: Final = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ErrorCode.INVALID_GROUP_ID,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING,
}
"""Errors that it returns only after it has authorized the use of a transactional id."""
_UNSUPPORTED: Final = {ErrorCode.INVALID_REQUEST, ErrorCode.UNSUPPORTED_VERSION}
"""Errors of brokers that have no group configs, and so no permission for them."""


def _group_decision(code: ErrorCode) -> Decision:
    if code in _AUTHORIZED:
        return ErrorCode.NONE
    return code if code is ErrorCode.GROUP_AUTHORIZATION_FAILED else None


def _read_code(permissions: tuple[Permission, ...], reply: HeartbeatReply | OffsetDeleteReply) -> Decisions:
    return {permission: _group_decision(reply.error_code) for permission in permissions}


def _read_transactional_id(permissions: tuple[Permission, ...], reply: AddOffsetsToTxnReply) -> Decisions:
    code = reply.error_code
    if code in _AUTHORIZED_TRANSACTION:
        return dict.fromkeys(permissions, ErrorCode.NONE)
    return dict.fromkeys(permissions, code if code is ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED else None)


def _read_groups(permissions: tuple[Permission, ...], reply: DescribeGroupsReply) -> Decisions:
    codes = {group.group_id: _group_decision(group.error_code) for group in reply.groups}
    return {permission: codes.get(str(permission.name)) for permission in permissions}


def _read_configs(
    permissions: tuple[Permission, ...], reply: DescribeConfigsReply | IncrementalAlterConfigsReply
) -> Decisions:
    results = reply.results if isinstance(reply, DescribeConfigsReply) else reply.responses
    codes = {described.resource_name: described.error_code for described in results}
    return {permission: _config_decision(codes.get(str(permission.name))) for permission in permissions}


def _config_decision(code: ErrorCode | None) -> Decision:
    if code in _UNSUPPORTED:
        return ErrorCode.GROUP_AUTHORIZATION_FAILED
    return None if code is None else _group_decision(code)


def _read_topics(permissions: tuple[Permission, ...], reply: MetadataReply) -> Decisions:
    topics: dict[str | bytes, MetadataTopicReply] = {}
    for described in reply.topics:
        # A hidden topic is answered without its name if it was asked for by id, and without its id if by name.
        topics[described.name or ""] = topics[described.topic_id] = described
    decisions: Decisions = {}
    for permission in permissions:
        topic = topics.get(permission.name)
        if topic is None:
            decisions[permission] = None
        elif topic.error_code in (ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.UNKNOWN_TOPIC_ID):
            decisions[permission] = topic.error_code
        elif topic.error_code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and permission.operation is AclOperation.DESCRIBE:
            decisions[permission] = ErrorCode.NONE  # only those who may describe it learn that it does not exist
        else:
            decisions[permission] = _bits_decision(permission, topic.topic_authorized_operations)
    return decisions


def _read_cluster(permissions: tuple[Permission, ...], reply: MetadataReply) -> Decisions:
    return {permission: _bits_decision(permission, reply.cluster_authorized_operations) for permission in permissions}


def _bits_decision(permission: Permission, operations: int) -> ErrorCode:
    return ErrorCode.NONE if operations > 0 and operations >> permission.operation & 1 else permission.denial
