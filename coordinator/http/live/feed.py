"""EDGE: makes events of changes in the node, while there are followers."""

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Final

import msgspec
import structlog
from aiohttp import web

from coordinator.http.live.event_log import EventLog
from coordinator.http.queries import Problem, Queries
from coordinator.http.watch import ProblemWatch
from diagnosis.facts import known_facts, note_facts
from diagnosis.problem import GroupProblem

LOOK_EVERY_S: Final = 1.0
LINGER_S: Final = 120.0
"""Time for which events are made after the last follower has disconnected, since it may return for them."""
_MOST_GROUPS: Final = 20_000
_NOTES_A_LOOK: Final = 100
_CHANGES_AN_EVENT: Final = 20
"""Changed offsets of a note in its event; the note has up to 2,000."""

log = structlog.get_logger()


class Feed:
    """Checks for new notes and problems every second, while there are followers, and wakes these."""

    def __init__(self, queries: Queries, watch: ProblemWatch, epoch: int, every_s: float = LOOK_EVERY_S) -> None:
        """`queries` may see everything; the stream of a follower filters the events by its permissions."""
        self._ask, self._watch, self._every_s = queries, watch, every_s
        self.events = EventLog(epoch, added=self._wake)
        self._arrived = asyncio.Event()
        self._wanted = asyncio.Event()
        self._begun = asyncio.Event()
        self._followers = 0
        self._left_s = 0.0
        self._since_ms = -1
        self._numbers: OrderedDict[str, int] = OrderedDict()
        """Number of the newest note with an event, by group, in order of their last event."""
        self._now_ms = 0
        self.is_closed = False

    def add_problem(self, problem: GroupProblem, is_open: bool) -> None:
        """Make an event of a problem that opened or closed."""
        kind = "problem.opened" if is_open else "problem.closed"
        self.events.add(kind, problem.group_id, self._now_ms, known_facts(problem))

    @contextmanager
    def followed(self) -> Iterator[None]:
        """Make events while the context is open."""
        self._followers += 1
        self._wanted.set()
        try:
            yield
        finally:
            self._followers -= 1
            self._left_s = asyncio.get_running_loop().time()

    async def begun(self) -> None:
        """Wait until all later changes become events."""
        await self._begun.wait()

    async def news(self) -> None:
        """Wait for an event added from now on, or for the end of the feed."""
        if not self.is_closed:
            await self._arrived.wait()

    async def run(self) -> None:
        """Check for changes until cancelled."""
        while True:
            if not self._is_wanted():
                self._wanted.clear()
                self._begun.clear()
                self.pause()
                await self._wanted.wait()
            try:
                await self.look()
            except Problem as problem:
                log.debug("no events yet", why=problem.message)  # while groups load, for instance
            except Exception:
                log.exception("events could not be gathered")
            self._begun.set()
            await asyncio.sleep(self._every_s)

    def pause(self) -> None:
        """Make no events of the changes before the next call of `look`."""
        if self._since_ms >= 0:
            self.events.skip()
        self._since_ms = -1
        self._numbers.clear()  # by them the notes of the pause would be new

    async def look(self) -> None:
        """Make events of the changes since the last call."""
        node = await self._ask.node()
        self._now_ms = node.wall_ms
        began_ms = self._since_ms
        found = await self._ask.suspects(min(node.wall_ms if began_ms < 0 else began_ms, self._watch.since_ms))
        if began_ms >= 0:
            acted_on = await self._ask.acted_on(began_ms)  # groups that are gone are no suspects
            for group_id in dict.fromkeys((*found.groups, *found.expired, *acted_on)):
                await self._add_notes(group_id, began_ms)
        self._since_ms = found.wall_ms
        await self._watch.look(found)  # makes events of problems by calling `add_problem`

    async def _add_notes(self, group_id: str, since_ms: int) -> None:
        last = self._numbers.get(group_id, -1)
        for note in (await self._ask.notes(group_id, last, _NOTES_A_LOOK)).notes:
            if last >= 0 or note.wall_ms >= since_ms:
                short = msgspec.structs.replace(note, changes=note.changes[:_CHANGES_AN_EVENT])
                self.events.add("note", group_id, note.wall_ms, note_facts(short))
            self._numbers[group_id] = note.number
        if group_id in self._numbers:
            self._numbers.move_to_end(group_id)
        while len(self._numbers) > _MOST_GROUPS:
            self._numbers.popitem(last=False)

    def _is_wanted(self) -> bool:
        return self._followers > 0 or asyncio.get_running_loop().time() - self._left_s < LINGER_S

    def _wake(self) -> None:
        self._arrived.set()
        self._arrived = asyncio.Event()

    async def close(self, app: web.Application) -> None:
        """Wake all followers for the end."""
        self.is_closed = True
        self._begun.set()
        self._wake()

    @asynccontextmanager
    async def running(self, app: web.Application) -> AsyncIterator[None]:
        """Run beside the application."""
        task = asyncio.create_task(self.run())
        yield
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
