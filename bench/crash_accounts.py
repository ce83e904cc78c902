"""Accounts under kills: an administrator that makes users and ACLs, a user without rights, and what must be there after
each start."""

import threading
import time
from collections.abc import Iterator
from typing import Any, Final

from bench import scram
from bench.processes import Daemon
from bench.wire import Refusal, Wire

ROOT: Final = "root"
SERVICE: Final = "service"
_PASSWORD: Final = "the first secret"
_INTRUDER: Final = "intruder"
_USERS: Final = 8
_RULES: Final = 8
_VERSIONS: Final = 10_000
_GROUP, _TOPIC, _READ, _ALL, _ALLOW, _LITERAL = 3, 2, 3, 2, 3, 3
_DENIED: Final = {29, 30, 31}
"""Refusals for want of an ACL on a topic, a group, the cluster."""
_PATIENCE_S: Final = 0.01
_RETRY: Final = {14, 15, 16}

SETTINGS: Final = {
    "sasl.enabled.mechanisms": f"{scram.MECHANISM},PLAIN",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": f"User:{ROOT}",
    "initial.admin": f"{ROOT}:{_PASSWORD}",
}
"""Settings of a daemon that wants logins. The administrator is made by the first start."""
FORBIDDEN_OFFSET: Final = 10**9

Key = tuple[str, str]
"""`("user", name)`: its iterations, which tell one password from the next; `("acl", group)`: 1. 0: it is not there."""


def open_wire(address: tuple[str, int], user: str = SERVICE) -> Wire:
    """Connect and log in. Raises OSError if the daemon was killed."""
    wire = Wire(address)
    try:
        wire.log_in(user, scram.salted(user), f"{user}{time.monotonic_ns()}")
    except BaseException:
        wire.close()
        raise
    return wire


def make_first_users(daemon: Daemon) -> None:
    """Make the user of the clients with its ACLs, and one without any."""
    with Wire(daemon.native) as wire:
        wire.call("Login", mechanism="PLAIN", auth_bytes=f"\0{ROOT}\0{_PASSWORD}".encode())
        made = [_upsertion(user, scram.ITERATIONS) for user in (SERVICE, _INTRUDER)]
        _must(wire.call("AlterUserScramCredentials", deletions=[], upsertions=made))
        rules = [_creation(kind, "*", SERVICE, _ALL) for kind in (_GROUP, _TOPIC)]
        rules.append(_creation(4, "kafka-cluster", SERVICE, _ALL))
        _must(wire.call("CreateAcls", creations=rules))


def _upsertion(user: str, iterations: int) -> dict[str, Any]:
    secret = {"salt": scram.SALT, "salted_password": scram.salted(user)}
    return {"name": user, "mechanism": scram.NUMBER, "iterations": iterations, **secret}


def _creation(kind: int, name: str, user: str, operation: int) -> dict[str, Any]:
    principal = {"principal": f"User:{user}", "host": "*", "operation": operation, "permission_type": _ALLOW}
    return {"resource_type": kind, "resource_name": name, "resource_pattern_type": _LITERAL, **principal}


def codes(value: Any) -> Iterator[int]:
    """Yield all error codes of a reply, nested ones too."""
    if isinstance(value, dict):
        if "error_code" in value:
            yield value["error_code"]
        for inner in value.values():
            yield from codes(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from codes(inner)


def _must(reply: Any) -> None:
    assert not any(codes(reply)), reply


class Administrator(threading.Thread):
    """Sets passwords, deletes users, grants and revokes, one after the other, until the connection breaks."""

    def __init__(self, address: tuple[str, int], acknowledged: dict[Key, int], turn: int) -> None:
        super().__init__(daemon=True)
        self.address = address
        self.acknowledged = dict(acknowledged)
        self.under_way: tuple[Key, int] | None = None
        self.turn = turn
        self.count = 0
        self.failed: list[str] = []

    def run(self) -> None:
        try:
            with Wire(self.address) as wire:
                wire.call("Login", mechanism="PLAIN", auth_bytes=f"\0{ROOT}\0{_PASSWORD}".encode())
                while True:
                    self._change(wire)
        except OSError:
            pass  # the daemon was killed
        except Refusal as refusal:
            self.failed.append(f"the administrator was refused: {refusal}")

    def _change(self, wire: Wire) -> None:
        self.turn += 1
        number = self.turn // 2
        if self.turn % 2:
            key, value = ("user", f"user-{number % _USERS}"), scram.ITERATIONS + number % _VERSIONS
            if number % 5 == 0 and self.acknowledged.get(key):
                value = 0
        else:
            key = "acl", f"group-{number % _RULES}"
            value = 1 - self.acknowledged.get(key, 0)
        self.under_way = key, value
        if set(codes(self._ask(wire, key, value))) <= {0}:
            self.acknowledged[key] = value
            self.under_way = None
            self.count += 1
        else:
            time.sleep(_PATIENCE_S)

    def _ask(self, wire: Wire, key: Key, value: int) -> Any:
        kind, name = key
        if kind == "user":
            gone = [] if value else [{"name": name, "mechanism": scram.NUMBER}]
            made = [_upsertion(name, value)] if value else []
            return wire.call("AlterUserScramCredentials", deletions=gone, upsertions=made)
        if value:
            return wire.call("CreateAcls", creations=[_creation(_GROUP, name, "guest", _READ)])
        condition = {"resource_type_filter": _GROUP, "resource_name_filter": name, "pattern_type_filter": _LITERAL}
        return wire.call("DeleteAcls", filters=[condition])


class Intruder(threading.Thread):
    """Has a password and no ACL: commits that must be refused, until the connection breaks."""

    def __init__(self, address: tuple[str, int], groups: list[str], topic: str) -> None:
        super().__init__(daemon=True)
        self.address = address
        self.groups = groups
        self.topic = topic
        self.refused = 0
        self.failed: list[str] = []

    def run(self) -> None:
        try:
            with open_wire(self.address, _INTRUDER) as wire:
                while True:
                    self._commit(wire, self.groups[self.refused % len(self.groups)])
        except OSError:
            pass  # the daemon was killed
        except Refusal as refusal:
            self.failed.append(f"a user was not let in: {refusal}")

    def _commit(self, wire: Wire, group_id: str) -> None:
        entries = [{"partition_index": 0, "committed_offset": FORBIDDEN_OFFSET}]
        try:
            reply = wire.call("OffsetCommit", group_id=group_id, topics=[{"name": self.topic, "partitions": entries}])
            found = set(codes(reply)) - {0}
        except Refusal as refusal:
            found = {refusal.code}
        if not found <= _DENIED | _RETRY or not found:
            self.failed.append(f"{group_id}: a commit without an ACL was answered {sorted(found)}")
        self.refused += 1
        time.sleep(_PATIENCE_S)


def found_in(daemon: Daemon) -> dict[Key, int]:
    """Return the users and ACLs that the daemon tells of, but for the first ones."""
    with Wire(daemon.native) as wire:
        wire.call("Login", mechanism="PLAIN", auth_bytes=f"\0{ROOT}\0{_PASSWORD}".encode())
        users = wire.call("DescribeUserScramCredentials", users=[])["results"]
        rules = wire.call("DescribeAcls", resource_type_filter=1, pattern_type_filter=1)["resources"]
    found = {("user", one["user"]): one["credential_infos"][0]["iterations"] for one in users}
    bound = [one["resource_name"] for one in rules for acl in one["acls"] if acl["principal"] == "User:guest"]
    found |= {("acl", name): 1 for name in bound}
    return {key: value for key, value in found.items() if key[1] not in (ROOT, SERVICE, _INTRUDER)}


def lost(found: dict[Key, int], acknowledged: dict[Key, int], under_way: tuple[Key, int] | None) -> list[str]:
    """Each user and ACL must be what was acknowledged last, or what was under way when the daemon died."""
    sentences = []
    for key in sorted(found.keys() | acknowledged.keys()):
        possible = {acknowledged.get(key, 0)} | ({under_way[1]} if under_way and under_way[0] == key else set())
        if found.get(key, 0) not in possible:
            sentences.append(f"{key}: {found.get(key, 0)} is there, {sorted(possible)} was acknowledged or under way")
    return sentences
