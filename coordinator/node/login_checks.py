"""Pending checks of passwords and tokens. They run outside the loop, one after the other, and addresses take turns, so
that many logins from one address do not delay those from others. The check of a disconnected client is dropped.
"""

from collections.abc import Callable
from typing import Final

from coordinator.accounts.sasl import LoginCheck
from coordinator.clock import Moment
from coordinator.node.effects import CheckPassword, DropCheck, Effect
from coordinator.node.events import PasswordChecked
from coordinator.node.login_limits import network_of

MOST_CHECKS: Final = 1_000
"""Largest number of pending checks. Beyond it an address may still have an even share of this number, so fewer than
8,000 checks are pending in all."""
MOST_STARTED: Final = 2
"""Checks handed to the thread at a time: one runs, and the next is there when it ends."""

Checked = Callable[[LoginCheck, Moment], None]
"""Called once a password or a token was checked."""


class LoginChecks:
    """Checks by their numbers. Their `CheckPassword` and `DropCheck` are appended to `effects`."""

    def __init__(self, effects: list[Effect]) -> None:
        self._effects = effects
        self._waiting: dict[str, dict[int, tuple[LoginCheck, Checked]]] = {}
        """Checks not yet handed to the thread, by network; the network whose turn is next comes first."""
        self._networks: dict[int, str] = {}
        """Network of each of them."""
        self._started: dict[int, Checked] = {}
        self._last = 0

    def begin(self, host: str, check: LoginCheck, then: Checked) -> int | None:
        """Schedule the check and return its number; None if too many are pending."""
        network = network_of(host)
        if len(self._networks) >= MOST_CHECKS and not self._has_share(network):
            return None
        self._last += 1
        self._waiting.setdefault(network, {})[self._last] = check, then
        self._networks[self._last] = network
        self._start()
        return self._last

    def drop(self, check_id: int) -> None:
        """Drop a check whose result is not needed any more."""
        network = self._networks.pop(check_id, None)
        if network is not None:
            del self._waiting[network][check_id]
            if not self._waiting[network]:
                del self._waiting[network]
        elif self._started.pop(check_id, None) is not None:
            self._effects.append(DropCheck(check_id))
            self._start()

    def checked(self, event: PasswordChecked, moment: Moment) -> None:
        """Continue the login that waits for the check, unless the check was dropped while it ran."""
        then = self._started.pop(event.check_id, None)
        if then is not None:
            self._start()
            then(event.job, moment)

    def _has_share(self, network: str) -> bool:
        own = self._waiting.get(network, {})
        return len(own) < MOST_CHECKS // (len(self._waiting) + (not own))

    def _start(self) -> None:
        while self._waiting and len(self._started) < MOST_STARTED:
            network = next(iter(self._waiting))
            checks = self._waiting.pop(network)
            check_id = next(iter(checks))
            check, self._started[check_id] = checks.pop(check_id)
            del self._networks[check_id]
            if checks:
                self._waiting[network] = checks
            self._effects.append(CheckPassword(check_id, check))
