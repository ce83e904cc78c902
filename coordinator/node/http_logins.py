"""Logins of HTTP requests: each is checked like PLAIN (Basic) or OAUTHBEARER (Bearer), or is an access token, with the
same delay and the same limit of failures. A login may open a session, which replaces further logins."""

from typing import Final

from coordinator.accounts.audit import AuditEvent
from coordinator.accounts.oauth import OAUTHBEARER
from coordinator.accounts.sasl import Challenge, LoggedIn, LoginCheck, SaslLogin
from coordinator.accounts.scram import LoginRejected
from coordinator.accounts.sessions import LIFETIME_MS, Sessions
from coordinator.accounts.tokens import is_access_token, principal_of
from coordinator.clock import Moment
from coordinator.core.core import INTERNAL, Core
from coordinator.node.events import PasswordGiven, PasswordWithdrawn, SessionShown
from coordinator.node.login_checks import LoginChecks
from coordinator.node.logins import Logins
from protocol.errors import ErrorCode
from protocol.messages.node import HttpLoginReply
from protocol.session import RequestRef

_PLAIN: Final = "PLAIN"
_LIMITED: Final = "too many logins from its address have failed"


class HttpLogins:
    """Replies to `PasswordGiven`, unless it is withdrawn, and to `SessionShown` with an HttpLoginReply."""

    def __init__(self, core: Core, logins: Logins, checks: LoginChecks) -> None:
        self._core = core
        self._logins = logins
        self._checks = checks
        self._waiting: dict[int, int] = {}
        """Number of the check that a call waits for."""
        self._sessions = Sessions(core.accounts)
        self._lifetime_ms = min(LIFETIME_MS, core.config.connections_max_reauth_ms or LIFETIME_MS)

    def given(self, event: PasswordGiven, moment: Moment) -> None:
        """Have the password or the token checked, unless too many from the address were wrong."""
        if self._logins.is_limited(event.peer_host, moment):
            self._refuse(event, ErrorCode.THROTTLING_QUOTA_EXCEEDED, _LIMITED, moment)
            return
        if event.username is None and is_access_token(event.password):
            self._check_token(event, moment)
            return
        mechanism = _PLAIN if event.username is not None else OAUTHBEARER
        sasl = SaslLogin(mechanism, self._core.accounts, self._core.tokens, moment.wall_ms)

        def checked(job: LoginCheck, later: Moment) -> None:
            del self._waiting[event.call_id]
            try:
                answer = sasl.checked(job)
                if not isinstance(answer, LoggedIn):
                    raise LoginRejected(sasl.refusal)
            except LoginRejected as failed:
                self._fail(event, str(failed), later, given=moment)
                return
            self._let_in(event, answer.principal, answer.expires_ms, later)

        try:
            if event.username is None and self._core.tokens is None:
                raise LoginRejected("sasl.enabled.mechanisms has no OAUTHBEARER")
            check = sasl.step(_first_message(event))
        except LoginRejected as failed:
            self._fail(event, str(failed), moment)
            return
        assert not isinstance(check, Challenge | LoggedIn)
        check_id = self._checks.begin(event.peer_host, check, checked)
        if check_id is None:
            self._refuse(event, ErrorCode.THROTTLING_QUOTA_EXCEEDED, "many other passwords wait to be checked", moment)
        else:
            self._waiting[event.call_id] = check_id

    def withdrawn(self, event: PasswordWithdrawn, moment: Moment) -> None:
        """Drop the check of a request whose client has disconnected, if the check is still pending."""
        check_id = self._waiting.pop(event.call_id, None)
        if check_id is not None:
            self._checks.drop(check_id)

    def shown(self, event: SessionShown, moment: Moment) -> None:
        """Reply with the principal of the session. An unknown secret is refused at once, without a delay: secrets are
        too long to be guessed."""
        found = self._sessions.find(event.secret, moment.wall_ms)
        if event.is_end:
            self._sessions.close(event.secret)
        ref = RequestRef(INTERNAL, event.call_id)
        if found is None:
            self._core.outbox.send(ref, HttpLoginReply(error_code=ErrorCode.SASL_AUTHENTICATION_FAILED))
        else:
            self._core.outbox.send(ref, HttpLoginReply(found.principal))

    def _check_token(self, event: PasswordGiven, moment: Moment) -> None:
        try:
            name, token = self._core.accounts.tokens.owner(event.password, moment.wall_ms)
        except LoginRejected as failed:
            self._fail(event, str(failed), moment)
        else:
            self._let_in(event, principal_of(name), token.expires_ms, moment)

    def _let_in(self, event: PasswordGiven, principal: str, expires_ms: int | None, moment: Moment) -> None:
        self._core.count("logins")
        scheme = "Session" if event.opens_session else "Bearer" if event.username is None else "Basic"
        about = {
            "principal": principal,
            "host": event.peer_host,
            "listener": "http",
            "mechanism": scheme,
            "certificate": event.certificate,
        }
        self._core.audit.record(AuditEvent.LOGIN, moment, about)
        reply = HttpLoginReply(principal)
        if event.opens_session:
            lifetime_ms = self._lifetime_ms
            if expires_ms is not None:
                lifetime_ms = min(lifetime_ms, expires_ms - moment.wall_ms)
            session = self._sessions.open(principal, moment.wall_ms + lifetime_ms)
            reply = HttpLoginReply(principal, session, lifetime_ms)
        self._core.outbox.send(RequestRef(INTERNAL, event.call_id), reply)

    def _fail(self, event: PasswordGiven, why: str, moment: Moment, *, given: Moment | None = None) -> None:
        self._logins.note_failed(event.peer_host, moment)
        self._refuse(event, ErrorCode.SASL_AUTHENTICATION_FAILED, why, moment, given=given)

    def _refuse(
        self, event: PasswordGiven, code: ErrorCode, why: str, moment: Moment, *, given: Moment | None = None
    ) -> None:
        """Reply after the delay, counted from the request."""
        reply = HttpLoginReply(error_code=code)
        self._logins.refuse_password(event, reply, why, (given or moment).monotonic_ms, moment)


def _first_message(event: PasswordGiven) -> bytes:
    """Return the first SASL message that a Kafka client would send."""
    if event.username is None:
        return f"n,,\x01auth=Bearer {event.password}\x01\x01".encode("utf-8", "surrogatepass")
    return f"\0{event.username}\0{event.password}".encode()
