"""Webhooks: events posted to receivers that answer, refuse, are late or are away."""

import asyncio
import hashlib
import hmac
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
from aiohttp import ClientSession, web
from aiohttp.test_utils import TestServer

from coordinator.config.config import ConfigError, load_config
from coordinator.http.live.feed import Feed
from coordinator.http.live.webhooks import SIGNATURE, Webhooks
from coordinator.http.queries import Queries
from coordinator.http.watch import ProblemWatch
from tests.node.operated import DiagnosisRig


class Receiver:
    """An HTTP server that answers with the next of `statuses`, then 204."""

    def __init__(self, *statuses: int) -> None:
        self.statuses = list(statuses)
        self.posts: list[tuple[dict[str, str], bytes]] = []
        self.blocked: asyncio.Event | None = None
        self.arrived = asyncio.Semaphore(0)

    async def receive(self, request: web.Request) -> web.Response:
        self.posts.append((dict(request.headers), await request.read()))
        self.arrived.release()
        if self.blocked is not None:
            await self.blocked.wait()
        return web.Response(status=self.statuses.pop(0) if self.statuses else 204, headers={"Location": "/elsewhere"})

    @property
    def told(self) -> list[list[Any]]:
        """Numbers in the bodies of the events of each post."""
        posts = [msgspec.json.decode(body)["events"] for _headers, body in self.posts]
        return [[event[event["type"].partition(".")[0]] for event in events] for events in posts]


class Rig:
    """A feed without a node, its webhooks, and what they counted and slept."""

    def __init__(self) -> None:
        queries = Queries(DiagnosisRig().ask_doctor)
        self.feed = Feed(queries, ProblemWatch(queries, _rest, asyncio.Lock()), 7)
        self.counted: list[str] = []
        self.slept: list[float] = []

    @asynccontextmanager
    async def running(self, *urls: str, **settings: str) -> AsyncIterator[None]:
        sets = {"webhook.urls": ",".join(urls), **{name.replace("_", "."): value for name, value in settings.items()}}
        arguments = [word for name, value in sets.items() for word in ("--set", f"{name}={value}")]
        config = load_config(arguments, {}, lambda _path: b"")
        hooks = Webhooks(config, self.feed, self.counted.append, self._sleep)
        async with hooks.running(web.Application()):
            await asyncio.sleep(0)
            yield

    def happen(self, *numbers: int, kind: str = "problem.opened") -> None:
        for number in numbers:
            self.feed.events.add(kind, "g", 0, number)  # type: ignore[arg-type]

    async def _sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        await asyncio.sleep(0)

    async def until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(60):
            while not holds():  # noqa: ASYNC110  (what is waited for has no event)
                await asyncio.sleep(0)


async def _rest() -> None:
    pass


@pytest.fixture
async def serve() -> AsyncIterator[Callable[[Receiver], Awaitable[str]]]:
    servers: list[TestServer] = []

    async def start(receiver: Receiver) -> str:
        app = web.Application()
        app.router.add_post("/hook", receiver.receive)
        servers.append(TestServer(app))
        await servers[-1].start_server()
        return str(servers[-1].make_url("/hook"))

    yield start
    for server in servers:
        await server.close()


Serve = Callable[[Receiver], Awaitable[str]]


async def test_problems_are_posted_and_signed(serve: Serve) -> None:
    rig, receiver = Rig(), Receiver()
    async with rig.running(await serve(receiver), webhook_secret="key"):
        rig.happen(1, kind="note")
        rig.happen(2)
        rig.happen(3, kind="problem.closed")
        await rig.until(lambda: rig.counted == ["webhook_posts"])
    ((headers, body),) = receiver.posts
    assert receiver.told == [[2, 3]]
    assert headers[SIGNATURE] == "sha256=" + hmac.new(b"key", body, hashlib.sha256).hexdigest()
    assert msgspec.json.decode(body)["events"][0]["id"] == "7.2"


async def test_a_receiver_that_is_busy_is_tried_again_and_one_that_refuses_is_not(serve: Serve) -> None:
    rig, busy, refusing = Rig(), Receiver(503, 429, 500), Receiver(404, 302)
    async with rig.running(await serve(busy), await serve(refusing), webhook_events="note"):
        rig.happen(1, kind="note")
        await rig.until(lambda: "webhook_posts" in rig.counted)
        assert busy.told == [[1]] * 4 and rig.slept == [1.0, 2.0, 4.0]
        rig.happen(2, kind="note")
        await rig.until(lambda: len(refusing.posts) == 2 and len(busy.posts) == 5)
        await rig.until(lambda: rig.counted.count("webhook_events_dropped") == 2)
    assert refusing.told == [[1], [2]]


async def test_one_that_is_away_loses_what_it_was_not_told_in_time_and_holds_up_nobody(serve: Serve) -> None:
    rig, there = Rig(), Receiver()
    async with rig.running("http://127.0.0.1:1/x", await serve(there), webhook_retries="3"):
        rig.happen(1)
        await rig.until(lambda: "webhook_events_dropped" in rig.counted and bool(there.posts))
        assert (rig.counted.count("webhook_failures"), rig.slept) == (4, [1.0, 2.0, 4.0])


async def test_a_post_that_raises_drops_its_events_and_later_ones_are_posted(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rig, receiver = Rig(), Receiver()
    posted, first = ClientSession.post, [UnicodeError("label empty or too long")]

    def post(self: ClientSession, *where: Any, **what: Any) -> Any:
        if first:
            raise first.pop()
        return posted(self, *where, **what)

    monkeypatch.setattr(ClientSession, "post", post)
    async with rig.running(await serve(receiver)):
        rig.happen(1)
        await rig.until(lambda: rig.counted == ["webhook_events_dropped"])
        rig.happen(2)
        await rig.until(lambda: "webhook_posts" in rig.counted)
    assert receiver.told == [[2]]
    logged = capsys.readouterr()
    assert "label empty or too long" in logged.out + logged.err


async def test_beyond_its_limit_a_queue_drops_the_oldest(serve: Serve) -> None:
    rig, slow = Rig(), Receiver()
    slow.blocked = asyncio.Event()
    async with rig.running(await serve(slow), webhook_queue_events="2", webhook_timeout_ms="600000"):
        rig.happen(1)
        await slow.arrived.acquire()
        rig.happen(2, 3, 4)
        await rig.until(lambda: rig.counted == ["webhook_events_dropped"])
        slow.blocked.set()
        await rig.until(lambda: len(slow.posts) == 2)
    assert slow.told == [[1], [3, 4]]


@pytest.mark.parametrize(
    "given",
    [
        "urls=ftp://x",
        "urls=hooks.example",
        "urls=http://",
        "urls=http://a:99999/",
        "urls=https://ex..ample/",
        f"urls=https://{'a' * 64}.example/",
        "events=problems",
        "events=",
    ],
)
def test_wrong_keys_are_named(given: str) -> None:
    with pytest.raises(ConfigError, match=r"webhook\.(urls|events)"):
        load_config(["--set", f"webhook.{given}"], {}, lambda _path: b"")
