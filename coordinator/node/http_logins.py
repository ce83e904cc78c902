"""Logins of HTTP requests (Basic): each is checked like PLAIN, with the same delay and the same limit of failures."""

from typing import Final

from coordinator.accounts.audit import AuditEvent
from coordinator.accounts.plain import PasswordCheck
from coordinator.accounts.sasl import LoginCheck, SaslLogin
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
        """Have the password checked, unless too many from the address were wrong."""
        ref = RequestRef(INTERNAL, event.call_id)
        if self._logins.is_limited(event.peer_host, moment):
            self._refuse(event, ErrorCode.THROTTLING_QUOTA_EXCEEDED, _LIMITED, moment)
            return
        sasl = SaslLogin(_PLAIN, self._core.accounts)

        def checked(job: LoginCheck, later: Moment) -> None:
            try:
                sasl.checked(job)
            except LoginRejected as failed:
                self._logins.note_failed(event.peer_host, later)
                self._refuse(event, ErrorCode.SASL_AUTHENTICATION_FAILED, str(failed), later, given=moment)
                return
            self._core.count("logins")
            about = {"principal": f"User:{event.username}", "host": event.peer_host, "listener": "http"}
            self._core.audit.tell(AuditEvent.LOGIN, later, {**about, "mechanism": "Basic"})
            self._core.outbox.send(ref, LoginReply(done=True))

        try:
            check = sasl.step(f"\0{event.username}\0{event.password}".encode())
        except LoginRejected as failed:
            self._logins.note_failed(event.peer_host, moment)
            self._refuse(event, ErrorCode.SASL_AUTHENTICATION_FAILED, str(failed), moment)
            return
        assert isinstance(check, PasswordCheck)
        if not self._logins.run(check, checked):
            self._refuse(event, ErrorCode.THROTTLING_QUOTA_EXCEEDED, "many other passwords wait to be checked", moment)

    def _refuse(
        self, event: PasswordGiven, code: ErrorCode, why: str, moment: Moment, *, given: Moment | None = None
    ) -> None:
        """Answer after the delay, counted from the request."""
        ref = RequestRef(INTERNAL, event.call_id)
        reply = LoginReply(error_code=code)
        self._logins.refuse_later(
            ref, reply, event.peer_host, event.username, why, (given or moment).monotonic_ms, moment
        )
