"""Roles of tokens: fixed permissions, whatever access control lists say."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from coordinator.accounts.permission import CLUSTER, GROUP, TOPIC, TRANSACTIONAL_ID
from protocol.messages.acls import AclOperation


class Role(StrEnum):
    """Roles, by their names on the wire (`protocol.messages.tokens.ROLES`)."""

    VIEW = "view"
    OPERATE = "operate"
    ADMIN = "admin"


PRINCIPAL_TYPE: Final = "Token:"
"""Type of the principals of tokens. No login yields a user of this type, and no access control list for `User:*`
matches it."""

_SEES: Final = frozenset({AclOperation.DESCRIBE, AclOperation.DESCRIBE_CONFIGS})
_VIEW: Final = dict.fromkeys((CLUSTER, GROUP, TOPIC, TRANSACTIONAL_ID), _SEES)
_PERMITTED: Final[Mapping[Role, Mapping[str, frozenset[AclOperation]]]] = {
    Role.VIEW: _VIEW,
    Role.OPERATE: {
        **_VIEW,
        GROUP: _SEES | {AclOperation.READ, AclOperation.DELETE, AclOperation.ALTER_CONFIGS},
        TOPIC: _SEES | {AclOperation.READ},
    },
    Role.ADMIN: dict.fromkeys(_VIEW, frozenset(AclOperation)),
}


def permits(role: Role, kind: str, operation: AclOperation) -> bool:
    """Return whether the role may do the operation on all resources of the kind."""
    return operation in _PERMITTED[role][kind]
