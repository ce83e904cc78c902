"""EDGE: requests to the node from inside the process, and their replies."""

import asyncio
from collections.abc import Callable

from coordinator.config.keys import Secret
from coordinator.node.effects import Return
from coordinator.node.events import Call, Event, PasswordGiven, PasswordWithdrawn, SessionShown
from protocol.messages import Message


class Calls:
    """Requests that wait for their `Return`."""

    def __init__(self, happen: Callable[[Event], None]) -> None:
        self._happen = happen
        self._waiting: dict[int, asyncio.Future[Message]] = {}
        self._last_number = 0

    async def ask(self, message: Message, principal: str = "", host: str = "", certificate: str = "") -> Message:
        """Have the node serve a request like any other, and return its reply. `principal`, if any, is the authenticated
        sender, at `host`; `certificate` the one it shows."""
        return await self._call(lambda number: Call(number, message, principal, host, certificate))

    async def log_in(
        self, username: str | None, password: str, host: str, *, opens_session: bool = False, certificate: str = ""
    ) -> Message:
        """Check a user's password, or, without a user, a token; return an HttpLoginReply. If the call is cancelled, the
        password is not checked."""
        secret = Secret(password)
        return await self._call(
            lambda number: PasswordGiven(number, username, secret, host, opens_session, certificate), PasswordWithdrawn
        )

    async def show_session(self, secret: str, host: str, *, is_end: bool = False) -> Message:
        """Check the secret of a session, or end it; the answer is an HttpLoginReply."""
        return await self._call(lambda number: SessionShown(number, Secret(secret), host, is_end))

    def answer(self, effect: Return) -> None:
        """Return the reply to its caller, if that still waits."""
        if (future := self._waiting.get(effect.call_id)) is not None and not future.done():
            future.set_result(effect.reply)

    async def _call(
        self, event_of: Callable[[int], Event], withdrawal: Callable[[int], Event] | None = None
    ) -> Message:
        future: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        number = self._last_number = self._last_number + 1
        self._waiting[number] = future
        try:
            self._happen(event_of(number))
            return await future
        except asyncio.CancelledError:
            if withdrawal is not None:
                self._happen(withdrawal(number))
            raise
        finally:
            self._waiting.pop(number, None)
