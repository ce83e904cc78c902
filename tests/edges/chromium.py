"""Debian's Chromium, driven by Playwright, before a daemon's console."""

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from tests.edges.musterd import Daemon

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
_ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
LIMIT_MS = 120_000
"""For a machine under load; a condition that holds ends the wait."""
PHONE = {"width": 390, "height": 844}
SERIOUS = ("serious", "critical")
GROUP = "/console/group?id="
NEEDS_CHROMIUM = [
    pytest.mark.timeout(600),
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine (Debian: apt-get install chromium)"),
]


@contextmanager
def launched() -> Iterator[Browser]:
    """Launch the browser."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=_ARGUMENTS, timeout=LIMIT_MS)
        yield browser
        browser.close()


@contextmanager
def opened(browser: Browser, daemon: Daemon, allowed: str = "status of 40[49]", **more: Any) -> Iterator[Page]:
    """Open a page of a context of its own; a message of the browser about an error fails the test, unless it is
    `allowed`."""
    context: BrowserContext = browser.new_context(base_url=f"http://127.0.0.1:{daemon.http_port}", **more)
    context.set_default_timeout(LIMIT_MS)
    expect.set_options(timeout=LIMIT_MS)
    page = context.new_page()
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda said: errors.append(said.text) if said.type == "error" else None)
    yield page
    context.close()
    assert [error for error in errors if not re.search(allowed, error)] == []


def go(page: Page, path: str) -> None:
    page.goto(path, wait_until="domcontentloaded")
