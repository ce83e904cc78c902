"""A gateway whose native clients log in at its broker, in memory. The broker knows users by their passwords, and each
has the rights that a test gives it."""

from struct import unpack_from
from typing import Any

from coordinator.accounts.sasl import Challenge, LoggedIn, SaslLogin
from coordinator.accounts.scram import LoginRejected
from coordinator.config.keys import Address, Addresses, Secret, UpstreamOffsets
from coordinator.gateway.effects import Forward
from coordinator.gateway.events import UpstreamLost
from protocol.apis import WIRE_APIS
from protocol.errors import ErrorCode
from protocol.kafka.login import SaslClient
from protocol.kafka.version_codec import VersionCodec
from protocol.messages import Message
from protocol.messages.acls import AclOperation
from protocol.messages.node import (
    Login,
    LoginReply,
    SaslAuthenticate,
    SaslAuthenticateReply,
    SaslHandshake,
    SaslHandshakeReply,
)
from protocol.messages.topics import CreatableTopic, CreatedTopic, CreateTopics, CreateTopicsReply
from tests.accounts.rig import accounts_of
from tests.node.node_rig import WALL_MS
from tests.upstream.guarded import GuardedPair

PASSWORD = "secret"
"""The password of every user."""
USERS = ("alice", "eve")
_BODY_AT = 14 + len("muster")
_WRONG = SaslAuthenticateReply(ErrorCode.SASL_AUTHENTICATION_FAILED, "invalid credentials")


class RelayedPair(GuardedPair):
    """A guarded pair whose native clients log in. `rights_of` has the rights of users, `created` the users that asked
    the broker itself for a topic. While `holds_logins` the broker answers no step of a login."""

    def __init__(self, **settings: Any) -> None:
        self.offered = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
        self.rights_of: dict[str, set[tuple[str, AclOperation]]] = {}
        self.users: dict[int, str] = {}
        self.created: list[str] = []
        self.lifetime_ms = 0
        self.is_login_held = False
        self.held: list[tuple[int, bytes]] = []
        self._accounts = accounts_of(dict.fromkeys(USERS, PASSWORD))
        self._exchanges: dict[int, SaslLogin] = {}
        front = {
            "upstream_servers": Addresses((Address("hidden", 11),)),
            "upstream_sasl_username": "muster",
            "upstream_sasl_password": Secret("x"),
            "upstream_offsets": UpstreamOffsets.IGNORE,
        }
        super().__init__(**{**front, **settings})
        self.find()
        self.ask_broker(CreateTopics((CreatableTopic("wages", 2, 1), CreatableTopic("orders", 2, 1))), 5)

    def enter(self, number: int, user: str, *rights: tuple[str, AclOperation]) -> int:
        """Connect a client that logs in."""
        self.rights_of[user] = set(rights)
        self.connect_natively(number)
        assert self.log_in(number, user).done
        return number

    def log_in(self, number: int, user: str, mechanism: str = "PLAIN", password: str = PASSWORD) -> LoginReply:
        """Log in; return the last answer."""
        client = SaslClient(mechanism, user, password, "nonce")
        client.begin()
        more = client.on_reply(SaslHandshakeReply())
        while True:
            assert more is not None
            reply = self.ask_natively(number, Login(mechanism, more.auth_bytes))
            assert isinstance(reply, LoginReply)
            if reply.error_code:
                return reply
            more = client.on_reply(SaslAuthenticateReply(auth_bytes=reply.auth_bytes))
            assert reply.done is (more is None)
            if reply.done:
                return reply

    def lose_broker(self, number: int) -> None:
        """Close the broker's side of a client's connection."""
        self.front.step(UpstreamLost(number, "closed"))
        self.run()

    def let_log_in(self) -> None:
        """Deliver the answers to logins that were held."""
        self.to_front += self.held
        self.held, self.is_login_held = [], False
        self.run()

    def _deliver(self, effect: Forward) -> None:
        if effect.connection not in self._native:
            super()._deliver(effect)
            return
        key, version, correlation_id = unpack_from(">hhi", effect.data, 4)
        codec = VersionCodec(WIRE_APIS[key], version)
        message = codec.read(effect.data, _BODY_AT + codec.is_flexible)
        answer = codec.frame(correlation_id, self._serve(effect.connection, message))
        is_login = isinstance(message, SaslHandshake | SaslAuthenticate)
        (self.held if is_login and self.is_login_held else self.to_front).append((effect.connection, answer))

    def _serve(self, number: int, message: Message) -> Message:
        if isinstance(message, SaslHandshake):
            is_offered = message.mechanism in self.offered
            if is_offered:
                self._exchanges[number] = SaslLogin(message.mechanism, self._accounts, None, WALL_MS)
            code = ErrorCode.NONE if is_offered else ErrorCode.UNSUPPORTED_SASL_MECHANISM
            return SaslHandshakeReply(code, self.offered)
        if isinstance(message, SaslAuthenticate):
            return self._authenticate(number, message.auth_bytes)
        assert number in self.users, "nothing but a login may be sent before it, or in the middle of another"
        assert number not in self._exchanges, message
        self.rights[number] = self.rights_of[self.users[number]]
        if isinstance(message, CreateTopics):
            self.created.append(self.users[number])
            return CreateTopicsReply((CreatedTopic(message.topics[0].name),))
        self.queries.append(message)
        return self._authorize(number, message)

    def _authenticate(self, number: int, token: bytes) -> Message:
        login = self._exchanges[number]
        try:
            answer = login.step(token)
            if not isinstance(answer, Challenge | LoggedIn):
                answer.run()
                answer = login.checked(answer)
        except LoginRejected:
            del self._exchanges[number]
            return _WRONG
        if isinstance(answer, LoggedIn):
            self.users[number] = answer.principal.removeprefix("User:")
            del self._exchanges[number]
            return SaslAuthenticateReply(auth_bytes=answer.token, session_lifetime_ms=self.lifetime_ms)
        return SaslAuthenticateReply(auth_bytes=answer.token)
