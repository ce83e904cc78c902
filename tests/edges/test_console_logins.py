"""The console of a daemon that wants logins, in a browser: log in, act, log out; roles; other sites."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, Route, expect

from muster.blocking.cluster import ClusterClient
from protocol.access_token import hash_of, token_of
from protocol.messages import Message
from protocol.messages.data import Produce, ProducePartition, ProduceTopic
from protocol.messages.offsets import OffsetCommit, OffsetCommitPartition, OffsetCommitTopic
from protocol.messages.tokens import CreateToken, DeleteToken
from protocol.messages.topics import CreatableTopic, CreateTopics
from protocol.record_batch import encode_batch
from tests.edges import logins
from tests.edges.chromium import GROUP, NEEDS_CHROMIUM, PHONE, SERIOUS, go, launched, opened
from tests.edges.musterd import Daemon, running

pytestmark = NEEDS_CHROMIUM
OF_LOGINS = "status of 40[0139]|status of 429"
"""Refusals that a browser tells as errors."""


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with running(
        tmp_path_factory.mktemp("musterd") / "data",
        "sasl.enabled.mechanisms=SCRAM-SHA-512",
        f"initial.admin={logins.ROOT}:{logins.PASSWORD}",
        "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users=User:root",
        with_http=True,
    ) as daemon:
        commit = OffsetCommit("export", (OffsetCommitTopic("orders", (OffsetCommitPartition(0, 7),)),))
        records = ProducePartition(0, encode_batch([(None, b"record")] * 7, timestamp_ms=1))
        produce = Produce((ProduceTopic("orders", (records,)),), acks=-1, timeout_ms=10_000)
        ask(daemon, CreateTopics((CreatableTopic("orders", 1),)), produce, commit)
        yield daemon


def ask(daemon: Daemon, *messages: Message) -> None:
    with ClusterClient(daemon.bootstrap, security=logins.security("SCRAM-SHA-512")) as connection:
        for message in messages:
            connection.ask(message)


def make_token(daemon: Daemon, role: str, number: int) -> str:
    token = token_of(bytes([number]) * 32)
    ask(daemon, CreateToken(f"{role}-{number}", role, hash_of(token), 3_600_000))
    return token


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with launched() as browser:
        yield browser


def enter(page: Page, **fields: str) -> None:
    for name, value in fields.items():
        page.locator(f"#{name}").fill(value)
    page.get_by_role("button", name="Log in").click()


def enter_as_root(page: Page) -> None:
    enter(page, user=logins.ROOT, password=logins.PASSWORD)
    expect(page.locator(".who")).to_contain_text("root")


def test_one_logs_in_acts_and_logs_out(browser: Browser, daemon: Daemon) -> None:
    with opened(browser, daemon, OF_LOGINS) as page:
        go(page, f"{GROUP}export")
        enter(page, user=logins.ROOT, password="guessed")
        expect(page.get_by_role("alert")).to_contain_text("wrong user or password")
        enter_as_root(page)
        expect(page).to_have_url(f"http://127.0.0.1:{daemon.http_port}{GROUP}export")
        page.locator("#surgery button").click()
        page.locator("button.danger").click()
        expect(page.locator("#surgery-result")).to_contain_text("Done: 1 partition of export changed")
        expect(page.locator(".acts")).to_contain_text("root")
        page.locator("#surgery-result .done button").click()
        expect(page.locator("#surgery-result")).to_contain_text("Done")
        assert page.evaluate("document.cookie") == "", "no script sees the cookie"
        end_refreshes(page)
        page.get_by_role("button", name="Log out").click()
        expect(page).to_have_url(f"http://127.0.0.1:{daemon.http_port}/")
        expect(page.locator("#login")).to_be_visible()
        page.wait_for_load_state()
        page.go_back()
        expect(page).to_have_url(f"http://127.0.0.1:{daemon.http_port}{GROUP}export")
        expect(page.locator("#login")).to_be_visible()


def end_refreshes(page: Page) -> None:
    """Let the page's refreshes change nothing: one that is answered after the log-out reloads the page, and Back leads
    to the page before it."""

    def answer(route: Route) -> None:
        if "hx-request" in route.request.headers:
            route.fulfill(status=204)
        else:
            route.continue_()

    page.route(lambda url: GROUP in url, answer)
    expect(page.locator("#live.htmx-request")).to_have_count(0)


def test_a_viewer_sees_no_surgery_and_an_operator_does(browser: Browser, daemon: Daemon) -> None:
    for role, number, sees in (("view", 1, 0), ("operate", 2, 1)):
        with opened(browser, daemon, OF_LOGINS) as page:
            go(page, f"{GROUP}export")
            enter(page, token=make_token(daemon, role, number))
            expect(page.locator(".who")).to_contain_text(f"Token:{role}-{number}")
            expect(page.get_by_role("heading", level=1)).to_contain_text("export")
            expect(page.locator("form#surgery")).to_have_count(sees)
            expect(page.get_by_text("You may not change this group")).to_have_count(1 - sees)


def test_a_page_that_is_open_ends_with_its_token(browser: Browser, daemon: Daemon) -> None:
    with opened(browser, daemon, OF_LOGINS) as page:
        go(page, f"{GROUP}export")
        enter(page, token=make_token(daemon, "view", 3))
        expect(page.get_by_role("heading", level=1)).to_contain_text("export")
        ask(daemon, DeleteToken("view-3"))
        expect(page.locator("#login")).to_be_visible()


@contextmanager
def other_site(text: str) -> Iterator[str]:
    """Serve a page of another site: `localhost` is another than 127.0.0.1."""

    class Game(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = text.encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("localhost", 0), Game) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://localhost:{server.server_port}/"
        server.shutdown()
        thread.join(60)


def test_a_link_from_another_site_leads_to_the_page_of_who_is_logged_in(browser: Browser, daemon: Daemon) -> None:
    address = f"http://127.0.0.1:{daemon.http_port}{GROUP}export"
    with other_site(f"<a href='{address}'>the group</a>") as site, opened(browser, daemon, OF_LOGINS) as page:
        go(page, "/")
        enter_as_root(page)
        page.goto(site)
        page.get_by_role("link").click()
        expect(page.get_by_role("heading", level=1)).to_contain_text("export")
        expect(page.locator(".who")).to_contain_text("root")


def test_another_site_changes_nothing_in_the_name_of_who_is_logged_in(browser: Browser, daemon: Daemon) -> None:
    address = f"http://127.0.0.1:{daemon.http_port}"
    with other_site("<h1>a game</h1>") as site, opened(browser, daemon, f"{OF_LOGINS}|CORS|ERR_") as page:
        go(page, "/")
        enter_as_root(page)
        told: list[str] = []
        page.on("response", lambda answer: told.append(f"{answer.status}"))
        page.on("request", lambda request: told.append(request.all_headers().get("cookie", "")))
        page.goto(site)
        told.clear()
        page.evaluate(
            """async (address) => {
                const sent = {method: "POST", credentials: "include", body: "{}"};
                await fetch(address + "/console/logout", {...sent, mode: "no-cors"}).catch(() => {});
                await fetch(address + "/v1/undo/export:1", {...sent, mode: "no-cors"}).catch(() => {});
                await fetch(address + "/console/logout", {...sent, headers: {"Content-Type": "application/json"}})
                    .catch(() => {});
                await fetch(address + "/console/session", {credentials: "include"}).catch(() => {});
            }""",
            address,
        )
        assert not any("muster_session" in one for one in told)
        go(page, "/")
        expect(page.locator(".who")).to_contain_text("root")


@pytest.mark.long
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious_in_the_form(browser: Browser, daemon: Daemon, scheme: Any) -> None:
    with opened(browser, daemon, OF_LOGINS, color_scheme=scheme, viewport=PHONE, bypass_csp=True) as page:
        go(page, "/")
        page.locator("#login h1").wait_for()
        found = Axe().run(page).response["violations"]
        assert [one["id"] for one in found if one["impact"] in SERIOUS] == []
        widths = page.evaluate("[document.documentElement.scrollWidth, window.innerWidth]")
        assert widths[0] <= widths[1]
