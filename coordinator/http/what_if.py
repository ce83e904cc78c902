"""The assignment that would follow a change of a group."""

from collections.abc import Awaitable, Callable
from typing import Any

from coordinator.http.queries import Problem, Queries
from coordinator.http.routing.route import BAD_PARAMETER
from membership.outlook import GroupChange, Outlook, foresee, subscribed

InThread = Callable[..., Awaitable[Any]]


class WhatIf:
    """Computes outlooks, in a thread: an assignor of a large group takes seconds."""

    def __init__(self, queries: Queries, in_thread: InThread) -> None:
        self._ask, self._in_thread = queries, in_thread

    async def outlook(self, group_id: str, change: GroupChange) -> Outlook:
        """Return the outlook. Raises Problem if there is no such group, or it cannot be computed."""
        group = await self._ask.group(group_id, with_facts=True)
        try:
            metadata = await self._ask.topics(subscribed(group))
            outlook: Outlook = await self._in_thread(foresee, group, metadata, change)
        except ValueError as error:
            raise Problem(BAD_PARAMETER, str(error)) from None
        return outlook
