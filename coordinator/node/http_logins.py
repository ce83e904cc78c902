"""Logins of HTTP requests: each is checked like PLAIN (Basic) or OAUTHBEARER (Bearer), with the same delay and the same
limit of failures."""

from typing import Final

from coordinator.accounts.audit import AuditEvent
from coordinator.accounts.oauth import OAUTHBEARER
from coordinator.accounts.sasl import Challenge, LoggedIn, LoginCheck, SaslLogin
from coordinator.accounts.scram import LoginRejected
from coordinator.clock import Moment
from coordinator.handlers.core import INTERNAL, Core
from coordinator.node.events import PasswordGiven
from coordinator.node.logins import Logins
from protocol.errors import ErrorCode
from protocol.messages.node import LoginReply
from protocol.session import RequestRef

_PLAIN: Final = "PLAIN"
_LIMITED: Final = "too many logins from its address have failed"


class HttpLogins:
    """Answers `PasswordGiven` with a LoginReply."""

    def __init__(self, core: Core, logins: Logins) -> None:
        self._core = core
        self._logins = logins

    def given(self, event: PasswordGiven, moment: Moment) -> None:
        """Have the password or the token checked, unless too many from the address were wrong."""
        ref = RequestRef(INTERNAL, event.call_id)
        if self._logins.is_limited(event.peer_host, moment):
            self._refuse(event, ErrorCode.THROTTLING_QUOTA_EXCEEDED, _LIMITED, moment)
            return
        mechanism = _PLAIN if event.username is not None else OAUTHBEARER
        sasl = SaslLogin(mechanism, self._core.accounts, self._core.tokens, moment.wall_ms)

        def checked(job: LoginCheck, later: Moment) -> None:
            try:
                answer = sasl.checked(job)
                if not isinstance(answer, LoggedIn):
                    raise LoginRejected(sasl.refusal)
            except LoginRejected as failed:
                self._fail(event, str(failed), later, given=moment)
                return
            self._core.count("logins")
            about = {"principal": answer.principal, "host": event.peer_host, "listener": "http"}
            scheme = "Basic" if event.username is not None else "Bearer"
            self._core.audit.tell(AuditEvent.LOGIN, later, {**about, "mechanism": scheme})
            self._core.outbox.send(ref, LoginReply(answer.principal.encode(), done=True))

        try:
            if event.username is None and self._core.tokens is None:
                raise LoginRejected("sasl.enabled.mechanisms has no OAUTHBEARER")
            check = sasl.step(_first_message(event))
        except LoginRejected as failed:
            self._fail(event, str(failed), moment)
            return
        assert not isinstance(check, Challenge | LoggedIn)
        if not self._logins.run(check, checked):
            self._refuse(event, ErrorCode.THROTTLING_QUOTA_EXCEEDED, "many other passwords wait to be checked", moment)

    def _fail(self, event: PasswordGiven, why: str, moment: Moment, *, given: Moment | None = None) -> None:
        self._logins.note_failed(event.peer_host, moment)
        self._refuse(event, ErrorCode.SASL_AUTHENTICATION_FAILED, why, moment, given=given)

    def _refuse(
        self, event: PasswordGiven, code: ErrorCode, why: str, moment: Moment, *, given: Moment | None = None
    ) -> None:
        """Answer after the delay, counted from the request."""
        ref = RequestRef(INTERNAL, event.call_id)
        reply = LoginReply(error_code=code)
        self._logins.refuse_later(
            ref, reply, event.peer_host, event.username or "", why, (given or moment).monotonic_ms, moment
        )


def _first_message(event: PasswordGiven) -> bytes:
    """Return what a client of Kafka's protocol would say."""
    if event.username is None:
        return f"n,,\x01auth=Bearer {event.password}\x01\x01".encode("utf-8", "surrogatepass")
    return f"\0{event.username}\0{event.password}".encode()
