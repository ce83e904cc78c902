"""The administrator of a world: creates and deletes the users, tokens and ACLs of the others."""

import hashlib
from typing import Any, NamedTuple

import msgspec

from bench.scram import NUMBER
from coordinator.accounts.acls import Acl
from protocol.access_token import hash_of, token_of
from protocol.messages import Message
from protocol.messages.acls import (
    AclBindingFilter,
    AclOperation,
    AclPatternType,
    AclPermission,
    AclResourceType,
    AlterUserScramCredentials,
    CreateAcls,
    DeleteAcls,
    ScramDeletion,
)
from protocol.messages.tokens import CreateToken, DeleteToken
from tests.simulation.accounts.known import key_of
from tests.simulation.accounts.people import (
    ALLOW,
    GUEST_RULE,
    LITERAL,
    USERS,
    Person,
    codes_of,
    creation,
    credential,
)

TOKENS = 3
_RULES = 6
_TEN_DAYS_MS = 864_000_000


class TokenChange(NamedTuple):
    """An access token by its name; a deleted one may be created again."""

    name: str
    version: int

    @property
    def text(self) -> str:
        return token_of(hashlib.sha256(f"{self.name} {self.version}".encode()).digest())

    @property
    def token_hash(self) -> bytes:
        return hash_of(self.text)


def _removal(acl: Acl) -> AclBindingFilter:
    kind, name, pattern, principal, host, operation, permission = acl
    return AclBindingFilter(kind, name, pattern, principal, host, operation, permission)


class Administrator(Person):
    """Creates and deletes users and tokens, changes passwords, grants and revokes. Stays logged in."""

    renews = True

    def act(self) -> None:
        chosen = self._random.random()
        if chosen < 0.35:
            self._change_user(f"user-{self._random.randrange(USERS)}")
        elif chosen < 0.7:
            self._change_token(f"token-{self._random.randrange(TOKENS)}")
        else:
            guest = self._random.random() < 0.4
            self._change_rule(GUEST_RULE if guest else _rule(self._random.randrange(_RULES)))

    def _change_user(self, user: str) -> None:
        known, key = self._world.known, ("user", user)
        if not known.is_certain(key):
            return
        if known.value(key) is not None and self._random.random() < 0.3:
            self._change(key, None, AlterUserScramCredentials((ScramDeletion(user, NUMBER),)), "users deleted")
            return
        chosen = credential(user, known.changes(key) + 1)
        self._change(key, chosen.stored_key, AlterUserScramCredentials((), (chosen.upsertion,)), "passwords set")

    def _change_token(self, name: str) -> None:
        known, key = self._world.known, ("token", name)
        if not known.is_certain(key):
            return
        if known.value(key) is not None:
            self._change(key, None, DeleteToken(name), "tokens deleted")
            return
        made = TokenChange(name, known.changes(key) + 1)
        self._change(key, made.token_hash, CreateToken(name, "view", made.token_hash, _TEN_DAYS_MS), "tokens made")

    def _change_rule(self, acl: Acl) -> None:
        known, key = self._world.known, key_of(acl)
        if not known.is_certain(key):
            return
        if known.value(key):
            self._change(key, None, DeleteAcls((_removal(acl),)), "ACLs revoked")
        else:
            self._change(key, True, CreateAcls((creation(acl),)), "ACLs granted")

    def _change(self, key: Any, value: Any, message: Message, mark: str) -> None:
        if not self.connect():
            return
        known, seen = self._world.known, self._world.seen
        before = known.value(key)
        known.asked(key, value)

        def heard(reply: Any) -> None:
            if reply is None:
                known.unanswered(key)
                seen.add("changes of accounts without an answer")
            elif any(codes_of(msgspec.to_builtins(reply))):
                known.answered(key, before)
                seen.add("changes of accounts refused")
            else:
                known.answered(key, value)
                seen.add(mark)

        self.ask(message, heard)


def _rule(number: int) -> Acl:
    pattern = AclPatternType.PREFIXED if number % 2 else LITERAL
    permission = AclPermission.DENY if number % 3 == 0 else ALLOW
    return Acl(AclResourceType.TOPIC, f"team-{number}", pattern, "User:guest", "*", AclOperation.WRITE, permission)
