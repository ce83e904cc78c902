"""EDGE: posts events to addresses of the configuration, with retries and a bounded queue for each."""

import asyncio
import hashlib
import hmac
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Final
from urllib.parse import urlsplit

import msgspec
import structlog
from aiohttp import ClientError, ClientSession, ClientTimeout, web

from coordinator.config.webhooks import WebhookConfig
from coordinator.http.live.event_log import LiveEvent
from coordinator.http.live.event_pages import event_body
from coordinator.http.live.feed import Feed

SIGNATURE: Final = "Muster-Signature"
EVENTS_A_POST: Final = 100
_LONGEST_S: Final = 60.0
_AGAIN: Final = frozenset({408, 425, 429})
"""Statuses after which a post is retried."""

Count = Callable[[str], None]
Sleep = Callable[[float], Awaitable[None]]
log = structlog.get_logger()


class Webhooks:
    """Receivers of events. Each has a queue of its own, so that an unreachable one does not delay the others."""

    def __init__(self, config: WebhookConfig, feed: Feed, count: Count, sleep: Sleep = asyncio.sleep) -> None:
        self._feed, self._types = feed, config.webhook_events.all
        self._receivers = [_Receiver(url, config, feed, count, sleep) for url in config.webhook_urls.all]

    @asynccontextmanager
    async def running(self, app: web.Application) -> AsyncIterator[None]:
        """Post events while the application runs; events that wait at the end are dropped."""
        async with ClientSession() as session:
            tasks = [asyncio.create_task(one.run(session)) for one in self._receivers]
            tasks.append(asyncio.create_task(self._follow()))
            yield
            for task in tasks:
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task

    async def _follow(self) -> None:
        with self._feed.followed():
            cursor = self._feed.events.cursor()
            while not self._feed.is_closed:
                events, _is_gap = self._feed.events.after(cursor)
                for event in events:
                    if event.type in self._types:
                        for receiver in self._receivers:
                            receiver.add(event)
                cursor = self._feed.events.cursor(events[-1].number if events else None)
                if not events:
                    await self._feed.news()


class _Receiver:
    """One address, the events that wait for it, and the task that posts them."""

    def __init__(self, url: str, config: WebhookConfig, feed: Feed, count: Count, sleep: Sleep) -> None:
        self._url, self._config, self._feed, self._count, self._sleep = url, config, feed, count, sleep
        self._shown = f"{urlsplit(url).scheme}://{urlsplit(url).hostname}"  # a path may be a secret
        self._queue: deque[LiveEvent] = deque()
        self._filled = asyncio.Event()

    def add(self, event: LiveEvent) -> None:
        """Queue the event; if the queue is full, drop its oldest event."""
        if len(self._queue) >= self._config.webhook_queue_events:
            self._queue.popleft()
            self._count("webhook_events_dropped")
        self._queue.append(event)
        self._filled.set()

    async def run(self, session: ClientSession) -> None:
        """Post queued events until cancelled."""
        while True:
            await self._filled.wait()
            some = [self._queue.popleft() for _ in range(min(len(self._queue), EVENTS_A_POST))]
            if not self._queue:
                self._filled.clear()
            if some:
                await self._deliver(session, some)

    async def _deliver(self, session: ClientSession, events: list[LiveEvent]) -> None:
        """Post the events, or drop them. Raises nothing but a cancellation: its task posts all later events too."""
        try:
            is_told = await self._tell(session, events)
        except Exception:
            log.exception("a post to a webhook raised", receiver=self._shown)
            is_told = False
        if not is_told:
            log.warning("events of a webhook are dropped", receiver=self._shown, events=len(events))
            for _event in events:
                self._count("webhook_events_dropped")

    async def _tell(self, session: ClientSession, events: list[LiveEvent]) -> bool:
        """Post the events, with retries; return whether the receiver took them."""
        body = msgspec.json.encode({"events": [event_body(event, self._feed.events) for event in events]})
        for attempt in range(self._config.webhook_retries + 1):
            if attempt:
                await self._sleep(min(2.0 ** (attempt - 1), _LONGEST_S))
            problem, is_final = await self._post(session, body)
            if problem is None:
                self._count("webhook_posts")
                return True
            self._count("webhook_failures")
            log.warning("a webhook failed", receiver=self._shown, attempt=attempt + 1, why=problem)
            if is_final:
                break
        return False

    async def _post(self, session: ClientSession, body: bytes) -> tuple[str | None, bool]:
        """Return the reason of a failure, None for a success, and whether a retry would fail again."""
        headers = {"Content-Type": "application/json"}
        if self._config.webhook_secret is not None:
            key = str(self._config.webhook_secret).encode()
            headers[SIGNATURE] = "sha256=" + hmac.new(key, body, hashlib.sha256).hexdigest()
        limit = ClientTimeout(total=self._config.webhook_timeout_ms / 1_000)
        try:
            async with session.post(
                self._url, data=body, headers=headers, timeout=limit, allow_redirects=False
            ) as answer:
                if answer.status < 300:
                    return None, False
                return f"it answered {answer.status}", answer.status < 500 and answer.status not in _AGAIN
        except TimeoutError:
            return f"no answer within {self._config.webhook_timeout_ms} ms", False
        except (ClientError, OSError) as error:
            return str(error) or type(error).__name__, False
