"""A member for either protocol: server-driven if the coordinator supports that, else classic."""

from typing import Any

from membership import core
from membership.events import Fatal, MemberEffect, MemberEvent, Polled
from membership.server_driven.core import ServerDrivenMembership
from protocol.errors import ErrorCode


class AutoMembership(ServerDrivenMembership):
    """One member of one group. It begins as a member of a group that the coordinator balances. If the coordinator does
    not support that, the member becomes a classic one, for good, unless it subscribes to a regular expression."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._is_classic = False

    @property
    def is_classic(self) -> bool:
        """True once the member is a classic one."""
        return self._is_classic

    def step(self, event: MemberEvent, now_ms: int) -> list[MemberEffect]:
        """Return the effects of an event; none after `Closed`."""
        effects = super().step(event, now_ms)
        refused = [one for one in effects if isinstance(one, Fatal) and one.error_code == ErrorCode.UNSUPPORTED_VERSION]
        if self._is_classic or not refused or self._member.regex:
            return effects
        self._is_classic, self._table = True, core.TABLE
        self._member.reset("joining for the first time", forget_id=True)
        return [*(one for one in effects if one not in refused), *super().step(Polled(), now_ms)]

    # Methods that differ between the two protocols, chosen at each call.

    def _settle(self) -> None:
        if self._is_classic:
            super(ServerDrivenMembership, self)._settle()
        else:
            super()._settle()

    @property
    def needs_poll(self) -> bool:
        """True if only a `Polled` will bring this member into its group, or back into it, or out of it."""
        return super(ServerDrivenMembership, self).needs_poll if self._is_classic else super().needs_poll

    @property
    def rejoins_next(self) -> bool:
        """True if a `Polled` would now send a JoinGroup that keeps the held partitions."""
        return self._is_classic and super(ServerDrivenMembership, self).rejoins_next

    @property
    def is_steady(self) -> bool:
        """True if the member has its assignment, and no known reason to request another."""
        return super(ServerDrivenMembership, self).is_steady if self._is_classic else super().is_steady
