"""Logins of clients (KIP-43, KIP-152, KIP-368): requests allowed before a login, and the principal after it.

Kafka's clients send SaslHandshake and SaslAuthenticate; native clients send Login, which combines both.

A connection that breaks the order of a login is closed without an answer, as Apache Kafka (SaslServerAuthenticator)
closes it. A failed login is answered a fixed time after its request, so that the time tells nothing about the user.
"""

from collections.abc import Callable
from enum import Enum
from typing import Final

import msgspec

from coordinator.accounts.accounts import Accounts
from coordinator.accounts.audit import AuditEvent
from coordinator.accounts.oauth import INVALID_TOKEN, OAUTHBEARER
from coordinator.accounts.sasl import Challenge, LoggedIn, LoginCheck, SaslLogin
from coordinator.accounts.scram import LoginRejected
from coordinator.clock import Moment
from coordinator.config.config import Config
from coordinator.core.core import INTERNAL, NEVER_MS, Connection, Core
from coordinator.handlers.audited import sender
from coordinator.handlers.table import Handler
from coordinator.keys import LoginKey
from coordinator.node.effects import Close, Effect, LogError
from coordinator.node.events import Opened, PasswordGiven
from coordinator.node.login_checks import MOST_CHECKS, LoginChecks
from coordinator.node.login_limits import FailedLogins
from coordinator.node.serving import Serving
from protocol.errors import ErrorCode, ProtocolViolation
from protocol.kafka.session import KafkaSession
from protocol.messages import Message
from protocol.messages.node import (
    Login,
    LoginReply,
    SaslAuthenticate,
    SaslAuthenticateReply,
    SaslHandshake,
    SaslHandshakeReply,
)
from protocol.native.session import NativeSession
from protocol.session import RequestRef
from purgatory.purgatory import DelayedOperation

_LEAST_BETWEEN_MS: Final = 1_000
"""Least time between two logins of a connection, as in Kafka."""
_REAUTHENTICATED: Final = "SaslAuthenticate request received after successful authentication"
_TOO_SOON: Final = "a login on a live connection comes a second after the one before, or later"


class Stage(Enum):
    """Stage of a connection's login."""

    NEW = "new"
    EXCHANGE = "exchange"
    CHECKING = "checking"
    FAILED = "failed"
    DONE = "done"


class _LoginState:
    """Login of one connection."""

    __slots__ = ("began_ms", "check_id", "connection", "mechanism", "received_ms", "ref", "sasl", "stage")

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.stage = Stage.NEW
        self.sasl: SaslLogin | None = None
        self.mechanism = ""
        """Mechanism of the previous login, if any: a re-authentication must use the same."""
        self.check_id = 0
        """Number of the pending check, while the login is at `Stage.CHECKING`."""
        self.began_ms = 0
        self.received_ms = 0
        self.ref = RequestRef(connection.number, 0)


def _said(state: _LoginState, reply: SaslAuthenticateReply) -> Message:
    """Return the reply as a message of the connection's dialect."""
    if state.connection.dialect == "kafka":
        return reply
    return LoginReply(
        reply.auth_bytes,
        state.stage is Stage.DONE,
        reply.session_lifetime_ms,
        reply.error_code,
        reply.error_message or "",
    )


class LoginRefusalDue(msgspec.Struct, frozen=True, gc=False):
    """The answer to a failed login is due, and the end of its connection."""

    connection: int
    ref: RequestRef
    reply: Message | None


class DelayedLoginRefusal(DelayedOperation[LoginRefusalDue]):
    """A delayed operation that only expires."""

    __slots__ = ("_due", "deadline_ms", "key")
    kind = "login"

    def __init__(self, due: LoginRefusalDue, deadline_ms: int) -> None:
        self._due = due
        self.key = LoginKey(due.connection, due.ref.number if due.connection == INTERNAL else -1)
        self.deadline_ms = deadline_ms

    def is_satisfied(self) -> bool:
        return False

    def completed(self) -> LoginRefusalDue | None:
        return self._due


class Logins:
    """Logins of a node's connections. `checks` has the passwords that are checked outside the loop."""

    def __init__(self, core: Core, serving: Serving, effects: list[Effect], checks: LoginChecks) -> None:
        self._serving = serving
        config: Config = core.config
        self._core = core
        self._accounts: Accounts = core.accounts
        self._effects = effects
        self._mechanisms = tuple(map(str, config.sasl_enabled_mechanisms.all))
        self._lifetime_ms = config.connections_max_reauth_ms
        self._delay_ms = config.connection_failed_authentication_delay_ms
        self._states: dict[int, _LoginState] = {}
        self._checks = checks
        self._failed = FailedLogins()
        self.on_login: Callable[[Connection, Moment], None] = lambda _connection, _moment: None
        """Called after each login of a connection."""

    def take_part(self, serving: Serving) -> None:
        """Require a login of connections before their requests are served."""
        handlers: dict[type[Message], Handler] = {
            SaslHandshake: self.handshake,
            SaslAuthenticate: self.authenticate,
            Login: self.login,
        }
        serving.handlers = {**serving.handlers, **handlers}
        serving.on_opened.append(self.opened)
        serving.on_ended.append(self.ended)
        serving.on_closed.append(self.closed)
        serving.admit = self.admit

    # ---------------------------------------------------------------------------------------------------- connections

    def opened(self, connection: Connection, event: Opened, moment: Moment) -> None:
        """Require a login of a new connection."""
        if self._mechanisms:
            self._states[connection.number] = _LoginState(connection)
            connection.is_guarded = True
            connection.session_ends_ms = -NEVER_MS

    def ended(self, connection: Connection) -> None:
        """Close the connection of a client that has shut down its sending side while its password check is pending, and
        that has no other request: the login would be of no use to it."""
        state, session = self._states.get(connection.number), connection.session
        is_checking = state is not None and state.stage is Stage.CHECKING
        if is_checking and session.unanswered == 1 and not session.has_waiting_request:
            self._serving.drop(connection.number)
            self._effects.append(Close(connection.number))

    def closed(self, number: int) -> None:
        """Forget a closed connection."""
        state = self._states.pop(number, None)
        if state is None:
            return
        self._core.purgatory.cancel(LoginKey(number))
        if state.stage is Stage.CHECKING:
            self._checks.drop(state.check_id)

    def admit(self, connection: Connection, message: Message, moment: Moment) -> None:
        """Raise ProtocolViolation for a request of a connection that must log in first."""
        state = self._states.get(connection.number)
        if state is None or isinstance(message, SaslHandshake | SaslAuthenticate | Login):
            return
        if state.stage is not Stage.DONE:
            raise ProtocolViolation(f"{type(message).__name__} is sent before the login is done")
        if moment.monotonic_ms >= connection.session_ends_ms:
            self._core.count("connections_login_expired")
            raise ProtocolViolation("its login has expired, and the client did not log in again")

    # -------------------------------------------------------------------------------------------------------- requests

    def handshake(self, core: Core, ref: RequestRef, message: SaslHandshake, moment: Moment) -> None:
        """Begin a login, or another one on a connection that is logged in."""
        state = self._states[ref.connection]
        if state.stage not in (Stage.NEW, Stage.DONE):
            raise ProtocolViolation("SaslHandshake is sent during a login")
        error = self._begin(state, message.mechanism, moment)
        if error is ErrorCode.UNSUPPORTED_SASL_MECHANISM:
            reply = SaslHandshakeReply(error, self._mechanisms)
            self._refuse(state, ref, reply, f"{message.mechanism[:100]!r} is not enabled", moment)
        else:
            core.outbox.send(ref, SaslHandshakeReply(error, () if error else self._mechanisms))

    def authenticate(self, core: Core, ref: RequestRef, message: SaslAuthenticate, moment: Moment) -> None:
        """Continue a login."""
        state = self._states[ref.connection]
        if state.stage is Stage.DONE:
            core.outbox.send(ref, SaslAuthenticateReply(ErrorCode.ILLEGAL_SASL_STATE, _REAUTHENTICATED))
            return
        if state.stage is not Stage.EXCHANGE or state.sasl is None:
            raise ProtocolViolation("SaslAuthenticate is sent without a SaslHandshake")
        self._go_on(state, ref, message.auth_bytes, moment)

    def login(self, core: Core, ref: RequestRef, message: Login, moment: Moment) -> None:
        """Begin or continue a login of a native client."""
        state = self._states[ref.connection]
        if state.stage in (Stage.NEW, Stage.DONE):
            error = self._begin(state, message.mechanism, moment)
            if error is ErrorCode.UNSUPPORTED_SASL_MECHANISM:
                sentence = f"{message.mechanism[:100]!r} is not enabled; {', '.join(self._mechanisms)} can be used"
                reply = LoginReply(error_code=error, error_message=sentence)
                self._refuse(state, ref, reply, f"{message.mechanism[:100]!r} is not enabled", moment)
                return
            if error:
                core.outbox.send(ref, LoginReply(error_code=error, error_message=_TOO_SOON))
                return
        if state.stage is not Stage.EXCHANGE or state.sasl is None or state.sasl.mechanism != message.mechanism:
            raise ProtocolViolation("Login is sent during another login")
        self._go_on(state, ref, message.auth_bytes, moment)

    def _begin(self, state: _LoginState, mechanism: str, moment: Moment) -> ErrorCode:
        """Begin an exchange, unless the returned error forbids it."""
        now_ms = moment.monotonic_ms
        if state.stage is Stage.DONE and now_ms - state.began_ms < _LEAST_BETWEEN_MS:
            return ErrorCode.ILLEGAL_SASL_STATE
        if mechanism not in self._mechanisms:
            state.received_ms = now_ms
            return ErrorCode.UNSUPPORTED_SASL_MECHANISM
        state.stage, state.began_ms = Stage.EXCHANGE, now_ms
        state.connection.session_ends_ms = -NEVER_MS  # nothing is served until this login is done
        state.sasl = SaslLogin(mechanism, self._accounts, self._core.tokens, moment.wall_ms)
        return ErrorCode.NONE

    def _go_on(self, state: _LoginState, ref: RequestRef, token: bytes, moment: Moment) -> None:
        """Take the client's next token."""
        sasl = state.sasl
        assert sasl is not None
        state.received_ms, state.ref = moment.monotonic_ms, ref
        if not state.mechanism and self.is_limited(state.connection.peer_host, moment):
            self._refuse(state, ref, None, "too many logins from its address have failed", moment)
            return
        try:
            if state.mechanism not in ("", sasl.mechanism):
                raise LoginRejected(f"it began by {state.mechanism}, and goes on by {sasl.mechanism}")
            answer = sasl.step(token)
        except LoginRejected as failed:
            self._fail(state, str(failed), moment)
            return
        if isinstance(answer, Challenge | LoggedIn):
            self._answer(state, answer, moment)
        else:
            self._check(state, answer, moment)

    def _answer(self, state: _LoginState, answer: Challenge | LoggedIn, moment: Moment) -> None:
        if isinstance(answer, LoggedIn):
            self._finish(state, answer, moment)
        else:
            state.stage = Stage.EXCHANGE
            self._core.outbox.send(state.ref, _said(state, SaslAuthenticateReply(auth_bytes=answer.token)))

    def _check(self, state: _LoginState, check: LoginCheck, moment: Moment) -> None:
        host = state.connection.peer_host
        check_id = self._checks.begin(host, check, lambda job, later: self._checked(state, job, later))
        if check_id is None:
            self._refuse(state, state.ref, None, f"{MOST_CHECKS} other passwords wait to be checked", moment)
        else:
            state.stage, state.check_id = Stage.CHECKING, check_id

    def _checked(self, state: _LoginState, job: LoginCheck, moment: Moment) -> None:
        assert state.sasl is not None
        try:
            answer = state.sasl.checked(job)
        except LoginRejected as failed:
            self._fail(state, str(failed), moment)
            return
        if state.sasl.refusal:  # counted and logged even if the client never ends the login (aiokafka does not)
            self._failed.add(state.connection.peer_host, moment.monotonic_ms)
            self._record_failure(state.ref, state.connection.peer_host, state.sasl.username, state.sasl.refusal, moment)
        self._answer(state, answer, moment)

    # ------------------------------------------------------------------------------------------------------------- ends

    def _finish(self, state: _LoginState, done: LoggedIn, moment: Moment) -> None:
        connection, sasl = state.connection, state.sasl
        assert sasl is not None
        if state.mechanism and done.principal != connection.principal:
            self._fail(state, f"it was {connection.principal}, and would be {done.principal}", moment)
            return
        state.stage, state.mechanism, state.sasl = Stage.DONE, sasl.mechanism, None
        connection.principal, connection.client = done.principal, None
        connection.access = self._accounts.authorizer.of(done.principal, connection.peer_host)
        lifetime_ms = self._lifetime_ms
        if done.expires_ms is not None:
            left_ms = max(1, done.expires_ms - moment.wall_ms)
            lifetime_ms = min(lifetime_ms, left_ms) if lifetime_ms else left_ms
        connection.session_ends_ms = moment.monotonic_ms + lifetime_ms if lifetime_ms else NEVER_MS
        if isinstance(connection.session, KafkaSession | NativeSession):
            connection.session.logged_in()
        self.on_login(connection, moment)
        self._core.count("logins")
        fields = {**sender(self._core, state.ref), "mechanism": state.mechanism}
        self._core.audit.record(AuditEvent.LOGIN, moment, fields)
        reply = SaslAuthenticateReply(auth_bytes=done.token, session_lifetime_ms=lifetime_ms)
        self._core.outbox.send(state.ref, _said(state, reply))

    def _fail(self, state: _LoginState, why: str, moment: Moment) -> None:
        sasl = state.sasl
        assert sasl is not None
        if not sasl.refusal:
            self._failed.add(state.connection.peer_host, moment.monotonic_ms)
        name = "authentication" if not state.mechanism else "re-authentication"
        sentence = (
            f"Authentication failed during {name} due to invalid credentials with SASL mechanism {sasl.mechanism}"
        )
        if sasl.mechanism == OAUTHBEARER:
            sentence = INVALID_TOKEN.decode()
        reply = _said(state, SaslAuthenticateReply(ErrorCode.SASL_AUTHENTICATION_FAILED, sentence))
        self._refuse(state, state.ref, reply, why, moment)

    def _refuse(self, state: _LoginState, ref: RequestRef, reply: Message | None, why: str, moment: Moment) -> None:
        """Reply after the delay, counted from the request, and close the connection. Without a reply the connection is
        only closed: clients retry then, while they give up after a refusal."""
        sasl, state.stage, state.sasl = state.sasl, Stage.FAILED, None
        if sasl is None or not sasl.refusal:  # the refusal of a token was logged when the token was checked
            self._record_failure(ref, state.connection.peer_host, "" if sasl is None else sasl.username, why, moment)
        self._answer_later(ref, reply, state.received_ms, moment)

    def is_limited(self, host: str, moment: Moment) -> bool:
        """Return true if logins from the address are refused unchecked for now."""
        if not self._failed.is_limited(host, moment.monotonic_ms):
            return False
        self._core.count("logins_limited")
        return True

    def note_failed(self, host: str, moment: Moment) -> None:
        """Count a wrong password of the address."""
        self._failed.add(host, moment.monotonic_ms)

    def refuse_password(self, event: PasswordGiven, reply: Message, why: str, received_ms: int, moment: Moment) -> None:
        """Log a failed login over HTTP, and reply after the delay, counted from its request."""
        ref = RequestRef(INTERNAL, event.call_id)
        self._record_failure(ref, event.peer_host, event.username or "", why, moment, certificate=event.certificate)
        self._answer_later(ref, reply, received_ms, moment)

    def _record_failure(self, ref: RequestRef, host: str, user: str, why: str, moment: Moment, **more: str) -> None:
        """Count a failed login, and write it to the log and the audit log. `more`: further fields there."""
        self._core.count("logins_failed")
        about = {**sender(self._core, ref), "principal": "", "user": user, "host": host, "why": why, **more}
        self._core.audit.record(AuditEvent.LOGIN_FAILED, moment, about)
        if not self._failed.is_limited(host, moment.monotonic_ms):  # a flood must not fill the log
            shown = f" as {user[:200]!r}" if user else ""
            self._effects.append(LogError(f"a login{shown} from {host} failed: {why}", "info", "login refused"))

    def _answer_later(self, ref: RequestRef, reply: Message | None, received_ms: int, moment: Moment) -> None:
        deadline_ms = max(received_ms + self._delay_ms, moment.monotonic_ms)
        due = LoginRefusalDue(ref.connection, ref, reply)
        self._core.purgatory.try_complete_else_watch(DelayedLoginRefusal(due, deadline_ms))

    def refuse(self, due: LoginRefusalDue, moment: Moment) -> None:
        """Send the reply to a failed login, if there is one, and close the connection."""
        if due.connection == INTERNAL and due.reply is not None:
            self._core.outbox.send(due.ref, due.reply)
            return
        connection = self._core.connections.get(due.connection)
        if connection is None:
            return
        if due.reply is None:
            self._serving.drop(due.connection)
            self._effects.append(Close(due.connection))
            return
        self._core.outbox.send(due.ref, due.reply)
        connection.has_ended = True
        self._serving.touched[due.connection] = connection
