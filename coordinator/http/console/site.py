"""The console's paths: templates, assets and forms, and the permission to change something."""

from collections.abc import Awaitable, Callable, Iterator
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

import msgspec
from aiohttp import web
from aiohttp.typedefs import Handler

from coordinator.http.answers import answer_json
from coordinator.http.console import forms
from coordinator.http.console.assets import load_assets
from coordinator.http.console.pages import ConsolePages, Context
from coordinator.http.console.rendering import make_environment
from coordinator.http.logins import HttpAuthenticator, challenge, current_caller, is_loopback
from coordinator.http.nodes.unavailable import noting_unavailable
from coordinator.http.queries import Problem
from coordinator.http.routing.openapi import HTML
from coordinator.http.routing.route import PAGE_TOKEN, HttpRoute, Names, Parameter
from coordinator.http.routing.schemas import TEXT, WHOLE, WHOLE_OR_NULL, record, several

POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
"""Content-Security-Policy of pages: nothing inline, nothing of other origins, in no frame."""
_HEADERS: Final = {
    "Content-Security-Policy": POLICY,
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
    "Vary": "Accept, HX-Request",
}
_PROXIED: Final = ("Forwarded", "X-Forwarded-For", "X-Real-IP")
"""Headers of a reverse proxy, with which the request's sender is not the connection's peer."""
_READ_ONLY: Final = "the console is read-only here: log in, or open it on the machine of the node itself"
_PARTS_A_GO: Final = 100
"""Parts of a page written before the loop serves other requests; a list of a hundred groups has four thousand parts."""
F = TypeVar("F")
ShowPage = Callable[[Names], Awaitable[Context]]

_GROUP: Final = (Parameter("id", "The group."),)
_SAMPLES: Final = record(
    "History",
    group_id=TEXT,
    samples=several({"type": "array", "prefixItems": [WHOLE, WHOLE_OR_NULL, WHOLE_OR_NULL], "maxItems": 3}),
)
"""Samples: wall time, lag, and the sum of committed offsets."""


class ConsoleSite:
    """Serves the console. With an `entrance`, users who have logged in may change what their rights permit; without
    one, clients on loopback may change everything."""

    def __init__(self, pages: ConsolePages, authentication: HttpAuthenticator | None = None) -> None:
        self._pages, self._authentication = pages, authentication
        self._assets = load_assets()
        self._templates = make_environment(self._assets)

    def routes(self) -> list[tuple[HttpRoute, Handler]]:
        """Return the console's routes with their handlers, without that of `/`."""
        pages = self._pages
        shown = (
            (_page("/console/group", "a group: members, rebalances, lag, offsets.", _GROUP), "group.html", pages.group),
            (_page("/console/topics", "topics.", _TOPICS), "topics.html", pages.topics),
            (_page("/console/topic", "a topic.", _TOPIC), "topic.html", pages.topic),
            (_page("/console/node", "the node."), "node.html", pages.node),
        )
        return [
            *((route, self._shown(template, page)) for route, template, page in shown),
            (_WHAT_IF, self._shown("what_if.html", pages.what_if, "refused.html")),
            (_PLAN, self._posted("plan.html", pages.plan, forms.PlanForm)),
            (_APPLY, self._posted("done.html", pages.apply, forms.ApplyForm)),
            (_HOLD, self._posted("held.html", pages.hold, forms.HoldForm)),
            (_UNDO, self._posted("done.html", pages.undo, forms.UndoForm)),
            *self._login_routes(),
            (HISTORY, self._history),
            (ASSET, self._asset),
        ]

    def _login_routes(self) -> list[tuple[HttpRoute, Handler]]:
        authentication = self._authentication
        if authentication is None:
            return []

        async def log_in(request: web.Request) -> web.StreamResponse:
            try:
                form = _decode(await request.read(), forms.LoginForm)
                answer = web.Response(content_type=HTML, headers={**_HEADERS, "HX-Redirect": _shown_path(request)})
                await authentication.open(request, answer, *forms.credentials(form))
            except Problem as problem:
                return self._render(request, "refused.html", {"problem": problem}, problem.status)
            return answer

        async def log_out(request: web.Request) -> web.StreamResponse:
            answer = web.Response(content_type=HTML, headers={**_HEADERS, "HX-Redirect": "/"})
            await authentication.close(request, answer)
            return answer

        async def session(request: web.Request) -> web.StreamResponse:
            caller = current_caller()
            return answer_json({"principal": "" if caller is None else caller.principal})

        return [(_LOGIN, log_in), (_LOGOUT, log_out), (_SESSION, session)]

    def show_form(self, request: web.Request, problem: Problem) -> web.StreamResponse:
        """Show the form of a login in place of the page that was asked for."""
        answer = self._render(request, "login.html", {"problem": problem}, problem.status)
        if problem.status == 401:
            answer.headers["WWW-Authenticate"] = challenge(request)
        return answer

    def compile_templates(self) -> None:
        """Compile all templates; run in a thread, since that takes long."""
        for name in self._templates.list_templates():
            self._templates.get_template(name)

    def index(self, otherwise: Handler) -> Handler:
        """Make the handler of `/`: the console for browsers, `otherwise` for other clients."""
        shown = self._shown("groups.html", self._pages.groups)

        async def handle(request: web.Request) -> web.StreamResponse:
            is_browser = HTML in request.headers.get("Accept", "") or "HX-Request" in request.headers
            answer = await (shown if is_browser else otherwise)(request)
            answer.headers["Vary"] = "Accept, HX-Request"
            return answer

        return handle

    def may_act(self, request: web.Request) -> bool:
        """Return true if the console may change something for the sender of the request."""
        if self._authentication is not None:
            return True  # every caller has logged in, and the node checks each request
        return is_loopback(request.remote or "") and not any(name in request.headers for name in _PROXIED)

    def _shown(self, template: str, page: ShowPage, refused: str = "problem.html") -> Handler:
        async def handle(request: web.Request) -> web.StreamResponse:
            try:
                with noting_unavailable() as unavailable:
                    context = await page(request.query)
                context["unavailable"] = unavailable
                parts: list[str] = []
                for number, part in enumerate(self._parts(request, template, context)):
                    parts.append(part)
                    if number % _PARTS_A_GO == 0:
                        await self._pages.rest()
                return web.Response(text="".join(parts), content_type=HTML, headers=_HEADERS)
            except Problem as problem:
                return self._render(request, refused, {"problem": problem}, problem.status)

        return handle

    def _posted(self, template: str, page: Callable[[Names, Any, str], Awaitable[Context]], kind: type[Any]) -> Handler:
        async def handle(request: web.Request) -> web.StreamResponse:
            try:
                if not self.may_act(request):
                    raise Problem(403, _READ_ONLY)
                form = _decode(await request.read(), kind)
                return self._render(request, template, await page(request.query, form, request.remote or "unknown"))
            except Problem as problem:
                return self._render(request, "refused.html", {"problem": problem}, problem.status)

        return handle

    def _render(self, request: web.Request, template: str, context: Context, status: int = 200) -> web.Response:
        text = "".join(self._parts(request, template, context))
        return web.Response(text=text, status=status, content_type=HTML, headers=_HEADERS)

    def _parts(self, request: web.Request, template: str, context: Context) -> Iterator[str]:
        return self._templates.get_template(template).generate(
            **context,
            may_act=self.may_act(request),
            path=request.path,
            read_only=_READ_ONLY,
            caller=current_caller(),
        )

    async def _history(self, request: web.Request) -> web.StreamResponse:
        return answer_json(await self._pages.history(request.query))

    async def _asset(self, request: web.Request) -> web.StreamResponse:
        asset = self._assets.get(request.match_info["name"])
        if asset is None:
            raise Problem(404, f"there is no asset {request.match_info['name'][:80]!r}")
        is_tagged = request.query.get("v") == asset.tag
        caching = "public, max-age=31536000, immutable" if is_tagged else "no-cache"
        headers = {"Cache-Control": caching}
        return web.Response(body=asset.body, content_type=asset.media, charset="utf-8", headers=headers)


def _page(path: str, about: str, parameters: tuple[Parameter, ...] = ()) -> HttpRoute:
    return HttpRoute(path, object, f"Console: {about}", TEXT, parameters, (404,), media=HTML)


def _form(path: str, about: str, parameters: tuple[Parameter, ...], body: type[Any]) -> HttpRoute:
    return HttpRoute(
        path, object, f"Console: {about}", TEXT, parameters, (404, 409, 413), body, method="POST", media=HTML
    )


_TOPICS: Final = (Parameter("q", "A part of the topic's name."), PAGE_TOKEN)
_TOPIC: Final = (Parameter("name", "The topic."), PAGE_TOKEN)
_CHANGE: Final = (
    Parameter("members", "Members to add; negative: to remove."),
    Parameter("topic", "Topic that gets more partitions."),
    Parameter("partitions", "New number of its partitions."),
    Parameter("assignor", "Another assignor."),
)
_WHAT_IF: Final = _page("/console/what-if", "what a change of a group would move.", (*_GROUP, *_CHANGE))
_PLAN: Final = _form("/console/plan", "plan a change of offsets.", _GROUP, forms.PlanForm)
_APPLY: Final = _form("/console/apply", "do as planned.", _GROUP, forms.ApplyForm)
_HOLD: Final = _form("/console/hold", "hold a group, or release it.", _GROUP, forms.HoldForm)
_UNDO: Final = _form("/console/undo", "undo a change.", (), forms.UndoForm)
_LOGIN: Final = msgspec.structs.replace(
    _form("/console/login", "log in; the answer sets the cookie of a session.", (), forms.LoginForm),
    refusals=(401, 413, 429),
    is_open=True,
)
_LOGOUT: Final = HttpRoute("/console/logout", object, "Console: log out.", TEXT, method="POST", media=HTML)
_SESSION: Final = HttpRoute("/console/session", object, "Who is logged in.", record("Session", principal=TEXT))
HISTORY: Final = HttpRoute(
    "/console/history",
    object,
    "Lag and consumption of a group, sampled while its page is open.",
    _SAMPLES,
    _GROUP,
    (404,),
)
ASSET: Final = HttpRoute(
    "/console/assets/{name}",
    object,
    "Scripts and styles of the console.",
    TEXT,
    (Parameter("v", "The beginning of the file's checksum."),),
    (404,),
    media="text/javascript",
    is_open=True,
    more_media=("text/css", "image/svg+xml"),
)


def _decode(body: bytes, kind: type[F]) -> F:
    try:
        return msgspec.json.decode(body or b"{}", type=kind)
    except UnicodeDecodeError:  # its message contains the text, which may be a password
        raise Problem(40002, "the form is no text in UTF-8") from None
    except msgspec.DecodeError as error:
        raise Problem(40002, f"the form is not as it should be: {error}") from None


def _shown_path(request: web.Request) -> str:
    """Return the path of the page that has the form."""
    shown = urlsplit(request.headers.get("HX-Current-URL", ""))
    return "/" + shown.path.lstrip("/\\") + (f"?{shown.query}" if shown.query else "")
