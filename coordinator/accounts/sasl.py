"""One SASL login, in any protocol: it takes and returns tokens, and ends with a principal."""

from typing import Final, NamedTuple

from coordinator.accounts.accounts import Accounts
from coordinator.accounts.oauth import ACKNOWLEDGED, INVALID_TOKEN, OAUTHBEARER, TokenCheck, TokenVerifier, read_bearer
from coordinator.accounts.plain import PasswordCheck, read_plain
from coordinator.accounts.scram import SCRAM_MECHANISMS, LoginRejected, ScramServer

MECHANISMS: Final = ("PLAIN", *SCRAM_MECHANISMS, OAUTHBEARER)

LoginCheck = PasswordCheck | TokenCheck
"""Job that runs outside the event loop, since it takes long."""


class Challenge(NamedTuple):
    """Token for the client, which must answer it."""

    token: bytes


class LoggedIn(NamedTuple):
    """End of a login: the principal, and the last token for the client. `expires_ms`: wall time at which the client's
    token expires; None if never."""

    principal: str
    token: bytes
    expires_ms: int | None = None


class SaslLogin:
    """A login by one mechanism, begun at a wall time. `step` and `checked` raise LoginRejected, which ends it. `tokens`
    is needed for OAUTHBEARER alone."""

    __slots__ = ("_accounts", "_began_ms", "_has_begun", "_scram", "_tokens", "mechanism", "refusal", "username")

    def __init__(
        self, mechanism: str, accounts: Accounts, tokens: TokenVerifier | None = None, began_ms: int = 0
    ) -> None:
        self.mechanism = mechanism
        self.username = ""
        self.refusal = ""
        """Reason for which a token was refused; the login ends once the client has acknowledged the error."""
        self._accounts = accounts
        self._tokens = tokens
        self._began_ms = began_ms
        self._has_begun = False
        self._scram = ScramServer(SCRAM_MECHANISMS[mechanism]) if mechanism in SCRAM_MECHANISMS else None

    def step(self, token: bytes) -> Challenge | LoggedIn | LoginCheck:
        """Handle the client's token. The caller must run a returned `LoginCheck`, and pass it to `checked`."""
        is_first, self._has_begun = not self._has_begun, True
        if self.mechanism == OAUTHBEARER:
            return self._check_token(token, is_first=is_first)
        if self._scram is None:
            if not is_first:
                raise LoginRejected("PLAIN has one message; the client sends another")
            self.username, password = read_plain(token)
            mechanism, credential = self._accounts.credential_for_plain(self.username)
            return PasswordCheck(mechanism, password, credential)
        if is_first:
            self.username = self._scram.read_first(token)
            credential = self._accounts.credential(SCRAM_MECHANISMS[self.mechanism], self.username)
            return Challenge(self._scram.first(credential, self._accounts.nonce()))
        return LoggedIn(f"User:{self.username}", self._scram.final(token))

    def _check_token(self, token: bytes, *, is_first: bool) -> TokenCheck:
        assert self._tokens is not None
        if not is_first:
            raise LoginRejected(self.refusal if token == ACKNOWLEDGED else "the client does not end a failed login")
        self.username, bearer = read_bearer(token)
        return TokenCheck(self._tokens, bearer, self._began_ms)

    def checked(self, check: LoginCheck) -> Challenge | LoggedIn:
        """End the login after its password or token was checked. If its token is refused, the client gets the error
        first."""
        if isinstance(check, PasswordCheck):
            if not check.is_right:
                raise LoginRejected("wrong user or password")
            return LoggedIn(f"User:{self.username}", b"")
        if check.bearer is None:
            self.refusal = check.refusal
        elif self.username not in ("", check.bearer.name):
            self.refusal = "the client asks for the rights of another user"
        else:
            self.username = check.bearer.name
            return LoggedIn(f"User:{self.username}", b"", check.bearer.expires_ms)
        return Challenge(INVALID_TOKEN)
