"""The authorizer: Kafka's StandardAuthorizer. A denial takes precedence over all permissions; without one, a single
permission suffices. Tokens have a role in place of bindings.

A repeated decision is one dictionary look-up: each principal at each host has a table of its decisions, all of which
are dropped when a binding changes.
"""

from collections.abc import Iterable, Iterator
from typing import Final
from weakref import WeakValueDictionary

from coordinator.accounts.acls import WILDCARD, Acl
from coordinator.accounts.permission import CLUSTER, GROUP, TOPIC, TRANSACTIONAL_ID
from coordinator.accounts.roles import PRINCIPAL_TYPE, Role, permits
from protocol.messages.acls import CLUSTER_NAME, AclOperation, AclPatternType, AclPermission, AclResourceType

ANY_USER: Final = "User:*"
_MAX_DECISIONS: Final = 100_000
_MAX_TEXT: Final = 4 << 20
"""Characters of the names in the decisions that are kept: clients choose names of any length."""
_TYPES: Final = {
    CLUSTER: AclResourceType.CLUSTER,
    GROUP: AclResourceType.GROUP,
    TOPIC: AclResourceType.TOPIC,
    TRANSACTIONAL_ID: AclResourceType.TRANSACTIONAL_ID,
}
_IMPLYING: Final = {
    AclOperation.DESCRIBE: frozenset(
        {
            AclOperation.DESCRIBE,
            AclOperation.READ,
            AclOperation.WRITE,
            AclOperation.DELETE,
            AclOperation.ALTER,
            AclOperation.ALL,
        }
    ),
    AclOperation.DESCRIBE_CONFIGS: frozenset(
        {AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER_CONFIGS, AclOperation.ALL}
    ),
}
"""Operations whose permission implies another one. A denial implies no other denial."""


class Decisions:
    """Decisions of one principal at one host."""

    __slots__ = ("__weakref__", "_authorizer", "_text", "epoch", "host", "known", "principal")

    def __init__(self, authorizer: "Authorizer", principal: str, host: str) -> None:
        self._authorizer = authorizer
        self.principal = principal
        self.host = host
        self.known: dict[tuple[str, str | bytes, AclOperation], bool] = {}
        """Decisions made since the last change; keys are as `Permission`."""
        self._text = 0
        self.epoch = 0
        """Number of changes."""

    def permits(self, kind: str, name: str, operation: AclOperation) -> bool:
        """Return whether the principal may do the operation."""
        key = (kind, name, operation)
        known = self.known.get(key)
        if known is None:
            if len(self.known) >= _MAX_DECISIONS or self._text > _MAX_TEXT:
                self.forget()
            self._text += len(name)
            known = self.known[key] = self._authorizer.decide(self.principal, self.host, kind, name, operation)
        return known

    def permits_on_any_topic(self, operation: AclOperation) -> bool:
        """Return whether there can be a topic on which the principal may do the operation."""
        return self._authorizer.decide_any(self.principal, self.host, TOPIC, operation)

    def forget(self) -> None:
        """Drop all decisions: bindings have changed, or clients have chosen too many names."""
        self.known.clear()
        self._text = 0
        self.epoch += 1


class Authorizer:
    """Bindings, indexed by resource. `super_users` may do everything. `is_on` false: all users may."""

    def __init__(
        self, *, is_on: bool = True, super_users: frozenset[str] = frozenset(), allow_if_no_acl: bool = False
    ) -> None:
        self.is_on = is_on
        self._super_users = super_users
        self._allow_if_no_acl = allow_if_no_acl
        self.acls: dict[Acl, None] = {}
        self._literal: dict[tuple[int, str], dict[Acl, None]] = {}
        self._prefixed: dict[tuple[int, str], dict[Acl, None]] = {}
        self._prefix_lengths: dict[int, int] = {}
        """Number of patterns by the length of their prefix."""
        self._roles: dict[str, Role] = {}
        """Roles of tokens, by principal."""
        self._views: WeakValueDictionary[tuple[str, str], Decisions] = WeakValueDictionary()
        """Decisions in use; connections hold references to them."""

    def of(self, principal: str, host: str) -> Decisions:
        """Return the decisions of the principal at the host."""
        view = self._views.get((principal, host))
        if view is None:
            view = self._views[principal, host] = Decisions(self, principal, host)
        return view

    def add(self, acl: Acl) -> None:
        """Add a binding."""
        if acl in self.acls:
            return
        self.acls[acl] = None
        key = (acl.resource_type, acl.name)
        if acl.pattern_type == AclPatternType.PREFIXED:
            if key not in self._prefixed:
                self._prefix_lengths[len(acl.name)] = self._prefix_lengths.get(len(acl.name), 0) + 1
            self._prefixed.setdefault(key, {})[acl] = None
        else:
            self._literal.setdefault(key, {})[acl] = None
        self._forget_decisions()

    def remove(self, acl: Acl) -> None:
        """Remove a binding; one that is not there is no error."""
        if acl not in self.acls:
            return
        del self.acls[acl]
        key = (acl.resource_type, acl.name)
        is_prefixed = acl.pattern_type == AclPatternType.PREFIXED
        index = self._prefixed if is_prefixed else self._literal
        del index[key][acl]
        if not index[key]:
            del index[key]
            if is_prefixed:
                self._prefix_lengths[len(acl.name)] -= 1
                if not self._prefix_lengths[len(acl.name)]:
                    del self._prefix_lengths[len(acl.name)]
        self._forget_decisions()

    def set_role(self, principal: str, role: Role | None) -> None:
        """Set a token's role, or remove it."""
        if role is None:
            self._roles.pop(principal, None)
        else:
            self._roles[principal] = role
        self._forget_decisions()

    def _forget_decisions(self) -> None:
        for view in self._views.values():
            view.forget()

    # ---------------------------------------------------------------------------------------------------- deciding

    def decide(self, principal: str, host: str, kind: str, name: str, operation: AclOperation) -> bool:
        """Decide from the bindings, without the decisions made before; for a token from its role, `is_on` or not."""
        if principal.startswith(PRINCIPAL_TYPE):
            role = self._roles.get(principal)
            return role is not None and permits(role, kind, operation)
        if not self.is_on or principal in self._super_users:
            return True
        implying = _IMPLYING.get(operation, {operation, AclOperation.ALL})
        is_allowed, is_known = False, False
        for acl in self._on_resource(_TYPES[kind], CLUSTER_NAME if kind == CLUSTER else name):
            is_known = True
            if acl.principal not in (principal, ANY_USER) or acl.host not in (host, WILDCARD):
                continue
            if acl.permission == AclPermission.DENY:
                if acl.operation in (operation, AclOperation.ALL):
                    return False
            elif acl.operation in implying:
                is_allowed = True
        return is_allowed or (not is_known and self._allow_if_no_acl)

    def _on_resource(self, kind: int, name: str) -> Iterator[Acl]:
        yield from self._literal.get((kind, name), ())
        if name != WILDCARD:
            yield from self._literal.get((kind, WILDCARD), ())
        for length in self._prefix_lengths:
            if length <= len(name):
                yield from self._prefixed.get((kind, name[:length]), ())

    def decide_any(self, principal: str, host: str, kind: str, operation: AclOperation) -> bool:
        """Decide whether the operation is permitted on some resource of the type (KIP-679)."""
        # A name that no resource has: the decision is true for super users, and for users who are allowed everything
        # without a binding.
        if self.decide(principal, host, kind, "hardcode", operation):
            return True
        if principal.startswith(PRINCIPAL_TYPE):
            return False
        own = [
            acl
            for acl in self.acls
            if acl.resource_type == _TYPES[kind]
            and acl.principal in (principal, ANY_USER)
            and acl.host in (host, WILDCARD)
            and acl.operation in (operation, AclOperation.ALL)
        ]
        denied = [acl for acl in own if acl.permission == AclPermission.DENY]
        if any(acl.name == WILDCARD and acl.pattern_type == AclPatternType.LITERAL for acl in denied):
            return False
        return any(acl.permission == AclPermission.ALLOW and not _is_dominated(acl, denied) for acl in own)


def _is_dominated(allowed: Acl, denied: Iterable[Acl]) -> bool:
    """Return whether a denial covers everything that the permission's pattern matches."""
    if allowed.pattern_type == AclPatternType.LITERAL and allowed.name == WILDCARD:
        return False
    return any(
        allowed.name.startswith(acl.name)
        if acl.pattern_type == AclPatternType.PREFIXED
        else acl.pattern_type == allowed.pattern_type and acl.name == allowed.name
        for acl in denied
    )
