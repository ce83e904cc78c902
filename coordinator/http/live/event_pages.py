"""EDGE: `/v1/events`, server-sent events with a replay cursor."""

import asyncio
from typing import Final, Protocol

import msgspec
from aiohttp import web

from coordinator.http.live.event_log import Cursor, EventLog, LiveEvent, parse_cursor
from coordinator.http.live.feed import Feed
from coordinator.http.queries import Problem, Queries
from coordinator.http.routing.route import BAD_PARAMETER, HttpRoute, Parameter
from coordinator.http.shapes import Json
from protocol.errors import ErrorCode

MEDIA: Final = "text/event-stream"
HEARTBEAT_S: Final = 15.0
"""Interval of comments on a stream without events: proxies close what is silent, and gone clients are found."""
CHECK_AGAIN_S: Final = 60.0
"""Interval at which the password or the token of a stream is checked again: users are deleted, and tokens end."""
TYPES: Final = ("note", "problem.opened", "problem.closed")
EVENTS: Final = HttpRoute(
    "/v1/events",
    object,
    "What happens to groups, as server-sent events; `after` or Last-Event-ID replays what was missed.",
    {"type": "string"},
    (
        Parameter("group", "Only events of this group."),
        Parameter("type", "Only events of this type.", TYPES),
        Parameter("after", "Id of an event: send the events after it first. Default: only new events."),
    ),
    media=MEDIA,
)


_DENIED: Final = ErrorCode.GROUP_AUTHORIZATION_FAILED


class LoginStillValid(Protocol):
    """Says whether a follower's login goes on; `again`: its password or token is to be checked again."""

    async def __call__(self, *, again: bool) -> bool: ...


class EventPages:
    """The stream of events. With `is_still_in`, which says whether a follower's login goes on, it is told of groups
    that it may describe alone."""

    def __init__(
        self,
        queries: Queries,
        feed: Feed,
        *,
        is_still_in: LoginStillValid | None = None,
        heartbeat_s: float = HEARTBEAT_S,
        check_again_s: float = CHECK_AGAIN_S,
    ) -> None:
        self._ask, self._feed, self._is_still_in, self._heartbeat_s = queries, feed, is_still_in, heartbeat_s
        self._check_again_s = check_again_s

    async def stream(self, request: web.Request) -> web.StreamResponse:
        """Answer with a stream that ends when the client, its login or the daemon goes."""
        after = self._begin(request)
        clock_s = asyncio.get_running_loop().time
        checked_s = clock_s()
        with self._feed.followed():
            await self._feed.begun()
            answer = web.StreamResponse(headers={"Content-Type": MEDIA, "Cache-Control": "no-store"})
            cursor = after or self._feed.events.cursor()
            await answer.prepare(request)
            await answer.write(f"retry: 2000\nid: {cursor}\n\n".encode())
            try:
                while not self._feed.is_closed:
                    if again := clock_s() - checked_s >= self._check_again_s:
                        checked_s = clock_s()
                    if self._is_still_in is not None and not await self._is_still_in(again=again):
                        break
                    cursor = await self._send_events(request, answer, cursor)
                    if self._feed.events.cursor() == cursor:  # no event was added while these were written
                        await self._wait(answer)
            except ConnectionResetError:
                pass  # the client is gone; it may return with the id that it saw last
            return answer

    def _begin(self, request: web.Request) -> Cursor | None:
        text = request.query.get("after", request.headers.get("Last-Event-ID"))
        if text is None:
            return None
        cursor = parse_cursor(text)
        if cursor is None:
            raise Problem(BAD_PARAMETER, f"after is the id of an event, as 1795242208815.7, not {text[:40]!r}")
        return cursor

    async def _send_events(self, request: web.Request, answer: web.StreamResponse, cursor: Cursor) -> Cursor:
        events, is_gap = self._feed.events.after(cursor)
        reached = self._feed.events.cursor()
        wanted = [event for event in events if _is_wanted(event, request)]
        if wanted and self._is_still_in is not None:
            found = await self._ask.described(sorted({one.group_id for one in wanted}))
            visible = {one.group_id for one in found if one.error_code is not _DENIED}  # groups may be gone
            wanted = [event for event in wanted if event.group_id in visible]
        if is_gap:  # events are missing: the client should load the overview
            await answer.write(f"event: gap\nid: {reached}\ndata: {{}}\n\n".encode())
        for event in wanted:
            await answer.write(_written(event, self._feed.events))
        return reached

    async def _wait(self, answer: web.StreamResponse) -> None:
        try:
            async with asyncio.timeout(self._heartbeat_s):
                await self._feed.news()
        except TimeoutError:
            await answer.write(b": still here\n\n")


def _is_wanted(event: LiveEvent, request: web.Request) -> bool:
    query = request.query
    return query.get("group") in (None, event.group_id) and query.get("type") in (None, event.type)


def event_body(event: LiveEvent, events: EventLog) -> Json:
    """Return an event as JSON, with its id."""
    head = {"id": str(events.cursor(event.number)), "type": event.type, "group_id": event.group_id}
    return {**head, "wall_ms": event.wall_ms, event.type.partition(".")[0]: event.body}


def _written(event: LiveEvent, events: EventLog) -> bytes:
    body = event_body(event, events)
    return b"event: %s\nid: %s\ndata: %s\n\n" % (event.type.encode(), body["id"].encode(), msgspec.json.encode(body))
