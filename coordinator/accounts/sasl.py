"""One SASL login, whatever carries it: tokens in, tokens out, a principal at its end."""

from typing import Final, NamedTuple

from coordinator.accounts.accounts import Accounts
from coordinator.accounts.plain import PasswordCheck, read_plain
from coordinator.accounts.scram import SCRAM_MECHANISMS, LoginRejected, ScramServer

MECHANISMS: Final = ("PLAIN", *SCRAM_MECHANISMS)


class Challenge(NamedTuple):
    """Token for the client, which has to answer it."""

    token: bytes


class LoggedIn(NamedTuple):
    """End of a login: the principal, and the last token for the client."""

    principal: str
    token: bytes


class SaslLogin:
    """A login by one mechanism. `step` and `checked` raise LoginRejected, which ends it."""

    __slots__ = ("_accounts", "_has_begun", "_scram", "mechanism", "username")

    def __init__(self, mechanism: str, accounts: Accounts) -> None:
        self.mechanism = mechanism
        self.username = ""
        self._accounts = accounts
        self._has_begun = False
        self._scram = ScramServer(SCRAM_MECHANISMS[mechanism]) if mechanism in SCRAM_MECHANISMS else None

    def step(self, token: bytes) -> Challenge | LoggedIn | PasswordCheck:
        """Take the client's token. A `PasswordCheck` is to be run, and handed to `checked`."""
        is_first, self._has_begun = not self._has_begun, True
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

    def checked(self, check: PasswordCheck) -> LoggedIn:
        """End the login after its password was checked."""
        if not check.is_right:
            raise LoginRejected("wrong user or password")
        return LoggedIn(f"User:{self.username}", b"")
