"""Permissions that requests need. The local authorizer decides them or, in front of a cluster, a broker."""

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from protocol.errors import ErrorCode
from protocol.messages.acls import AclOperation

CLUSTER: Final = "cluster"
GROUP: Final = "group"
TOPIC: Final = "topic"
TRANSACTIONAL_ID: Final = "transactional id"
TOPIC_OR_CLUSTER: Final = "topic or cluster"
"""A topic for which the same operation on the cluster is enough."""
AUTO_CREATED: Final = "auto-created topic"
"""Topic that the request creates if it is missing, which needs CREATE on the topic or on the cluster."""
DELETED_TOPIC: Final = "deleted topic"
"""A topic to delete: DELETE on the cluster is enough; else DESCRIBE on the topic and, if it exists, DELETE."""
REPLICATED_TOPIC: Final = "replicated topic"
"""A topic whose replicas may describe it: CLUSTER_ACTION on the cluster is enough."""
IDEMPOTENT_PRODUCER: Final = "idempotent producer"
"""The cluster, for a producer without transactions: WRITE on any topic is enough (KIP-679)."""

_DENIALS: Final = {
    GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    TOPIC_OR_CLUSTER: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    AUTO_CREATED: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    DELETED_TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    REPLICATED_TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    IDEMPOTENT_PRODUCER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}


class Permission(NamedTuple):
    """An operation on a group, a topic (by name or by id), a transactional id or the cluster."""

    kind: str
    name: str | bytes
    operation: AclOperation

    @property
    def denial(self) -> ErrorCode:
        """Kafka's error for a principal without this permission."""
        return _DENIALS[self.kind]


LIST_ALL: Final = Permission(CLUSTER, "", AclOperation.DESCRIBE)
"""Permission to see all groups in lists."""

CodeOf = Callable[[Permission], ErrorCode]
"""Decides a permission: NONE, or the denial."""

GROUP_OPERATIONS: Final = (
    AclOperation.READ,
    AclOperation.DELETE,
    AclOperation.DESCRIBE,
    AclOperation.DESCRIBE_CONFIGS,
    AclOperation.ALTER_CONFIGS,
)
TOPIC_OPERATIONS: Final = (
    AclOperation.READ,
    AclOperation.WRITE,
    AclOperation.CREATE,
    AclOperation.DELETE,
    AclOperation.ALTER,
    AclOperation.DESCRIBE,
    AclOperation.DESCRIBE_CONFIGS,
    AclOperation.ALTER_CONFIGS,
)
CLUSTER_OPERATIONS: Final = (
    AclOperation.CREATE,
    AclOperation.ALTER,
    AclOperation.DESCRIBE,
    AclOperation.CLUSTER_ACTION,
    AclOperation.DESCRIBE_CONFIGS,
    AclOperation.ALTER_CONFIGS,
    AclOperation.IDEMPOTENT_WRITE,
)


def describe_topic(topic: Any) -> Permission:
    """Return the permission to describe a topic, by its name or its id."""
    return Permission(TOPIC, topic.name or topic.topic_id, AclOperation.DESCRIBE)


def authorized_operations(kind: str, name: str | bytes, operations: tuple[AclOperation, ...], code_of: CodeOf) -> int:
    """Return the operations that are permitted, as Kafka's bit field (KIP-430)."""
    return sum(1 << one for one in operations if not code_of(Permission(kind, name, one)))
