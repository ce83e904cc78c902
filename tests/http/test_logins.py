"""Pages of a listener that wants logins: Basic, and the caller's name in what the node is asked."""

import base64
import json
from collections.abc import AsyncIterator

import pytest
from aiohttp.test_utils import TestClient, TestServer, make_mocked_request

from coordinator.http.app import make_app
from coordinator.http.logins import Caller, logged_in, of_caller
from coordinator.http.queries import Problem
from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.messages.node import LoginReply
from tests.http.conftest import Browser
from tests.http.scripted import ScriptedCoordinator

ORDER = "/v1/groups/g/consume-from-max"
ALICE = Caller("User:alice", "127.0.0.1")


class Door:
    """Knows alice; remembers in whose name the node was asked."""

    def __init__(self, coordinator: ScriptedCoordinator) -> None:
        self._coordinator = coordinator
        self.callers: list[Caller | None] = []
        self.answer = LoginReply(error_code=ErrorCode.SASL_AUTHENTICATION_FAILED)

    async def log_in(self, username: str | None, password: str, host: str) -> Message:
        if (username, password) == (None, "a.good.token"):
            return LoginReply(b"User:robot", True)
        return LoginReply(done=True) if (username, password) == ("alice", "se:cret") else self.answer

    async def ask(self, message: Message, caller: Caller | None) -> Message:
        self.callers.append(caller)
        return await self._coordinator.ask(message)


@pytest.fixture
def door(coordinator: ScriptedCoordinator) -> Door:
    return Door(coordinator)


@pytest.fixture
async def browser(door: Door) -> AsyncIterator[Browser]:
    app = make_app(of_caller(door.ask), log_in=door.log_in)
    async with TestClient(TestServer(app)) as client:
        yield Browser(client)


def basic(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


@pytest.mark.parametrize("path", ["/", "/v1/groups", "/v3/clusters", "/nowhere", "/healthz/", "/v1/problems"])
@pytest.mark.parametrize(
    "header",
    [None, "Basic !", "Bearer x", "Bearer", "Basic", basic("", "a.good.token"), basic("alice", "wrong"), basic("", "")],
)
async def test_without_a_login_there_is_nothing(browser: Browser, door: Door, path: str, header: str | None) -> None:
    headers = {} if header is None else {"Authorization": header}
    status, text, answered = await browser.request("GET", path, **headers)
    assert (status, json.loads(text)["error_code"]) == (401, 401)
    assert answered["WWW-Authenticate"] == 'Basic realm="musterd", charset="UTF-8"'
    assert door.callers == []


async def test_a_change_needs_a_login_as_well(browser: Browser, door: Door) -> None:
    status, _, _ = await browser.request("POST", ORDER)
    assert (status, door.callers) == (401, [])


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
async def test_probes_need_none(browser: Browser, door: Door, path: str) -> None:
    status, _, _ = await browser.request("GET", path)
    assert status == 200
    assert set(door.callers) <= {None}


async def test_the_node_is_asked_in_the_callers_name(browser: Browser, door: Door) -> None:
    status, _, _ = await browser.request("GET", "/v3/clusters", Authorization=basic("alice", "se:cret"))
    assert status == 200
    assert set(door.callers) == {ALICE}
    door.callers.clear()
    await browser.request("GET", "/readyz")
    assert set(door.callers) == {None}, "the name ends with its request"


@pytest.mark.parametrize("scheme", ["Bearer", "bearer"])
async def test_a_token_names_its_caller(browser: Browser, door: Door, scheme: str) -> None:
    status, _, _ = await browser.request("GET", "/v3/clusters", Authorization=f"{scheme} a.good.token")
    assert status == 200
    assert set(door.callers) == {Caller("User:robot", "127.0.0.1")}


async def test_too_many_failures_are_told_apart(browser: Browser, door: Door) -> None:
    door.answer = LoginReply(error_code=ErrorCode.THROTTLING_QUOTA_EXCEEDED)
    status, _, _ = await browser.request("GET", "/", Authorization=basic("alice", "wrong"))
    assert status == 429


@pytest.mark.parametrize(("is_open", "expected"), [(False, 401), (True, 200)])
async def test_metrics_are_open_by_choice(door: Door, is_open: bool, expected: int) -> None:
    app = make_app(of_caller(door.ask), log_in=door.log_in, has_open_metrics=is_open)
    async with TestClient(TestServer(app)) as client:
        status, _, _ = await Browser(client).request("GET", "/metrics")
    assert status == expected


async def test_a_password_over_a_network_in_the_clear_is_not_looked_at(door: Door) -> None:
    check = logged_in(door.log_in)

    async def page(_request: object) -> None:
        raise AssertionError("it is served")

    request = make_mocked_request("GET", "/v1/groups", {"Authorization": basic("alice", "se:cret")})
    assert not request.secure
    with pytest.raises(Problem, match="TLS or loopback") as refused:
        await check(request.clone(remote="10.0.0.7"), page)  # type: ignore[arg-type]
    assert refused.value.status == 403
