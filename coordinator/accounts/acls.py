"""Access control lists: bindings, filters, and the checks of a new one (KIP-140, KIP-290)."""

from enum import IntEnum
from typing import Final, NamedTuple

from protocol.messages.acls import (
    CLUSTER_NAME,
    AclCreation,
    AclOperation,
    AclPatternType,
    AclPermission,
    AclResourceType,
)

WILDCARD: Final = "*"
_MAX_NAME: Final = 8_000


class Acl(NamedTuple):
    """One binding: a principal at a host may, or may not, do the operation on resources that the pattern matches."""

    resource_type: int
    name: str
    pattern_type: int
    principal: str
    host: str
    operation: int
    permission: int

    @classmethod
    def of(cls, creation: AclCreation) -> "Acl":
        """Make the binding that a CreateAcls requests, without checks."""
        return cls(
            creation.resource_type,
            creation.resource_name,
            creation.resource_pattern_type,
            creation.principal,
            creation.host,
            creation.operation,
            creation.permission_type,
        )


class AclFilter(NamedTuple):
    """Condition on bindings; None and ANY match everything."""

    resource_type: int = AclResourceType.ANY
    name: str | None = None
    pattern_type: int = AclPatternType.ANY
    principal: str | None = None
    host: str | None = None
    operation: int = AclOperation.ANY
    permission: int = AclPermission.ANY

    def matches(self, acl: Acl) -> bool:
        """Return whether the binding satisfies every condition."""
        return (
            self.resource_type in (AclResourceType.ANY, acl.resource_type)
            and self.principal in (None, acl.principal)
            and self.host in (None, acl.host)
            and self.operation in (AclOperation.ANY, acl.operation)
            and self.permission in (AclPermission.ANY, acl.permission)
            and self._matches_pattern(acl)
        )

    def _matches_pattern(self, acl: Acl) -> bool:
        if self.pattern_type in (AclPatternType.LITERAL, AclPatternType.PREFIXED) and (
            self.pattern_type != acl.pattern_type
        ):
            return False
        if self.name is None:
            return True
        if self.pattern_type != AclPatternType.MATCH:
            return self.name == acl.name
        if acl.pattern_type == AclPatternType.LITERAL:
            return acl.name in (self.name, WILDCARD)
        return self.name.startswith(acl.name)


def problem_of(acl: Acl) -> str | None:
    """Return the error message for a new binding, in Kafka's words; None if it is valid."""
    if acl.resource_type not in _CREATABLE_TYPES:
        return f"Invalid resourceType {_name(AclResourceType, acl.resource_type)}"
    if acl.pattern_type not in (AclPatternType.LITERAL, AclPatternType.PREFIXED):
        return f"Invalid patternType {_name(AclPatternType, acl.pattern_type)}"
    if acl.operation not in _CREATABLE_OPERATIONS:
        return f"Invalid operation {_name(AclOperation, acl.operation)}"
    if acl.permission not in (AclPermission.DENY, AclPermission.ALLOW):
        return f"Invalid permissionType {_name(AclPermission, acl.permission)}"
    if not acl.name:
        return "Resource name should not be empty"
    if acl.resource_type == AclResourceType.CLUSTER and acl.name != CLUSTER_NAME:
        return f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}"
    return _problem_of_texts(acl)


def _problem_of_texts(acl: Acl) -> str | None:
    kind, colon, _name_of_it = acl.principal.partition(":")
    if not colon or not kind:
        return f"Could not parse principal from `{acl.principal[:200]}` (no colon is present separating the principal type from the principal name)"  # noqa: E501 - Kafka's sentence
    if any(len(text) > _MAX_NAME for text in (acl.name, acl.principal, acl.host)):
        return f"names of more than {_MAX_NAME} characters are not allowed"
    return None if acl.host else "Host should not be empty"


_CREATABLE_TYPES: Final = frozenset(AclResourceType) - {AclResourceType.ANY}
_CREATABLE_OPERATIONS: Final = frozenset(AclOperation) - {AclOperation.ANY}


def _name(kind: type[IntEnum], code: int) -> str:
    return kind(code).name if code in kind._value2member_map_ else "UNKNOWN"
