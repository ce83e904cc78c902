"""Somebody who looks at the console, as a process: `python -m bench.console_viewer URL open|time|draw ...`.

`open GROUP` keeps the list and a group's page open, as `console.js` does, until its input ends. `time GROUP SAMPLES`
asks for each page so many times, one after the other. `draw GROUP SAMPLES` opens pages in Chromium, each time with an
empty cache; without Chromium it measures none. All print what they measured as JSON.
"""

import asyncio
import json
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

from aiohttp import ClientSession, ClientTimeout

_BROWSER: Final = {"Accept": "text/html"}
_JSON: Final = {"Accept": "application/json"}
_LIST_EVERY_S, _GROUP_EVERY_S = 3.0, 2.0
_AFTER_NEWS_S = 0.15
_PAUSE_S = 0.02
"""Time between two answers and requests, so that the load goes on between them."""
_WARM_UPS = 2


def pages(group: str) -> Mapping[str, tuple[str, Mapping[str, str]]]:
    """Return the pages that are timed: path and headers, by what they show."""
    return {
        "console: groups": ("/", _BROWSER),
        "console: groups, by lag": ("/?sort=-lag", _BROWSER),
        "console: a group": (f"/console/group?id={group}", _BROWSER),
        "console: its history": (f"/console/history?id={group}", _JSON),
        "/v1/problems": ("/v1/problems", _JSON),
        "/v1/problems?group=G": (f"/v1/problems?group={group}", _JSON),
        "/v1/groups": ("/v1/groups", _JSON),
        "/v1/groups/G": (f"/v1/groups/{group}", _JSON),
        "/v1/overview": ("/v1/overview", _JSON),
    }


class Viewer:
    """A browser with the list and a group's page."""

    def __init__(self, session: ClientSession, group: str) -> None:
        self._session, self._group = session, group
        self.pages = 0
        self.events = 0

    async def ask(self, path: str, headers: Mapping[str, str]) -> float:
        """Return the milliseconds until the whole answer is there."""
        began = time.perf_counter()
        async with self._session.get(path, headers=headers) as answer:
            body = await answer.read()
        if answer.status != 200:
            raise RuntimeError(f"{path} was answered {answer.status}: {body[:200]!r}")
        self.pages += 1
        return (time.perf_counter() - began) * 1e3

    async def look(self) -> None:
        """Keep both pages open until cancelled."""
        news, group_news = asyncio.Event(), asyncio.Event()
        shown = pages(self._group)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._follow("/v1/events", news))
            tasks.create_task(self._follow(f"/v1/events?group={self._group}", group_news))
            tasks.create_task(self._refresh(*shown["console: groups"], _LIST_EVERY_S, news))
            tasks.create_task(self._refresh(*shown["console: a group"], _GROUP_EVERY_S, group_news))
            tasks.create_task(self._refresh(*shown["console: its history"], _GROUP_EVERY_S, asyncio.Event()))

    async def _refresh(self, path: str, headers: Mapping[str, str], every_s: float, news: asyncio.Event) -> None:
        while True:
            await self.ask(path, headers)
            with suppress(TimeoutError):
                async with asyncio.timeout(every_s):
                    await news.wait()
                    await asyncio.sleep(_AFTER_NEWS_S)
            news.clear()

    async def _follow(self, path: str, news: asyncio.Event) -> None:
        async with self._session.get(path, timeout=ClientTimeout(total=None)) as stream:
            async for line in stream.content:
                if line.startswith(b"event:"):
                    self.events += 1
                    news.set()


async def _open(url: str, group: str) -> None:
    async with ClientSession(url) as session:
        viewer = Viewer(session, group)
        looking = asyncio.create_task(viewer.look())
        ended = asyncio.create_task(asyncio.to_thread(sys.stdin.read))
        await asyncio.wait((looking, ended), return_when=asyncio.FIRST_COMPLETED)
        if looking.done():
            looking.result()  # raises what went wrong
        looking.cancel()
        print(json.dumps({"pages": viewer.pages, "events": viewer.events}))
        with suppress(asyncio.CancelledError):
            await looking


async def _time(url: str, group: str, samples: int) -> None:
    async with ClientSession(url) as session:
        viewer = Viewer(session, group)
        found: dict[str, list[float]] = {name: [] for name in pages(group)}
        for number in range(samples + _WARM_UPS):
            for name, (path, headers) in pages(group).items():
                took = await viewer.ask(path, headers)
                if number >= _WARM_UPS:
                    found[name].append(took)
                await asyncio.sleep(_PAUSE_S)
        print(json.dumps(found))


def _draw(url: str, group: str, samples: int) -> None:
    found: dict[str, list[float]] = {}
    # Imported here, since Playwright would start on the load's processors in each viewer.
    from tests.edges.chromium import CHROMIUM, launched

    if CHROMIUM is not None:
        with launched() as browser:
            for _ in range(samples):
                for name, (path, drawn) in {
                    "the list": ("/", "#groups tbody tr"),
                    "a group's page, with its plot": (f"/console/group?id={group}", "#plot canvas"),
                }.items():
                    context = browser.new_context()
                    page = context.new_page()
                    began = time.perf_counter()
                    page.goto(url + path, wait_until="commit")
                    page.wait_for_selector(drawn)
                    found.setdefault(name, []).append((time.perf_counter() - began) * 1e3)
                    context.close()
    print(json.dumps(found))


if __name__ == "__main__":
    _URL, _WHAT, *_REST = sys.argv[1:]
    if _WHAT == "draw":
        _draw(_URL, _REST[0], int(_REST[1]))
    else:
        asyncio.run(_open(_URL, *_REST) if _WHAT == "open" else _time(_URL, _REST[0], int(_REST[1])))
