"""States that accounts may be in after the requests so far: the acknowledged one, or one whose request has no answer
yet. A node in any other state has lost a write, undone one, or carried out a request that it refused."""

from collections.abc import Hashable, Mapping
from typing import Any

from coordinator.accounts.accounts import Accounts
from coordinator.accounts.acls import Acl
from coordinator.accounts.scram import ScramMechanism
from tests.simulation.errors import Broken

Key = tuple[str, Hashable]
"""`("user", name)` with its stored key as value, `("token", name)` with its hash, or `("acl", binding)` with True."""


class Known:
    """Possible values by key. `uncertain`: a request was not answered, and may be carried out as long as the node
    runs."""

    def __init__(self) -> None:
        self._possible: dict[Key, set[Any]] = {}
        self._uncertain: set[Key] = set()
        self._changes: dict[Key, int] = {}

    def asked(self, key: Key, value: Any) -> None:
        """Note that a request for this value is sent."""
        self._possible.setdefault(key, {None}).add(value)
        self._changes[key] = self.changes(key) + 1

    def answered(self, key: Key, value: Any) -> None:
        """Note that the request was acknowledged; or refused, and `value` is the one from before."""
        if key not in self._uncertain:
            self._possible[key] = {value}

    def unanswered(self, key: Key) -> None:
        """Note that no answer to the request will arrive."""
        self._uncertain.add(key)

    def changes(self, key: Key) -> int:
        """Return the number of changes requested."""
        return self._changes.get(key, 0)

    def is_certain(self, key: Key) -> bool:
        """Return true if only one value is possible."""
        return key not in self._uncertain and len(self._possible.get(key, {None})) == 1

    def value(self, key: Key) -> Any:
        """Return the value of a certain key."""
        (value,) = self._possible.get(key, {None})
        return value

    def compare(self, found: Mapping[Key, Any]) -> None:
        """Raise Broken unless everything found was requested, and everything acknowledged was found."""
        for key in self._possible.keys() | found.keys():
            possible = self._possible.get(key, {None})
            if found.get(key) not in possible:
                raise Broken(f"{key} is {found.get(key)!r}; {possible!r} is acknowledged or asked for")

    def recovered(self, found: Mapping[Key, Any]) -> None:
        """Compare after a start. No request is in flight, and everything found is durable."""
        self.compare(found)
        self._uncertain.clear()
        self._possible = {key: {value} for key, value in found.items()}


def found_in(accounts: Accounts) -> dict[Key, Any]:
    """Return the values that a node has."""
    mechanism = ScramMechanism.SCRAM_SHA_256
    users: dict[Key, Any] = {("user", name): known[mechanism].stored_key for name, known in accounts.users.items()}
    tokens: dict[Key, Any] = {("token", name): known.token_hash for name, known in accounts.tokens.by_name.items()}
    return users | tokens | {("acl", acl): True for acl in accounts.authorizer.acls}


def key_of(acl: Acl) -> Key:
    return "acl", acl
