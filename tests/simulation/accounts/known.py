"""States that accounts may be in after all that was asked for: the acknowledged one, or one whose request has no
answer yet. A node that has anything else has lost a write, taken one back, or carried out what it refused."""

from collections.abc import Hashable, Mapping
from typing import Any

from coordinator.accounts.accounts import Accounts
from coordinator.accounts.acls import Acl
from coordinator.accounts.scram import ScramMechanism
from tests.simulation.errors import Broken

Key = tuple[str, Hashable]
"""`("user", name)` with its stored key as value, `("token", name)` with its hash, or `("acl", binding)` with True."""


class Known:
    """Possible values by key. `uncertain`: a request was not answered, and may be carried out until the node ends."""

    def __init__(self) -> None:
        self._possible: dict[Key, set[Any]] = {}
        self._uncertain: set[Key] = set()
        self._changes: dict[Key, int] = {}

    def asked(self, key: Key, value: Any) -> None:
        """A request for this value leaves."""
        self._possible.setdefault(key, {None}).add(value)
        self._changes[key] = self.changes(key) + 1

    def answered(self, key: Key, value: Any) -> None:
        """Acknowledged; or refused, and `value` is that from before."""
        if key not in self._uncertain:
            self._possible[key] = {value}

    def unanswered(self, key: Key) -> None:
        """Nobody will hear what became of it."""
        self._uncertain.add(key)

    def changes(self, key: Key) -> int:
        """Return the number of changes asked for."""
        return self._changes.get(key, 0)

    def is_certain(self, key: Key) -> bool:
        """Return true if there is but one value."""
        return key not in self._uncertain and len(self._possible.get(key, {None})) == 1

    def value(self, key: Key) -> Any:
        """Return the value of a certain key."""
        (value,) = self._possible.get(key, {None})
        return value

    def compare(self, found: Mapping[Key, Any]) -> None:
        """Raise Broken unless all that is there was asked for, and all that was acknowledged is there."""
        for key in self._possible.keys() | found.keys():
            possible = self._possible.get(key, {None})
            if found.get(key) not in possible:
                raise Broken(f"{key} is {found.get(key)!r}; {possible!r} is acknowledged or asked for")

    def recovered(self, found: Mapping[Key, Any]) -> None:
        """Compare after a start. No request is on its way, and what is there is durable."""
        self.compare(found)
        self._uncertain.clear()
        self._possible = {key: {value} for key, value in found.items()}


def found_in(accounts: Accounts) -> dict[Key, Any]:
    """Return what a node has."""
    mechanism = ScramMechanism.SCRAM_SHA_256
    users: dict[Key, Any] = {("user", name): known[mechanism].stored_key for name, known in accounts.users.items()}
    tokens: dict[Key, Any] = {("token", name): known.token_hash for name, known in accounts.tokens.by_name.items()}
    return users | tokens | {("acl", acl): True for acl in accounts.authorizer.acls}


def key_of(acl: Acl) -> Key:
    return "acl", acl
