"""Pages of a listener that wants logins: Basic, Bearer, the form and its session; the caller's name in questions."""

import asyncio
import base64
import json
import re
from collections.abc import AsyncIterator
from http.cookies import SimpleCookie
from typing import Any

import pytest
from aiohttp import ClientResponse, DummyCookieJar, web
from aiohttp.test_utils import TestClient, TestServer, make_mocked_request

from coordinator.http.app import make_app
from coordinator.http.live.event_pages import EventPages
from coordinator.http.live.feed import Feed
from coordinator.http.logins import Caller, HttpAuthenticator, logged_in, of_caller
from coordinator.http.queries import Problem, Queries, problem_of
from coordinator.http.watch import ProblemWatch
from coordinator.io.calls import Calls
from coordinator.node.effects import Return
from coordinator.node.events import Event, PasswordGiven, PasswordWithdrawn
from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.messages.groups import DescribedGroup, DescribeGroups, DescribeGroupsReply
from protocol.messages.node import HttpLoginReply
from tests.http.conftest import Browser
from tests.http.scripted import ScriptedCoordinator

ORDER = "/v1/groups/g/consume-from-max"
ALICE = Caller("User:alice", "127.0.0.1")


class Door:
    """Knows alice, a token and a session; remembers in whose name the node was asked."""

    def __init__(self, coordinator: ScriptedCoordinator) -> None:
        self._coordinator = coordinator
        self.callers: list[Caller | None] = []
        self.certificates: list[str] = []
        self.answer = HttpLoginReply(error_code=ErrorCode.SASL_AUTHENTICATION_FAILED)
        self.sessions: dict[str, str] = {}
        self.is_closed = False

    async def log_in(
        self, username: str | None, password: str, host: str, *, opens_session: bool = False, certificate: str = ""
    ) -> Message:
        known = {(None, "a.good.token"): "User:robot", ("alice", "se:cret"): "User:alice"}
        self.certificates.append(certificate)
        principal = known.get((username, password))
        if principal is None or self.is_closed:
            return self.answer
        if not opens_session:
            return HttpLoginReply(principal)
        session = f"session-{len(self.sessions)}"
        self.sessions[session] = principal
        return HttpLoginReply(principal, session, 3_600_000)

    async def show_session(self, secret: str, host: str, *, is_end: bool = False) -> Message:
        principal = self.sessions.pop(secret, None) if is_end else self.sessions.get(secret)
        return (
            HttpLoginReply(principal) if principal else HttpLoginReply(error_code=ErrorCode.SASL_AUTHENTICATION_FAILED)
        )

    async def ask(self, message: Message, caller: Caller | None) -> Message:
        self.callers.append(caller)
        return await self._coordinator.ask(message)


@pytest.fixture
def door(coordinator: ScriptedCoordinator) -> Door:
    return Door(coordinator)


@pytest.fixture
async def browser(door: Door) -> AsyncIterator[Browser]:
    app = make_app(of_caller(door.ask), authenticator=door)
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


async def test_no_route_and_no_method_is_served_without_a_login_but_those_of_the_list(door: Door) -> None:
    app = make_app(of_caller(door.ask), authenticator=door)
    served = set()
    methods = ("GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH")
    paths = {resource.canonical for resource in app.router.resources()}
    async with TestClient(TestServer(app)) as client:
        for path in paths:
            for method in methods:
                async with client.request(method, re.sub(r"\{.*?\}", "x", path)) as answer:
                    if answer.status not in (401, 405):
                        served.add((method, path))
    open_paths = {(method, path) for method in ("GET", "HEAD") for path in ("/healthz", "/readyz")}
    of_form = {("POST", "/console/login"), *((one, "/console/assets/{name}") for one in ("GET", "HEAD"))}
    assert served == open_paths | of_form and len(paths) > 40
    assert set(door.callers) <= {None}, "probes ask for the node's health"


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


async def test_the_certificate_goes_with_the_login_and_with_each_request(
    browser: Browser, door: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("coordinator.http.logins.certificate_of", lambda _request: "CN=alice serial=0C")
    await browser.request("GET", "/v3/clusters", Authorization=basic("alice", "se:cret"))
    assert set(door.callers) == {ALICE._replace(certificate="CN=alice serial=0C")}
    assert door.certificates == ["CN=alice serial=0C"]


@pytest.mark.parametrize("scheme", ["Bearer", "bearer"])
async def test_a_token_names_its_caller(browser: Browser, door: Door, scheme: str) -> None:
    status, _, _ = await browser.request("GET", "/v3/clusters", Authorization=f"{scheme} a.good.token")
    assert status == 200
    assert set(door.callers) == {Caller("User:robot", "127.0.0.1")}


async def test_too_many_failures_are_told_apart(browser: Browser, door: Door) -> None:
    door.answer = HttpLoginReply(error_code=ErrorCode.THROTTLING_QUOTA_EXCEEDED)
    status, _, _ = await browser.request("GET", "/", Authorization=basic("alice", "wrong"))
    assert status == 429


@pytest.mark.parametrize(("is_open", "expected"), [(False, 401), (True, 200)])
async def test_metrics_are_open_by_choice(door: Door, is_open: bool, expected: int) -> None:
    app = make_app(of_caller(door.ask), authenticator=door, has_open_metrics=is_open)
    async with TestClient(TestServer(app)) as client:
        status, _, _ = await Browser(client).request("GET", "/metrics")
    assert status == expected


async def test_a_password_over_a_network_in_the_clear_is_not_looked_at(door: Door) -> None:
    headers = {"Authorization": basic("alice", "se:cret")}
    request = make_mocked_request("GET", "/v1/groups", headers).clone(remote="10.0.0.7")
    assert not request.secure
    with pytest.raises(Problem, match="TLS or loopback") as refused:
        await HttpAuthenticator(door, lambda answer: answer).caller(request)
    assert refused.value.status == 403


@pytest.mark.parametrize("what", ["GROUP", "TOPIC", "CLUSTER"])
def test_what_the_rules_do_not_allow_is_forbidden_and_no_fault(what: str) -> None:
    assert problem_of(ErrorCode[f"{what}_AUTHORIZATION_FAILED"]).error_code == 40301


# ---------------------------------------------------------------------------------------------------------- sessions

PAGE = {"Accept": "text/html"}
OF_PAGE = {"HX-Request": "true", "Sec-Fetch-Site": "same-origin", "Content-Type": "application/json"}
FORM = {"user": "alice", "password": "se:cret"}


class Visitor:
    """A browser that sends what it is told, and keeps no cookies by itself."""

    def __init__(self, client: TestClient[Any, Any]) -> None:
        self.client = client
        self.cookie = ""
        self.cookie_name = f"muster_session_{client.port}"

    async def post(self, path: str, body: Any = None, **headers: str) -> ClientResponse:
        sent = {**OF_PAGE, **({"Cookie": self.cookie} if self.cookie else {}), **headers}
        return await self.client.post(path, data=json.dumps(body or {}), headers={k: v for k, v in sent.items() if v})

    async def get(self, path: str, **headers: str) -> ClientResponse:
        sent = {"Cookie": self.cookie} if self.cookie else {}
        return await self.client.get(path, headers={**sent, **headers})

    async def log_in(self, form: Any = FORM, **headers: str) -> ClientResponse:
        answer = await self.post("/console/login", form, **headers)
        self.cookie = answer.headers.get("Set-Cookie", "").partition(";")[0]
        return answer


@pytest.fixture
async def visitor(door: Door) -> AsyncIterator[Visitor]:
    app = make_app(of_caller(door.ask), authenticator=door)
    jar = DummyCookieJar()
    async with TestClient(TestServer(app), cookie_jar=jar) as client:
        yield Visitor(client)


async def test_a_page_without_a_login_is_the_form_and_asks_for_no_password_of_the_browsers_own(
    visitor: Visitor,
) -> None:
    answer = await visitor.get("/console/group?id=g", **PAGE)
    text = await answer.text()
    assert (answer.status, answer.content_type) == (401, "text/html")
    assert answer.headers["WWW-Authenticate"].startswith("Basic")
    assert 'hx-post="/console/login"' in text and "Topics" not in text
    asked = await visitor.get("/console/group?id=g", **PAGE, **{"Sec-Fetch-Mode": "navigate"})
    assert asked.headers["WWW-Authenticate"].startswith("Bearer")
    assert (await visitor.get("/console/assets/console.css")).status == 200


@pytest.mark.parametrize(
    ("form", "principal"), [(FORM, "User:alice"), ({"token": " a.good.token ", "user": ""}, "User:robot")]
)
async def test_the_form_opens_a_session_whose_cookie_no_script_and_no_other_site_has(
    visitor: Visitor, door: Door, form: Any, principal: str
) -> None:
    shown = {"HX-Current-URL": "http://127.0.0.1:9391//evil.example/console/group?id=g"}
    answer = await visitor.log_in(form, **shown)
    assert (answer.status, answer.headers["HX-Redirect"]) == (200, "/evil.example/console/group?id=g")
    cookie = SimpleCookie(answer.headers["Set-Cookie"])[visitor.cookie_name]
    assert (cookie["httponly"], cookie["samesite"], cookie["path"], cookie["secure"]) == (True, "Strict", "/", "")
    assert cookie["max-age"] == "3600"
    told = await (await visitor.get("/console/session")).json()
    assert told == {"principal": principal}
    page = await (await visitor.get("/console/topics", **PAGE)).text()
    assert "Log out" in page and door.callers[-1] == Caller(principal, "127.0.0.1", "session-0")


async def test_over_tls_the_cookie_is_for_tls_and_this_host_alone(visitor: Visitor) -> None:
    answer = await visitor.log_in(FORM, **{"X-Forwarded-Proto": "https"})
    cookie = SimpleCookie(answer.headers["Set-Cookie"])[f"__Host-{visitor.cookie_name}"]
    assert cookie["secure"] and cookie["path"] == "/" and not cookie["domain"]


async def test_daemons_at_two_ports_of_a_host_have_cookies_of_their_own(visitor: Visitor) -> None:
    names = []
    for host in ("127.0.0.1:8001", "127.0.0.1:8002", "[::1]:8002", "127.0.0.1", "[::1]"):
        answer = await visitor.post("/console/login", FORM, Host=host, Origin=f"http://{host}")
        names += [*SimpleCookie(answer.headers["Set-Cookie"])]
    assert names == [*(f"muster_session_{port}" for port in (8001, 8002, 8002)), "muster_session", "muster_session"]


async def test_who_logs_out_is_out(visitor: Visitor, door: Door) -> None:
    await visitor.log_in()
    answer = await visitor.post("/console/logout")
    assert (answer.status, answer.headers["HX-Redirect"]) == (200, "/")
    assert SimpleCookie(answer.headers["Set-Cookie"])[visitor.cookie_name]["max-age"] == "0"
    assert door.sessions == {}
    gone = await visitor.get("/v1/groups")
    assert (gone.status, "ended" in (await gone.json())["detail"]) == (401, True)
    assert gone.headers["WWW-Authenticate"].startswith("Bearer")
    fragment = await visitor.post("/console/plan?id=g")
    assert (fragment.status, fragment.headers["HX-Refresh"]) == (401, "true")


@pytest.mark.parametrize(
    ("form", "status"),
    [({"user": "alice", "password": "guessed"}, 401), ({"token": "guessed"}, 401), ({}, 400), ({"user": "alice"}, 400)],
)
async def test_a_wrong_login_is_said_in_the_form_and_opens_nothing(
    visitor: Visitor, door: Door, form: Any, status: int
) -> None:
    answer = await visitor.log_in(form)
    text = await answer.text()
    assert (answer.status, "Set-Cookie" in answer.headers, "Not done" in text) == (status, False, True)
    assert "HX-Refresh" not in answer.headers and door.sessions == {}
    assert not any(secret and secret in text for secret in form.values() if secret != "alice")


@pytest.mark.parametrize("path", ["/console/login", "/v1/groups/g/offsets/plan"])
async def test_a_form_of_another_encoding_is_refused_and_no_word_of_it_is_in_the_log(
    visitor: Visitor, capsys: pytest.CaptureFixture[str], path: str
) -> None:
    body = '{"user": "alice", "password": "gehörtniemand", "topic": "gehörtniemand"}'.encode("latin-1")
    headers = {**OF_PAGE, "Authorization": basic("alice", "se:cret")}
    answer = await visitor.client.post(path, data=body, headers=headers)
    text = await answer.text()
    told = capsys.readouterr()
    assert (answer.status, "niemand" in text + told.out + told.err) == (400, False)


async def test_a_limit_is_said_in_the_form(visitor: Visitor, door: Door) -> None:
    door.answer = HttpLoginReply(error_code=ErrorCode.THROTTLING_QUOTA_EXCEEDED)
    answer = await visitor.log_in({"user": "alice", "password": "wrong"})
    assert (answer.status, "too many" in await answer.text()) == (429, True)


@pytest.mark.parametrize(
    "headers",
    [
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": "none"},
        {"Sec-Fetch-Site": ""},
        {"Sec-Fetch-Site": "", "Origin": "null"},
        {"Sec-Fetch-Site": "", "Origin": "http://evil.example"},
        {"Sec-Fetch-Site": "", "Origin": "http://127.0.0.1:8000"},
        {"Content-Type": "text/plain"},
        {"Content-Type": "application/x-www-form-urlencoded"},
        {"Content-Type": "multipart/form-data; boundary=x"},
    ],
)
async def test_a_cookie_stands_for_no_change_that_a_page_of_another_origin_asks_for(
    visitor: Visitor, door: Door, headers: dict[str, str]
) -> None:
    await visitor.log_in()
    for path in (
        ORDER,
        "/console/plan?id=g",
        "/console/apply?id=g",
        "/console/undo",
        "/v1/undo/g:1",
        "/console/logout",
    ):
        door.callers.clear()
        answer = await visitor.post(path, **headers)
        assert (answer.status, door.callers) == (403, []), path
    assert door.sessions, "nobody else logs one out"


async def test_a_page_of_another_origin_logs_nobody_in(visitor: Visitor, door: Door) -> None:
    for headers in ({"Sec-Fetch-Site": "cross-site"}, {"Origin": "http://evil.example", "Sec-Fetch-Site": ""}):
        assert (await visitor.log_in(FORM, **headers)).status == 403
    assert door.sessions == {}


async def test_a_change_of_our_own_page_is_served(visitor: Visitor, door: Door) -> None:
    await visitor.log_in()
    origin = str(visitor.client.make_url("")).rstrip("/")
    for headers in ({}, {"Sec-Fetch-Site": "", "Origin": origin}):
        door.callers.clear()
        await visitor.post(ORDER, **headers)
        assert {one.principal for one in door.callers if one} == {"User:alice"}


async def test_a_rebound_name_has_neither_form_nor_session(visitor: Visitor) -> None:
    await visitor.log_in()
    for answer in (
        await visitor.get("/", Host="evil.example", **PAGE),
        await visitor.log_in(FORM, Host="evil.example"),
    ):
        assert answer.status == 421
        assert "Set-Cookie" not in answer.headers


@pytest.mark.parametrize(
    "cookie",
    [
        "NAME=",
        "NAME=" + "x" * 7_000,
        'NAME="a;b"',
        "NAME=\xff",
        "muster_session=session-0",
        "=;=;=",
        "a" * 6_000,
    ],
)
async def test_any_other_cookie_is_no_session(visitor: Visitor, door: Door, cookie: str) -> None:
    await visitor.log_in()
    visitor.cookie = cookie.replace("NAME", visitor.cookie_name)
    assert ((await visitor.get("/v1/groups")).status, door.callers) == (401, [])


async def test_a_cookie_larger_than_a_head_may_be_is_refused_and_others_are_served(visitor: Visitor) -> None:
    visitor.cookie = f"{visitor.cookie_name}=" + "x" * 100_000
    assert (await visitor.get("/v1/groups")).status == 400
    visitor.cookie = ""
    assert (await visitor.get("/healthz")).status == 200


async def test_a_login_in_the_header_comes_before_a_cookie(visitor: Visitor, door: Door) -> None:
    await visitor.log_in()
    await visitor.get("/v3/clusters", Authorization="Bearer a.good.token")
    assert {one.principal for one in door.callers if one} == {"User:robot"}


@pytest.mark.parametrize(("check_again_s", "expected"), [(60.0, [False] * 3), (0.0, [True] * 3)])
async def test_events_end_with_the_login(
    coordinator: ScriptedCoordinator, check_again_s: float, expected: list[bool]
) -> None:
    queries = Queries(coordinator.ask)
    checked: list[bool] = []

    async def rest() -> None:
        pass

    async def is_still_in(*, again: bool) -> bool:
        checked.append(again)
        return next(answers)

    answers = iter((True, True, False))
    feed = Feed(queries, ProblemWatch(queries, rest, asyncio.Lock(), lambda _problem, _is_open: None), 1, every_s=0.01)
    app = web.Application()
    pages = EventPages(queries, feed, is_still_in=is_still_in, heartbeat_s=0.01, check_again_s=check_again_s)
    app.router.add_get("/events", pages.stream)
    app.cleanup_ctx.append(feed.running)
    async with TestClient(TestServer(app)) as client, asyncio.timeout(60):
        told = await (await client.get("/events")).text()
    assert told.startswith("retry") and told.count(": still here") == 2
    assert checked == expected


async def test_events_of_deleted_groups_are_for_those_who_might_describe_them(
    coordinator: ScriptedCoordinator,
) -> None:
    async def rest() -> None:
        pass

    answers = iter((True, False))

    async def is_still_in(*, again: bool) -> bool:
        return next(answers)

    errors = {"gone": ErrorCode.GROUP_ID_NOT_FOUND, "denied": ErrorCode.GROUP_AUTHORIZATION_FAILED}
    groups = tuple(DescribedGroup(name, error) for name, error in errors.items())
    coordinator.answers[DescribeGroups] = DescribeGroupsReply(groups)
    queries = Queries(coordinator.ask)
    feed = Feed(queries, ProblemWatch(queries, rest, asyncio.Lock(), lambda _problem, _is_open: None), 1, every_s=0.01)
    for name in errors:
        feed.events.add("note", name, 1, {})
    app = web.Application()
    app.router.add_get("/events", EventPages(queries, feed, is_still_in=is_still_in, heartbeat_s=0.01).stream)
    app.cleanup_ctx.append(feed.running)
    async with TestClient(TestServer(app)) as client, asyncio.timeout(60):
        told = await (await client.get("/events?after=1.0")).text()
    assert "gone" in told and "denied" not in told


@pytest.mark.parametrize("header", [basic("alice", "se:cret"), "Bearer a.good.token"])
async def test_a_login_is_over_when_its_user_or_its_token_is_gone(door: Door, header: str) -> None:
    async def in_time(answer: Any) -> Any:
        return await answer

    async def show(_request: web.Request) -> web.Response:
        looks = [await authentication.is_still_in(again=True)]
        for code in (ErrorCode.THROTTLING_QUOTA_EXCEEDED, ErrorCode.SASL_AUTHENTICATION_FAILED):
            door.is_closed, door.answer = True, HttpLoginReply(error_code=code)
            looks += [await authentication.is_still_in(again=again) for again in (False, True)]
        return web.json_response(looks)

    def no_form(_request: web.Request, problem: Problem) -> web.Response:
        raise problem

    authentication = HttpAuthenticator(door, in_time)
    app = web.Application(middlewares=[logged_in(authentication, no_form, frozenset())])
    app.router.add_get("/events", show)
    async with TestClient(TestServer(app)) as client:
        assert await (await client.get("/events", headers={"Authorization": header})).json() == [True] * 4 + [False]


@pytest.mark.parametrize("is_answered", [True, False])
async def test_a_login_that_is_given_up_is_withdrawn_from_the_node(*, is_answered: bool) -> None:
    happened: list[Event] = []
    calls = Calls(happened.append)
    login = asyncio.create_task(calls.log_in("alice", "secret", "127.0.0.1"))
    await asyncio.sleep(0)
    (given,) = happened
    assert isinstance(given, PasswordGiven)
    if is_answered:
        calls.answer(Return(given.call_id, HttpLoginReply("User:alice")))
        assert await login == HttpLoginReply("User:alice")
    login.cancel()
    await asyncio.wait([login])
    assert happened[1:] == ([] if is_answered else [PasswordWithdrawn(given.call_id)])
