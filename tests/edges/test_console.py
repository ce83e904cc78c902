"""The console in a browser, before a real daemon whose groups move: Debian's Chromium, driven by Playwright."""

import re
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect

from muster import Consumer
from tests.edges.chromium import GROUP, NEEDS_CHROMIUM, PHONE, SERIOUS, go, launched, opened
from tests.edges.console_stage import Reader, dead_member, keep_writing, make_topics
from tests.edges.musterd import Daemon, running

pytestmark = NEEDS_CHROMIUM


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    folder: Path = tmp_path_factory.mktemp("musterd") / "data"
    ending = threading.Event()
    with running(folder, "group.initial.rebalance.delay.ms=0", with_http=True) as daemon, ExitStack() as stack:
        make_topics(daemon, 600)
        writer = threading.Thread(target=keep_writing, args=(daemon, "orders", ending), daemon=True)
        writer.start()
        stack.callback(writer.join, 60)
        stack.callback(ending.set)
        for name in ("billing-1", "billing-2"):
            stack.callback(Reader(daemon, "billing", ["orders"], name).end)
        dead_member(daemon, "settlement", "settlement-worker")
        with Consumer(daemon.bootstrap, "export", client_id="export-1", enable_auto_commit=False) as consumer:
            consumer.subscribe(["payments"])
            while len(consumer.assignment) < 6:
                consumer.poll(5)
            consumer.commit(dict.fromkeys(consumer.assignment, 50))
        yield daemon


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with launched() as browser:
        yield browser


def test_the_list_leads_to_the_group_that_needs_somebody(browser: Browser, daemon: Daemon) -> None:
    with opened(browser, daemon) as page:
        go(page, "/")
        expect(page.get_by_role("status").first).to_have_text(re.compile("1 of 3 groups needs you"))
        first = page.locator("#groups tbody tr").first
        expect(first).to_contain_text("Silent member")
        first.get_by_role("link", name="settlement").click()
        expect(page.get_by_role("heading", level=1)).to_contain_text("settlement")
        doctor = page.locator(".doctor")
        expect(doctor).to_contain_text(re.compile(r"settlement-worker at 127\.0\.0\.1:\d+ is silent"))
        expect(doctor).to_contain_text("muster groups evict settlement --member")


def test_the_list_is_filtered_while_one_types(browser: Browser, daemon: Daemon) -> None:
    with opened(browser, daemon) as page:
        go(page, "/")
        page.keyboard.press("/")
        page.keyboard.type("expo")
        expect(page.locator("#groups tbody tr")).to_have_count(1)
        expect(page).to_have_url(re.compile("q=expo"))
        expect(page.locator("#q")).to_be_focused()
        page.reload()
        expect(page.locator("#q")).to_have_value("expo")
        expect(page.locator("#groups tbody tr")).to_have_count(1)


def test_a_rebalance_shows_without_a_reload_and_says_what_moved(browser: Browser, daemon: Daemon) -> None:
    with opened(browser, daemon) as page:
        go(page, f"{GROUP}billing")
        rows = page.get_by_role("table", name="Members").locator("tbody tr")
        expect(rows).to_have_count(2)
        page.evaluate("document.body.dataset.mark = 'the same page'")
        newcomer = Reader(daemon, "billing", ["orders"], "billing-3")
        try:
            expect(rows).to_have_count(3)
            newest = page.locator(".timeline li").first
            expect(newest).to_contain_text("Member joined")
            expect(newest).to_contain_text(re.compile(r"\d+ of 12 partitions moved"))
            expect(newest.locator("rect.join")).to_have_count(1)
            expect(page.locator("#plot canvas")).to_have_count(1)
            expect(page.locator("#plot")).to_have_attribute("data-samples", re.compile(r"[3-9]|\d\d+"))
        finally:
            newcomer.end()
        expect(rows).to_have_count(2)
        assert page.evaluate("document.body.dataset.mark") == "the same page"


def test_offsets_are_planned_confirmed_and_undone_by_the_keyboard_alone(browser: Browser, daemon: Daemon) -> None:
    with opened(browser, daemon) as page:
        go(page, f"{GROUP}export")
        lag = page.locator(".facts dd").first
        expect(lag).to_have_text("300")
        to_the(page, "select#target")
        page.keyboard.type("the start")
        to_the(page, "#surgery button")
        page.keyboard.press("Enter")
        result = page.locator("#surgery-result")
        expect(result).to_contain_text("6 partitions of export will change")
        expect(result).to_contain_text("300 records will be read again")
        expect(lag).to_have_text("300")
        to_the(page, "button.danger")
        page.keyboard.press("Enter")
        expect(result).to_contain_text("Done: 6 partitions of export changed")
        expect(lag).to_have_text("600")
        to_the(page, "#surgery-result .done button")
        page.keyboard.press("Enter")
        expect(lag).to_have_text("300")
        expect(page.locator(".acts")).to_contain_text("undo")


def to_the(page: Page, selector: str) -> None:
    """Press Tab until the focus is there."""
    page.locator(selector).first.wait_for()
    for _ in range(200):
        page.keyboard.press("Tab")
        if page.evaluate("(wanted) => document.activeElement.matches(wanted)", selector):
            return
    raise AssertionError(f"Tab never comes to {selector}")


def test_a_live_group_is_refused_on_the_page(browser: Browser, daemon: Daemon) -> None:
    with opened(browser, daemon) as page:
        go(page, f"{GROUP}billing")
        page.get_by_role("button", name="Plan").click()
        expect(page.locator("#surgery-result .warn")).to_contain_text("stop them first")
        page.locator("button.danger").click()
        expect(page.get_by_role("alert")).to_contain_text(re.compile(r"has members: billing-\d at 127\.0\.0\.1"))


def test_a_group_is_held_while_a_member_comes_and_released(browser: Browser, daemon: Daemon) -> None:
    with opened(browser, daemon) as page:
        go(page, f"{GROUP}billing")
        doctor = page.locator(".doctor")
        page.get_by_label("For", exact=True).fill("4m")
        page.get_by_label("Or until so many members have come").fill("9")
        page.get_by_role("button", name="Hold").click()
        expect(page.locator("#hold-result")).to_contain_text("at most")
        expect(doctor).to_contain_text("until 9 members have come; 0 have")
        newcomer = Reader(daemon, "billing", ["orders"], "billing-held")
        try:
            expect(doctor).to_contain_text("until 9 members have come; 1 has")
            page.get_by_role("button", name="Release").click()
            expect(page.locator("#hold-result")).to_contain_text("Released")
            expect(doctor).not_to_contain_text("Held for")
            expect(page.locator(".timeline li").first).to_contain_text(re.compile(r"\d+ of 12 partitions moved"))
        finally:
            newcomer.end()


def test_a_change_is_foreseen_and_a_wrong_value_is_explained(browser: Browser, daemon: Daemon) -> None:
    member = Reader(daemon, "foreseen", ["payments"], "foreseen-1")
    try:
        with opened(browser, daemon, allowed="status of 400") as page:
            go(page, "/")
            page.get_by_role("link", name="foreseen").click()
            expect(page.get_by_role("region", name="Members")).to_contain_text("foreseen-1")
            page.reload()  # what can be asked is that of the members who were there
            page.get_by_label("Members that come or leave").fill("+2")
            page.keyboard.press("Enter")
            result = page.locator("#what-if-result")
            expect(result).to_contain_text("4 of 6 partitions would move")
            expect(result.get_by_role("row", name=re.compile(r"^foreseen-1 at 127\.0\.0\.1:\d+ 6 2"))).to_be_visible()
            page.get_by_label("Members that come or leave").fill("some")
            page.get_by_role("button", name="Foresee").click()
            expect(result).to_contain_text("a whole number is wanted")
    finally:
        member.end()


@pytest.mark.parametrize("path", ["/", f"{GROUP}billing", f"{GROUP}settlement", "/console/topics", "/console/node"])
def test_nothing_is_wider_than_a_phone(browser: Browser, daemon: Daemon, path: str) -> None:
    with opened(browser, daemon, viewport=PHONE, has_touch=True) as page:
        go(page, path)
        page.locator("main h1").wait_for()
        widths = page.evaluate("[document.documentElement.scrollWidth, window.innerWidth]")
        assert widths[0] <= widths[1], widths


@pytest.mark.long
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious(browser: Browser, daemon: Daemon, scheme: Any) -> None:
    paths = ("/", f"{GROUP}billing", f"{GROUP}settlement", "/console/topics", "/console/topic?name=orders")
    for size in (PHONE, {"width": 1280, "height": 900}):
        with opened(browser, daemon, color_scheme=scheme, viewport=size, bypass_csp=True) as page:
            for path in (*paths, "/console/node", f"{GROUP}nobody"):
                with page.expect_response(lambda answer, path=path: path in answer.url):  # type: ignore[misc]
                    go(page, path)
                page.locator("main h1").wait_for()
                found = Axe().run(page).response["violations"]
                grave = [one for one in found if one["impact"] in SERIOUS]
                told = {one["id"]: [node["html"] for node in one["nodes"]] for one in grave}
                assert told == {}, f"{path} ({scheme}, {size['width']} wide)"
