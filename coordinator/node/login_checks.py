"""Checks of passwords and tokens that logins wait for. They run outside the loop, one after the other, so that one
whose client has gone would hold up those of others: it is dropped."""

from collections.abc import Callable
from typing import Final

from coordinator.accounts.sasl import LoginCheck
from coordinator.clock import Moment
from coordinator.node.effects import CheckPassword, DropCheck, Effect
from coordinator.node.events import PasswordChecked

MOST_CHECKS: Final = 1_000
"""Checks that may wait."""

Checked = Callable[[LoginCheck, Moment], None]
"""Called once a password or a token was checked."""


class LoginChecks:
    """Checks under way, by their numbers. `effects` takes what is to be run, or no longer."""

    def __init__(self, effects: list[Effect]) -> None:
        self._effects = effects
        self._waiting: dict[int, Checked] = {}
        self._last = 0

    def begin(self, check: LoginCheck, then: Checked) -> int | None:
        """Have it checked, and return the number of the check; None if too many wait."""
        if len(self._waiting) >= MOST_CHECKS:
            return None
        self._last += 1
        self._waiting[self._last] = then
        self._effects.append(CheckPassword(self._last, check))
        return self._last

    def drop(self, check_id: int) -> None:
        """Forget a check that nobody waits for any more."""
        if self._waiting.pop(check_id, None) is not None:
            self._effects.append(DropCheck(check_id))

    def checked(self, event: PasswordChecked, moment: Moment) -> None:
        """Go on with the login that waits for the check, unless it was dropped while it ran."""
        then = self._waiting.pop(event.check_id, None)
        if then is not None:
            then(event.job, moment)
