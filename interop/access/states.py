"""States of the access rules: the ACLs of one principal, and the names of the resources that they are about."""

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from protocol.messages.acls import (
    CLUSTER_NAME,
    AclCreation,
    AclOperation,
    AclPatternType,
    AclPermission,
    AclResourceType,
)

ELSEWHERE: Final = "10.9.9.9"
"""A host from which nobody asks."""
TOPIC, GROUP, CLUSTER, TRANSACTIONAL_ID = (
    AclResourceType.TOPIC,
    AclResourceType.GROUP,
    AclResourceType.CLUSTER,
    AclResourceType.TRANSACTIONAL_ID,
)
_KINDS: Final = {TOPIC: "topic", GROUP: "group", CLUSTER: "cluster", TRANSACTIONAL_ID: "transactional id"}
_OP = AclOperation
_OPERATIONS: Final = {
    TOPIC: (
        *(_OP.READ, _OP.WRITE, _OP.CREATE, _OP.DELETE, _OP.ALTER, _OP.DESCRIBE),
        *(_OP.DESCRIBE_CONFIGS, _OP.ALTER_CONFIGS),
    ),
    GROUP: (_OP.READ, _OP.DELETE, _OP.DESCRIBE, _OP.DESCRIBE_CONFIGS, _OP.ALTER_CONFIGS),
    CLUSTER: (
        *(_OP.CREATE, _OP.ALTER, _OP.DESCRIBE, _OP.CLUSTER_ACTION),
        *(_OP.DESCRIBE_CONFIGS, _OP.ALTER_CONFIGS, _OP.IDEMPOTENT_WRITE),
    ),
    TRANSACTIONAL_ID: (_OP.WRITE, _OP.DESCRIBE),
}


class Names(NamedTuple):
    """Resources of one state. A server that is asked in all states gives each a `tag` of its own."""

    tag: str = ""

    @property
    def group(self) -> str:
        return f"pay{self.tag}"

    @property
    def other_group(self) -> str:
        """A group that no rule names."""
        return f"hidden-pay{self.tag}"

    @property
    def topic(self) -> str:
        return f"orders{self.tag}"

    @property
    def other_topic(self) -> str:
        """A topic that no rule names."""
        return f"hidden-orders{self.tag}"

    @property
    def transactional_id(self) -> str:
        return f"transfer{self.tag}"

    @property
    def all(self) -> tuple[str, ...]:
        return self.group, self.other_group, self.topic, self.other_topic, self.transactional_id

    def of(self, kind: AclResourceType) -> str:
        """Return the name that rules about this type of resource are about."""
        own = {TOPIC: self.topic, GROUP: self.group, TRANSACTIONAL_ID: self.transactional_id}
        return own.get(kind, CLUSTER_NAME)


class Rule(NamedTuple):
    """One ACL. `name` None: the state's own resource of this type; `principal` None: the state's own."""

    kind: AclResourceType
    operation: AclOperation = AclOperation.ALL
    permission: AclPermission = AclPermission.ALLOW
    name: str | None = None
    is_prefix: bool = False
    host: str = "*"
    principal: str | None = None

    def creation(self, names: Names, principal: str, here: str) -> AclCreation:
        """Return the binding for a principal that asks from the host `here`."""
        name = names.of(self.kind) if self.name is None else self.name
        return AclCreation(
            self.kind,
            name,
            self.principal or principal,
            here if self.host == "here" else self.host,
            self.operation,
            self.permission,
            AclPatternType.PREFIXED if self.is_prefix else AclPatternType.LITERAL,
        )


NAMED: Final = (TOPIC, GROUP, TRANSACTIONAL_ID)
"""Types of which there are many resources."""
_ALL: Final = (*NAMED, CLUSTER)
_PREFIXES: Final = {TOPIC: "ord", GROUP: "pa", TRANSACTIONAL_ID: "tra"}


def _allow(operation: AclOperation, *kinds: AclResourceType) -> tuple[Rule, ...]:
    return tuple(Rule(kind, operation) for kind in kinds or _ALL)


def _deny(operation: AclOperation, *kinds: AclResourceType) -> tuple[Rule, ...]:
    return tuple(Rule(kind, operation, AclPermission.DENY) for kind in kinds or _ALL)


def _each_operation() -> Iterator[tuple[str, tuple[Rule, ...]]]:
    for kind, operations in _OPERATIONS.items():
        for operation in operations:
            yield f"{operation.name} on the {_KINDS[kind]}", _allow(operation, kind)


def _each_denial() -> Iterator[tuple[str, tuple[Rule, ...]]]:
    for operation in (_OP.READ, _OP.WRITE, _OP.DESCRIBE, _OP.ALTER, _OP.DELETE, _OP.CREATE, _OP.ALL):
        yield f"ALL, but denied {operation.name}", (*_allow(_OP.ALL), *_deny(operation))


def _everywhere(*rules: Rule) -> tuple[Rule, ...]:
    return tuple(rule._replace(kind=kind) for kind in NAMED for rule in rules)


_READS: Final = _allow(_OP.READ, GROUP, TOPIC)
STATES: Final[Mapping[str, tuple[Rule, ...]]] = {
    "no ACL": (),
    **dict(_each_operation()),
    "DESCRIBE on everything": _allow(_OP.DESCRIBE),
    "READ on group and topic": _READS,
    "READ on the group, DESCRIBE on the topic": (*_allow(_OP.READ, GROUP), *_allow(_OP.DESCRIBE, TOPIC)),
    "DELETE on the group, READ on the topic": (*_allow(_OP.DELETE, GROUP), *_allow(_OP.READ, TOPIC)),
    "CREATE and DESCRIBE on the topic": (*_allow(_OP.CREATE, TOPIC), *_allow(_OP.DESCRIBE, TOPIC)),
    "DESCRIBE on the topic, CREATE on the cluster": (*_allow(_OP.DESCRIBE, TOPIC), *_allow(_OP.CREATE, CLUSTER)),
    "DELETE on the topic, denied DESCRIBE": (*_allow(_OP.DELETE, TOPIC), *_deny(_OP.DESCRIBE, TOPIC)),
    "ALL": _allow(_OP.ALL),
    "ALL by prefix": tuple(Rule(kind, name=name, is_prefix=True) for kind, name in _PREFIXES.items()),
    "ALL by a prefix as long as the name": _everywhere(Rule(GROUP, is_prefix=True)),
    "ALL by another prefix": _everywhere(Rule(GROUP, name="unlike", is_prefix=True)),
    "ALL on *": _everywhere(Rule(GROUP, name="*")),
    "READ on *": tuple(Rule(kind, _OP.READ, name="*") for kind in (GROUP, TOPIC)),
    "ALL on another name": _everywhere(Rule(GROUP, name="unlike")),
    **dict(_each_denial()),
    "ALL, but denied by prefix": (
        *_allow(_OP.ALL),
        *(Rule(kind, _OP.ALL, AclPermission.DENY, name, is_prefix=True) for kind, name in _PREFIXES.items()),
    ),
    "ALL, but denied on *": (*_allow(_OP.ALL), *_everywhere(Rule(GROUP, _OP.ALL, AclPermission.DENY, "*"))),
    "ALL on *, but denied on the name": _everywhere(Rule(GROUP, name="*"), Rule(GROUP, _OP.ALL, AclPermission.DENY)),
    "ALL, denied from elsewhere": (
        *_allow(_OP.ALL),
        *(rule._replace(host=ELSEWHERE) for rule in _deny(_OP.ALL)),
    ),
    "ALL, denied from here": (*_allow(_OP.ALL), *(rule._replace(host="here") for rule in _deny(_OP.ALL))),
    "ALL from here": tuple(rule._replace(host="here") for rule in _allow(_OP.ALL)),
    "ALL from elsewhere": tuple(rule._replace(host=ELSEWHERE) for rule in _allow(_OP.ALL)),
    "ALL for another principal": tuple(rule._replace(principal="User:other") for rule in _allow(_OP.ALL)),
    "READ for every user": tuple(rule._replace(principal="User:*") for rule in _READS),
}
