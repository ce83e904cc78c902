"""Users of a world that are not members: a guest whose access is granted and revoked, a user without any, and users
that only log in."""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from functools import cache
from random import Random
from typing import Any, NamedTuple, Protocol

import msgspec

from bench.scram import ITERATIONS, NUMBER, SALT
from coordinator.accounts.acls import Acl
from coordinator.accounts.scram import ScramMechanism, credential_of
from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.messages.acls import (
    AclCreation,
    AclOperation,
    AclPatternType,
    AclPermission,
    AclResourceType,
    AlterUserScramCredentials,
    CreateAcls,
    ScramUpsertion,
)
from protocol.messages.groups import DeleteGroups, JoinGroup, JoinProtocol, LeaveGroup, LeavingMember
from protocol.messages.offsets import OffsetCommit, OffsetCommitPartition, OffsetCommitTopic
from protocol.messages.topics import CreatableTopic, CreateTopics
from protocol.native.client import NativeAnswer
from tests.simulation.accounts.known import Known, key_of
from tests.simulation.accounts.login import Exchange, OneMessage, Scram, SimLogin
from tests.simulation.errors import Broken
from tests.simulation.faults import Seen
from tests.simulation.network import Clock, Link
from tests.simulation.wires import NATIVE

FORBIDDEN_OFFSET = 10**9
GUESTS, FORBIDDEN = "guests", "forbidden"
_PATIENCE_MS = 20_000
USERS = 4
_DENIALS = frozenset(
    {
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    }
)
LITERAL, ALLOW = AclPatternType.LITERAL, AclPermission.ALLOW
GUEST_RULE = Acl(AclResourceType.GROUP, GUESTS, LITERAL, "User:guest", "*", AclOperation.READ, ALLOW)


class Told(Protocol):
    """The part of the world that its users need."""

    known: Known
    seen: Seen

    @property
    def is_quiet(self) -> bool: ...

    def open_link(self, who: Any, received: Callable[[bytes], None], lost: Callable[[], None]) -> Link | None: ...

    @property
    def stalled_ms(self) -> int:
        """Return the time by which the daemon's clock is behind."""

    @property
    def wall_ms(self) -> int:
        """Wall time of the daemon, and of an identity provider."""

    def show_token(self, text: str, host: str, heard: Callable[[Any], None]) -> None:
        """Log in over HTTP."""

    def members_of(self, random: Random) -> tuple[str, str]:
        """Return a group and the id of a member of it."""


class Credential(NamedTuple):
    """A user, a password, and the salted password."""

    user: str
    password: str
    secret: bytes

    @property
    def stored_key(self) -> bytes:
        return credential_of(ScramMechanism.SCRAM_SHA_256, SALT, self.secret, ITERATIONS).stored_key

    @property
    def upsertion(self) -> ScramUpsertion:
        return ScramUpsertion(self.user, NUMBER, ITERATIONS, SALT, self.secret)

    def scram(self, nonce: str) -> Exchange:
        return Scram(self.user, self.secret, nonce)

    def plain(self) -> Exchange:
        return OneMessage("PLAIN", f"\0{self.user}\0{self.password}".encode())


@cache
def credential(user: str, version: int = 0) -> Credential:
    password = f"{user} {version}"
    return Credential(user, password, hashlib.pbkdf2_hmac("sha256", password.encode(), SALT, ITERATIONS))


def creation(acl: Acl) -> AclCreation:
    kind, name, pattern, principal, host, operation, permission = acl
    return AclCreation(kind, name, principal, host, operation, permission, pattern)


def codes_of(value: Any) -> Iterator[ErrorCode]:
    """Yield all error codes of a reply, nested ones too."""
    if isinstance(value, dict):
        if "error_code" in value:
            yield ErrorCode(value["error_code"])
        for inner in value.values():
            yield from codes_of(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from codes_of(inner)


class Person(ABC):
    """A native client that sends one request after the other, about every `every_ms`."""

    dialect = NATIVE
    renews = False
    """True if it logs in again before its login expires."""

    def __init__(self, credential: Credential, host: str, world: Told, clock: Clock, random: Random) -> None:
        self.credential, self.host = credential, host
        self.link: Link | None = None
        self._world, self._clock, self._random = world, clock, random
        self._client = NATIVE.connect(credential.user)
        self._heard: Callable[[Any], None] | None = None
        self._asked = self._asked_ms = 0
        self.is_in = False
        self.login: SimLogin | None = None
        """Login of its connection."""
        self._expires_ms = self._renewed_ms = 0
        """Times of the daemon's clock, or later ones; 0: the login does not end."""
        self._later()

    def _later(self) -> None:
        self._clock.after(self._random.randrange(100, 1_500), self._act)

    def _act(self) -> None:
        if not self._world.is_quiet:
            self._later()
            if self._heard is None:
                self._renew()
                self.act()

    @abstractmethod
    def act(self) -> None:
        """Send a request."""

    def exchange(self, nonce: str) -> Exchange:
        """Return a login."""
        return self.credential.scram(nonce)

    def login_ended(self, is_in: bool) -> None:
        """Called after each login."""
        if self._renewed_ms and not is_in:
            raise Broken(f"{self.credential.user} was logged in, and cannot log in again")
        self._world.seen.add("logins renewed", bool(self._renewed_ms))
        self.is_in = is_in
        lifetime_ms = 0 if self.login is None else self.login.lifetime_ms
        self._expires_ms = self._daemons_ms(self._clock.now_ms) + lifetime_ms if lifetime_ms else 0

    def _daemons_ms(self, at_ms: int) -> int:
        """Time on the daemon's clock, or an earlier one if it has stood still since."""
        return at_ms - self._world.stalled_ms

    def _renew(self) -> None:
        login = self.login
        if not self.renews or self.link is None or login is None or not self._expires_ms:
            return
        now_ms = self._clock.now_ms
        if self._daemons_ms(now_ms) > self._expires_ms - login.lifetime_ms // 2:
            self._expires_ms, self._renewed_ms = 0, now_ms
            login.renew(self.exchange(f"again{now_ms}"))

    def connect(self) -> bool:
        """Return whether there is a connection, or can be one."""
        if self.link is None:
            self._client = NATIVE.connect(self.credential.user)
            self.link = self._world.open_link(self, self._received, self.lost)
        return self.link is not None

    def ask(self, message: Message, heard: Callable[[Any], None]) -> None:
        """Send the request. `heard` takes the reply, or None if none will arrive."""
        if self.link is None and not self.connect():
            return
        assert self.link is not None
        self._heard, self._asked_ms = heard, self._clock.now_ms
        self._asked += 1
        number = self._asked
        self.link.to_daemon.send(self._client.encode_request(message)[1])
        self._clock.after(_PATIENCE_MS, lambda: self.hang_up() if number == self._asked and self._heard else None)

    def _received(self, data: bytes) -> None:
        for item in self._client.receive_data(data):
            if isinstance(item, NativeAnswer) and self._heard is not None:
                if self._is_expired():
                    raise Broken(f"{self.credential.user} is served after its login has expired")
                heard, self._heard = self._heard, None
                heard(item.reply)

    def _is_expired(self) -> bool:
        """Return true if its login had ended when it asked."""
        return 0 < self._expires_ms <= self._daemons_ms(self._asked_ms)

    def hang_up(self) -> None:
        if self.link is not None:
            self.link.close_by_client()
            self.lost()

    def lost(self) -> None:
        self._world.seen.add("expired logins closed", self._heard is not None and self._is_expired())
        self.link = self.login = None
        self._expires_ms = self._renewed_ms = 0
        heard, self._heard = self._heard, None
        if heard is not None:
            heard(None)


class Guest(Person):
    """Commits to a group for which access is granted and revoked."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._offset = 0
        self.refused: set[int] = set()

    def act(self) -> None:
        known, key = self._world.known, key_of(GUEST_RULE)
        if self._random.random() < 0.3:
            self.ask(_commit(FORBIDDEN, FORBIDDEN_OFFSET), self._heard_of_another_group)
            return
        self._offset += 1
        offset, changes, is_certain = self._offset, known.changes(key), known.is_certain(key)

        def heard(reply: Any) -> None:
            if reply is None:
                return
            is_refused = ErrorCode.GROUP_AUTHORIZATION_FAILED in codes_of(msgspec.to_builtins(reply))
            if is_refused:
                self.refused.add(offset)
            if is_certain and changes == known.changes(key) and is_refused is (known.value(key) is True):
                raise Broken(f"a commit is {'refused' if is_refused else 'taken'}, and the ACL is {known.value(key)}")
            self._world.seen.add("commits without an ACL" if is_refused else "commits with an ACL")

        self.ask(_commit(GUESTS, offset), heard)

    def _heard_of_another_group(self, reply: Any) -> None:
        if reply is not None and ErrorCode.GROUP_AUTHORIZATION_FAILED not in codes_of(msgspec.to_builtins(reply)):
            raise Broken(f"a commit to a group that the guest may not read is answered {reply}")


class Intruder(Person):
    """Has a password and no ACL: none of its requests may have an effect."""

    def act(self) -> None:
        group_id, member_id = self._world.members_of(self._random)
        protocols = (JoinProtocol("range", b""),)
        evil = Acl(AclResourceType.GROUP, "*", LITERAL, "User:intruder", "*", AclOperation.ALL, ALLOW)
        message = self._random.choice(
            (
                _commit(group_id, FORBIDDEN_OFFSET),
                LeaveGroup(group_id, (LeavingMember(member_id),)),
                DeleteGroups((group_id,)),
                JoinGroup(group_id, 6_000, "", "consumer", protocols, 6_000, wants_member_id_first=False),
                CreateTopics((CreatableTopic(FORBIDDEN, 1),)),
                CreateAcls((creation(evil),)),
                AlterUserScramCredentials((), (credential("admin", 666).upsertion,)),
            )
        )

        def heard(reply: Any) -> None:
            if reply is None:
                return
            if _DENIALS.isdisjoint(codes_of(msgspec.to_builtins(reply))):
                raise Broken(f"{message} of a user without an ACL is answered {reply}")
            self._world.seen.add("requests without an ACL")

        self.ask(message, heard)


def _commit(group_id: str, offset: int) -> OffsetCommit:
    return OffsetCommit(group_id, (OffsetCommitTopic("alpha", (OffsetCommitPartition(0, offset),)),))


class Traveller(Person):
    """Logs in as one of the users and disconnects: `is_right`: by the acknowledged password, else by another."""

    def __init__(self, *given: Any, is_right: bool) -> None:
        super().__init__(*given)
        self._is_right = is_right
        self._begun: tuple[Any, int] | None = None

    def exchange(self, nonce: str) -> Exchange:
        return self.credential.plain() if self._random.random() < 0.5 else self.credential.scram(nonce)

    def act(self) -> None:
        self.hang_up()
        self._begun = None
        known, user = self._world.known, f"user-{self._random.randrange(USERS)}"
        key = "user", user
        if not known.is_certain(key) or known.value(key) is None:
            return
        changes = known.changes(key)
        versions = (credential(user, number) for number in range(changes, -1, -1))
        right = next(one for one in versions if one.stored_key == known.value(key))
        self.credential = right if self._is_right else credential(user, changes + 666)
        self._begun = key, changes
        self.connect()

    def login_ended(self, is_in: bool) -> None:
        super().login_ended(is_in)
        begun, self._begun = self._begun, None
        if begun is None or self._world.known.changes(begun[0]) != begun[1]:
            return
        if is_in is not self._is_right:
            raise Broken(f"{begun[0]} is {'let in' if is_in else 'refused'} with a password that is {self._is_right}")
        self._world.seen.add("logins with the right password" if is_in else "logins with a wrong password")
