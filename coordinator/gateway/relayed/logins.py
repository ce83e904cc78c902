"""Logins of native clients in front of a cluster: each step of `Login` is sent to a broker, which knows the users, over
a connection of the client's own. Afterwards the broker authorizes the client's requests."""

from collections.abc import Callable
from enum import Enum
from typing import Final

from coordinator.accounts.audit import AuditEvent
from coordinator.accounts.oauth import OAUTHBEARER
from coordinator.accounts.sasl import MECHANISMS
from coordinator.accounts.scram import SCRAM_MECHANISMS, LoginRejected
from coordinator.clock import Moment
from coordinator.core.core import HTTP, NEVER_MS, Connection, Core
from coordinator.gateway.brokers import Brokers
from coordinator.gateway.relayed.session import RelayedSession
from coordinator.gateway.session.usernames import username_of
from coordinator.handlers.audited import sender
from coordinator.node.effects import Effect, LogError
from coordinator.node.events import Opened
from coordinator.node.login_limits import FailedLogins
from coordinator.node.serving import Serving
from protocol.apis import BY_MESSAGE
from protocol.errors import ErrorCode, ProtocolViolation
from protocol.kafka.login import HANDSHAKE_VERSION
from protocol.messages import Message
from protocol.messages.node import (
    ErrorReply,
    Login,
    LoginReply,
    SaslAuthenticate,
    SaslAuthenticateReply,
    SaslHandshake,
    SaslHandshakeReply,
)
from protocol.session import RequestRef

_NEWEST_AUTHENTICATE: Final = 2
_STEPS: Final = dict.fromkeys(SCRAM_MECHANISMS, 2)
"""Number of the client's messages in a login, if it is not one."""


class _Stage(Enum):
    """Stage of a connection's login."""

    NEW = "new"
    WAITING = "waiting"
    EXCHANGE = "exchange"
    DONE = "done"


class _RelayedLogin:
    """Login of one connection. `steps` counts the client's messages that the broker has answered."""

    __slots__ = ("connection", "is_known", "mechanism", "ref", "stage", "steps", "token", "username")

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.is_known = False
        """True once it has logged in: it may do so again on the same connection."""
        self.mechanism = self.username = ""
        self.ref = RequestRef(connection.number, 0)
        self.stage = _Stage.NEW
        self.steps = 0
        self.token = b""

    @property
    def session(self) -> RelayedSession:
        assert isinstance(self.connection.session, RelayedSession)
        return self.connection.session


class RelayedLogins:
    """Logins of native connections, which must log in while `is_required`."""

    def __init__(self, core: Core, serving: Serving, effects: list[Effect], brokers: Brokers) -> None:
        self.is_required = False
        self._core = core
        self._serving = serving
        self._effects = effects
        self._brokers = brokers
        self._states: dict[int, _RelayedLogin] = {}
        self._failed = FailedLogins()
        serving.on_opened.append(self.opened)
        serving.on_closed.append(self.closed)
        serving.admit = self.admit

    def require(self, *, is_required: bool) -> None:
        """Begin or cease to require a login of connections, existing ones included."""
        self.is_required = is_required and self._core.config.relays_logins
        for state in self._states.values():
            self._guard(state)

    def _guard(self, state: _RelayedLogin) -> None:
        is_required = self.is_required or state.connection.dialect == HTTP
        state.connection.is_guarded = is_required or self._serving.guards(state.connection.broker)
        if not state.is_known:
            state.connection.session_ends_ms = -NEVER_MS if is_required else NEVER_MS

    def opened(self, connection: Connection, event: Opened, moment: Moment) -> None:
        """Require a login of a new native connection."""
        if isinstance(connection.session, RelayedSession):
            state = self._states[connection.number] = _RelayedLogin(connection)
            self._guard(state)

    def closed(self, number: int) -> None:
        """Forget a closed connection."""
        self._states.pop(number, None)

    def admit(self, connection: Connection, message: Message, moment: Moment) -> None:
        """Raise ProtocolViolation for a request of a connection that must log in first."""
        state = self._states.get(connection.number)
        if state is None or isinstance(message, Login):
            return
        if not state.is_known:
            raise ProtocolViolation(f"{type(message).__name__} is sent before the login is done")
        self._core.count("connections_login_expired")
        raise ProtocolViolation("its login has expired, and the client did not log in again")

    def forward(self, ref: RequestRef, message: Message, finish: Callable[[Message, int], Message]) -> bool:
        """Send the request to the client's broker, in the client's name; `finish` makes the client's reply from the
        broker's reply and the time. Return False for a client that has not logged in."""
        state = self._states.get(ref.connection)
        if state is None or not state.is_known:
            return False
        request = BY_MESSAGE[type(message)].request

        def on_reply(reply: Message, moment: Moment) -> None:
            self._core.outbox.send(ref, finish(reply, moment.monotonic_ms))

        if not state.session.ask(message, request.oldest, request.newest, on_reply):
            text = f"the brokers speak no version of {type(message).__name__} that has room for it"
            self._core.outbox.send(ref, ErrorReply(ErrorCode.UNSUPPORTED_VERSION, text))
        return True

    # -------------------------------------------------------------------------------------------------------- a login

    def login(self, core: Core, ref: RequestRef, message: Login, moment: Moment) -> None:
        """Send one step of a login to the broker."""
        state = self._states[ref.connection]
        is_next = state.stage is _Stage.EXCHANGE and state.mechanism == message.mechanism
        if not is_next and state.stage not in (_Stage.NEW, _Stage.DONE):
            raise ProtocolViolation("Login is sent during another login")
        state.ref, state.token = ref, message.auth_bytes
        if is_next:
            self._authenticate(state)
        else:
            self._begin(state, message, moment)

    def _begin(self, state: _RelayedLogin, message: Login, moment: Moment) -> None:
        state.mechanism, state.steps, state.username = message.mechanism, 0, ""
        if self._failed.is_limited(state.connection.peer_host, moment.monotonic_ms):
            self._core.count("logins_limited")
            raise ProtocolViolation("too many logins from its address have failed")
        if message.mechanism not in MECHANISMS:
            why = f"{message.mechanism[:100]!r} is not relayed to brokers; {', '.join(MECHANISMS)} are"
            self._refuse(state, ErrorCode.UNSUPPORTED_SASL_MECHANISM, why, moment)
            return
        if not self._brokers.is_reachable:
            why = f"the cluster knows the users, and no broker can be asked: {self._brokers.reason}"
            self._refuse(state, ErrorCode.BROKER_NOT_AVAILABLE, why, moment)
            return
        try:
            state.username = username_of(message)
        except LoginRejected as wrong:
            self._refuse(state, ErrorCode.SASL_AUTHENTICATION_FAILED, str(wrong), moment)
            return
        state.session.begin_login()
        state.stage = _Stage.WAITING
        handshake = SaslHandshake(message.mechanism)

        def on_reply(reply: Message, later: Moment) -> None:
            assert isinstance(reply, SaslHandshakeReply)
            if reply.error_code:
                offered = f"the brokers have {', '.join(reply.mechanisms) or 'none'}, not {message.mechanism}"
                self._refuse(state, reply.error_code, offered, later)
            else:
                self._authenticate(state)

        state.session.ask(handshake, HANDSHAKE_VERSION, HANDSHAKE_VERSION, on_reply)

    def _authenticate(self, state: _RelayedLogin) -> None:
        state.stage = _Stage.WAITING

        def on_reply(reply: Message, later: Moment) -> None:
            assert isinstance(reply, SaslAuthenticateReply)
            state.steps += 1
            if reply.error_code:
                self._refuse(state, reply.error_code, reply.error_message or reply.error_code.name, later)
            elif state.steps < _STEPS.get(state.mechanism, 1) or (state.mechanism == OAUTHBEARER and reply.auth_bytes):
                state.stage = _Stage.EXCHANGE
                self._core.outbox.send(state.ref, LoginReply(reply.auth_bytes))
            else:
                self._finish(state, reply, later)

        state.session.ask(SaslAuthenticate(state.token), 0, _NEWEST_AUTHENTICATE, on_reply)
        state.token = b""

    def _finish(self, state: _RelayedLogin, reply: SaslAuthenticateReply, moment: Moment) -> None:
        connection, lifetime_ms = state.connection, reply.session_lifetime_ms
        state.stage, state.is_known = _Stage.DONE, True
        connection.principal, connection.client = f"User:{state.username}", None
        connection.session_ends_ms = moment.monotonic_ms + lifetime_ms if lifetime_ms else NEVER_MS
        state.session.logged_in()
        state.session.end_login()
        self._core.count("logins")
        told = {**sender(self._core, state.ref), "mechanism": state.mechanism}
        self._core.audit.record(AuditEvent.LOGIN, moment, told)
        answer = LoginReply(reply.auth_bytes, done=True, session_lifetime_ms=max(lifetime_ms, 0))
        self._core.outbox.send(state.ref, answer)

    def _refuse(self, state: _RelayedLogin, code: ErrorCode, why: str, moment: Moment) -> None:
        """Answer a failed login, and close the connection. No delay is needed, since the broker has delayed its
        refusal."""
        host = state.connection.peer_host
        if code is ErrorCode.SASL_AUTHENTICATION_FAILED:
            self._failed.add(host, moment.monotonic_ms)
        self._core.count("logins_failed")
        about = {**sender(self._core, state.ref), "principal": "", "user": state.username, "why": why}
        self._core.audit.record(AuditEvent.LOGIN_FAILED, moment, about)
        shown = f" as {state.username[:200]!r}" if state.username else ""
        self._effects.append(LogError(f"a login{shown} from {host} failed: {why}", "info", "login refused"))
        self._core.outbox.send(state.ref, LoginReply(error_code=code, error_message=why))
        state.connection.has_ended = True
        self._serving.touched[state.connection.number] = state.connection
