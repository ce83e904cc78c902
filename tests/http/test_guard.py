"""Requests that a page of somebody else's makes a browser send."""

import re
from collections.abc import AsyncIterator, Iterable

import pytest
from aiohttp.test_utils import TestClient, TestServer

from coordinator.config.config import Config
from coordinator.config.keys import Address, Hosts
from coordinator.http.app import make_app
from coordinator.http.guard import Guard
from coordinator.http.queries import Problem
from tests.http.conftest import Browser
from tests.http.scripted import ScriptedCoordinator

ORDER = "/v1/groups/g/consume-from-max"


@pytest.fixture
async def browser(coordinator: ScriptedCoordinator) -> AsyncIterator[Browser]:
    app = make_app(coordinator.ask, hosts=("muster.example.net",))
    async with TestClient(TestServer(app)) as client:
        yield Browser(client)


@pytest.mark.parametrize("path", ["/", "/v1/groups", "/v3/clusters", "/metrics", "/nowhere"])
async def test_a_name_that_is_not_served_sees_nothing(
    browser: Browser, coordinator: ScriptedCoordinator, path: str
) -> None:
    status, text, _ = await browser.request("GET", path, Host="evil.example:9391")
    assert status == 421, text
    assert "http.allowed.hosts" in text
    assert coordinator.asked == []


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
async def test_a_probe_may_come_by_any_name(browser: Browser, path: str) -> None:
    status, _, _ = await browser.request("GET", path, Host="node-7.cluster.local")
    assert status == 200


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "127.0.0.1:9391", "10.1.2.3:80", "[::1]:9391", "localhost", "LocalHost.:1", "Muster.Example.Net:443"],
)
async def test_addresses_and_names_of_its_own_are_served(browser: Browser, host: str) -> None:
    status, text, _ = await browser.request("GET", "/v1/groups", Host=host)
    assert status == 200, text


@pytest.mark.parametrize("host", ["", "a b", "http://x", "[::1", "x:y", "[evil.example]"])
def test_a_host_that_is_none_is_a_400(host: str) -> None:
    assert refusal("GET", [host]) == 400


@pytest.mark.parametrize("hosts", [[], ["localhost", "localhost"]])
def test_a_request_has_one_host(hosts: list[str]) -> None:
    assert refusal("GET", hosts) == 400


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://localhost:3000"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": "cross-site", "Origin": "http://localhost:9391"},
        {"Content-Type": "text/plain"},
        {"Content-Type": "Text/Plain; charset=utf-8"},
        {"Content-Type": "application/x-www-form-urlencoded"},
        {"Content-Type": "multipart/form-data; boundary=x"},
    ],
)
async def test_what_a_foreign_page_can_send_changes_nothing(
    browser: Browser, coordinator: ScriptedCoordinator, headers: dict[str, str]
) -> None:
    status, text, _ = await browser.request("POST", ORDER, Host="localhost:9391", **headers)
    assert status == 403, text
    assert coordinator.asked == []


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Origin": "http://localhost:9391", "Sec-Fetch-Site": "same-origin"},
        {"Origin": "https://LOCALHOST:9391"},
        {"Sec-Fetch-Site": "none"},
        {"Content-Type": "application/json"},
    ],
)
def test_what_no_foreign_page_can_send_is_served(headers: dict[str, str]) -> None:
    assert refusal("POST", ["localhost:9391"], headers) is None


@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS"])
def test_what_changes_nothing_is_not_asked_for_its_origin(method: str) -> None:
    assert refusal(method, ["localhost"], {"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"}) is None


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", "/v1/groups"), ("GET", "/healthz"), ("GET", "/metrics"), ("OPTIONS", ORDER), ("GET", "/nowhere")],
)
async def test_no_answer_may_be_read_by_a_page_of_another_origin(browser: Browser, method: str, path: str) -> None:
    asked = {"Origin": "https://evil.example", "Access-Control-Request-Method": "POST"}
    status, _, headers = await browser.request(method, path, **asked)
    assert not [name for name in headers if name.lower().startswith("access-control-")]
    assert (headers["X-Content-Type-Options"], headers["Cross-Origin-Resource-Policy"]) == ("nosniff", "same-origin")
    assert status != 200 or method == "GET"
    assert (headers["Cache-Control"], headers["X-Frame-Options"]) == ("no-store", "DENY")
    assert headers["Content-Security-Policy"] == "default-src 'none'; frame-ancestors 'none'"
    assert headers["Referrer-Policy"] == "no-referrer"


def test_the_names_of_a_daemon_are_those_that_its_operator_gave() -> None:
    from coordinator.start.http_listener import _http_hosts

    config = Config(
        http=Address("stats.example", 9391),
        advertised_kafka=Address("kafka.example", 9092),
        http_allowed_hosts=Hosts(("a.example", "b.example")),
    )
    assert _http_hosts(config) == {"stats.example", "kafka.example", "a.example", "b.example"}


@pytest.mark.parametrize("text", ["a.example:80", "http://a", "a b", "a,,b", "*", "-a", "a/"])
def test_what_is_no_name_of_a_host_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=re.escape(text)):
        Hosts.parse(text)


def refusal(method: str, hosts: Iterable[str], headers: dict[str, str] | None = None) -> int | None:
    try:
        Guard().check(method, "/v1/groups", list(hosts), headers or {})
    except Problem as problem:
        return problem.status
    return None
